"""Lethevec behind the interface of the peers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import lethevec

from .harness import F32, Ids
from .peer import Peer, Setting


def source_options(source: str | None, records: int) -> dict[str, Any]:
    """How a source is asked for. One that is told how many records to expect is told, as the peers are."""
    if source is None:
        return {}
    return {"source": source} if source == "scan" else {"source": source, "expected": records}


class Lethevec(Peer):
    """`lethevec.Index` with a source of candidates (None: whatever the index takes by itself) and its one knob."""

    module = "lethevec"
    knobs: tuple[str, ...] = ("effort",)
    grids: Sequence[Sequence[Setting]] = ([(2 ** (step / 16),) for step in range(-96, 81)],)

    def __init__(self, source: str | None = "scan", **options: Any) -> None:
        self.source = source
        self.options = options
        extra = "".join(f", {name}={value}" for name, value in options.items())
        self.name = f"lethevec ({source or 'default'}{extra})"
        self.effort = 1.0

    @classmethod
    def available(cls) -> bool:
        return hasattr(lethevec, "Index")

    def _build(self, vectors: F32, metric: str) -> None:
        self.index = lethevec.Index(
            dim=vectors.shape[1], metric=metric, **{**source_options(self.source, len(vectors)), **self.options}
        )
        self.index.add(vectors, ids=range(len(vectors)))

    def _set(self, *setting: float) -> None:
        self.effort = setting[0]

    def search_one(self, query: F32, k: int) -> Ids:
        ids: Ids = self.index.search(query, k=k, effort=self.effort, threads=1).ids[0]
        return ids

    def search_batch(self, queries: F32, k: int) -> Ids:
        ids: Ids = self.index.search(queries, k=k, effort=self.effort, threads=1).ids
        return ids


class PaperMode(Lethevec):
    """The paper's way to search: codes of `expansion * dim` bits, all ranked by Hamming distance, no vectors."""

    knobs = ()
    grids = ()

    def __init__(self, family: str, expansion: int) -> None:
        super().__init__("scan", family=family, ranking="hamming", keep_vectors=False)
        self.family, self.expansion = family, expansion
        self.name = {"simhash": "simHash", "superbit": "Super-Bit", "usr": "USR"}.get(family, family)

    def _build(self, vectors: F32, metric: str) -> None:
        self.options["bits"] = self.expansion * vectors.shape[1]
        if self.family == "usr":
            self.options["steps"] = 17  # the paper's T
            if metric != "cosine":  # without vectors the gain cannot follow the records, so it is fixed
                self.options["mean_norm"] = float(np.linalg.norm(vectors, axis=1).mean())
        super()._build(vectors, metric)
