"""The competitors behind one interface: build, set the knob, search one, search many.

Each is used as its own documentation advises for one thread, in memory, with the same vectors. Cosine is served by unit
vectors (the queries too), which favours nobody and spares the peers the division. A peer that is not installed is
skipped, by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .harness import F32, Ids, pad
from .peer import Peer


def _rising(first: float, last: float, factor: float) -> list[int]:
    """Whole numbers from `first` to `last`, each about `factor` times the one before."""
    values: list[int] = []
    value = float(first)
    while value <= last:
        if not values or round(value) > values[-1]:
            values.append(round(value))
        value = max(value * factor, value + 1)
    return values


def _cells(vectors: F32) -> int:
    """1024 parts, or fewer where there are not 39 points for each, as k-means wants."""
    return min(1024, max(1, len(vectors) // 39))


# Faiss ---------------------------------------------------------------------------------------------------------------


def faiss_module() -> Any:
    """Faiss, on one thread."""
    faiss = importlib.import_module("faiss")
    faiss.omp_set_num_threads(1)
    return faiss


class Faiss(Peer):
    """What the Faiss peers share: an index object with `search`."""

    module = "faiss"
    index: Any

    def _metric(self, metric: str) -> int:
        faiss = faiss_module()
        return int(faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT)

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.search(query[None, :], k)[1][0])

    def search_batch(self, queries: F32, k: int) -> Ids:
        return np.asarray(self.index.search(queries, k)[1])


class FaissFlat(Faiss):
    """Exact search, for scale."""

    name = "Faiss Flat (exact)"

    def _build(self, vectors: F32, metric: str) -> None:
        self.index = faiss_module().index_factory(vectors.shape[1], "Flat", self._metric(metric))
        self.index.add(vectors)


class FaissLSH(Faiss):
    """IndexLSH as it is: 800 bits, Hamming ranking, no rerank."""

    def __init__(self, bits: int = 800) -> None:
        self.bits = bits
        self.name = f"Faiss IndexLSH ({bits} bits)"

    def _build(self, vectors: F32, metric: str) -> None:
        self.index = faiss_module().IndexLSH(vectors.shape[1], self.bits)
        self.index.train(vectors)
        self.index.add(vectors)


class FaissRaBitQ(Faiss):
    """RaBitQ FastScan over everything, then true distances for k_factor * k of them."""

    name = "Faiss RaBitQfs + refine"
    knobs = ("k_factor",)
    grids = ([(value / 10,) for value in _rising(10, 4000, 1.1)],)

    def _build(self, vectors: F32, metric: str) -> None:
        faiss = faiss_module()
        # Held on this object: an IndexRefineFlat does not own what it wraps.
        self.codes = faiss.index_factory(vectors.shape[1], "RaBitQfs", self._metric(metric))
        self.index = faiss.IndexRefineFlat(self.codes)
        self.index.train(vectors)
        self.index.add(vectors)

    def _set(self, *setting: float) -> None:
        self.index.k_factor = setting[0]


class FaissIVFPQ(Faiss):
    """IVF1024 with 4-bit PQ FastScan of two dimensions a code, then true distances."""

    name = "Faiss IVF1024,PQ4fs + refine"
    knobs = ("nprobe", "k_factor")
    grids = tuple([(float(p), float(f)) for p in _rising(1, 512, 1.12)] for f in (2, 4, 8, 16, 32))

    def _build(self, vectors: F32, metric: str) -> None:
        faiss = faiss_module()
        dim = vectors.shape[1]
        self.ivf = faiss.index_factory(dim, f"IVF{_cells(vectors)},PQ{dim // 2}x4fs", self._metric(metric))
        self.index = faiss.IndexRefineFlat(self.ivf)
        self.index.train(vectors)
        self.index.add(vectors)

    def _set(self, *setting: float) -> None:
        self.ivf.nprobe = int(setting[0])
        self.index.k_factor = setting[1]


class FaissBinary(Faiss):
    """IndexBinaryFlat over codes that somebody else made; queries are codes too."""

    name = "Faiss IndexBinaryFlat"

    def _build(self, vectors: F32, metric: str) -> None:
        raise NotImplementedError("build_codes takes codes")

    def build_codes(self, codes: Any) -> None:
        self.index = faiss_module().IndexBinaryFlat(codes.shape[1] * 8)
        self.index.add(codes)


# Others --------------------------------------------------------------------------------------------------------------


class Turbovec(Peer):
    """turbovec with 4 bits, calibrated as its documentation advises, then true distances for `fetch` of them.

    It ranks by inner product. For l2, one more coordinate carries the norm: <(q, -r), (x, (|x|^2 - c) / 2r)> falls as
    |q - x| grows, for any c and r; c is the mean of |x|^2 and r its root, which keep that coordinate small.
    """

    name = "turbovec (4 bits) + rerank"
    module = "turbovec"
    knobs = ("fetch",)
    grids = ([(float(value),) for value in _rising(10, 4000, 1.12)],)

    def _build(self, vectors: F32, metric: str) -> None:
        turbovec = importlib.import_module("turbovec")
        self.padding = 0
        base = vectors
        if metric == "l2":
            squares = np.einsum("ij,ij->i", vectors, vectors)
            self.root = float(np.sqrt(squares.mean()))
            norm = (squares - squares.mean()) / (2 * self.root)
            base = np.concatenate([vectors, norm[:, None]], axis=1)
        self.padding = -base.shape[1] % 8  # it wants a multiple of 8
        base = np.ascontiguousarray(np.pad(base, ((0, 0), (0, self.padding))), dtype=np.float32)
        self.index = turbovec.TurboQuantIndex(dim=base.shape[1], bit_width=4)
        self.index.calibrate(base[np.random.default_rng(1).permutation(len(base))[:1024]])
        self.index.add(base)
        self.index.prepare()
        self.halves = np.einsum("ij,ij->i", vectors, vectors) / 2

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
    grids = ([(float(value),) for value in _rising(10, 4000, 1.1)],)

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
    grids = ([(float(value),) for value in _rising(10, 4000, 1.1)],)

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


class Scann(Peer):
    """ScaNN: 1024 leaves, asymmetric hashing of two dimensions a block, reordering by true distances."""

    name = "ScaNN"
    module = "scann"
    knobs = ("leaves", "reorder")
    grids = tuple([(float(p), float(r)) for p in _rising(1, 512, 1.12)] for r in (30, 60, 100, 200, 400))

    def _build(self, vectors: F32, metric: str) -> None:
        scann = importlib.import_module("scann")
        kind = "squared_l2" if metric == "l2" else "dot_product"
        builder = scann.scann_ops_pybind.builder(vectors, 10, kind).set_n_training_threads(0)
        tree = builder.tree(
            num_leaves=_cells(vectors), num_leaves_to_search=100, training_sample_size=min(len(vectors), 250_000)
        )
        hashed = tree.score_ah(2, anisotropic_quantization_threshold=0.2) if kind != "squared_l2" else tree.score_ah(2)
        self.index = hashed.reorder(100).build()

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
    knobs = ("search_k",)
    grids = ([(float(value),) for value in _rising(100, 400_000, 1.2)],)

    def _build(self, vectors: F32, metric: str) -> None:
        annoy = importlib.import_module("annoy")
        self.index = annoy.AnnoyIndex(vectors.shape[1], {"l2": "euclidean", "ip": "dot"}.get(metric, "angular"))
        self.index.set_seed(1)
        for row, vector in enumerate(vectors):
            self.index.add_item(row, vector)
        self.index.build(100, n_jobs=-1)

    def _set(self, *setting: float) -> None:
        self.search_k = int(setting[0])

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.get_nns_by_vector(query, k, search_k=self.search_k))


ALL: dict[str, Callable[[], Peer]] = {
    "flat": FaissFlat,
    "lsh": FaissLSH,
    "rabitq": FaissRaBitQ,
    "ivfpq": FaissIVFPQ,
    "turbovec": Turbovec,
    "hnswlib": Hnswlib,
    "usearch": Usearch,
    "scann": Scann,
    "annoy": Annoy,
}


def make(names: Iterable[str]) -> list[Peer]:
    """The peers of these names that are installed; the others are named and skipped."""
    made = []
    for name in names:
        peer = ALL[name]()
        if peer.available():
            made.append(peer)
        else:
            print(f"{peer.name} is skipped: the package {peer.module!r} is not installed")
    return made
