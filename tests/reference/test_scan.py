"""The scan judges by errors: more effort asks for less, and what is lost is what the plan allows for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from lethevec import reference
from lethevec.reference.encoder import Encoder
from lethevec.reference.ranking import Records, distances, first_keys
from lethevec.reference.scan import exceeded, largest

METRICS = ["cosine", "l2", "ip"]


def records(d: int, n: int = 2000, shift: float = 0.0) -> tuple[Encoder, Records]:
    """Clusters, so that something is near; `shift` moves all of them away from zero."""
    rng = np.random.default_rng(d)
    middles = rng.normal(size=(50, d))
    x = (middles[rng.integers(50, size=n)] + 0.5 * rng.normal(size=(n, d)) + shift).astype(np.float32)
    encoder = Encoder("progressive", d, 3 * d, seed=1)
    codes, factors = encoder.encode(x)
    return encoder, Records(np.arange(n), codes, reference.norms(x).astype(np.float32), factors, x)


@pytest.mark.parametrize("many", [None, 5, 40, 150, 400])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("d", [8, 40, 150])
def test_more_effort_asks_for_less(metric: str, d: int, many: int | None) -> None:
    """Also where more than so many records are too many."""
    encoder, held = records(d)
    query = encoder.query(held.vectors[:1] * np.float32(1.1), metric, "asymmetric", first_stage=True)
    some = held.of(np.arange(0, 2000, 25))
    far = distances(query, some)
    crowd = -np.inf if many is None else float(largest(first_keys(query, held), many + 1))
    limits = [
        reference.scan_limits(query, some, far, 10, reference.scan_plan(10, effort), crowd)
        for effort in (0.01, 0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 8.0, 20.0, 64.0, 100.0, 1e9)
    ]
    for less, more in pairwise(limits):
        assert more.first <= less.first
        assert more.second <= less.second
        assert more.raised >= less.raised
        assert more.lift >= less.lift
    if metric == "ip":
        assert limits[0].lift < limits[-1].lift
    else:
        assert limits[0].second > limits[-1].second


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("d", "shift"), [(8, 0.0), (25, 0.0), (25, 8.0), (120, 0.0), (120, 8.0)])
def test_effort_1_finds_what_it_is_meant_to(metric: str, d: int, shift: float) -> None:
    """Also where all records lie far from zero, in about the same direction, and their errors have much in common."""
    encoder, held = records(d, shift=shift)
    found, looked = 0, 0
    for i in range(40):
        query = encoder.query(held.vectors[i : i + 1] + np.float32(0.01), metric, "asymmetric", first_stage=True)
        near = np.argsort(distances(query, held), kind="stable")[:10]
        rows = reference.scan_candidates(query, held, 10, 1.0)
        found, looked = found + np.isin(near, rows).sum(), looked + len(rows)
    assert found >= 0.95 * 400
    assert shift or looked < 0.2 * 40 * 2000


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_where_too_many_go_on_some_more_may_be_lost_if_that_helps(metric: str) -> None:
    encoder, held = records(40)
    query = encoder.query(held.vectors[:1] + np.float32(0.3), metric, "asymmetric", first_stage=True)
    keys, plan = first_keys(query, held), reference.scan_plan(10, 1.0)
    some = held.of(np.flatnonzero(keys >= largest(keys, plan.reference)))
    far = distances(query, some)

    def passing(crowd: float) -> int:
        return int((keys >= reference.scan_limits(query, some, far, 10, plan, crowd).first).sum())

    alone = passing(-np.inf)
    limited = [passing(float(largest(keys, many + 1))) for many in range(1, alone)]
    helped = [number <= many for many, number in enumerate(limited, start=1)]
    assert all(helped[helped.index(True) :])
    assert set(limited[: helped.index(True)]) == {alone}
    assert limited[helped.index(True)] < 0.8 * alone


def test_how_often_errors_are_exceeded() -> None:
    sample = np.random.default_rng(0).normal(size=100_000)
    for errors in (-2.1, -0.3, 0.0, 0.6, 1.9, 3.2):
        assert abs(exceeded(errors) - (sample > errors).mean()) < 0.01
