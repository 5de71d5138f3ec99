"""Random rotations, and the frame W = [R_0 ... R_{m-1}]/sqrt(m) that the families are built on (W W^T = I).

The rotations of a frame are chained, R_i = S_0 S_1 ... S_i, and a frame is walked rather than multiplied:

    forward(u, i)  = S_i^T u     from the coordinates in block i - 1 to those in block i
    backward(u, i) = S_i u       and back; "block -1" is x itself, so R_i^T x takes the steps 0, 1, ..., i

Nothing is lost by chaining: if the S_i are independent and uniform over the rotations, so are the R_i. A step is

    hadamard      random signs and Walsh-Hadamard transforms: three rounds for S_0, one for every later S_i, so that
                  all of W^T x costs m + 2 rounds of d log d additions
    svd           the orthogonal factor of a Gaussian matrix, as in the paper
    gram-schmidt  the same by Gram and Schmidt's process, as in Super-Bit LSH

Every operation is on float32 with a fixed order of additions, so that any implementation can give the same bits.
"""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np

from .constants import FIRST_ROUNDS, STREAM_DENSE, STREAM_GAUSSIAN, STREAM_SIGNS
from .generator import gaussians, signs
from .vectors import F32, F64

Rotation = Literal["hadamard", "svd", "gram-schmidt"]


