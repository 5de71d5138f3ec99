"""Competitors that can change: each adds, deletes by its own documented call, and saves.

Ids are row numbers of the data set for all of them. `delete` takes many; whether the library has a call for many, or is
asked for one after another, is the library's. What has no delete is built anew without the point (`retrained`).
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lethevec

from .harness import F32, Ids
from .others import Annoy, Hnswlib, Scann, Turbovec, Usearch, Voyager
from .ours import source_options
from .peer import Peer, cells, rising
from .peers import Faiss, faiss_module


class Changing(Peer):
    """A competitor with `start`, `insert`, `delete` and `save`; to build is to start and to insert all."""

    folder: Path  # where one that lives on disk may write

    def _build(self, vectors: F32, metric: str) -> None:
        self.start(vectors, metric)
        self.insert(vectors, np.arange(len(vectors)))

    @abstractmethod
    def start(self, sample: F32, metric: str) -> None:
        """An empty index; what has to be trained is trained on the sample."""

    @abstractmethod
    def insert(self, vectors: F32, ids: Ids) -> None: ...

    @abstractmethod
    def delete(self, ids: Ids) -> None: ...

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write all there is to files in the folder, as the library documents it."""


# Ours ----------------------------------------------------------------------------------------------------------------


class OursIndex(Changing):
    """`lethevec.Index`; by default as it is, or in the paper's mode with a family and an expansion."""

    module = "lethevec"
    knobs = ("effort",)
    grids = ([(2 ** (step / 8),) for step in range(-48, 41)],)

    def __init__(self, family: str | None = None, expansion: int = 8, source: str | None = None) -> None:
        self.family, self.expansion = family, expansion
        self.source = source
        self.effort = 1.0
        self.name = "lethevec, in memory"

    def start(self, sample: F32, metric: str) -> None:
        dim = sample.shape[1]
        self.options: dict[str, Any] = source_options(self.source, len(sample))
        if self.family is not None:
            # Vectors are kept, so that the gain of USR follows the records, as the paper's does.
            self.options |= {"family": self.family, "bits": self.expansion * dim, "ranking": "hamming"}
            if self.family == "usr":
                self.options["steps"] = 17
        self.index = lethevec.Index(dim=dim, metric=metric, **self.options)

    def insert(self, vectors: F32, ids: Ids) -> None:
        self.index.add(vectors, ids=ids)

    def delete(self, ids: Ids) -> None:
        self.index.forget(ids)

    def save(self, folder: Path) -> None:
        self.index.save(folder / "index")

    def _set(self, *setting: float) -> None:
        self.effort = setting[0]

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.index.search(query, k=k, effort=self.effort, threads=1).ids[0])

    def search_batch(self, queries: F32, k: int) -> Ids:
        return np.asarray(self.index.search(queries, k=k, effort=self.effort, threads=1).ids)


class OursStore(Changing):
    """`lethevec.open`: forgetting ends when no file holds the record any more."""

    module = "lethevec"
    name = "lethevec, durable"

    def start(self, sample: F32, metric: str) -> None:
        self.db = lethevec.open(self.folder / "store.lethe", sample.shape[1], metric)

    def insert(self, vectors: F32, ids: Ids) -> None:
        self.db.load(
            {"vectors": vectors[i : i + 10_000], "ids": ids[i : i + 10_000].tolist()}
            for i in range(0, len(vectors), 10_000)
        )

    def delete(self, ids: Ids) -> None:
        self.db.forget(ids.tolist())

    def save(self, folder: Path) -> None:
        """It is saved: its files are in its own folder."""

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.db.search(query, k).ids[0], dtype=np.int64)

    def search_batch(self, queries: F32, k: int) -> Ids:
        return np.asarray(self.db.search(queries, k).ids, dtype=np.int64)


# Faiss ---------------------------------------------------------------------------------------------------------------


class FaissChanging(Faiss, Changing):
    """Faiss with `remove_ids`."""

    def insert(self, vectors: F32, ids: Ids) -> None:
        self.index.add_with_ids(np.ascontiguousarray(vectors), ids.astype(np.int64))

    def delete(self, ids: Ids) -> None:
        faiss = faiss_module()
        ids = np.ascontiguousarray(ids, dtype=np.int64)
        self.index.remove_ids(faiss.IDSelectorBatch(ids) if len(ids) > 1 else ids)

    def save(self, folder: Path) -> None:
        faiss_module().write_index(self.index, str(folder / "index"))


