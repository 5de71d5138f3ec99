"""`Index`: nearest-neighbour search in memory that forgets exactly.

Everything that can be seen of an index (answers, digest, snapshot, memory) is a function of its configuration and of
the records it holds now, whatever adds, updates and forgets led there. Many threads may search one index while one at
a time changes it.

Here are the public calls. Each checks its arguments (`arguments`) before it does anything; the records are in
`records`, what usr codes need to know of all of them in `gain`, the file in `snapshot`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from .._durable import as_path
from .._forgetting.multiset import LANES, MultisetHash
from .._hashing.parameters import SMALLEST, boolean, integer, real
from .._hits import Hits, Work
from .._native import MAX_THREADS, core, resolve_threads
from .._record import KEEP, Keep, Record
from .._vectors import F32, MAX_NORM, MIN_NORM, as_vectors, passing_vectors
from ..errors import FormatError, IdError, InputError, UnsupportedError, VectorError
from . import snapshot
from .arguments import I64, MAX_K, MAX_PADDED, as_allowed, as_effort, as_ids, as_k, one_id, refuse_wide
from .config import MAX_SETUP, Config, make_config
from .gain import Gain, NormCounts
from .locking import ChangeLock
from .records import Records, refuse
from .sources import Source
from .tuning import Tuning, find_effort
from .vector_files import UnsettledError, VectorFiles, as_vector_files

# Nearly every search asks for nothing that has to be converted or refused, and one query should not wait for a call for
# each question. What this one does not take goes the long way, which has the errors.
_search_directly = core.DirectSearch(
    hits=Hits,
    work=Work,
    smallest_norm=MIN_NORM,
    largest_norm=MAX_NORM,
    least_effort=SMALLEST,
    most_effort=math.inf,
    most_k=MAX_K,
    most_threads=MAX_THREADS,
    most_answers=MAX_PADDED,
).run


class Index:
    """An index over vectors of `dim` numbers.

    Args:
        dim: dimension, 1 to 65,536.
        metric: "cosine" (distance 1 - cos), "l2" (Euclidean distance) or "ip" (minus the inner product).
        family: hash family of the codes; see `lethevec.hasher`.
        bits: bits of a code; by default two planes of dim bits, four with source="tables", or eight when vectors are
            not kept.
        ranking: "asymmetric" compares the query itself with codes, "hamming" its code.
        keep_vectors: keep vectors, to rerank by true distance and give them back. "float16" and "int8" round them to a
            half and a quarter of the memory when they come in; the rounded ones are then the records. With False codes
            are all there is.
        source: where candidates come from: "scan" looks at all codes, "tables" into the nearest buckets of hash tables,
            "pivots" into the nearest cells around records that a keyed hash picks, "graph" walks from neighbour to
            neighbour; "auto" is a scan of few records and pivots or a graph of many, as `optimize` says. `Scan`,
            `Tables`, `Pivots`, `Graph` and `Auto` are the same with parameters of their own.
        optimize: what "auto" is to make fast or small: "updates" (the default: quick adds and forgets, and good
            searches), "search" (quicker searches, slower changes) or "memory". See `Auto`.
        vectors: where vectors are kept: in "memory", or in a file that the system keeps in memory as far as there is
            room, for more of them than memory holds. It is the path of the file, or "file" for one in the folder for
            temporary files. This is no part of the configuration: answers, digest and snapshots are the same. The file
            is working memory: what is forgotten is overwritten in it before the call returns, and all of it when the
            index goes away. Linux only.
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
        keep_vectors: bool | str = True,
        source: str | Source = "auto",
        optimize: str | None = None,
        vectors: str | os.PathLike[str] = "memory",
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
            optimize=optimize,
            seed=seed,
            params=params,
        )
        self._start(config, as_vector_files(vectors, config.keep_vectors))

    def _start(self, config: Config, files: VectorFiles | None) -> None:
        self._config = config
        self._gain = Gain(config)
        self._records = Records(config, self._gain.encoder(), files)
        self._changing = ChangeLock()

    @classmethod
    def _of(cls, config: Config, files: VectorFiles | None = None) -> Index:
        """An empty index of a configuration that was checked before."""
        made = cls.__new__(cls)
        made._start(config, files)
        return made

    # --- What it is --------------------------------------------------------------------------------------------------

    @property
    def dim(self) -> int:
        """Dimension of the vectors.

        >>> Index(dim=3).dim
        3
        """
        return self._config.dim

    @property
    def metric(self) -> str:
        """The metric: "cosine", "l2" or "ip".

        >>> Index(dim=3, metric="ip").metric
        'ip'
        """
        return self._config.metric

    @property
    def config(self) -> Config:
        """Everything that was chosen, defaults filled in.

        >>> Index(dim=3).config.bits
        24
        """
        return self._config

    @property
    def _native(self) -> core.Index:
        return self._records.native

    def __repr__(self) -> str:
        c = self._config
        return f"<lethevec.Index of {len(self)} vectors, dim={c.dim}, metric={c.metric!r}, {c.family} {c.bits} bits>"

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, id: object) -> bool:
        number = one_id(id)
        return number is not None and bool(self._records.contains(np.array([number], dtype=np.int64))[0])

    def __iter__(self) -> Iterator[int]:
        """Ids, ascending, as they were when the iteration began."""
        return iter(self.ids().tolist())

    def ids(self) -> I64:
        """All ids, ascending.

        >>> index = Index(dim=2)
        >>> index.add([[0, 1], [1, 0]], ids=[5, 3])
        >>> index.ids().tolist()
        [3, 5]
        """
        return self._records.ids()

    def stats(self) -> dict[str, int | float]:
        """Counts, and bytes by part: a function of configuration and records.

        `buckets_used` counts the buckets of all tables that hold a record, of `buckets_possible`. `bytes_cells` is what
        the cells of pivots take, codes included; `cells_used` counts those that hold a record. `bytes_graph` is what
        the graph takes, `vertices` counts the different vectors in it, and `edges` what pruning has left between them.
        Vectors that are in a file count as `bytes_in_file`, and not as memory.

        >>> Index(dim=2).stats()["records"]
        0
        """
        native, source = self._records.native, self._records.source.name
        vectors, codes, id_map, _ = native.bytes()
        vectors, in_file = (0, vectors) if native.in_file() else (vectors, 0)
        n = len(native)
        tables, possible, used, _ = core.table_stats(native) if source == "tables" else (0, 0, 0, 0)
        cells, pivots, filled, largest = core.pivot_stats(native) if source == "pivots" else (0, 0, 0, 0)
        graph, vertices, edges, children = core.graph_stats(native) if source == "graph" else (0, 0, 0, 0)
        total = vectors + codes + id_map + tables + cells + graph
        return {
            "records": n,
            "bytes_vectors": vectors,
            "bytes_codes": codes,
            "bytes_ids": id_map,
            "bytes_tables": tables,
            "bytes_cells": cells,
            "bytes_graph": graph,
            "bytes_total": total,
            "bytes_per_record": total / n if n else 0.0,
            "bytes_in_file": in_file,
            "buckets_used": used,
            "buckets_possible": possible,
            "pivots": pivots,
            "cells_used": filled,
            "largest_cell": largest,
            "vertices": vertices,
            "edges": edges,
            "most_children": children,
            "mean_norm": self._gain.mean_norm,
        }

    def digest(self, *, threads: int | None = None) -> str:
        """64 hexadecimal digits that depend on configuration and records alone.

        >>> one, other = Index(dim=2), Index(dim=2)
        >>> one.add([[0, 1], [1, 0]], ids=[5, 3])
        >>> other.add([1, 0], ids=3)
        >>> one.forget(5), one.digest() == other.digest()
        (1, True)
        """
        lanes = np.zeros(LANES, dtype=np.uint16)
        count = self._records.native.digest_lanes(lanes, resolve_threads(threads))
        state = count.to_bytes(8, "little") + lanes.astype("<u2", copy=False).tobytes()
        return MultisetHash.from_bytes(self._config.canonical(), state).digest()

    # --- Records in, out and back ------------------------------------------------------------------------------------

    def add(self, vectors: npt.ArrayLike, ids: npt.ArrayLike, *, threads: int | None = None) -> None:
        """Add records. Ids that are present or given twice are refused, and then nothing is added.

        >>> index = Index(dim=2)
        >>> index.add([[0, 1], [1, 0]], ids=[5, 3])
        >>> len(index)
        2
        """
        with self._changing, self._passing(vectors) as x:
            checked = as_ids(ids, count=len(x))
            workers = resolve_threads(threads, len(x))
            if not self._gain.follows:
                self._records.add(x, checked, workers)
                return
            with self._unsettled_last() as change:
                change(lambda: self._records.add(x, checked, workers))
                counts = self._gain.after(entering=x)
                self._follow(counts, workers, undo=lambda: self._records.forget(checked))

    def update(
        self,
        vectors: npt.ArrayLike | Keep = KEEP,
        ids: npt.ArrayLike | None = None,
        *,
        threads: int | None = None,
    ) -> None:
        """Replace the vectors of records that are present. Both arguments are required.

        >>> index = Index(dim=2, metric="l2")
        >>> index.add([[0, 1], [1, 0]], ids=[5, 3])
        >>> index.update([[0, 4]], ids=[5])
        >>> index.vectors([5])
        array([[0., 4.]], dtype=float32)
        """
        if isinstance(vectors, Keep):
            raise VectorError("vectors: expected the new vectors, got none: an index has nothing else to update")
        if ids is None:
            raise IdError("ids: expected the ids of the records to update, got none")
        with self._changing, self._passing(vectors) as x:
            checked = as_ids(ids, count=len(x))
            workers = resolve_threads(threads, len(x))
            native = self._records.native
            if not self._gain.follows:
                refuse(native.update(x, checked, workers))
                return
            with self._leaving(checked) as (present, leaving), self._unsettled_last() as change:
                change(lambda: refuse(native.update(x, checked, workers)))
                counts = self._gain.after(entering=x, leaving=leaving)
                self._follow(counts, workers, undo=lambda: native.update(leaving, present, workers))

    def forget(self, ids: npt.ArrayLike, *, ignore_unknown: bool = False) -> int:
        """Forget records: afterwards the index equals one that never held them. Returns how many there were.

        An unknown id is refused, and then nothing is forgotten; `ignore_unknown=True` passes over it.

        >>> index = Index(dim=2)
        >>> index.add([[0, 1], [1, 0]], ids=[5, 3])
        >>> index.forget([5]), index.forget([5, 3], ignore_unknown=True), index.forget([])
        (1, 1, 0)
        """
        boolean("ignore_unknown", ignore_unknown)
        # A single record should not pay for what it does not need.
        if type(ids) is int and not self._gain.follows and -(1 << 63) <= ids < 1 << 63:
            with self._changing:
                if self._records.forget_one(ids):
                    return 1
            refuse(None if ignore_unknown else ("absent", ids))
            return 0
        checked = as_ids(ids)
        with self._changing:
            if len(checked) == 0:
                return 0
            if not self._gain.follows:
                return self._records.forget(checked, ignore_unknown=ignore_unknown)
            with self._leaving(checked) as (present, leaving), self._unsettled_last() as change:
                change(lambda: self._records.forget(checked, ignore_unknown=ignore_unknown))
                workers = resolve_threads(None)
                counts = self._gain.after(leaving=leaving)
                self._follow(counts, workers, undo=lambda: self._records.add(leaving, present, workers))
                return len(present)

    def get(self, ids: npt.ArrayLike) -> list[Record]:
        """The records of ids, in the order asked for.

        >>> index = Index(dim=2, metric="l2")
        >>> index.add([[0, 1], [1, 0]], ids=[5, 3])
        >>> [record] = index.get(5)
        >>> record.id, record.vector
        (5, array([0., 1.], dtype=float32))
        """
        checked = as_ids(ids)
        rows = self.vectors(checked)
        return [Record(id, vector) for id, vector in zip(checked.tolist(), rows, strict=True)]

    def vectors(self, ids: npt.ArrayLike) -> F32:
        """The vectors of ids, (n, dim), in the order asked for.

        >>> index = Index(dim=2, metric="l2")
        >>> index.add([[0, 1], [1, 0]], ids=[5, 3])
        >>> index.vectors([3, 5])
        array([[1., 0.],
               [0., 1.]], dtype=float32)
        """
        checked = as_ids(ids)
        if not self._config.keep_vectors:
            raise UnsupportedError("vectors are not kept (keep_vectors=False), so none can be given back")
        return self._records.vectors(checked)

    def _follow(self, counts: NormCounts, workers: int, undo: Callable[[], object]) -> None:
        """Let the gain follow a change of the records, or undo the change if it cannot."""
        try:
            self._gain.count(counts, self._records.native, workers)
        except BaseException:
            with suppress(UnsettledError):  # it is undone, and the first error is the one to tell
                undo()
            raise

    @contextmanager
    def _unsettled_last(self) -> Iterator[Callable[[Callable[[], object]], None]]:
        """Calls a change of the records; that the disk does not confirm it is told when all is done."""
        told: list[UnsettledError] = []

        def change(work: Callable[[], object]) -> None:
            try:
                work()
            except UnsettledError as error:
                told.append(error)

        yield change
        if told:
            raise told[0]

    def _passing(self, vectors: npt.ArrayLike) -> AbstractContextManager[F32]:
        passing = passing_vectors(vectors, self.dim, nonzero=self.metric == "cosine")
        return self._rounding(passing) if self._config.form.small else passing

    @contextmanager
    def _rounding(self, passing: AbstractContextManager[F32]) -> Iterator[F32]:
        with passing as x, self._config.form.rounding(x) as kept:
            yield kept

    @contextmanager
    def _leaving(self, ids: I64) -> Iterator[tuple[I64, F32]]:
        """Those of the ids that are present, and their vectors as they are now; wiped in the end."""
        found = ids[self._records.contains(ids)]
        found.sort()
        once = np.ones(len(found), dtype=np.bool_)
        np.not_equal(found[1:], found[:-1], out=once[1:])
        present = found[once]
        found.fill(0)
        vectors = self._records.vectors(present)
        try:
            yield present, vectors
        finally:
            vectors.fill(0)
            present.fill(0)

    # --- Search ------------------------------------------------------------------------------------------------------

    def search(
        self,
        queries: npt.ArrayLike,
        k: int = 10,
        *,
        effort: float = 1.0,
        allow: npt.ArrayLike | core.SelectedRows | None = None,
        threads: int | None = 1,
    ) -> Hits:
        """The k nearest records of each query.

        Args:
            queries: (n, dim), or (dim,) for one.
            k: how many. It may be larger than the index, as long as the padding is not absurd (2^28 answers in all).
            effort: more looks at more records; it never gives less recall. 1.0 is meant for recall@10 of 0.95 or more,
                and with `math.inf` every record is looked at: the answer is that of a brute-force search.
            allow: only these ids may be found: a list of ids (those that are not present match nothing), or a mask, a
                boolean for each of `ids()`.
            threads: threads to share the queries out to; None is all cores.

        >>> index = Index(dim=2, metric="l2")
        >>> index.add([[0, 1], [0, 2], [0, 9]], ids=[1, 2, 3])
        >>> index.search([0, 0], k=2).ids
        array([[1, 2]])
        >>> [hit.id for hit in index.search([0, 0], k=2, allow=[2, 3])[0]]
        [2, 3]
        """
        if allow is None:
            hits: Hits | None = _search_directly(self._records.native, queries, k, effort, threads)
            if hits is not None:
                return hits
        q = self._as_queries(queries)
        k = as_k(k, len(q), len(self))
        effort = as_effort(effort)
        workers = resolve_threads(threads)
        allowed = None if allow is None else as_allowed(allow, self.ids)
        ids = np.empty((len(q), k), dtype=np.int64)
        distances = np.empty((len(q), k), dtype=np.float32)
        done = self._records.native.search(q, k, effort, allowed, workers, ids, distances)
        return Hits(ids, distances, Work(*done))

    def search_radius(
        self, queries: npt.ArrayLike, radius: float, *, allow: npt.ArrayLike | core.SelectedRows | None = None
    ) -> Hits:
        """All records within `radius` of each query, by true distance, or by codes where no vectors are kept.

        The arrays of the answer are as wide as the longest answer; shorter ones are padded as those of `search` are.

        >>> index = Index(dim=2, metric="l2")
        >>> index.add([[0, 1], [0, 2], [0, 9]], ids=[1, 2, 3])
        >>> index.search_radius([[0, 0], [0, 9]], 2.5).ids
        array([[ 1,  2],
               [ 3, -1]])
        """
        q = self._as_queries(queries)
        radius = real("radius", radius)
        allowed = None if allow is None else as_allowed(allow, self.ids)
        native = self._records.native
        found = [native.search_radius(query, radius, allowed) for query in q]
        longest = max(len(answers) for answers, _ in found)
        refuse_wide(len(q), longest)
        ids = np.full((len(q), longest), -1, dtype=np.int64)
        distances = np.full((len(q), longest), np.inf, dtype=np.float32)
        for row, (answers, _) in enumerate(found):
            if answers:
                distances[row, : len(answers)], ids[row, : len(answers)] = zip(*answers, strict=True)
        return Hits(ids, distances, Work(*map(sum, zip(*(done for _, done in found), strict=True))))

    def tune(
        self, queries: npt.ArrayLike, target_recall: float = 0.95, k: int = 10, *, threads: int | None = None
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
        q = self._as_queries(queries)
        k = as_k(k, len(q), len(self))
        workers = resolve_threads(threads)
        return find_effort(
            lambda part, effort: self.search(part, k, effort=effort, threads=workers), q, target_recall, k
        )

    def _as_queries(self, queries: npt.ArrayLike) -> F32:
        return as_vectors(queries, self.dim, name="queries", nonzero=self.metric == "cosine")

    # --- Copies ------------------------------------------------------------------------------------------------------

    def copy(self, *, vectors: str | os.PathLike[str] = "memory") -> Index:
        """An index of its own with the same configuration and records; `vectors` says where it keeps its vectors.

        >>> index = Index(dim=2)
        >>> index.add([[0, 1], [1, 0]], ids=[5, 3])
        >>> other = index.copy()
        >>> index.forget(5), len(index), len(other)
        (1, 1, 2)
        """
        made = self._of(self._config, as_vector_files(vectors, self._config.keep_vectors))
        with self._changing.unchanged():
            columns = self._records.columns()
        made._take(columns)
        return made

    def __copy__(self) -> Index:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Index:
        return self.copy()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise UnsupportedError("an index cannot be pickled: save(path) writes it to a file, Index.load(path) reads it")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a snapshot: the same bytes for the same configuration and records.

        What was at `path` is replaced at once, or not at all; it keeps its mode. A link, a device or anything else that
        is no regular file is refused.

        >>> import tempfile
        >>> index = Index(dim=2)
        >>> index.add([[0, 1], [1, 0]], ids=[5, 3])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     index.save(folder + "/small.index")
        ...     Index.load(folder + "/small.index").digest() == index.digest()
        True
        """
        place = as_path(path)
        with self._changing.unchanged():
            columns = self._records.columns()
        try:
            snapshot.write(place, self._config, columns)
        finally:
            _wipe(columns)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, max_setup: int = MAX_SETUP, vectors: str | os.PathLike[str] = "memory"
    ) -> Index:
        """Read a snapshot. Nothing in the file is trusted: what is not a whole, unharmed snapshot is refused.

        Args:
            path: the file.
            max_setup: how many numbers the configuration may ask for, beside 64 for each byte of the file. A few bytes
                could otherwise ask for tables of gigabytes. The error says how many a file needs.
            vectors: where the index keeps its vectors; see `Index`.

        >>> Index.load("/nowhere.index")
        Traceback (most recent call last):
        lethevec.errors.FormatError: /nowhere.index: expected a snapshot, got a file that cannot be read: ...
        """
        place = as_path(path)
        max_setup = integer("max_setup", max_setup, 0, 1 << 62)
        as_vector_files(vectors)  # before the file is read, whose errors are others
        try:
            config, columns = snapshot.read(place, max_setup)
            try:
                made = cls._of(config, as_vector_files(vectors, config.keep_vectors))
                as_they_are = config.keep_vectors is True  # nothing that could be written otherwise
                made._take(columns if as_they_are else [column.copy() for column in columns])
                if not (as_they_are or made._holds(columns)):
                    raise FormatError(f"{path}: expected what save() writes, got numbers that it would write otherwise")
            finally:
                _wipe(columns)
        except InputError as error:
            raise FormatError(f"{path}: expected the records of an index, got others: {error}") from None
        except MemoryError:
            raise FormatError(f"{path}: expected an index that fits into memory, got one that does not") from None
        return made

    def _holds(self, columns: list[npt.NDArray[Any]]) -> bool:
        """Whether a snapshot of it would have these columns, to the last bit."""
        own = self._records.columns()
        try:
            return all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in zip(own, columns, strict=True))
        finally:
            _wipe(own)

    def _take(self, columns: list[npt.NDArray[Any]]) -> None:
        """Fill an empty index with the columns of another, and wipe them."""
        try:
            if len(columns[0]) == 0:
                return
            form = self._config.form
            if form.small:
                vectors = form.unpack(columns[1], self.dim)
                try:
                    self.add(vectors, ids=columns[0])
                finally:
                    vectors.fill(0)
            elif self._config.keep_vectors:
                self.add(columns[1], ids=columns[0])
            else:
                self._records.take_codes(columns)
        finally:
            _wipe(columns)


def _wipe(columns: list[npt.NDArray[Any]]) -> None:
    for column in columns[1:]:
        column.fill(0)
