"""What a competitor is: it is built from vectors, its knobs are set, it is searched; some can delete and save."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
Setting = tuple[float, ...]
BLOCK = 100_000  # vectors that are worked on at a time, where all of them would take too much memory


class Peer(ABC):
    """One way to search. Unless `grids` is empty, it has knobs that trade recall for speed.

    Ids are row numbers of the data set. A peer that can change has `start`, `insert`, `delete` and `save`; one that
    cannot has only `fill`.
    """

    name: str
    module: str  # what must be importable
    package: str = ""  # what has to be installed for it, if that has another name
    knobs: tuple[str, ...] = ()
    # Each grid is a list of settings by rising recall and cost.
    grids: Sequence[Sequence[Setting]] = ()
    setting: Setting = ()
    reranks = False  # whether a search looks at `vectors`
    shares = False  # whether its call for a batch can use several threads,
    threads = 1  # which are so many
    folder: Path  # where one that lives on disk may write

    @classmethod
    def missing(cls) -> str | None:
        """The package that has to be installed first, if any."""
        return None if importlib.util.find_spec(cls.module) else cls.package or cls.module

    # Building ---------------------------------------------------------------------------------------------------------

    def build(self, vectors: F32, metric: str) -> None:
        """Take the vectors and build from all of them."""
        self.take(vectors, metric)
        self.fill(self.vectors, metric)

    def take(self, vectors: F32, metric: str) -> None:
        """Make the vectors ready to be built from."""
        self.vectors = as_given(vectors, metric)
        self.metric = metric

    def drop(self) -> None:
        """Let go of the vectors, unless searches need them."""
        if not self.reranks:
            self.vectors = self.vectors[:0].copy()

    def fill(self, vectors: F32, metric: str) -> None:
        """Build from vectors that are ready: an empty index, then all of them."""
        self.start(vectors, metric)
        self.insert(vectors, np.arange(len(vectors)))

    # Changing ---------------------------------------------------------------------------------------------------------

    def start(self, sample: F32, metric: str) -> None:
        """Make an empty index for about as many records as the sample has; what is trained is trained on the sample."""
        raise NotImplementedError(f"{self.name} cannot start empty")

    def insert(self, vectors: F32, ids: Ids) -> None:
        """Add records."""
        raise NotImplementedError(f"{self.name} cannot insert")

    def delete(self, ids: Ids) -> None:
        """Delete by the library's own call: for all at once where it has such a call, else one after another."""
        raise NotImplementedError(f"{self.name} has no delete")

    def save(self, folder: Path) -> Path:
        """Write everything to files as the library documents it, and return the folder that holds them."""
        raise NotImplementedError(f"{self.name} cannot save")

    def erasing(self, ids: Ids, folder: Path) -> Iterator[tuple[str, Path]]:
        """Delete and save, and whatever else the library offers: (what was done so far, where the files are)."""
        self.delete(ids)
        yield "delete, save", self.save(folder)

    # Searching --------------------------------------------------------------------------------------------------------

    def set(self, setting: Setting) -> None:
        """Turn the knobs."""
        self.setting = setting
        if setting:
            self._set(*setting)

    def _set(self, *setting: float) -> None:
        raise NotImplementedError

    def ready(self, queries: F32) -> Any:
        """The queries in the form that searches take: this is done before the clock starts."""
        return queries

    @abstractmethod
    def search_one(self, query: F32, k: int) -> Ids: ...

    def search_batch(self, queries: F32, k: int) -> Ids:
        """All queries at once; one by one where the library has no such call."""
        return pad([self.search_one(query, k) for query in queries], k)

    def describe(self) -> str:
        """The setting in words."""
        if not self.setting:
            return "-"
        return ", ".join(f"{knob}={value:g}" for knob, value in zip(self.knobs, self.setting, strict=True))

    def facts(self) -> dict[str, Any]:
        """What is worth telling of the built index."""
        return {}

    def work(self, queries: F32, k: int) -> dict[str, int]:
        """How much a search of all the queries looks at, where the library counts it."""
        return {}


def unit(vectors: F32) -> F32:
    """Vectors of length 1, made a block at a time: ten million of them are copied once, and no more."""
    made = np.empty(vectors.shape, dtype=np.float32)
    for begin in range(0, len(vectors), BLOCK):
        block = vectors[begin : begin + BLOCK]
        made[begin : begin + BLOCK] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return made


def as_given(vectors: F32, metric: str) -> F32:
    """Vectors or queries as all competitors get them, in an array of their own: unit vectors under cosine."""
    return unit(vectors) if metric == "cosine" else np.array(vectors, dtype=np.float32, order="C")


def pad(answers: Iterable[npt.NDArray[Any]], k: int) -> Ids:
    """Answers of any length as one array; -1 where there was none."""
    rows = list(answers)
    out = np.full((len(rows), k), -1, dtype=np.int64)
    for row, answer in zip(out, rows, strict=True):
        row[: min(k, len(answer))] = answer[:k]
    return out


def rising(first: float, last: float, factor: float) -> list[int]:
    """Whole numbers from `first` to `last`, each about `factor` times the one before."""
    values: list[int] = []
    value = float(first)
    while value <= last:
        if not values or round(value) > values[-1]:
            values.append(round(value))
        value = max(value * factor, value + 1)
    return values


def grid(first: float, last: float, factor: float) -> list[Setting]:
    """Settings of one knob with rising whole numbers."""
    return [(float(value),) for value in rising(first, last, factor)]


def cells(vectors: F32, most: int = 1024) -> int:
    """How many parts k-means should make: `most`, or fewer where there are not 39 points for each."""
    return min(most, max(1, len(vectors) // 39))
