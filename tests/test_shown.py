"""Errors say what came, and where Python has no words for it they are errors of ours all the same."""

from __future__ import annotations

import numpy as np
import pytest

import lethevec
from lethevec.errors import LethevecError

HUGE = 10**5000  # more digits than Python writes


class Wordless:
    """What cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("value", [HUGE, [[HUGE]], Wordless()], ids=["number", "lists", "object"])
def test_what_cannot_be_shown_is_refused_in_words(tmp_path, value):
    index = lethevec.Index(dim=2, metric="l2")
    index.add(np.eye(2), ids=[1, 2])
    with lethevec.open(tmp_path / "a.lethe", dim=2, metric="l2") as db:
        db.add(np.eye(2), ids=[1, 2], payloads=[{"n": 1}, None])
        before = db.digest()
        calls = [
            lambda: index.search([0, 1], k=value),
            lambda: index.search([0, 1], effort=value if value is not HUGE else -HUGE),
            lambda: index.search([0, 1], threads=value),
            lambda: index.tune(np.eye(2), target_recall=value),
            lambda: index.search_radius([0, 1], value),
            lambda: lethevec.Index(value),
            lambda: lethevec.Index(2, seed=value),
            lambda: lethevec.Index(2, family=value),
            lambda: lethevec.Index(2, source=value),
            lambda: lethevec.Index(2, keep_vectors=value),
            lambda: lethevec.Index(2, vectors=value),
            lambda: lethevec.Pivots(cell_size=value) and lethevec.Index(2, source=lethevec.Pivots(cell_size=value)),
            lambda: db.count({"n": value}),
            lambda: db.count({"n": {"$in": [value]}}),
            lambda: db.get([value]),
            lambda: db.forget([1], timeout=value),
            lambda: db.forget([1], elsewhere={"logs": value}),
            lambda: db.get(limit=value),
            lambda: db.add([[1, 1]], ids=[3], expires=value),
            lambda: db.update(ids=[1], payloads=[{"n": value}]),
            lambda: db.sample(value),
            lambda: lethevec.open(tmp_path / "b.lethe", dim=2, filters=value),
            lambda: lethevec.open(tmp_path / "b.lethe", dim=2, index={"bits": value}),
            lambda: lethevec.Client(value),
        ]
        for number, call in enumerate(calls):
            with pytest.raises(LethevecError):
                pytest.fail(f"call {number} gave {type(call()).__name__}")
        assert db.digest() == before
    with pytest.raises(LethevecError), lethevec.connect(tmp_path / "folder") as folder:
        folder.collection("a", dim=2, expires=value)
