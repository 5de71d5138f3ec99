"""An index with pivots as its native hooks show it, and as the spec says it must be: in one form, to be compared."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lethevec import Index, Pivots, reference
from lethevec._index.config import Config
from lethevec._index.sources import bits_in_cells
from lethevec._native import core

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]
#: Cells by id of the pivot (the void: None), and records by id. Floats are their bytes: equal means to the last bit.
State = tuple[dict[int | None, tuple[Any, ...]], dict[int, tuple[Any, ...]]]


def state_of(cells: tuple[Any, ...], records: tuple[Any, ...]) -> State:
    ids, real, counts, *parts = cells
    names = [id if is_real else None for id, is_real in zip(ids.tolist(), real.tolist(), strict=True)]
    assert len(set(names)) == len(names), "a cell is there twice"
    shown = {
        name: (count, *(part[c].tobytes() for part in parts))
        for c, (name, count) in enumerate(zip(names, counts.tolist(), strict=True))
    }
    record_ids, cells_of, *numbers = records
    assert len(set(record_ids.tolist())) == len(record_ids), "a record is there twice"
    held = {
        id: (names[cell], *(number[i].tobytes() for number in numbers))
        for i, (id, cell) in enumerate(zip(record_ids.tolist(), cells_of.tolist(), strict=True))
    }
    return shown, held


def native_state(index: Index) -> State:
    """Everything that the native index holds. It checks that each row lies where it says."""
    records = core.testing.pivot_records(index._native, -(-bits_in_cells(index.config) // 8))
    return state_of(core.testing.pivot_cells(index._native), records)


class Spec:
    """The records of an index in the spec's index."""

    def __init__(self, config: Config, ids: npt.ArrayLike, x: F32) -> None:
        """At least one record, in any order."""
        self.index = reference.Index(json.loads(config.canonical()))
        self.index.add(x, ids)
        self.made = self.index.state.pivots
        self.ids = self.made.records.ids

    def state(self) -> State:
        cells, made = self.made.cells, self.made
        shown = (
            cells.ids,
            cells.real,
            cells.counts,
            cells.centres,
            cells.origins,
            cells.sums,
            cells.square_sums,
            cells.means,
            cells.steps,
            cells.penalties,
        )
        numbers = (made.sizes, made.offsets, made.scales, made.biases, made.records.codes)
        return state_of(shown, (self.ids, made.cells_of, *numbers))

    def candidates(self, query: F32, k: int, effort: float, allow: I64 | None = None) -> reference.Found:
        allowed = None if allow is None else np.isin(self.ids, allow)
        if allowed is not None and allowed.all():
            allowed = None
        if allowed is not None and allowed.sum() <= reference.direct_rows(len(self.ids), k, effort):
            return reference.Found(np.flatnonzero(allowed), 0, 0)
        return reference.pivot_candidates(self.made, query[None], k, effort, allowed)


def assert_same_state(one: State, other: State) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for name, parts in a.items():
            assert parts == b[name], name


def assert_search_equals(
    index: Index, spec: Spec, queries: F32, k: int, effort: float, allow: I64 | None = None
) -> None:
    """Ids and distances bit for bit, and as many rows looked at in each stage."""
    hits = index.search(queries, k, effort=effort, allow=allow)
    ids, distances = spec.index.search(queries, k, effort=effort, allow=allow)
    np.testing.assert_array_equal(hits.ids, ids)
    np.testing.assert_array_equal(hits.distances.view(np.uint32), distances.view(np.uint32))
    work = np.zeros(3, dtype=np.int64)
    for query in queries:
        looked_at = spec.candidates(query, k, effort, allow)
        work += [looked_at.scanned, looked_at.refined, len(looked_at.rows)]
    assert [hits.work.scanned, hits.work.refined, hits.work.reranked] == work.tolist()


def clustered(seed: int, n: int, dim: int) -> F32:
    """Vectors with near neighbours, uneven cells and different norms."""
    rng = np.random.default_rng([seed, dim])
    centres = np.random.default_rng(dim).normal(size=(40, dim))
    x = centres[rng.integers(len(centres), size=n)] + 0.4 * rng.normal(size=(n, dim))
    return np.asarray(x * rng.lognormal(sigma=0.3, size=(n, 1)), dtype=np.float32)


def pivots_among(config: Config, ids: npt.ArrayLike, records: int = 0) -> I64:
    """Those of the ids that are pivots, of so many records."""
    ids, source = np.asarray(ids, dtype=np.int64), config.source
    key = reference.pivot_key(bytes.fromhex(source.key))
    return ids[reference.is_pivot(ids, key, source.cell_size or 0, records)]


def options(**given: Any) -> dict[str, Any]:
    """Those of an index with pivots, whose parameters are among what is given."""
    own = {"cell_size": 8, "probes": 20}
    own |= {one.name: given.pop(one.name) for one in fields(Pivots) if one.name in given}
    return {"source": Pivots(**own), **given}


class Tools:
    """What the tests of pivots share."""

    Spec = Spec
    options = staticmethod(options)
    native_state = staticmethod(native_state)
    assert_same_state = staticmethod(assert_same_state)
    assert_search_equals = staticmethod(assert_search_equals)
    clustered = staticmethod(clustered)
    pivots_among = staticmethod(pivots_among)

    @staticmethod
    def build(x: F32, ids: npt.ArrayLike, **arguments: Any) -> Index:
        index = Index(x.shape[1], **options(**arguments))
        index.add(x, ids=ids)
        return index


@pytest.fixture(scope="session")
def tools() -> type[Tools]:
    return Tools
