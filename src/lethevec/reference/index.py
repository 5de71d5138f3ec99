"""An index in NumPy: a dict of records, and everything that can be seen of it computed from that and the configuration.

`State` is the function F(C, S) of the design: C is the configuration, S the records. `Index` holds the dict and makes a
new state after each change, so there is nothing in it that could remember a record that was forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .allowing import allowed_effort, direct_rows
from .codes import U8, Bools
from .constants import PLANES_IN_CELLS
from .digest import code_record, configuration_json, digest_of_state, multiset_state, vector_record
from .encoder import Encoder
from .families import gain
from .graph import Graph, GraphSettings
from .graph_search import graph_candidates
from .kept_form import rounded
from .norm_grid import mean_norm
from .pivot_search import pivot_candidates
from .pivots import Pivots, PivotSettings, build_pivots, pivot_key
from .ranking import FARTHEST, I64, NOTHING, Query, Records, answer, distances
from .scan import scan_candidates
from .tables import Tables, TableSettings, build_tables, table_survivors, tables_frame
from .vectors import F32, norms

_tables_frame = lru_cache(maxsize=64)(tables_frame)


class Coded(NamedTuple):
    """A record whose vector is not kept."""

    norm: np.float32
    factor: np.float32
    code: U8


class State:
    """All that can be seen of an index with this configuration and these records: vectors, or what is kept of them.

    Rows are by ascending id. Each part is computed when it is first asked for.
    """

    def __init__(self, config: Mapping[str, Any], held: Mapping[int, F32 | Coded]) -> None:
        self.config = dict(config)
        self.params: dict[str, Any] = dict(config["params"])
        self.d: int = config["dim"]
        self.metric: str = config["metric"]
        self.held = dict(sorted(held.items()))
        self.ids: I64 = np.array(list(self.held), dtype=np.int64)

    # --- What is kept of the records ---------------------------------------------------------------------------------

    @cached_property
    def mean_norm(self) -> float:
        """What the gain of usr is set by, where it follows the records; 1.0 otherwise."""
        return mean_norm(norms(self.vectors).astype(np.float32)) if self.config["gain_follows"] else 1.0

    @cached_property
    def vectors(self) -> F32:
        """The vectors, (n, d), where they are kept."""
        kept = [record for record in self.held.values() if not isinstance(record, Coded)]
        return np.array(kept, dtype=np.float32).reshape(len(kept), self.d)

    @cached_property
    def encoder(self) -> Encoder:
        """The hash function."""
        c, params = self.config, self.params
        m = -(-c["bits"] // self.d)
        return Encoder(
            c["family"],
            self.d,
            c["bits"],
            c["seed"],
            rotation=params.get("rotation", "hadamard"),
            T=params.get("steps", 1),
            alpha=gain(self.d, m, self.mean_norm) if c["gain_follows"] else params.get("gain", 1.0),
            sweeps=params.get("sweeps", 0),
            unit=c["family"] == "usr" and self.metric == "cosine",
        )

    def coded(self, x: F32) -> list[Coded]:
        """What is kept of vectors (n, d) beside themselves, or instead of themselves."""
        codes, factors = self.encoder.encode(x)
        if self.config["ranking"] == "hamming":
            factors = np.zeros_like(factors)  # nothing is estimated
        return [Coded(*parts) for parts in zip(norms(x).astype(np.float32), factors, codes, strict=True)]

    @cached_property
    def records(self) -> Records:
        """Ids, codes, norms, factors, and vectors where they are kept."""
        if self.source["name"] == "pivots":
            return self.pivots.records
        keep = self.config["keep_vectors"]
        coded = self.coded(self.vectors) if keep else [r for r in self.held.values() if isinstance(r, Coded)]
        sizes, factors = (np.array([record[i] for record in coded], dtype=np.float32) for i in (0, 1))
        codes = np.array([record.code for record in coded], dtype=np.uint8).reshape(
            len(coded), -(-self.encoder.bits // 8)
        )
        return Records(self.ids, codes, sizes, factors, self.vectors if keep else None)

    # --- Sources -----------------------------------------------------------------------------------------------------

    @cached_property
    def source(self) -> Mapping[str, Any]:
        """Where candidates come from, with parameters. "auto" goes by the number of records."""
        source = self.config["source"]
        if source["name"] != "auto":
            return source
        chosen: Mapping[str, Any] = {"name": "scan"}
        for name in ("pivots", "graph"):
            if len(self.ids) >= source[name + "_from"]:
                chosen = source[name]
        return chosen

    @cached_property
    def tables(self) -> Tables:
        """The hash tables: of vectors, or of what codes stand for."""
        source = self.source
        frame = _tables_frame(self.d, source["tables"], self.config["seed"])
        settings = TableSettings(frame, self.metric, source["key_bits"], source["probes"])
        kept = self.config["keep_vectors"]
        return build_tables(settings, self.vectors if kept else self.encoder.decode(self.records.codes))

    @cached_property
    def pivots(self) -> Pivots:
        """The partition, of at least one record."""
        source, encoder = self.source, self.encoder
        bits = max(encoder.bits, PLANES_IN_CELLS * self.d)
        cells = Encoder(encoder.family, self.d, bits, encoder.seed, encoder.rotation)
        settings = PivotSettings(
            cells.frame,
            self.metric,
            source["cell_size"] or 0,
            source["probes"] or 0,
            pivot_key(bytes.fromhex(source["key"])),
            bool(source["refine"]),
            encoder.sweeps,
        )
        return build_pivots(settings, self.ids, self.vectors)

    @cached_property
    def graph(self) -> Graph:
        """The graph, of at least one record."""
        source, encoder = self.source, self.encoder
        frame = Encoder(encoder.family, self.d, self.d, encoder.seed, encoder.rotation).frame
        key = pivot_key(bytes.fromhex(source["key"]))
        settings = GraphSettings(frame, self.metric, key, source["cell_size"], source["cells"], source["pool"])
        return Graph(settings, self.ids, self.vectors)

    # --- Answers -----------------------------------------------------------------------------------------------------

    def query(self, q: F32) -> Query:
        """One query (1, d) made ready for codes."""
        first_stage = self.source["name"] == "scan"
        alone = not self.config["keep_vectors"]
        return self.encoder.query(q, self.metric, self.config["ranking"], first_stage=first_stage, alone=alone)

    def candidates(self, query: Query, k: int, effort: float, allowed: Bools | None = None) -> I64:
        """The rows whose distance decides on the answer."""
        if allowed is not None and allowed.all():
            allowed = None
        if allowed is not None and allowed.sum() <= direct_rows(len(self.ids), k, effort):
            return np.flatnonzero(allowed)
        if self.source["name"] == "pivots":
            return pivot_candidates(self.pivots, query.q, k, effort, allowed).rows
        if allowed is not None:
            effort = allowed_effort(len(self.ids), int(allowed.sum()), effort)
        if self.source["name"] == "graph":
            return graph_candidates(self.graph, query.q, k, effort, allowed).rows
        if self.source["name"] == "tables":
            return table_survivors(self.tables, query, self.records, k, effort, allowed)
        return scan_candidates(query, self.records, k, effort, allowed)

    def nearest(self, q: F32, k: int, effort: float, allow: I64 | None = None) -> tuple[I64, F32]:
        """The answer to one query (1, d)."""
        allowed = None if allow is None else np.isin(self.ids, allow)
        if len(self.ids) == 0 or (allowed is not None and not allowed.any()):
            return answer(np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64), k)
        query = self.query(q)
        if np.isinf(effort):
            rows = np.arange(len(self.ids)) if allowed is None else np.flatnonzero(allowed)
        else:
            rows = self.candidates(query, k, effort, allowed)
        return answer(distances(query, self.records.of(rows)), self.ids[rows], k)

    def within(self, q: F32, radius: float, allow: I64 | None = None) -> tuple[I64, F32]:
        """All records within a radius of one query (1, d). The edge belongs to the ball."""
        rows = np.arange(len(self.ids)) if allow is None else np.flatnonzero(np.isin(self.ids, allow))
        if len(rows) == 0:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        far = distances(self.query(q), self.records.of(rows))
        inside = far <= np.float32(radius)
        return answer(far[inside], self.ids[rows][inside], int(inside.sum()))

    # --- Digest ------------------------------------------------------------------------------------------------------

    def digest(self) -> str:
        """64 hexadecimal digits for configuration and records."""
        encoded = (
            code_record(id, float(record.norm), float(record.factor), record.code)
            if isinstance(record, Coded)
            else vector_record(id, record)
            for id, record in self.held.items()
        )
        return digest_of_state(configuration_json(self.config), multiset_state(encoded))


class Index:
    """An index over a plain dict of records.

    `config` has the fields of a configuration, all filled in, as its canonical JSON has them. Vectors are float32 and
    pass the checks of the library; ids are integers.

    >>> index = Index(EXAMPLE)
    >>> index.add(np.float32([[0, 1], [1, 0], [1, 1]]), [1, 2, 3])
    >>> ids, distances = index.search(np.float32([[1, 2]]), k=2)
    >>> ids.tolist(), distances.round(4).tolist()
    ([[3, 1]], [[0.05130000039935112, 0.10559999942779541]])
    >>> with_2 = index.digest()
    >>> index.forget([2])
    >>> index.ids().tolist()
    [1, 3]
    >>> index.add(np.float32([[1, 0]]), [2])
    >>> index.digest() == with_2
    True
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.state = State(config, {})

    # --- Changes -----------------------------------------------------------------------------------------------------

    def add(self, vectors: F32, ids: npt.ArrayLike) -> None:
        """Add records with new ids."""
        self._put(vectors, ids, present=False)

    def update(self, vectors: F32, ids: npt.ArrayLike) -> None:
        """Replace the vectors of records that are present."""
        self._put(vectors, ids, present=True)

    def forget(self, ids: npt.ArrayLike) -> None:
        """Forget records that are present."""
        gone = self._checked(ids, present=True)
        self.state = State(self.state.config, {id: r for id, r in self.state.held.items() if id not in gone})

    def _put(self, vectors: F32, ids: npt.ArrayLike, *, present: bool) -> None:
        entering = self._checked(ids, present=present)
        form = self.state.config["keep_vectors"]
        if isinstance(form, str):
            vectors = rounded(form, vectors)
        kept: Iterable[F32 | Coded] = vectors if form else self.state.coded(vectors)
        self.state = State(self.state.config, {**self.state.held, **dict(zip(entering, kept, strict=True))})

    def _checked(self, ids: npt.ArrayLike, *, present: bool) -> dict[int, None]:
        """The ids in their order. A call with a wrong id changes nothing."""
        given = np.atleast_1d(np.asarray(ids, dtype=np.int64)).tolist()
        unique = dict.fromkeys(given)
        if len(unique) != len(given) or any((id in self.state.held) != present for id in given):
            raise KeyError(f"ids: expected each id once and {'present' if present else 'new'}, got others")
        return unique

    # --- Questions ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.state.held)

    def ids(self) -> I64:
        """All ids, ascending."""
        return self.state.ids

    def search(
        self, queries: F32, k: int = 10, *, effort: float = 1.0, allow: npt.ArrayLike | None = None
    ) -> tuple[I64, F32]:
        """The k nearest records of each query (n, d): ids and distances, (n, k) each."""
        allowed = None if allow is None else np.asarray(allow, dtype=np.int64)
        found = [self.state.nearest(q[None], k, effort, allowed) for q in queries]
        return _padded(found, k)

    def search_radius(self, queries: F32, radius: float, *, allow: npt.ArrayLike | None = None) -> tuple[I64, F32]:
        """All records within a radius of each query (n, d); arrays are as wide as the longest answer."""
        allowed = None if allow is None else np.asarray(allow, dtype=np.int64)
        found = [self.state.within(q[None], radius, allowed) for q in queries]
        return _padded(found, max((len(ids) for ids, _ in found), default=0))

    def digest(self) -> str:
        """64 hexadecimal digits for configuration and records."""
        return self.state.digest()


def _padded(found: list[tuple[I64, F32]], width: int) -> tuple[I64, F32]:
    """Answers of different lengths as two arrays: where there is none, the id is -1 and the distance infinity."""
    ids = np.full((len(found), width), NOTHING, dtype=np.int64)
    distances = np.full((len(found), width), FARTHEST, dtype=np.float32)
    for row, (some_ids, some_distances) in enumerate(found):
        ids[row, : len(some_ids)], distances[row, : len(some_distances)] = some_ids, some_distances
    return ids, distances


#: The configuration of the examples: 2 dimensions, cosine, a progressive code of 2 planes.
EXAMPLE: Mapping[str, Any] = {
    "dim": 2,
    "metric": "cosine",
    "family": "progressive",
    "bits": 4,
    "ranking": "asymmetric",
    "keep_vectors": True,
    "source": {"name": "scan"},
    "seed": 0,
    "params": {"rotation": "hadamard", "sweeps": 0},
    "gain_follows": False,
}
