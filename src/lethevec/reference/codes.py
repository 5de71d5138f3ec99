"""Codes: bits packed eight to a byte, and what is computed between them.

A bit is 1 where the value is >= 0 (so sign(0) = +1, the paper's last equation of its section 3.1) and stands for +1;
0 stands for -1. Bit j of a code is bit j % 8, counted from the least significant, of byte j // 8. Bits past the end
are 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]


def pack(values: npt.NDArray[np.floating]) -> U8:
    """Values (n, bits) to codes (n, ceil(bits/8)).

    >>> pack(np.array([[0.5, -0.5, 0.0, -0.0, -1.0, 2.0, -3.0, -4.0, 5.0]])).tolist()
    [[45, 1]]
    """
    return np.packbits(values >= 0, axis=1, bitorder="little")


def unpack(codes: U8, bits: int) -> F32:
    """Codes to their signs b in {-1, +1}, (n, bits)."""
    return np.where(np.unpackbits(codes, axis=1, count=bits, bitorder="little"), np.float32(1), np.float32(-1))


def hamming(a: U8, b: U8) -> npt.NDArray[np.int64]:
    """How many bits differ, for every pair of a row of a and a row of b: (n_a, n_b)."""
    differing = a[:, None, :] ^ b[None, :, :]
    return np.unpackbits(differing, axis=2).sum(axis=2, dtype=np.int64)


def asymmetric(weights: F32, codes: U8) -> npt.NDArray[np.float64]:
    """<w, b> for every pair of a row of weights (a query's rotated coordinates) and a code: (n_q, n_codes).

    The query is not hashed, so only one side of the estimate is quantised. Summed in double precision.
    """
    return weights.astype(np.float64) @ unpack(codes, weights.shape[1]).astype(np.float64).T
