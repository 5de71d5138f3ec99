"""`Index`: nearest-neighbour search in memory that forgets exactly.

Everything that can be seen of an index (answers, digest, snapshot, memory) is a function of its configuration and of
the records it holds now, whatever adds, updates and forgets led there. Many threads may search one index while one at
a time changes it.

What it can do is in `base` (what it is, records back), `changing` and `searching`; here it is made, saved and loaded.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._native import resolve_threads
from ..errors import FormatError, InputError
from . import snapshot
from .changing import ChangingIndex
from .config import make_config
from .searching import SearchingIndex


class Index(ChangingIndex, SearchingIndex):
    """An index over vectors of `dim` numbers.

    Args:
        dim: dimension, 1 to 65,536.
        metric: "cosine" (distance 1 - cos), "l2" (Euclidean distance) or "ip" (minus the inner product).
        family: hash family of the codes; see `lethevec.hasher`.
        bits: bits of a code; by default two planes of dim bits, four with source="tables", or eight when vectors are
            not kept.
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
        probes: cells, or buckets of average size, that a query looks into at effort 1.0; twice as many at 2.0.
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