class FaissLSHIds(FaissChanging):
    """IndexLSH under ids of its own: Super-Bit as Faiss has it."""

    def __init__(self, expansion: int = 8) -> None:
        self.expansion = expansion
        self.name = "Faiss IndexLSH, remove_ids"

    def start(self, sample: F32, metric: str) -> None:
        faiss = faiss_module()
        dim = sample.shape[1]
        self.codes = faiss.IndexLSH(dim, self.expansion * dim)
        self.codes.train(sample)
        self.index = faiss.IndexIDMap2(self.codes)


class FaissFlatIds(FaissChanging):
    """Exact search under ids of its own."""

    name = "Faiss Flat, remove_ids"

    def start(self, sample: F32, metric: str) -> None:
        faiss = faiss_module()
        self.flat = faiss.index_factory(sample.shape[1], "Flat", self._metric(metric))
        self.index = faiss.IndexIDMap2(self.flat)


class FaissIVFPQIds(FaissChanging):
    """IVF with PQ FastScan; its centroids stay trained on what was deleted. Not refined: that part cannot delete."""

    name = "Faiss IVFPQ fast-scan, remove_ids"
    knobs = ("nprobe",)
    grids = ([(float(value),) for value in rising(1, 512, 1.12)],)

    def start(self, sample: F32, metric: str) -> None:
        faiss = faiss_module()
        dim = sample.shape[1]
        self.index = faiss.index_factory(dim, f"IVF{min(512, cells(sample))},PQ{dim // 2}x4fs", self._metric(metric))
        self.index.train(sample)

    def _set(self, *setting: float) -> None:
        self.index.nprobe = int(setting[0])


# Graphs and others ---------------------------------------------------------------------------------------------------


class HnswlibIds(Hnswlib, Changing):
    """hnswlib: a mark for each deleted point; new points take the places of marked ones."""

    name = "hnswlib, mark_deleted"

    def start(self, sample: F32, metric: str) -> None:
        hnswlib = importlib.import_module("hnswlib")
        self.index = hnswlib.Index(space="l2" if metric == "l2" else "ip", dim=sample.shape[1])
        self.index.init_index(len(sample), M=16, ef_construction=200, random_seed=1, allow_replace_deleted=True)
        self.index.set_num_threads(1)
        self.marked = 0

    def _build(self, vectors: F32, metric: str) -> None:
        Changing._build(self, vectors, metric)

    def insert(self, vectors: F32, ids: Ids) -> None:
        reused = min(self.marked, len(ids))
        if reused:
            self.index.add_items(vectors[:reused], ids[:reused], num_threads=1, replace_deleted=True)
            self.marked -= reused
        if reused < len(ids):
            room = self.index.get_current_count() + len(ids) - reused
            if room > self.index.get_max_elements():
                self.index.resize_index(room)
            self.index.add_items(vectors[reused:], ids[reused:], num_threads=-1)

    def delete(self, ids: Ids) -> None:
        for id in ids.tolist():
            self.index.mark_deleted(id)
        self.marked += len(ids)

    def save(self, folder: Path) -> None:
        self.index.save_index(str(folder / "index"))


class UsearchIds(Usearch, Changing):
    """usearch: `remove` frees the key, and the place is used again."""

    name = "usearch, remove"

    def start(self, sample: F32, metric: str) -> None:
        usearch = importlib.import_module("usearch.index")
        made = {"ndim": sample.shape[1], "metric": "l2sq" if metric == "l2" else "ip", "dtype": "f32"}
        self.index = usearch.Index(**made, connectivity=16, expansion_add=200)

    def _build(self, vectors: F32, metric: str) -> None:
        Changing._build(self, vectors, metric)

    def insert(self, vectors: F32, ids: Ids) -> None:
        self.index.add(ids.astype(np.uint64), vectors)

    def delete(self, ids: Ids) -> None:
        self.index.remove(ids.astype(np.uint64) if len(ids) > 1 else int(ids[0]))

    def save(self, folder: Path) -> None:
        self.index.save(str(folder / "index"))


