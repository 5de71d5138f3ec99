"""Lethevec behind the interface of the peers."""

from __future__ import annotations

from typing import Any

import lethevec

from .harness import F32, Ids
from .peer import Peer


class Lethevec(Peer):
    """`lethevec.Index` with a source of candidates and its one knob."""

    module = "lethevec"
    knobs = ("effort",)
    grids = ([(2 ** (step / 8),) for step in range(-48, 41)],)

    def __init__(self, source: str = "scan", **options: Any) -> None:
        self.source = source
        self.options = options
        extra = "".join(f", {name}={value}" for name, value in options.items())
        self.name = f"lethevec ({source}{extra})"
        self.effort = 1.0

    @classmethod
    def available(cls) -> bool:
        return hasattr(lethevec, "Index")

    def _build(self, vectors: F32, metric: str) -> None:
        self.index = lethevec.Index(dim=vectors.shape[1], metric=metric, source=self.source, **self.options)
        self.index.add(vectors, ids=range(len(vectors)))

    def _set(self, *setting: float) -> None:
        self.effort = setting[0]

    def search_one(self, query: F32, k: int) -> Ids:
        ids: Ids = self.index.search(query, k=k, effort=self.effort, threads=1).ids[0]
        return ids

    def search_batch(self, queries: F32, k: int) -> Ids:
        ids: Ids = self.index.search(queries, k=k, effort=self.effort, threads=1).ids
        return ids
