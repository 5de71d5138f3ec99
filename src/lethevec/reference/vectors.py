"""Sums, lengths and distances of rows, in an order of additions that any number of lanes can follow.

A sum of n terms is split over a fixed number of lanes: lane l adds the terms l, l + lanes, l + 2 lanes, ... one after
the other. Then the lanes are added pairwise. Each addition rounds as IEEE 754 says, so the result is the same on every
machine, whether it works on one lane at a time or on all of them.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from .constants import LANES_FLOAT32, LANES_FLOAT64

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Floats = TypeVar("Floats", F32, F64)


def lane_sum(terms: Floats) -> Floats:
    """The sum of each row, in the type of the terms: over 8 lanes in float64, over 16 in float32.

    >>> lane_sum(np.array([[1.0, 2.0, 4.0]]))
    array([7.])
    """
    n, d = terms.shape
    count = LANES_FLOAT64 if terms.dtype == np.float64 else LANES_FLOAT32
    blocks = -(-d // count)
    padded = np.zeros((n, blocks * count), dtype=terms.dtype)
    padded[:, :d] = terms
    lanes = np.zeros((n, count), dtype=terms.dtype)
    for block in padded.reshape(n, blocks, count).transpose(1, 0, 2):
        lanes = lanes + block
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]


def norms(x: F32) -> F64:
    """|x| of each row. Squares of float32 are exact in double precision.

    >>> norms(np.float32([[3, 4], [0, 0]])).tolist()
    [5.0, 0.0]
    """
    return np.asarray(np.sqrt(lane_sum(x.astype(np.float64) ** 2)))


def directions(x: F32) -> F32:
    """x/|x| of each row, rounded once; a zero vector stays zero.

    >>> directions(np.float32([[3, 4], [0, 0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    size = norms(x)
    inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    return (x.astype(np.float64) * inverse[:, None]).astype(np.float32)


def dot(a: F32, b: F32) -> F32:
    """<a, b> of rows.

    >>> dot(np.float32([[1, 2]]), np.float32([[3, 4], [0, 1]])).tolist()
    [11.0, 2.0]
    """
    return lane_sum(a * b)


def squared_distance(a: F32, b: F32) -> F32:
    """|a - b|^2 of rows.

    >>> squared_distance(np.float32([[1, 2]]), np.float32([[4, 6]])).tolist()
    [25.0]
    """
    t = a - b
    return lane_sum(t * t)
