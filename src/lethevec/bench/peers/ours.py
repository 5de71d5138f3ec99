"""Lethevec behind the interface of the competitors: the index, the paper's mode, and the durable store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

import lethevec

from .peer import F32, Ids, Peer, Setting


def index_options(source: str | None, records: int, options: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments of `lethevec.Index`; parameters of the source are among the options. A source that takes a
    number of expected records is told it, as the other libraries are."""
    rest = dict(options)
    if source is None:
        return rest
    kinds = {
        "scan": lethevec.Scan,
        "tables": lethevec.Tables,
        "pivots": lethevec.Pivots,
        "graph": lethevec.Graph,
        "auto": lethevec.Auto,
    }
    if source not in kinds:
        return {"source": source, **rest}  # which the index refuses
    kind = kinds[source]
    names = {one.name for one in fields(kind)}
    own = {name: rest.pop(name) for name in names & rest.keys()}
    if "expected" in names:
        own.setdefault("expected", records)
    return {"source": kind(**own), **rest}


class Lethevec(Peer):
    """`lethevec.Index` with a source of candidates (None: the default) and its one knob."""

    module = "lethevec"
    knobs: tuple[str, ...] = ("effort",)
    shares = True
    grids: Any = ([(2 ** (step / 16),) for step in range(-96, 81)],)

    def __init__(self, source: str | None = "scan", **options: Any) -> None:
        self.source, self.options = source, options
        extra = "".join(f", {name}={value}" for name, value in options.items())
        self.name = f"lethevec ({source or 'default'}{extra})"
        self.effort = 1.0

    def start(self, sample: F32, metric: str) -> None:
        options = index_options(self.source, len(sample), self.options)
        self.index = lethevec.Index(dim=sample.shape[1], metric=metric, **options)

    def insert(self, vectors: F32, ids: Ids) -> None:
        self.index.add(vectors, ids=ids)

    def delete(self, ids: Ids) -> None:
        self.index.forget(ids)

    def save(self, folder: Path) -> Path:
        self.index.save(folder / "index")
        return folder

    def erasing(self, ids: Ids, folder: Path) -> Iterator[tuple[str, Path]]:
        self.delete(ids)
        yield "index: forget, save", self.save(folder)

    def _set(self, *setting: float) -> None:
        self.effort = setting[0]

    def search_one(self, query: F32, k: int) -> Ids:
        return self.index.search(query, k=k, effort=self.effort, threads=1).ids[0]

    def search_batch(self, queries: F32, k: int) -> Ids:
        return self.index.search(queries, k=k, effort=self.effort, threads=self.threads).ids

    def facts(self) -> dict[str, Any]:
        config = self.index.config
        return {"source": config.source.name, "stats": self.index.stats()}

    def work(self, queries: F32, k: int) -> dict[str, int]:
        return dict(self.index.search(queries, k, effort=self.effort, threads=1).work._asdict())


class PaperMode(Lethevec):
    """The paper's way to search: codes of `expansion * dim` bits of one family, all ranked by Hamming distance.

    With `keep_vectors` the gain of USR codes follows the records, as the paper's does; without them it is fixed.
    """

    knobs = ()
    grids: Any = ()

    def __init__(self, family: str, expansion: int, keep_vectors: bool = False) -> None:
        super().__init__("scan", family=family, ranking="hamming", keep_vectors=keep_vectors)
        self.family, self.expansion, self.keep_vectors = family, expansion, keep_vectors
        self.name = {"simhash": "simHash", "superbit": "Super-Bit", "usr": "USR"}.get(family, family)

    def start(self, sample: F32, metric: str) -> None:
        self.options["bits"] = self.expansion * sample.shape[1]
        if self.family == "usr":
            self.options["steps"] = 17  # the paper's T
            if metric != "cosine" and not self.keep_vectors:
                self.options["mean_norm"] = float(np.linalg.norm(sample, axis=1).mean())
        super().start(sample, metric)


class LethevecStore(Peer):
    """`lethevec.open`: forgetting ends when no file holds the record any more."""

    module = "lethevec"
    name = "lethevec, durable"
    setting: Setting = ()

    def __init__(self, encrypt: bool = False) -> None:
        self.encrypt = encrypt

    @classmethod
    def missing(cls) -> str | None:
        try:
            import cryptography  # noqa: F401
        except ImportError:
            return "cryptography"
        return None

    def start(self, sample: F32, metric: str) -> None:
        self.db = lethevec.open(self.folder / "store.lethe", sample.shape[1], metric, encrypt=self.encrypt)

    def insert(self, vectors: F32, ids: Ids) -> None:
        self.db.load(
            {"vectors": vectors[i : i + 10_000], "ids": ids[i : i + 10_000].tolist()}
            for i in range(0, len(vectors), 10_000)
        )

    def delete(self, ids: Ids) -> None:
        self.db.forget(ids.tolist())

    def save(self, folder: Path) -> Path:
        """It is saved already: its files are in its own folder."""
        return self.folder

    def erasing(self, ids: Ids, folder: Path) -> Iterator[tuple[str, Path]]:
        if self.encrypt:
            self.db.backup(self.folder / "backup")
        self.delete(ids)
        yield (
            ("store, encrypt=True: forget, and a backup from before it" if self.encrypt else "store: forget"),
            self.folder,
        )

    def search_one(self, query: F32, k: int) -> Ids:
        return np.asarray(self.db.search(query, k).ids[0], dtype=np.int64)

    def search_batch(self, queries: F32, k: int) -> Ids:
        return np.asarray(self.db.search(queries, k).ids, dtype=np.int64)
