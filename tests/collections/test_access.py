"""Everything that is held of a person, and its export."""

from __future__ import annotations

import json
import stat

import numpy as np
import pytest

from lethevec.errors import FileError, IdError

from .conftest import PEOPLE, ids_of

ANN, BOB, CEM = PEOPLE


def test_everything_is_there(filled, vectors):
    hold = filled.hold(ANN, "a court")
    found = filled.access(ANN)
    assert len(found) == 42
    assert list(found.collections) == ["notes", "photos", "voices"]
    for place, name in enumerate(("photos", "notes", "voices")):
        records = {record.id: record for record in found.collections[name]}
        assert set(records) == {ids_of(name, 40)[i] for i in range(0, 40, 3)}
        for i in range(0, 40, 3):
            record = records[ids_of(name, 40)[i]]
            assert np.array_equal(record.vector, vectors[i] + np.float32(place))
            assert record.payload == {"note": f"payload {i} of {name}"}
            assert record.subject == ANN
    assert [one.reason for one in found.holds] == ["a court"]
    assert found.receipts == [hold]
    assert found.blocked_since is None


def test_a_person_who_is_not_there_and_one_who_was(filled):
    assert len(filled.access("nobody")) == 0
    receipt = filled.forget(subject=ANN, block=True)
    found = filled.access(ANN)
    assert (len(found), found.collections) == (0, {})
    assert found.receipts == [receipt]
    assert found.blocked_since == receipt["asked_at"] or found.blocked_since <= receipt["issued_at"]


def test_export(filled, tmp_path):
    filled.access(ANN).export(tmp_path / "ann.json")
    assert stat.S_IMODE((tmp_path / "ann.json").stat().st_mode) == 0o600
    content = json.loads((tmp_path / "ann.json").read_text())
    assert content["subject"] == ANN
    assert len(content["collections"]["photos"]) == 14
    assert len(content["collections"]["photos"][0]["vector"]) == 8
    with pytest.raises(FileError, match="already"):
        filled.access(ANN).export(tmp_path / "ann.json")
    with pytest.raises(FileError):
        filled.access(ANN).export(tmp_path / "no" / "ann.json")


def test_a_reader_may_ask(filled, connect):
    assert len(connect(read_only=True).access(BOB)) == 39


@pytest.mark.parametrize("subject", [None, 7, "", b"x", "a\0"])
def test_refused(filled, subject):
    with pytest.raises(IdError):
        filled.access(subject)


def test_it_reads_by_index(filled, monkeypatch):
    """Not by going through all records: no statement of it scans a table."""
    photos = filled.collection("photos")
    statements: list[str] = []
    photos._session.connection.set_trace_callback(statements.append)
    photos.held_of(BOB)
    photos._session.connection.set_trace_callback(None)
    plans = [
        row[3]
        for sql in statements
        if sql.startswith("SELECT")
        for row in photos._session.connection.execute(f"EXPLAIN QUERY PLAN {sql}")
    ]
    assert plans
    assert any("records_subject" in plan for plan in plans)
    assert not [plan for plan in plans if plan.startswith("SCAN") and "clock" not in plan], plans
