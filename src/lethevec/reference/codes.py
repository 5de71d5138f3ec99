"""Codes: bits packed eight to a byte, and what is computed between them.

A bit is 1 where the value is >= 0 (so sign(0) = +1, the paper's last equation of its section 3.1) and stands for +1;
0 stands for -1. Bit j of a code is bit j % 8, counted from the least significant, of byte j // 8. Bits past the end
are 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .vectors import F32

U8 = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]


def pack(values: npt.NDArray[np.floating]) -> U8:
    """Values (..., bits) to codes (..., ceil(bits/8)).

    >>> pack(np.array([[0.5, -0.5, 0.0, -0.0, -1.0, 2.0, -3.0, -4.0, 5.0]])).tolist()
    [[45, 1]]
    """
    return np.packbits(values >= 0, axis=-1, bitorder="little")


def unpack_bits(codes: U8, bits: int) -> Bools:
    """Codes (..., ceil(bits/8)) to their bits, (..., bits).

    >>> unpack_bits(np.uint8([[45, 1]]), 9).astype(int).tolist()
    [[1, 0, 1, 1, 0, 1, 0, 0, 1]]
    """
    return np.unpackbits(codes, axis=-1, count=bits, bitorder="little").astype(np.bool_)


def unpack(codes: U8, bits: int) -> F32:
    """Codes to their signs b in {-1, +1}, (..., bits).

    >>> unpack(np.uint8([[5]]), 3).tolist()
    [[1.0, -1.0, 1.0]]
    """
    return np.where(unpack_bits(codes, bits), np.float32(1), np.float32(-1))


def hamming(a: U8, b: U8) -> npt.NDArray[np.int64]:
    """How many bits differ, for every pair of a row of a and a row of b: (n_a, n_b).

    >>> hamming(np.uint8([[0b0011]]), np.uint8([[0b0001], [0b1100]])).tolist()
    [[1, 4]]
    """
    differing = a[:, None, :] ^ b[None, :, :]
    return np.unpackbits(differing, axis=2).sum(axis=2, dtype=np.int64)


def asymmetric(weights: F32, codes: U8) -> npt.NDArray[np.float64]:
    """<w, b> for every pair of a row of weights (a query's rotated coordinates) and a code: (n_q, n_codes).

    The query is not hashed, so only one side of the estimate is quantised. Summed in double precision.

    >>> asymmetric(np.float32([[0.5, 2.0]]), np.uint8([[0b01]])).tolist()
    [[-1.5]]
    """
    return weights.astype(np.float64) @ unpack(codes, weights.shape[1]).astype(np.float64).T
