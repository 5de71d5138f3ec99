"""The competitors that are not Faiss: turbovec, hnswlib, usearch, voyager, ScaNN, Annoy. See `peers` for the rules."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from .harness import F32, Ids, pad
from .peer import Peer, Setting, cells, rising


class Turbovec(Peer):
    """turbovec with 4 bits, calibrated as its documentation advises, then true distances for `fetch` of them.

    It ranks by inner product. For l2, one more coordinate carries the norm: <(q, -r), (x, (|x|^2 - c) / 2r)> falls as
    |q - x| grows, for any c and r; c is the mean of |x|^2 and r its root, which keep that coordinate small.
    """

    name = "turbovec (4 bits) + rerank"
    reranks = True
    module = "turbovec"
    knobs: tuple[str, ...] = ("fetch",)
    grids: Sequence[Sequence[Setting]] = ([(float(value),) for value in rising(10, 4000, 1.12)],)

    def _build(self, vectors: F32, metric: str) -> None:
        base = self._widened(vectors, metric)
        self.index = importlib.import_module("turbovec").TurboQuantIndex(dim=base.shape[1], bit_width=4)
        self.index.calibrate(base[np.random.default_rng(1).permutation(len(base))[:1024]])
        self.index.add(base)
        self.index.prepare()
        self.halves = np.einsum("ij,ij->i", vectors, vectors) / 2

    def _widened(self, vectors: F32, metric: str) -> F32:
        """Settle what the further coordinates are, and give the vectors with them."""
        if metric == "l2":
            self.mean = float(np.einsum("ij,ij->i", vectors, vectors).mean())
            self.root = float(np.sqrt(self.mean))
        self.padding = -(vectors.shape[1] + (metric == "l2")) % 8  # it wants a multiple of 8
        return self._padded(vectors)

    def _padded(self, vectors: F32) -> F32:
        if self.metric == "l2":
            squares = np.einsum("ij,ij->i", vectors, vectors)
            vectors = np.concatenate([vectors, ((squares - self.mean) / (2 * self.root))[:, None]], axis=1)
        return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, self.padding))), dtype=np.float32)

    def _set(self, *setting: float) -> None:
        self.fetch = int(setting[0])

    def search_one(self, query: F32, k: int) -> Ids:
        found = self._candidates(query[None, :])[0]
        return self._rerank(query, found, k)

    def search_batch(self, queries: F32, k: int) -> Ids:
        found = self._candidates(queries)
        return pad([self._rerank(query, row, k) for query, row in zip(queries, found, strict=True)], k)

    def _candidates(self, queries: F32) -> Any:
        if self.metric == "l2" or self.padding:
            whole = np.zeros((len(queries), self.index.dim), dtype=np.float32)
            whole[:, : queries.shape[1]] = queries
            if self.metric == "l2":
                whole[:, queries.shape[1]] = -self.root
            queries = whole
        return self.index.search(queries, self.fetch)[1]

    def _rerank(self, query: F32, found: Any, k: int) -> Ids:
        found = found.astype(np.int64)
        scores = self.vectors[found] @ query
        if self.metric == "l2":
            scores -= self.halves[found]
        if len(found) > k:
            best = np.argpartition(-scores, k - 1)[:k]
            found, scores = found[best], scores[best]
        return np.asarray(found[np.argsort(-scores)])


class Hnswlib(Peer):
    """hnswlib with M = 16 and ef_construction = 200."""

    name = "hnswlib"
    module = "hnswlib"
    knobs = ("ef",)
    grids = ([(float(value),) for value in rising(10, 4000, 1.1)],)

    def _build(self, vectors: F32, metric: str) -> None:
        hnswlib = importlib.import_module("hnswlib")
        # Unit vectors: the inner product ranks as cosine does, without the division at every query.
        self.index = hnswlib.Index(space="l2" if metric == "l2" else "ip", dim=vectors.shape[1])
        self.index.init_index(max_elements=len(vectors), M=16, ef_construction=200, random_seed=1)
        self.index.add_items(vectors, num_threads=-1)
        self.index.set_num_threads(1)

    def _set(self, *setting: float) -> None:
        self.index.set_ef(int(setting[0]))

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.knn_query(query, k=k)[0][0])

    def search_batch(self, queries: F32, k: int) -> Ids:
        return np.asarray(self.index.knn_query(queries, k=k)[0]).astype(np.int64)


class Usearch(Peer):
    """usearch with float32 and the same graph parameters as hnswlib."""

    name = "usearch"
    module = "usearch"
    knobs = ("expansion",)
    grids = ([(float(value),) for value in rising(10, 4000, 1.1)],)

    def _build(self, vectors: F32, metric: str) -> None:
        usearch = importlib.import_module("usearch.index")
        self.index = usearch.Index(
            ndim=vectors.shape[1],
            metric="l2sq" if metric == "l2" else "ip",
            dtype="f32",
            connectivity=16,
            expansion_add=200,
        )
        self.index.add(np.arange(len(vectors)), vectors)

    def _set(self, *setting: float) -> None:
        self.index.expansion_search = int(setting[0])

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.search(query, k, threads=1).keys)

    def search_batch(self, queries: F32, k: int) -> Ids:
        return np.asarray(self.index.search(queries, k, threads=1).keys).astype(np.int64)


class Voyager(Peer):
    """voyager with float32 and the same graph parameters as hnswlib."""

    name = "voyager"
    module = "voyager"
    knobs = ("query_ef",)
    grids = ([(float(value),) for value in rising(10, 4000, 1.1)],)
    m, ef_construction = 16, 200

    def _build(self, vectors: F32, metric: str) -> None:
        voyager = importlib.import_module("voyager")
        space = voyager.Space.Euclidean if metric == "l2" else voyager.Space.InnerProduct
        made = {"num_dimensions": vectors.shape[1], "M": self.m, "ef_construction": self.ef_construction}
        self.index = voyager.Index(space, **made, max_elements=len(vectors), random_seed=1)
        self.index.add_items(vectors, num_threads=-1)

    def _set(self, *setting: float) -> None:
        self.ef = int(setting[0])

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.query(query, k=k, num_threads=1, query_ef=max(k, self.ef))[0]).astype(np.int64)

    def search_batch(self, queries: F32, k: int) -> Ids:
        return np.asarray(self.index.query(queries, k=k, num_threads=1, query_ef=max(k, self.ef))[0]).astype(np.int64)


class Scann(Peer):
    """ScaNN: 1024 leaves, asymmetric hashing of two dimensions a block, reordering by true distances."""

    name = "ScaNN"
    module = "scann"
    training_threads = 0  # all
    leaves_built = 0  # 0: as many as there are points for
    knobs = ("leaves", "reorder")
    grids = tuple([(float(p), float(r)) for p in rising(1, 512, 1.12)] for r in (30, 60, 100, 200, 400))

    def _build(self, vectors: F32, metric: str) -> None:
        self.index = self._builder(vectors, metric).build()

    def _builder(self, vectors: F32, metric: str) -> Any:
        scann = importlib.import_module("scann")
        kind = "squared_l2" if metric == "l2" else "dot_product"
        builder = scann.scann_ops_pybind.builder(vectors, 10, kind).set_n_training_threads(self.training_threads)
        leaves = self.leaves_built or cells(vectors)
        tree = builder.tree(
            num_leaves=leaves, num_leaves_to_search=100, training_sample_size=min(len(vectors), 250_000)
        )
        hashed = tree.score_ah(2, anisotropic_quantization_threshold=0.2) if kind != "squared_l2" else tree.score_ah(2)
        return hashed.reorder(100)

    def _set(self, *setting: float) -> None:
        self.leaves, self.reorder = int(setting[0]), int(setting[1])

    def search_one(self, query: F32, k: int) -> Ids:
        found, _ = self.index.search(
            query, final_num_neighbors=k, pre_reorder_num_neighbors=self.reorder, leaves_to_search=self.leaves
        )
        return np.asarray(found)

    def search_batch(self, queries: F32, k: int) -> Ids:
        found, _ = self.index.search_batched(
            queries, final_num_neighbors=k, pre_reorder_num_neighbors=self.reorder, leaves_to_search=self.leaves
        )
        return pad(list(found), k)


class Annoy(Peer):
    """Annoy with 100 trees."""

    name = "Annoy"
    module = "annoy"
    jobs = -1  # all cores
    knobs = ("search_k",)
    grids = ([(float(value),) for value in rising(100, 400_000, 1.2)],)

    def _build(self, vectors: F32, metric: str) -> None:
        annoy = importlib.import_module("annoy")
        self.index = annoy.AnnoyIndex(vectors.shape[1], {"l2": "euclidean", "ip": "dot"}.get(metric, "angular"))
        self.index.set_seed(1)
        for row, vector in enumerate(vectors):
            self.index.add_item(row, vector)
        self.index.build(100, n_jobs=self.jobs)

    def _set(self, *setting: float) -> None:
        self.search_k = int(setting[0])

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.get_nns_by_vector(query, k, search_k=self.search_k))
