"""Data sets with their truth, and recall by distance.

An answer is right when it is as near as the k-th true neighbour, whichever of equally near ones it is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lethevec import datasets

from ..peers.peer import F32, Ids

F64 = npt.NDArray[np.float64]


class Queries(NamedTuple):
    """Queries, and the distance of the k-th true neighbour of each for k = 1, 2, ..."""

    vectors: F32
    nearest: F64  # (queries, at least 10), ascending


@dataclass(frozen=True)
class Data:
    """Vectors, the queries that are timed with their truth, and further queries that settings are chosen on."""

    name: str
    metric: str
    train: F32
    test: F32
    nearest: F64  # as in `Queries`
    tuning: Queries | None = None

    @property
    def dim(self) -> int:
        """Numbers of a vector."""
        return int(self.train.shape[1])

    def for_tuning(self) -> Data:
        """The same vectors with the queries that settings are chosen on."""
        if self.tuning is None:
            return self
        return replace(self, test=self.tuning.vectors, nearest=self.tuning.nearest, tuning=None)


def load(path: Path | None, queries: int = 1000) -> Data:
    """The set in a file, or the bundled words: at most `queries` queries to time, and as many to choose settings on.

    A file with too few queries for both gives half of them to each.
    """
    if path is None:
        vectors = datasets.words().vectors
        vectors = vectors[np.random.default_rng(1).permutation(len(vectors))]
        return with_truth("bundled-words-20k", "cosine", vectors[2 * queries :], *halves(vectors[: 2 * queries]))
    source = datasets.read_benchmark(path)
    timed, others = halves(source.test[: 2 * queries])
    if source.neighbors is None or source.neighbors.shape[1] < 10:
        return with_truth(source.name, source.metric, source.train, timed, others)
    near = source.neighbors[: 2 * queries, :100]

    def truth(part: F32, ids: npt.NDArray[Any]) -> F64:
        return np.sort(distances(source.train, part, ids, source.metric), axis=1)

    tuning = Queries(others, truth(others, near[len(timed) :])) if len(others) else None
    return Data(source.name, source.metric, source.train, timed, truth(timed, near[: len(timed)]), tuning)


def halves(queries: F32) -> tuple[F32, F32]:
    """Those that are timed, and those that settings are chosen on."""
    middle = (len(queries) + 1) // 2
    return queries[:middle], queries[middle:]


def files(names: Sequence[str]) -> list[Path | None]:
    """The files meant: those named, those in a folder, downloads by name, else what LETHEVEC_DATA names.

    None stands for the bundled words, which are used where nothing is named; then that is said.
    """
    given = list(names) or [path for path in [os.environ.get("LETHEVEC_DATA", "")] if path]
    found: list[Path | None] = []
    for name in given:
        path = Path(name).expanduser()
        if path.is_dir():
            found += sorted(path.glob("*.hdf5"))
        else:
            found.append(path if path.exists() else _downloaded(name) or path)
    if not found:
        print(
            "No data set was given (by --data or LETHEVEC_DATA), so this run uses the 20,000 bundled words. They are\n"
            "few: what holds for them need not hold for millions.\n"
        )
    return found or [None]


def _downloaded(name: str) -> Path | None:
    """The file of a set that can be had by name, if it is one; what a name ends in after the dimension may be left out.

    `deep-image-96` is `deep-image-96-angular`; each name belongs to one set that way.
    """
    meant = [known for known in datasets.NAMES if name in (known, known.rpartition("-")[0])]
    return datasets.download(meant[0]) if meant else None


def with_truth(name: str, metric: str, train: F32, test: F32, tuning: F32 | None = None, k: int = 100) -> Data:
    """A data set whose true neighbours are found by brute force."""
    others = Queries(tuning, nearest_of(metric, train, tuning, k)) if tuning is not None and len(tuning) else None
    return Data(name, metric, train, test, nearest_of(metric, train, test, k), others)


def nearest_of(metric: str, train: F32, test: F32, k: int = 100) -> F64:
    """The true distances of each query to its k nearest."""
    return np.sort(distances(train, test, nearest_rows(metric, train, test, k), metric), axis=1)


def nearest_rows(metric: str, train: F32, test: F32, k: int) -> npt.NDArray[np.int64]:
    """The rows of the k nearest of each query: candidates in float32 with a margin, then by distances in float64."""
    base = train / np.linalg.norm(train, axis=1, keepdims=True) if metric == "cosine" else train
    bias = np.einsum("ij,ij->i", base, base) / 2 if metric == "l2" else np.float32(0)
    wide = min(2 * k, len(train))
    near = np.stack([np.argpartition(bias - base @ query, wide - 1)[:wide] for query in test])
    order = np.argsort(distances(train, test, near, metric), axis=1, kind="stable")[:, :k]
    return np.take_along_axis(near, order, axis=1)


def distances(train: F32, test: F32, ids: npt.NDArray[Any], metric: str) -> F64:
    """The true distance of each query to each of its ids, in float64; infinity where the id is -1 (nothing found)."""
    out = np.empty(ids.shape)
    for row, (query, found) in enumerate(zip(test.astype(np.float64), ids, strict=True)):
        vectors = train[found].astype(np.float64)
        if metric == "l2":
            out[row] = np.sqrt(((vectors - query) ** 2).sum(axis=1))
        elif metric == "ip":
            out[row] = -(vectors @ query)
        else:
            out[row] = 1 - vectors @ query / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(query))
    out[ids < 0] = np.inf
    return out


def right(data: Data, ids: npt.NDArray[Any], k: int) -> npt.NDArray[np.bool_]:
    """Which answers are as near as the k-th true neighbour.

    The margin covers rounding alone (the truth of float32 files), so that equal distances count and others do not.
    """
    found = distances(data.train, data.test[: len(ids)], ids, data.metric)
    limit = data.nearest[: len(ids), k - 1 : k]
    return np.asarray(found <= limit + 1e-6 * np.abs(limit) + 1e-9)


def recall(data: Data, ids: Ids, k: int = 10) -> float:
    """The share of the first k answers that are right. A repeated id counts once."""
    ids = np.asarray(ids)[:, :k]
    repeated = np.array([[i in row[:j] for j, i in enumerate(row)] for row in ids.tolist()], dtype=bool)
    return float((right(data, ids, k) & ~repeated).sum() / (len(ids) * k))
