"""turbovec: quantised vectors. `remove` moves the last code into the gap."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .peer import F32, Ids, Peer, Setting, grid, pad


class Turbovec(Peer):
    """4 bits, calibrated as its documentation advises, then true distances for `fetch` of them.

    Where it has to delete, it has ids of its own and ranks by its codes alone.

    It ranks by inner product. For l2, one more coordinate carries the norm: <(q, -r), (x, (|x|^2 - c) / 2r)> falls as
    |q - x| grows, for any c and r; c is the mean of |x|^2 and r its root, which keep that coordinate small.
    """

    name = "turbovec (4 bits) + rerank"
    module = "turbovec"

    def __init__(self, deletes: bool = False) -> None:
        self.deletes = deletes
        self.reranks = not deletes
        self.knobs = () if deletes else ("fetch",)
        self.grids: Sequence[Sequence[Setting]] = () if deletes else (grid(10, 4000, 1.12),)

    def start(self, sample: F32, metric: str) -> None:
        if metric == "l2":
            self.mean = float(np.einsum("ij,ij->i", sample, sample).mean())
            self.root = float(np.sqrt(self.mean))
        self.metric = metric
        self.padding = -(sample.shape[1] + (metric == "l2")) % 8  # it wants a multiple of 8
        base = self._padded(sample)
        turbovec = importlib.import_module("turbovec")
        kind = turbovec.IdMapIndex if self.deletes else turbovec.TurboQuantIndex
        self.index = kind(dim=base.shape[1], bit_width=4)
        self.index.calibrate(base[np.random.default_rng(1).permutation(len(base))[:1024]])

    def fill(self, vectors: F32, metric: str) -> None:
        super().fill(vectors, metric)
        self.index.prepare()
        self.halves = np.einsum("ij,ij->i", vectors, vectors) / 2

    def _padded(self, vectors: F32) -> F32:
        if self.metric == "l2":
            squares = np.einsum("ij,ij->i", vectors, vectors)
            vectors = np.concatenate([vectors, ((squares - self.mean) / (2 * self.root))[:, None]], axis=1)
        return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, self.padding))), dtype=np.float32)

    def insert(self, vectors: F32, ids: Ids) -> None:
        if self.deletes:
            self.index.add_with_ids(self._padded(vectors), ids.astype(np.uint64))
        else:
            self.index.add(self._padded(vectors))

    def delete(self, ids: Ids) -> None:
        for id in ids.tolist():
            self.index.remove(id)

    def save(self, folder: Path) -> Path:
        self.index.write(str(folder / "index.tvim"))
        return folder

    def _set(self, *setting: float) -> None:
        self.fetch = int(setting[0])

    def search_one(self, query: F32, k: int) -> Ids:
        return self.search_batch(query[None, :], k)[0]

    def search_batch(self, queries: F32, k: int) -> Ids:
        if self.deletes:
            return np.asarray(self._candidates(queries, k)).astype(np.int64)
        found = self._candidates(queries, self.fetch)
        return pad([self._rerank(query, row, k) for query, row in zip(queries, found, strict=True)], k)

    def _candidates(self, queries: F32, count: int) -> Any:
        if self.metric == "l2" or self.padding:
            whole = np.zeros((len(queries), self.index.dim), dtype=np.float32)
            whole[:, : queries.shape[1]] = queries
            if self.metric == "l2":
                whole[:, queries.shape[1]] = -self.root
            queries = whole
        return self.index.search(queries, count)[1]

    def _rerank(self, query: F32, found: Any, k: int) -> Ids:
        found = found.astype(np.int64)
        scores = self.vectors[found] @ query
        if self.metric == "l2":
            scores -= self.halves[found]
        if len(found) > k:
            best = np.argpartition(-scores, k - 1)[:k]
            found, scores = found[best], scores[best]
        return np.asarray(found[np.argsort(-scores)])