def fwht(x: F32) -> F32:
    """The Walsh-Hadamard transform of each row, not scaled: butterflies (a + b, a - b), widest stride first.

    >>> fwht(np.float32([[1, 2, 3, 4]])).tolist()
    [[10.0, -2.0, -4.0, 0.0]]
    """
    n, size = x.shape
    h = size // 2
    while h >= 1:
        pairs = x.reshape(n, size // (2 * h), 2, h)
        a, b = pairs[:, :, 0], pairs[:, :, 1]
        x = np.stack([a + b, a - b], axis=2).reshape(n, size)
        h //= 2
    return x


def power_below(d: int) -> int:
    """The largest power of two that is at most d."""
    return 1 << (d.bit_length() - 1)


def round_forward(x: F32, sign: F32) -> F32:
    """One round: signs and the scaled transform on the first 2^k coordinates, and where that is not all of them, fresh
    signs and the transform on the last 2^k, then a butterfly between the two halves.

    `sign` is (2, d): for the first transform and for the second. Without the signs between them the second would all
    but undo the first when d is just above 2^k; without the butterfly, blocks that hardly overlap would hardly mix when
    d is just below 2^(k+1).
    """
    d = x.shape[1]
    p = power_below(d)
    scale = np.float32(1.0 / np.sqrt(p))
    x = np.concatenate([fwht(x[:, :p] * (sign[0, :p] * scale)), x[:, p:]], axis=1)
    if p < d:
        x = np.concatenate([x[:, : d - p], fwht(x[:, d - p :] * (sign[1, d - p :] * scale))], axis=1)
        x = cross_halves(x)
    return x


def round_backward(x: F32, sign: F32) -> F32:
    """The transpose of `round_forward`, which is its inverse: transform and butterfly are symmetric."""
    d = x.shape[1]
    p = power_below(d)
    scale = np.float32(1.0 / np.sqrt(p))
    if p < d:
        x = cross_halves(x)
        x = np.concatenate([x[:, : d - p], fwht(x[:, d - p :] * scale) * sign[1, d - p :]], axis=1)
    return np.concatenate([fwht(x[:, :p] * scale) * sign[0, :p], x[:, p:]], axis=1)


def cross_halves(x: F32) -> F32:
    """(a, b) -> (a + b, a - b)/sqrt(2) between the first d//2 coordinates and the last; an odd one out stays."""
    h = x.shape[1] // 2
    a, b = x[:, :h], x[:, x.shape[1] - h :]
    half = np.float32(np.sqrt(0.5))
    return np.concatenate([(a + b) * half, x[:, h : x.shape[1] - h], (a - b) * half], axis=1)


class Frame(Protocol):
    """What a family needs of W: to walk from block to block and back."""

    d: int
    m: int

    def forward(self, u: F32, i: int) -> F32:
        """From the coordinates in block i - 1 to those in block i."""
        ...

    def backward(self, u: F32, i: int) -> F32:
        """From the coordinates in block i to those in block i - 1."""
        ...


class HadamardFrame:
    """Steps of signs and transforms; `sign` holds the signs of m + 2 rounds, (m + 2, 2, d)."""

    def __init__(self, d: int, m: int, seed: int) -> None:
        self.d, self.m = d, m
        drawn = [signs(seed, STREAM_SIGNS + t, d) for t in range(2 * (m - 1 + FIRST_ROUNDS))]
        self.sign = np.stack(drawn).reshape(-1, 2, d)

    def _rounds(self, i: int) -> range:
        return range(FIRST_ROUNDS) if i == 0 else range(FIRST_ROUNDS - 1 + i, FIRST_ROUNDS + i)

    def forward(self, u: F32, i: int) -> F32:
        """The rounds of step i."""
        for t in self._rounds(i):
            u = round_forward(u, self.sign[t])
        return u

    def backward(self, u: F32, i: int) -> F32:
        """The same, taken back."""
        for t in reversed(self._rounds(i)):
            u = round_backward(u, self.sign[t])
        return u


class DenseFrame:
    """Steps by dense orthogonal matrices; `S` is (m, d, d)."""

    def __init__(self, d: int, m: int, seed: int, rotation: Rotation) -> None:
        self.d, self.m = d, m
        orthogonal = svd_rotation if rotation == "svd" else gram_schmidt
        blocks = (gaussians(seed, STREAM_DENSE + i, d * d).reshape(d, d) for i in range(m))
        self.S = np.stack([orthogonal(block).astype(np.float32) for block in blocks])

    def forward(self, u: F32, i: int) -> F32:
        """S_i^T u."""
        return matmul(u, self.S[i])

    def backward(self, u: F32, i: int) -> F32:
        """S_i u."""
        return matmul(u, self.S[i].T)


def make_frame(d: int, m: int, seed: int, rotation: Rotation) -> HadamardFrame | DenseFrame:
    """The frame of m rotations in d dimensions that a seed gives."""
    return HadamardFrame(d, m, seed) if rotation == "hadamard" else DenseFrame(d, m, seed, rotation)


def svd_rotation(gaussian: F64) -> F64:
    """The orthogonal matrix nearest to a Gaussian one: U V^T of its singular value decomposition."""
    u, _, vt = np.linalg.svd(gaussian)
    return np.asarray(u @ vt)


def gram_schmidt(gaussian: F64) -> F64:
    """Orthonormal columns from Gaussian ones, each made orthogonal to those before it (twice, for the rounding)."""
    q = np.array(gaussian, dtype=np.float64)
    for j in range(q.shape[1]):
        for _ in range(2):
            q[:, j] -= q[:, :j] @ (q[:, :j].T @ q[:, j])
        q[:, j] /= np.sqrt(q[:, j] @ q[:, j])
    return q


def gaussian_matrix(d: int, bits: int, seed: int) -> F32:
    """simHash's W: d x bits independent standard normal numbers."""
    return gaussians(seed, STREAM_GAUSSIAN, d * bits).reshape(d, bits).astype(np.float32)


def matmul(x: F32, matrix: F32) -> F32:
    """x @ matrix with the additions in the order of the rows, so that a row's result never depends on its batch."""
    total = x[:, :1] * matrix[0]
    for j in range(1, matrix.shape[0]):
        total = total + x[:, j : j + 1] * matrix[j]
    return total


def analysis(frame: Frame, x: F32) -> F32:
    """(R_0^T x, ..., R_{m-1}^T x), (n, d) -> (n, md). This is W^T x without the 1/sqrt(m)."""
    blocks, u = [], x
    for i in range(frame.m):
        u = frame.forward(u, i)
        blocks.append(u)
    return np.concatenate(blocks, axis=1)


def synthesis(frame: Frame, y: F32) -> F32:
    """R_0 y_0 + ... + R_{m-1} y_{m-1}, (n, md) -> (n, d). This is W y without the 1/sqrt(m)."""
    return frame.backward(gather(frame, y), 0)


def gather(frame: Frame, y: F32) -> F32:
    """The same sum in the coordinates of block 0, from the last block inwards (Horner's rule)."""
    blocks = y.reshape(len(y), frame.m, frame.d)
    u = blocks[:, frame.m - 1]
    for i in reversed(range(1, frame.m)):
        u = frame.backward(u, i) + blocks[:, i - 1]
    return u
