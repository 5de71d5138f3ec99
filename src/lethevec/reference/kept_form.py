"""The small forms in which an index can keep its vectors, a half or a quarter of float32.

    float16   each number as the nearest binary16
    int8      scale (float32), then for each number the nearest whole multiple of the scale, as a whole number

A vector is rounded when it comes in, before anything is computed from it, and the rounded one is the record: its code
and its distances are made from it, and it is what is given back. So an index in a small form is the same function of
its records as any other; they are coarser. A vector that was rounded once is not changed by rounding it again.
"""

from __future__ import annotations

import numpy as np

from .constants import INT8_LARGEST, INT8_LEAST_SCALE, INT8_SCALE_CUT
from .vectors import F32


def int8_scales(x: F32) -> F32:
    """The scale of each row, (n, 1): the least float32 of sixteen bits that is at least max |x| / 127.

    Its products with whole numbers up to 127 have 23 bits and are exact in float32, so the largest number of a rounded
    row over 127 is the scale that it was rounded with. Below 2^-126 float32 has fewer bits, so no scale is smaller.

    >>> int8_scales(np.float32([[1, -254], [0, 0]])).tolist() == [[2.0], [2.0**-126]]
    True
    """
    largest = np.abs(x).max(axis=1, keepdims=True) / np.float32(INT8_LARGEST)
    cut = np.uint32(INT8_SCALE_CUT)
    scales = ((largest.view(np.uint32) + cut) & ~cut).view(np.float32)
    return np.maximum(scales, np.float32(INT8_LEAST_SCALE))


def rounded(form: str, x: F32) -> F32:
    """The nearest rows that the form can hold; a number beyond the range of float16 becomes infinite.

    >>> rounded("float16", np.float32([[1.0001, 70000]])).tolist()
    [[1.0, inf]]
    >>> rounded("int8", np.float32([[0.6, 254]])).tolist()
    [[0.0, 254.0]]
    """
    if form == "float16":
        with np.errstate(over="ignore"):
            return x.astype(np.float16).astype(np.float32)
    scales = int8_scales(x)
    return np.asarray((np.rint(x / scales) + np.float32(0)) * scales)  # no zero has a sign


def packed(form: str, x: F32) -> bytes:
    """The bytes of rounded rows, one row after the other; little-endian.

    >>> packed("int8", np.float32([[4, -254]])).hex(" ")
    '00 00 00 40 02 81'
    """
    if form == "float16":
        return x.astype("<f2").tobytes()
    scales = int8_scales(x)
    whole = (x / scales).astype(np.int8)
    return b"".join(scale.astype("<f4").tobytes() + row.tobytes() for scale, row in zip(scales, whole, strict=True))
