"""What it takes to change one record: forgotten and added again, one at a time, on one thread."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

import lethevec

from .harness import F32

F64 = npt.NDArray[np.float64]


def chosen_rows(records: int, count: int) -> list[int]:
    """Rows at random, the same in every run."""
    rows: list[int] = np.random.default_rng(1).choice(records, min(count, records), replace=False).tolist()
    return rows


def time_changes(index: lethevec.Index, vectors: F32, rows: list[int]) -> tuple[F64, F64]:
    """Microseconds to forget each of these rows, whose ids are their numbers, and to add it again."""
    took: tuple[list[float], list[float]] = ([], [])
    for row in rows:
        begin = time.perf_counter()
        index.forget(row)
        middle = time.perf_counter()
        index.add(vectors[row : row + 1], ids=[row], threads=1)
        took[0].append(1e6 * (middle - begin))
        took[1].append(1e6 * (time.perf_counter() - middle))
    return np.array(took[0]), np.array(took[1])
