"""Faiss: exact search, LSH, RaBitQ, IVFPQ, HNSW, and its indexes of binary codes."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import lethevec

from .peer import BLOCK, F32, Ids, Peer, cells, grid, rising


def faiss_module() -> Any:
    """Faiss, on one thread."""
    faiss = importlib.import_module("faiss")
    faiss.omp_set_num_threads(1)
    return faiss


@contextmanager
def all_cores(faiss: Any, threads: int | None = None) -> Iterator[None]:
    """Building may use all cores, or so many threads; searching one query may not."""
    faiss.omp_set_num_threads(threads or os.cpu_count() or 1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(1)


class Faiss(Peer):
    """What the Faiss peers share: an index object with `search`; with ids where it can delete."""

    module = "faiss"
    package = "faiss-cpu"
    shares = True
    index: Any

    def metric_of(self, metric: str) -> int:
        """Faiss's number for a metric."""
        faiss = faiss_module()
        return int(faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT)

    def train_and_add(self, vectors: F32) -> None:
        """On all cores."""
        with all_cores(faiss_module()):
            self.index.train(vectors)
            self.index.add(vectors)

    def insert(self, vectors: F32, ids: Ids) -> None:
        self.index.add_with_ids(np.ascontiguousarray(vectors), ids.astype(np.int64))

    def delete(self, ids: Ids) -> None:
        faiss = faiss_module()
        ids = np.ascontiguousarray(ids, dtype=np.int64)
        self.index.remove_ids(faiss.IDSelectorBatch(ids) if len(ids) > 1 else ids)

    def save(self, folder: Path) -> Path:
        faiss_module().write_index(self.index, str(folder / "index"))
        return folder

    def erasing(self, ids: Ids, folder: Path) -> Iterator[tuple[str, Path]]:
        self.delete(ids)
        yield f"{self.name}: remove_ids, write_index", self.save(folder)

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.search(query[None, :], k)[1][0])

    def search_batch(self, queries: F32, k: int) -> Ids:
        if self.threads == 1:
            return np.asarray(self.index.search(queries, k)[1])
        with all_cores(faiss_module(), self.threads):
            return np.asarray(self.index.search(queries, k)[1])


class FaissFlat(Faiss):
    """Exact search, for scale. With ids of its own where it has to delete."""

    name = "Faiss Flat (exact)"

    def __init__(self, deletes: bool = False) -> None:
        self.deletes = deletes

    def fill(self, vectors: F32, metric: str) -> None:
        if self.deletes:
            super().fill(vectors, metric)
            return
        self.index = faiss_module().index_factory(vectors.shape[1], "Flat", self.metric_of(metric))
        self.index.add(vectors)

    def start(self, sample: F32, metric: str) -> None:
        faiss = faiss_module()
        # Held on this object: the map of ids does not own what it wraps.
        self.flat = faiss.index_factory(sample.shape[1], "Flat", self.metric_of(metric))
        self.index = faiss.IndexIDMap2(self.flat)


class FaissLSH(Faiss):
    """IndexLSH: Hamming ranking, no rerank; 800 bits, or so many times the dimension. With ids where it deletes."""

    def __init__(self, bits: int = 800, expansion: int | None = None, deletes: bool = False) -> None:
        self.bits, self.expansion, self.deletes = bits, expansion, deletes
        self.name = f"Faiss IndexLSH ({bits} bits)" if expansion is None else f"Faiss IndexLSH ({expansion} x dim bits)"

    def start(self, sample: F32, metric: str) -> None:
        faiss = faiss_module()
        dim = sample.shape[1]
        self.codes = faiss.IndexLSH(dim, self.expansion * dim if self.expansion else self.bits)
        self.codes.train(sample)
        self.index = faiss.IndexIDMap2(self.codes) if self.deletes else self.codes

    def insert(self, vectors: F32, ids: Ids) -> None:
        # A block at a time: the numbers that become bits take 32 times the memory of the bits.
        for begin in range(0, len(vectors), BLOCK):
            some = slice(begin, begin + BLOCK)
            if self.deletes:
                super().insert(vectors[some], ids[some])
            else:
                self.index.add(vectors[some])


class FaissRaBitQ(Faiss):
    """RaBitQ FastScan over everything, then true distances for k_factor * k of them."""

    name = "Faiss RaBitQfs + refine"
    knobs = ("k_factor",)
    grids = ([(value / 10,) for value in rising(10, 4000, 1.1)],)

    def fill(self, vectors: F32, metric: str) -> None:
        faiss = faiss_module()
        # Held on this object: an IndexRefineFlat does not own what it wraps.
        self.codes = faiss.index_factory(vectors.shape[1], "RaBitQfs", self.metric_of(metric))
        self.index = faiss.IndexRefineFlat(self.codes)
        self.train_and_add(vectors)

    def _set(self, *setting: float) -> None:
        self.index.k_factor = setting[0]


