"""Counts and samples of a store: they depend on the records alone."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

import lethevec
from lethevec.errors import ParameterError


@pytest.fixture
def now():
    return [1_800_000_000.0]


@pytest.fixture(params=[False, True], ids=["plain", "sealed"])
def db(request, tmp_path, now):
    with lethevec.open(tmp_path / "a.lethe", dim=3, metric="l2", encrypt=request.param, clock=lambda: now[0]) as made:
        yield made


def test_a_survey_counts(db, now):
    db.add(np.eye(3), ids=[1, 2, "c"], subjects=["a", "a", None])
    db.add(None, ids=[4], subjects="b", expires=timedelta(days=3))
    db.update(ids=[1], expires=timedelta(minutes=5))
    survey = db.survey()
    assert (survey.records, survey.subjects, survey.without_subject) == (4, 2, 1)
    assert (survey.without_vector, survey.without_expiry, survey.expired) == (1, 2, 0)
    assert [part.records for part in survey.due] == [1, 1]
    begin = datetime.fromtimestamp(now[0], timezone.utc)
    assert survey.due[0].begin <= begin < survey.due[0].end
    assert all(part.end - part.begin == timedelta(hours=6) for part in survey.due)
    assert survey.due[1].begin <= begin + timedelta(days=3) < survey.due[1].end
    now[0] += 600
    survey = db.survey()
    assert (survey.records, survey.expired, survey.without_vector) == (3, 1, 1)
    assert len(survey.due) == 1


@pytest.mark.parametrize("days", [0.01, 1, 30, 300, 3000, 30_000, 360_000])
def test_parts_of_a_survey_are_few(tmp_path, days):
    with lethevec.open(tmp_path / "a.lethe", dim=1, metric="l2") as db:
        spread = [timedelta(days=days * (n + 1) / 200) for n in range(200)]
        db.add(np.arange(200.0)[:, None], ids=range(200), expires=spread)
        due = db.survey().due
        assert sum(part.records for part in due) == 200
        assert len(due) <= 61 or days > 60 * 365
        assert all(a.end <= b.begin for a, b in itertools.pairwise(due))


def test_a_sample_is_a_function_of_the_records(db, tmp_path):
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((400, 3)).astype(np.float32)
    ids = [n if n % 3 else f"r{n}" for n in range(400)]
    db.add(vectors, ids=ids)
    db.add(None, ids=["bare"])
    db.forget([id for id in ids if str(id).endswith("7")])
    kept = db.ids()
    with lethevec.open(tmp_path / "b.lethe", dim=3, metric="l2") as other:
        where = {id: place for place, id in enumerate(ids)}
        for id in reversed(kept):
            other.add(None if id == "bare" else vectors[where[id]][None], ids=[id])
        for count in (0, 1, 17, len(kept), 1000):
            sample = [record.id for record in db.sample(count)]
            assert sample == [record.id for record in other.sample(count)]
            assert len(sample) == min(count, len(kept))
            assert sample == [id for id in kept if id in set(sample)]
            assert set(sample) <= {record.id for record in db.sample(count + 5)}
        assert [one.id for one in db.sample(50, seed=1)] != [one.id for one in db.sample(50)]
    assert any(record.id == "bare" for record in db.sample(len(kept)))


def test_a_sample_leaves_out_what_has_expired(db, now):
    db.add(np.eye(3), ids=[1, 2, 3], expires=[timedelta(seconds=5), None, None])
    db.add(None, ids=[4], expires=timedelta(seconds=5))
    assert [one.id for one in db.sample(10)] == [1, 2, 3, 4]
    now[0] += 6
    assert [one.id for one in db.sample(10)] == [2, 3]


@pytest.mark.parametrize("wrong", [{"count": -1}, {"count": 1.5}, {"seed": -1}, {"seed": "x"}])
def test_what_cannot_be_sampled_is_refused(db, wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        db.sample(**wrong)


def test_subjects_in_pages(db):
    names = ["a", "ab", "abc", "b%", "b_", "é"]
    db.add(np.arange(18.0).reshape(6, 3), ids=range(6), subjects=names)
    assert list(db.subjects()) == names
    assert list(db.subjects(prefix="ab")) == ["ab", "abc"]
    assert list(db.subjects(prefix="b_")) == ["b_"]
    assert list(db.subjects(prefix="a", after="a", limit=1)) == ["ab"]
    assert list(db.subjects(after="b_")) == ["é"]
    assert db.subjects(limit=0) == {}
