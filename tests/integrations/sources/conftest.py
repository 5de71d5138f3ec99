"""Records that every source is filled with: some of them are deleted there before they are copied."""

from __future__ import annotations

import numpy as np
import pytest

import lethevec

N, DIM = 400, 24
VECTORS = np.random.default_rng(7).normal(size=(N, DIM)).astype(np.float32)
DELETED = list(range(0, N, 8))
LIVING = [place for place in range(N) if place not in DELETED]


@pytest.fixture
def copied(tmp_path):
    """Copy a source into a new store; what was moved, the residue, and the records by id."""
    from lethevec import moving

    def run(kind: str, location, **asked):
        subject_field = asked.pop("subject_field", None)
        with moving.open_source(kind, str(location), **asked) as source:
            with lethevec.open(tmp_path / "copy.lethe", source.dim, source.metric) as db:
                moved = moving.move(source, db, subject_field=subject_field, batch=150)
                records = {record.id: record for record in db}
            return moved, source.residue(), records, source

    return run


def check_vectors(records, names, *, scaled: bool = False) -> None:
    """Exactly the living ones, with their vectors."""
    assert set(records) == {names(place) for place in LIVING}
    for place in LIVING:
        wanted = VECTORS[place] / np.linalg.norm(VECTORS[place]) if scaled else VECTORS[place]
        assert np.allclose(records[names(place)].vector, wanted, atol=1e-6 if scaled else 0)
