"""One `Hits` for an index and a store: arrays with padding, lists without."""

from __future__ import annotations

import numpy as np
import pytest

import lethevec
from lethevec import Hit, Hits, Work

WORK = Work(1, 2, 3, 4)


def test_padding_is_left_out():
    hits = Hits(
        np.array([[4, 9, 2], [9, -1, -1], [-1, -1, -1]]),
        np.array([[0.5, 0.5, 3.0], [0.25, np.inf, np.inf], [np.inf] * 3], dtype=np.float32),
        WORK,
    )
    assert len(hits) == 3
    assert list(hits) == [[Hit(4, 0.5), Hit(9, 0.5), Hit(2, 3.0)], [Hit(9, 0.25)], []]
    assert hits[-2] == hits[1] == [(9, 0.25, None, None)]
    assert {type(hit.id) for hit in hits[0]} == {int}
    assert {type(hit.distance) for hit in hits[0]} == {float}
    with pytest.raises(IndexError):
        hits[3]


def test_a_record_may_have_the_id_of_padding():
    index = lethevec.Index(dim=2, metric="l2")
    index.add([[0, 1], [0, 2]], ids=[-1, 5])
    hits = index.search([0, 0], k=4)
    assert hits.ids.tolist() == [[-1, 5, -1, -1]]
    assert [hit.id for hit in hits[0]] == [-1, 5]


def test_of_an_index():
    index = lethevec.Index(dim=2, metric="l2")
    index.add([[0, 1], [0, 2]], ids=[7, 5])
    for hits in (index.search([[0, 0]] * 2, k=3), index.search([0.0, 0.0], k=1), index.search_radius([0, 0], 9.0)):
        assert type(hits) is Hits
        assert (hits.ids.dtype, hits.distances.dtype) == (np.int64, np.float32)
        assert hits.subjects is None
        assert hits.payloads is None
        assert hits[0][0] == Hit(7, 1.0)
    # In one native call, and in several.
    assert index.search(np.zeros(2, dtype=np.float32), k=1).payloads is None


def test_of_a_store():
    hits = Hits(
        np.array([["a", 3, -1]], dtype=object),
        np.array([[0.5, 1.0, np.inf]], dtype=np.float32),
        WORK,
        np.array([["alice", None, None]], dtype=object),
        np.array([[{"year": 1990}, None, None]], dtype=object),
    )
    assert hits[0] == [Hit("a", 0.5, "alice", {"year": 1990}), Hit(3, 1.0)]


def test_a_radius_gives_arrays_as_wide_as_the_longest_answer():
    index = lethevec.Index(dim=1, metric="l2")
    index.add([[0], [1], [2], [9]], ids=[0, 1, 2, 9])
    hits = index.search_radius([[1], [9], [50]], 1.0)
    assert hits.ids.tolist() == [[1, 0, 2], [9, -1, -1], [-1, -1, -1]]
    assert hits.distances.tolist() == [[0, 1, 1], [0, np.inf, np.inf], [np.inf] * 3]
    assert hits.work == (0, 0, 12, 48)


def test_arrays_of_a_radius_that_would_be_absurd(monkeypatch):
    from lethevec._index import arguments

    index = lethevec.Index(dim=1, metric="l2")
    index.add([[0], [0], [0], [50]], ids=[0, 1, 2, 9])
    monkeypatch.setattr(arguments, "MAX_PADDED", 8)
    with pytest.raises(lethevec.errors.ParameterError, match="expected at most 2 for this radius, got 3"):
        index.search_radius([[0], [50], [90]], 1.0)
    assert index.search_radius([[0]], 1.0).ids.shape == (1, 3)
