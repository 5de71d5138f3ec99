"""The competitors behind one interface: build, set the knob, search one, search many.

Each is used as its own documentation advises for one thread, in memory, with the same vectors. Cosine is served by unit
vectors (the queries too), which favours nobody and spares the peers the division. A peer that is not installed is
skipped, by name.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .harness import F32, Ids
from .others import Annoy, Hnswlib, Scann, Turbovec, Usearch, Voyager
from .peer import Peer, cells, rising

# Faiss ---------------------------------------------------------------------------------------------------------------


def faiss_module() -> Any:
    """Faiss, on one thread."""
    faiss = importlib.import_module("faiss")
    faiss.omp_set_num_threads(1)
    return faiss


@contextmanager
def all_cores(faiss: Any) -> Iterator[None]:
    """Building may use them; searching may not."""
    faiss.omp_set_num_threads(os.cpu_count() or 1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(1)


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
    grids = ([(value / 10,) for value in rising(10, 4000, 1.1)],)

    def _build(self, vectors: F32, metric: str) -> None:
        faiss = faiss_module()
        # Held on this object: an IndexRefineFlat does not own what it wraps.
        self.codes = faiss.index_factory(vectors.shape[1], "RaBitQfs", self._metric(metric))
        self.index = faiss.IndexRefineFlat(self.codes)
        with all_cores(faiss):
            self.index.train(vectors)
            self.index.add(vectors)

    def _set(self, *setting: float) -> None:
        self.index.k_factor = setting[0]


class FaissIVFPQ(Faiss):
    """IVF1024 with 4-bit PQ FastScan of two dimensions a code, then true distances."""

    name = "Faiss IVF1024,PQ4fs + refine"
    knobs = ("nprobe", "k_factor")
    grids = tuple([(float(p), float(f)) for p in rising(1, 512, 1.12)] for f in (2, 4, 8, 16, 32))

    def _build(self, vectors: F32, metric: str) -> None:
        faiss = faiss_module()
        dim = vectors.shape[1]
        self.ivf = faiss.index_factory(dim, f"IVF{cells(vectors)},PQ{dim // 2}x4fs", self._metric(metric))
        self.index = faiss.IndexRefineFlat(self.ivf)
        with all_cores(faiss):
            self.index.train(vectors)
            self.index.add(vectors)

    def _set(self, *setting: float) -> None:
        self.ivf.nprobe = int(setting[0])
        self.index.k_factor = setting[1]


class FaissHNSW(Faiss):
    """Faiss's graph, with 16 links and efConstruction = 200, over the vectors themselves."""

    name = "Faiss HNSW"
    knobs = ("efSearch",)
    grids = ([(float(value),) for value in rising(10, 4000, 1.1)],)

    def _build(self, vectors: F32, metric: str) -> None:
        faiss = faiss_module()
        self.index = faiss.IndexHNSWFlat(vectors.shape[1], 16, self._metric(metric))
        self.index.hnsw.efConstruction = 200
        with all_cores(faiss):
            self.index.add(vectors)

    def _set(self, *setting: float) -> None:
        self.index.hnsw.efSearch = int(setting[0])


class FaissBinary(Faiss):
    """IndexBinaryFlat over codes that somebody else made; queries are codes too."""

    name = "Faiss IndexBinaryFlat"

    def _build(self, vectors: F32, metric: str) -> None:
        raise NotImplementedError("build_codes takes codes")

    def build_codes(self, codes: Any) -> None:
        self.index = faiss_module().IndexBinaryFlat(codes.shape[1] * 8)
        self.index.add(codes)


ALL: dict[str, Callable[[], Peer]] = {
    "flat": FaissFlat,
    "lsh": FaissLSH,
    "rabitq": FaissRaBitQ,
    "ivfpq": FaissIVFPQ,
    "turbovec": Turbovec,
    "hnsw": FaissHNSW,
    "hnswlib": Hnswlib,
    "voyager": Voyager,
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
