"""What it takes to change one record: it is forgotten and added again, one at a time, on one thread.

The indexes that are compared take turns with a share of the records each.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec

from ..measuring.data import F64, Data
from ..measuring.timing import no_collection
from ..peers.ours import index_options
from ..peers.peer import F32
from .run import Run

SHARES = 8  # turns of each index


@dataclass(frozen=True)
class Changed:
    """Microseconds to forget and to add each of these rows, and the index."""

    index: lethevec.Index
    rows: npt.NDArray[np.int64]
    forgets: F64
    adds: F64


def build(data: Data, source: str, records: int, **options: Any) -> lethevec.Index:
    """An index of the first records, whose ids are their row numbers."""
    index = lethevec.Index(data.dim, data.metric, **index_options(source, records, options))
    index.add(data.train[:records], ids=range(records))
    return index


def change(run: Run, data: Data, indexes: Mapping[str, lethevec.Index], counts: Sequence[int]) -> dict[str, Changed]:
    """Change so many records of each index, taken at random, the same in every run."""
    rows = {
        name: np.random.default_rng(1).choice(len(index), min(count, len(index)), replace=False)
        for (name, index), count in zip(indexes.items(), counts, strict=True)
    }
    took: dict[str, list[tuple[F64, F64]]] = {name: [] for name in indexes}
    with run.pinned, no_collection():
        for share in range(SHARES):
            for name, index in indexes.items():
                some = rows[name][share::SHARES]
                took[name].append(time_changes(index, data.train, some, run.options.clock))
    return {
        name: Changed(
            index,
            np.concatenate([rows[name][share::SHARES] for share in range(SHARES)]),
            np.concatenate([forgets for forgets, _ in took[name]]),
            np.concatenate([adds for _, adds in took[name]]),
        )
        for name, index in indexes.items()
    }


def time_changes(
    index: lethevec.Index, vectors: F32, rows: npt.NDArray[np.int64], clock: str = "wall"
) -> tuple[F64, F64]:
    """Microseconds to forget each of these rows, and to add it again, by one of `timing.CLOCKS`."""
    now = time.perf_counter if clock == "wall" else time.process_time
    took: tuple[list[float], list[float]] = ([], [])
    for row in rows.tolist():
        begin = now()
        index.forget(row)
        middle = now()
        index.add(vectors[row : row + 1], ids=[row], threads=1)
        took[0].append(1e6 * (middle - begin))
        took[1].append(1e6 * (now() - middle))
    return np.array(took[0]), np.array(took[1])