class FaissIVFPQ(Faiss):
    """IVF with 4-bit PQ FastScan of two dimensions a code, then true distances (`refined`).

    Without refinement it can delete (the refining part cannot), has 512 cells at most, the least that ann-benchmarks
    trains, and trains on one thread. Its centroids stay trained on what was deleted. (In Faiss 1.15, points that are
    added to these lists after a removal are hardly ever found.)
    """

    def __init__(self, refined: bool = True) -> None:
        self.refined = refined
        self.name = "Faiss IVF1024,PQ4fs + refine" if refined else "Faiss IVFPQ fast-scan"
        self.knobs = ("nprobe", "k_factor") if refined else ("nprobe",)
        probes = rising(1, 512, 1.12)
        self.grids = (
            tuple([(float(p), float(f)) for p in probes] for f in (2, 4, 8, 16, 32))
            if refined
            else ([(float(p),) for p in probes],)
        )

    def start(self, sample: F32, metric: str) -> None:
        dim = sample.shape[1]
        count = cells(sample, 1024 if self.refined else 512)
        self.ivf = faiss_module().index_factory(dim, f"IVF{count},PQ{dim // 2}x4fs", self.metric_of(metric))
        self.index = self.ivf
        if not self.refined:
            self.ivf.train(sample)

    def fill(self, vectors: F32, metric: str) -> None:
        if not self.refined:
            super().fill(vectors, metric)
            return
        self.start(vectors, metric)
        self.index = faiss_module().IndexRefineFlat(self.ivf)
        self.train_and_add(vectors)

    def _set(self, *setting: float) -> None:
        self.ivf.nprobe = int(setting[0])
        if self.refined:
            self.index.k_factor = setting[1]


class FaissIVFFlat(Faiss):
    """The vectors themselves in 16 cells: for looking at what deletion leaves."""

    name = "Faiss IVF16,Flat"

    def start(self, sample: F32, metric: str) -> None:
        self.index = faiss_module().index_factory(sample.shape[1], "IVF16,Flat", self.metric_of(metric))
        self.index.train(sample)


class FaissHNSW(Faiss):
    """Faiss's graph over the vectors themselves, with 16 links and efConstruction = 200."""

    name = "Faiss HNSW"
    knobs = ("efSearch",)
    grids = (grid(10, 4000, 1.1),)

    def fill(self, vectors: F32, metric: str) -> None:
        faiss = faiss_module()
        self.index = faiss.IndexHNSWFlat(vectors.shape[1], 16, self.metric_of(metric))
        self.index.hnsw.efConstruction = 200
        self.train_and_add(vectors)

    def _set(self, *setting: float) -> None:
        self.index.hnsw.efSearch = int(setting[0])


# Binary codes --------------------------------------------------------------------------------------------------------


class FaissBinaryFlat(Faiss):
    """IndexBinaryFlat over our USR codes. Queries are codes too, made before the clock starts."""

    name = "Faiss IndexBinaryFlat"

    def __init__(self, bits: int, mean_norm: float | None = None) -> None:
        self.bits, self.mean_norm = bits, mean_norm

    def fill(self, vectors: F32, metric: str) -> None:
        fixed: dict[str, Any] = {} if self.mean_norm is None else {"mean_norm": self.mean_norm}
        self.hasher = lethevec.hasher("usr", dim=vectors.shape[1], bits=self.bits, **fixed)
        self.build_codes(self.hasher.codes(vectors))

    def build_codes(self, codes: Any) -> None:
        """Build from codes that exist already."""
        self.index = self.made(8 * codes.shape[1])
        self.index.add(codes)

    def made(self, bits: int) -> Any:
        """The empty index."""
        return faiss_module().IndexBinaryFlat(bits)

    def ready(self, queries: F32) -> Any:
        return self.hasher.codes(queries)


class FaissBinaryHash(FaissBinaryFlat):
    """IndexBinaryHash: one hash table over the first bits; its knob is how many of them are flipped."""

    name = "Faiss IndexBinaryHash"
    knobs = ("nflip",)
    grids = ([(float(flips),) for flips in range(6)],)

    def __init__(self, bits: int, key_bits: int = 16, mean_norm: float | None = None) -> None:
        super().__init__(bits, mean_norm)
        self.key_bits = key_bits

    def made(self, bits: int) -> Any:
        return faiss_module().IndexBinaryHash(bits, self.key_bits)

    def _set(self, *setting: float) -> None:
        self.index.nflip = int(setting[0])


class FaissBinaryMultiHash(FaissBinaryHash):
    """IndexBinaryMultiHash: up to 16 hash tables, each over other bits."""

    name = "Faiss IndexBinaryMultiHash"
    grids = ([(float(flips),) for flips in range(4)],)

    def made(self, bits: int) -> Any:
        return faiss_module().IndexBinaryMultiHash(bits, max(1, min(16, bits // self.key_bits)), self.key_bits)
