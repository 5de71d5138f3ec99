"""`Index`: nearest-neighbour search in memory that forgets exactly.

Everything that can be seen of an index (answers, digest, snapshot, memory) is a function of its configuration and of
the records it holds now, whatever adds, updates and forgets led there. Many threads may search one index while one at
a time changes it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._native import core, resolve_threads
from ..errors import FormatError, IdError, InputError, ParameterError, UnknownIdError, UnsupportedError
from ..forgetting.multiset import LANES, MultisetHash
from ..hashing.parameters import integer, positive, real
from ..progress import Progress
from ..vectors import F32, as_vectors, passing_vectors
from . import snapshot
from .config import Config, make_config
from .encoders import native_encoder
from .gain import NormCounts
from .hits import Hits, RadiusHits, Work
from .ids import I64, as_ids, read_array
from .sources import native_source, source_for
from .tuning import Tuning, tune

#: Answers that a search may be asked for when k is larger than the index.
MAX_PADDED = 1 << 28
#: Records from which on a call that files them in cells shows a bar.
SHOWN_FROM = 20_000


class Index:
    """An index over vectors of `dim` numbers.

    Args:
        dim: dimension, 1 to 65,536.
        metric: "cosine" (distance 1 - cos), "l2" (Euclidean distance) or "ip" (minus the inner product).
        family: hash family of the codes; see `lethevec.hasher`.
        bits: bits of a code; by default two planes of dim bits, or eight when vectors are not kept.
        ranking: "asymmetric" compares the query itself with codes, "hamming" its code.
        keep_vectors: keep vectors, to rerank by true distance and give them back; without them codes are all there is.
        source: where candidates come from; "scan" looks at all codes, "tables" into the nearest buckets of hash tables,
            "pivots" into the nearest cells around records that a keyed hash picks; "auto" is a scan of fewer than
            `pivots_from` records and pivots of more, or a scan always where pivots do not fit (other codes than
            progressive, Hamming ranking, vectors that are not kept).
        tables, key_bits: how many hash tables, and bits of their keys; by default chosen for `expected` records.
        cell_size: records in a cell of the pivots, on average; by default chosen for `expected` records.
        refine: 1 for cells around means instead of pivots: faster searches, dearer changes.
        key: 16 bytes for the hash that picks pivots; by default they follow from the seed.
        probes: buckets or cells that a query looks into at effort 1.0; twice as many at 2.0.
        expected: about how many records there will be, for the defaults of tables and pivots (100,000).
        seed: what the random tables are drawn from. Indexes made with the same arguments are comparable.
        params: further parameters of the family.

    >>> index = Index(dim=3, metric="l2")
    >>> index.add([[0, 0, 0], [1, 0, 0], [0, 2, 0]], ids=[10, 11, 12])
    >>> hits = index.search([0.9, 0, 0], k=2)
    >>> hits.ids, hits.distances.round(2)
    (array([[11, 10]]), array([[0.1, 0.9]], dtype=float32))
    >>> index.forget([11])
    1
    >>> 11 in index
    False
    """

    def __init__(
        self,
        dim: int,
        metric: str = "cosine",
        *,
        family: str = "progressive",
        bits: int | None = None,
        ranking: str = "asymmetric",
        keep_vectors: bool = True,
        source: str = "auto",
        tables: int | None = None,
        key_bits: int | None = None,
        probes: int | None = None,
        cell_size: int | None = None,
        refine: int | None = None,
        key: bytes | None = None,
        pivots_from: int | None = None,
        expected: int | None = None,
        seed: int = 0,
        **params: Any,
    ) -> None:
        """An empty index."""
        config = make_config(
            dim,
            metric,
            family=family,
            bits=bits,
            ranking=ranking,
            keep_vectors=keep_vectors,
            source=source,
            source_given={
                "tables": tables,
                "key_bits": key_bits,
                "probes": probes,
                "cell_size": cell_size,
                "refine": refine,
                "key": key,
                "pivots_from": pivots_from,
                "expected": expected,
            },
            seed=seed,
            params=params,
        )
        self._set_up(config)

    def _set_up(self, config: Config) -> None:
        self._config = config
        self._norms = NormCounts() if config.gain_follows else None
        self._mean_norm = 1.0
        encoder = native_encoder(config.hasher(self._mean_norm), config.metric)
        self._encoder = encoder
        self._source = source_for(config, 0)
        self._native = self._empty(self._source)
        # One change at a time, also where a change is several native calls.
        self._writing = threading.RLock()

    def _empty(self, source: str) -> core.Index:
        config = self._config
        hamming = config.ranking == "hamming"
        made = native_source(config, source, self._encoder)
        return core.Index(self._encoder, config.metric, hamming, config.keep_vectors, made)

    # --- What it is --------------------------------------------------------------------------------------------------

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return self._config.dim

    @property
    def metric(self) -> str:
        """The metric: "cosine", "l2" or "ip"."""
        return self._config.metric

    @property
    def config(self) -> Config:
        """Everything that was chosen, defaults filled in."""
        return self._config

    def __len__(self) -> int:
        return len(self._native)

    def __contains__(self, id: object) -> bool:
        if isinstance(id, bool) or not isinstance(id, int | np.integer):
            return False
        if not -(1 << 63) <= int(id) < 1 << 63:
            return False
        return bool(self._contains(np.array([int(id)], dtype=np.int64))[0])

    def _contains(self, ids: I64) -> npt.NDArray[np.bool_]:
        found = np.empty(len(ids), dtype=np.bool_)
        self._native.contains(ids, found)
        return found

    def ids(self) -> I64:
        """All ids, ascending."""
        return np.asarray(self._native.ids())

    def __iter__(self) -> Iterator[int]:
        """Ids, ascending, as they were when the iteration began."""
        return iter(self.ids().tolist())

    def __repr__(self) -> str:
        c = self._config
        return f"<lethevec.Index of {len(self)} vectors, dim={c.dim}, metric={c.metric!r}, {c.family} {c.bits} bits>"

    # --- Changes -----------------------------------------------------------------------------------------------------

    def add(self, vectors: npt.ArrayLike, ids: npt.ArrayLike, *, threads: int | None = None) -> None:
        """Add records. Ids that are present or given twice are refused, and then nothing is added."""
        with self._writing, self._passing(vectors) as x:
            checked = as_ids(ids, count=len(x))
            self._fit_source(len(self) + len(x))
            try:
                with self._progress(len(x)) as advance:
                    self._refuse(self._native.add(x, checked, resolve_threads(threads, len(x)), advance))
            except BaseException:
                self._fit_source(len(self))
                raise
            self._count_norms(entering=x, threads=threads)

    def update(self, vectors: npt.ArrayLike, ids: npt.ArrayLike, *, threads: int | None = None) -> None:
        """Replace the vectors of records that are present."""
        with self._writing, self._passing(vectors) as x:
            checked = as_ids(ids, count=len(x))
            with self._leaving(checked) as leaving:
                self._refuse(self._native.update(x, checked, resolve_threads(threads, len(x))))
                self._count_norms(entering=x, leaving=leaving, threads=threads)

    def forget(self, ids: npt.ArrayLike, *, ignore_unknown: bool = False) -> int:
        """Forget records: afterwards the index equals one that never held them. Returns how many there were.

        An unknown id is refused, and then nothing is forgotten; `ignore_unknown=True` passes over it.
        """
        # A single record should not pay for what it does not need.
        if type(ids) is int and self._norms is None and -(1 << 63) <= ids < 1 << 63:
            with self._writing:
                if self._native.forget_one(ids):
                    self._fit_source(len(self))
                    return 1
            self._refuse(None if ignore_unknown else ("absent", ids))
            return 0
        checked = as_ids(ids, empty=ignore_unknown)
        if len(checked) == 0:
            return 0
        if self._norms is None:
            with self._writing:
                gone, refusal = self._native.forget(checked, ignore_unknown)
                self._fit_source(len(self))
            self._refuse(refusal)
            return gone
        with self._writing, self._leaving(checked) as leaving:
            gone, refusal = self._native.forget(checked, ignore_unknown)
            self._refuse(refusal)
            self._count_norms(leaving=leaving, threads=None)
            return gone

    def _fit_source(self, records: int) -> None:
        """Where the number of records decides on the source: make the other one, if it is its turn.

        Searches that have begun go on in the old one, which is wiped when the last of them ends.
        """
        if self._config.source != "auto" or source_for(self._config, records) == self._source:
            return
        old, ids = self._native, self.ids()
        made = self._empty(source_for(self._config, records))
        if len(ids):
            vectors = np.empty((len(ids), self.dim), dtype=np.float32)
            try:
                self._refuse(old.get(ids, vectors))
                self._refuse(made.add(vectors, ids, resolve_threads(None, len(ids)), None))
            finally:
                vectors.fill(0)
        self._native, self._source = made, source_for(self._config, records)

    @contextmanager
    def _progress(self, records: int) -> Iterator[Callable[[int], None] | None]:
        """A bar for what takes long: filing many records in cells."""
        if self._source != "pivots" or records < SHOWN_FROM:
            yield None
            return
        with Progress(records, "filing", unit="records") as progress:
            yield progress.advance

    def _passing(self, vectors: npt.ArrayLike) -> AbstractContextManager[F32]:
        return passing_vectors(vectors, self.dim, nonzero=self.metric == "cosine")

    @contextmanager
    def _leaving(self, ids: I64) -> Iterator[F32 | None]:
        """The vectors that are about to leave, where the gain depends on norms; wiped when they have."""
        if self._norms is None:
            yield None
            return
        present = np.unique(ids[self._contains(ids)])
        vectors = self.get(present) if len(present) else None
        try:
            yield vectors
        finally:
            if vectors is not None:
                vectors.fill(0)

    def _count_norms(self, *, entering: F32 | None = None, leaving: F32 | None = None, threads: int | None) -> None:
        if self._norms is None:
            return
        for x, sign in ((entering, 1), (leaving, -1)):
            if x is not None:
                self._count(x, sign)
        self._follow_gain(threads)

    def _count(self, x: F32, sign: int) -> None:
        if self._norms is not None:
            norms = np.empty(len(x))
            core.norms(x, norms)
            self._norms.add(norms.astype(np.float32), sign)

    def _follow_gain(self, threads: int | None) -> bool:
        """Make all codes anew if the mean norm has moved on its grid; whether it has."""
        mean_norm = self._mean_norm if self._norms is None else self._norms.mean_norm()
        if mean_norm == self._mean_norm:
            return False
        self._mean_norm = mean_norm
        encoder = native_encoder(self._config.hasher(mean_norm), self.metric)
        with Progress(len(self), "re-encoding for a new mean norm", unit="vectors") as progress:
            self._native.reencode(encoder, resolve_threads(threads), progress.advance)
        return True

    @staticmethod
    def _refuse(refusal: tuple[str, int] | None) -> None:
        if refusal is None:
            return
        why, id = refusal
        if why == "absent":
            raise UnknownIdError(f"ids: expected ids that are present, got {id}, which is not; nothing was changed")
        if why == "present":
            raise IdError(
                f"ids: expected new ids, got {id}, which is present; update() replaces records; nothing was changed"
            )
        raise IdError(f"ids: expected each id once, got {id} more than once; nothing was changed")

    # --- Search ------------------------------------------------------------------------------------------------------

    def search(
        self,
        queries: npt.ArrayLike,
        k: int = 10,
        *,
        effort: float = 1.0,
        allow: npt.ArrayLike | None = None,
        threads: int | None = 1,
    ) -> Hits:
        """The k nearest records of each query.

        Args:
            queries: (n, dim), or (dim,) for one.
            k: how many. It may be larger than the index, as long as the padding is not absurd (2^28 answers in all).
            effort: more looks at more records; it never gives less recall. 1.0 is meant for recall@10 of 0.95 or more.
            allow: only these ids may be found: a list of ids (those that are not present match nothing), or a mask, a
                boolean for each of `ids()`.
            threads: threads to share the queries out to; None is all cores.
        """
        q = self._checked_queries(queries)
        k = integer("k", k, 1, 1 << 31)
        if len(q) * k > MAX_PADDED and k > len(self):
            raise ParameterError(
                f"k: expected at most {max(len(self), MAX_PADDED // len(q))} for {len(q)} queries of {len(self)} "
                f"records, got {k}: the answer would be nearly all padding"
            )
        effort = positive("effort", effort)
        allowed = self._allowed(allow)
        ids = np.empty((len(q), k), dtype=np.int64)
        distances = np.empty((len(q), k), dtype=np.float32)
        done = self._native.search(q, k, effort, allowed, resolve_threads(threads), ids, distances)
        return Hits(ids, distances, self._work(*done))

    def search_radius(self, queries: npt.ArrayLike, radius: float, *, allow: npt.ArrayLike | None = None) -> RadiusHits:
        """All records within `radius` of each query, by true distance; by the codes' where vectors are not kept."""
        q = self._checked_queries(queries)
        radius = real("radius", radius)
        allowed = self._allowed(allow)
        found = [self._native.search_radius(row, radius, allowed) for row in q]
        offsets = np.cumsum([0] + [len(hits) for hits in found], dtype=np.int64)
        ids = np.array([id for hits in found for _, id in hits], dtype=np.int64)
        distances = np.array([distance for hits in found for distance, _ in hits], dtype=np.float32)
        return RadiusHits(offsets, ids, distances)

    def tune(
        self, queries: npt.ArrayLike, target_recall: float = 0.9, k: int = 10, *, threads: int | None = None
    ) -> Tuning:
        """The least effort whose recall on these queries reaches the target. Changes nothing in the index.

        The true answers are those of a search that looks at everything: exact where vectors are kept, and otherwise the
        best that the codes can tell. Queries should be like those to come: records of the index find themselves too
        easily.

        >>> index = Index(dim=2)
        >>> index.add([[0, 1], [1, 0], [1, 1]], ids=[1, 2, 3])
        >>> index.tune([[1, 2]], target_recall=0.9, k=1).recall
        1.0
        """
        return tune(self, self._checked_queries(queries), target_recall, k, threads)

    def _checked_queries(self, queries: npt.ArrayLike) -> F32:
        return as_vectors(queries, self.dim, name="queries", nonzero=self.metric == "cosine")

    def _allowed(self, allow: npt.ArrayLike | None) -> I64 | None:
        if allow is None:
            return None
        mask = read_array(allow, "allow")
        if mask.dtype != np.bool_:
            return as_ids(mask, name="allow", empty=True)
        ids = self.ids()
        if mask.shape != ids.shape:
            raise IdError(f"allow: expected a mask with one boolean for each of the {len(ids)} ids, got {mask.shape}")
        return np.ascontiguousarray(ids[mask])

    def _work(self, scanned: int, refined: int, reranked: int) -> Work:
        c = self._config
        if c.ranking == "hamming":
            first, rest = -(-c.bits // 64) * 8, 0
        else:
            planes = c.dim if c.family == "progressive" else c.bits
            if self._source != "scan":
                planes = 0
            first, rest = -(-planes // 8), 4 + -(-(c.bits - planes) // 32) * 4
            if c.metric != "cosine":
                first += 4
        return Work(scanned, refined, reranked, scanned * first + refined * rest + reranked * 4 * c.dim)

    # --- Records back ------------------------------------------------------------------------------------------------

    def get(self, ids: npt.ArrayLike) -> F32:
        """The vectors of ids, (n, dim), in the order asked for."""
        if not self._config.keep_vectors:
            raise UnsupportedError("get: vectors are not kept (keep_vectors=False), so none can be given back")
        checked = as_ids(ids)
        vectors = np.empty((len(checked), self.dim), dtype=np.float32)
        self._refuse(self._native.get(checked, vectors))
        return vectors

    def stats(self) -> dict[str, int | float]:
        """Counts, and bytes by part: a function of configuration and records.

        `buckets_used` counts the buckets of all tables that hold a record, of `buckets_possible`. `bytes_cells` is what
        the cells of pivots take, codes included; `cells_used` counts those that hold a record.
        """
        vectors, codes, id_map, _ = self._native.bytes()
        n = len(self)
        tables, possible, used, _ = core.table_stats(self._native) if self._source == "tables" else (0, 0, 0, 0)
        cells, pivots, filled, largest = core.pivot_stats(self._native) if self._source == "pivots" else (0, 0, 0, 0)
        total = vectors + codes + id_map + tables + cells
        return {
            "records": n,
            "bytes_vectors": vectors,
            "bytes_codes": codes,
            "bytes_ids": id_map,
            "bytes_tables": tables,
            "bytes_cells": cells,
            "bytes_total": total,
            "bytes_per_record": total / n if n else 0.0,
            "buckets_used": used,
            "buckets_possible": possible,
            "pivots": pivots,
            "cells_used": filled,
            "largest_cell": largest,
            "mean_norm": self._mean_norm,
        }

    def digest(self, *, threads: int | None = None) -> str:
        """64 hexadecimal digits that depend on configuration and records alone; see `lethevec.forgetting.multiset`."""
        lanes = np.zeros(LANES, dtype=np.uint16)
        count = self._native.digest_lanes(lanes, resolve_threads(threads))
        state = count.to_bytes(8, "little") + lanes.astype("<u2", copy=False).tobytes()
        return MultisetHash.from_bytes(self._config.canonical(), state).digest()

    # --- Snapshots ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a snapshot: the same bytes for the same configuration and records.

        What was at `path` is replaced at once, or not at all.
        """
        with self._writing:
            ids = self.ids()
            columns: list[npt.NDArray[Any]] = [ids]
            if self._config.keep_vectors:
                columns.append(self.get(ids) if len(ids) else np.empty((0, self.dim), dtype=np.float32))
            else:
                codes = np.empty((len(ids), -(-self._config.bits // 8)), dtype=np.uint8)
                norms, factors = np.empty(len(ids), dtype=np.float32), np.empty(len(ids), dtype=np.float32)
                self._refuse(self._native.export_codes(ids, codes, norms, factors))
                columns += [norms, factors, codes]
            try:
                snapshot.write(Path(path), self._config, columns)
            finally:
                for column in columns[1:]:
                    column.fill(0)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Index:
        """Read a snapshot. Nothing in the file is trusted: what is not a whole, unharmed snapshot is refused."""
        self = cls.__new__(cls)
        try:
            config, columns = snapshot.read(Path(path))
            self._set_up(config)
            try:
                self._take(columns)
            finally:
                for column in columns[1:]:
                    column.fill(0)
        except InputError as error:
            raise FormatError(f"{path}: expected the records of an index, got others: {error}") from None
        except MemoryError:
            raise FormatError(f"{path}: expected an index that fits into memory, got one that does not") from None
        return self

    def _take(self, columns: list[npt.NDArray[Any]]) -> None:
        if len(columns[0]) == 0:
            return
        if self._config.keep_vectors:
            self.add(columns[1], ids=columns[0])
        else:
            threads = resolve_threads(None)
            self._refuse(self._native.add_codes(columns[3], columns[1], columns[2], columns[0], threads))