class VoyagerIds(Voyager, Changing):
    """voyager: a mark for each deleted point, which is never used again."""

    name = "voyager, mark_deleted"

    def start(self, sample: F32, metric: str) -> None:
        voyager = importlib.import_module("voyager")
        space = voyager.Space.Euclidean if metric == "l2" else voyager.Space.InnerProduct
        made = {"num_dimensions": sample.shape[1], "M": self.m, "ef_construction": self.ef_construction}
        self.index = voyager.Index(space, **made, max_elements=len(sample), random_seed=1)

    def _build(self, vectors: F32, metric: str) -> None:
        Changing._build(self, vectors, metric)

    def insert(self, vectors: F32, ids: Ids) -> None:
        self.index.add_items(vectors, ids.tolist(), num_threads=-1)

    def delete(self, ids: Ids) -> None:
        for id in ids.tolist():
            self.index.mark_deleted(id)

    def save(self, folder: Path) -> None:
        self.index.save(str(folder / "index"))


class TurbovecIds(Turbovec, Changing):
    """turbovec with ids of its own: `remove` moves the last code into the gap. Codes alone, not reranked."""

    name = "turbovec (4 bits), remove"
    reranks = False
    knobs = ()
    grids = ()

    def start(self, sample: F32, metric: str) -> None:
        base = self._widened(sample, metric)
        self.index = importlib.import_module("turbovec").IdMapIndex(dim=base.shape[1], bit_width=4)
        self.index.calibrate(base[np.random.default_rng(1).permutation(len(base))[:1024]])

    def _build(self, vectors: F32, metric: str) -> None:
        Changing._build(self, vectors, metric)
        self.index.prepare()

    def insert(self, vectors: F32, ids: Ids) -> None:
        self.index.add_with_ids(self._padded(vectors), ids.astype(np.uint64))

    def delete(self, ids: Ids) -> None:
        for id in ids.tolist():
            self.index.remove(id)

    def save(self, folder: Path) -> None:
        self.index.write(str(folder / "index.tvim"))

    def search_one(self, query: F32, k: int) -> Ids:
        return self.search_batch(query[None, :], k)[0]

    def search_batch(self, queries: F32, k: int) -> Ids:
        self.fetch = k
        return np.asarray(self._candidates(queries)).astype(np.int64)


class ScannIds(Scann, Changing):
    """ScaNN with ids: `delete` moves the last point into the gap; what was trained stays trained on it."""

    name = "ScaNN, delete"

    def start(self, sample: F32, metric: str) -> None:
        self.made = False

    def _build(self, vectors: F32, metric: str) -> None:
        Changing._build(self, vectors, metric)

    def insert(self, vectors: F32, ids: Ids) -> None:
        if not self.made:
            self.index = self._builder(vectors, self.metric).build(docids=ids.tolist())
            self.made = True
        else:
            self.index.upsert(ids.tolist(), vectors, batch_size=len(ids))

    def delete(self, ids: Ids) -> None:
        self.index.delete(ids.tolist())

    def save(self, folder: Path) -> None:
        self.index.serialize(str(folder))


# Retrained -----------------------------------------------------------------------------------------------------------


class RetrainedScann(Scann):
    """The least that ann-benchmarks trains: 1000 leaves for angles, 100 for l2; one thread."""

    name = "ScaNN, retrained"
    training_threads = 1

    def _build(self, vectors: F32, metric: str) -> None:
        self.leaves_built = min(100 if metric == "l2" else 1000, cells(vectors))
        super()._build(vectors, metric)


class RetrainedAnnoy(Annoy):
    """The least that ann-benchmarks builds: 100 trees; one thread."""

    name = "Annoy, retrained"
    jobs = 1


class RetrainedIVFPQ(Faiss):
    """The least that ann-benchmarks trains: 512 cells; one thread."""

    name = "Faiss IVFPQ fast-scan, retrained"

    def _build(self, vectors: F32, metric: str) -> None:
        faiss = faiss_module()
        dim = vectors.shape[1]
        self.index = faiss.index_factory(dim, f"IVF{min(512, cells(vectors))},PQ{dim // 2}x4fs", self._metric(metric))
        self.index.train(vectors)
        self.index.add(vectors)


KINDS: dict[str, Callable[..., Peer]] = {
    "index": OursIndex,
    "store": OursStore,
    "lsh-ids": FaissLSHIds,
    "flat-ids": FaissFlatIds,
    "ivfpq-ids": FaissIVFPQIds,
    "hnswlib-ids": HnswlibIds,
    "usearch-ids": UsearchIds,
    "voyager-ids": VoyagerIds,
    "turbovec-ids": TurbovecIds,
    "scann-ids": ScannIds,
    "scann-retrained": RetrainedScann,
    "annoy-retrained": RetrainedAnnoy,
    "ivfpq-retrained": RetrainedIVFPQ,
}
