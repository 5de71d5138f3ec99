"""The hash families: values(x), (n, d) -> (n, bits), whose signs are the code; and x̂ from a code where it exists.

Equation numbers are those of the paper, in the order in which they stand there: 1 simHash, 2-3 Super-Bit, 4-5 the
objective and W, 7-9 the unfolded step, 11 the gain, 12-13 the code.
"""

from __future__ import annotations

import math

import numpy as np

from .activation import tanh
from .codes import U8, unpack
from .constants import FALLOFF
from .rotations import Frame, analysis, gather, matmul, synthesis
from .vectors import F32, F64, directions, lane_sum

# --- simHash -----------------------------------------------------------------------------------------------------


def simhash(W: F32, x: F32) -> F32:
    """Eq. 1: y = W x, for Gaussian W."""
    return matmul(x, W)


# --- Super-Bit ---------------------------------------------------------------------------------------------------


def superbit(frame: Frame, x: F32, bits: int) -> F32:
    """Eqs. 2-3: y = W x for stacked rotations W, cut to the first `bits`. Positive scale does not change a sign."""
    return analysis(frame, x)[:, :bits]


def superbit_scale(d: int, m: int) -> float:
    """c/m with c = sqrt(2/(pi d)), the mean size of a unit vector's coordinate.

    >>> round(superbit_scale(100, 2), 6)
    0.039894
    """
    return float(np.float32(np.sqrt(2 / (np.pi * d)) / m))


def superbit_reconstruct(frame: Frame, codes: U8) -> F32:
    """x̂ = c/m sum R_i b_i, an estimate of x/|x|."""
    return synthesis(frame, unpack(codes, frame.m * frame.d)) * np.float32(superbit_scale(frame.d, frame.m))


def faiss_rule(d: int, bits: int) -> str:
    """The family that Faiss's LSH is, according to the paper (section 2.3).

    >>> faiss_rule(100, 64), faiss_rule(100, 100)
    ('simhash', 'superbit')
    """
    return "simhash" if bits < d else "superbit"


# --- USR ---------------------------------------------------------------------------------------------------------


def gain(d: int, m: int, mean_norm: float) -> float:
    """Eq. 11: alpha = sqrt(md)/(2 E|x|).

    >>> gain(100, 4, 1.0)
    10.0
    """
    return float(np.sqrt(m * d) / (2 * mean_norm))


def usr(frame: Frame, x: F32, T: int, alpha: float) -> F32:
    """Eqs. 7-9: y_0 = 0, y_{t+1} = tanh(alpha W^T x + (I - W^T W) y_t), T times.

    W W^T = I, so the step is y <- tanh(y + W^T (alpha x - W y)), and I - W^T W, which is (md, md), is never formed.
    Everything inside W^T(...) is kept in the coordinates of block 0: S_0 is orthogonal and W^T begins by undoing it.
    With 1/sqrt(m) taken out of both W's, W^T (alpha x - W y) = P^T (g - P y/m) for g = S_0^T (alpha x/sqrt(m)).
    """
    m, d = frame.m, frame.d
    g = frame.forward(x * np.float32(alpha / np.sqrt(m)), 0)
    y = tanh(_scatter(frame, g))  # t = 1: y_0 = 0, so W y_0 = 0
    for _ in range(1, T):
        residual = g - gather(frame, y) * np.float32(1 / m)
        y = tanh(y + _scatter(frame, residual))
    return y.reshape(len(x), m * d)


def _scatter(frame: Frame, u: F32) -> F32:
    """From the coordinates of block 0 to those in every block: the transpose of `gather`."""
    blocks = [u]
    for i in range(1, frame.m):
        blocks.append(frame.forward(blocks[-1], i))
    return np.concatenate(blocks, axis=1)


def usr_scale(m: int, alpha: float) -> float:
    """1/(sqrt(m) alpha): what turns P b into W b/alpha.

    >>> round(usr_scale(4, 10.0), 6)
    0.05
    """
    return float(np.float32(1 / (np.sqrt(m) * alpha)))


def usr_reconstruct(frame: Frame, codes: U8, alpha: float) -> F32:
    """Eq. 4 read backwards: W is the decoder, and W b estimates alpha x."""
    return synthesis(frame, unpack(codes, frame.m * frame.d)) * np.float32(usr_scale(frame.m, alpha))


def relaxed_error(frame: Frame, y: F32, x: F32, alpha: float) -> F64:
    """Eq. 5 without its regulariser: |W y - alpha x|^2 of each row, what the steps bring down."""
    r = synthesis(frame, y) / np.sqrt(frame.m) - alpha * x.astype(np.float64)
    return np.einsum("ij,ij->i", r, r)


# --- Progressive -------------------------------------------------------------------------------------------------


def plane_weights(d: int, m: int) -> F32:
    """c_i = sqrt(2/(pi d)) FALLOFF^i: the best single step for a unit vector's coordinates, then falling."""
    return np.array([np.sqrt(2 / (np.pi * d)) * FALLOFF**i for i in range(m)], dtype=np.float32)


def lost_share(planes: int) -> float:
    """Of the square of a vector, what so many planes leave: a sign keeps 2/pi of what is left of a coordinate's.

    >>> [round(lost_share(planes), 3) for planes in (1, 2, 3)]
    [0.363, 0.132, 0.048]
    """
    left = 1.0
    for _ in range(planes):
        left = left * (1.0 - 2.0 / math.pi)
    return left


def progressive(frame: Frame, x: F32, sweeps: int = 0) -> F32:
    """|sum c_i R_i b_i - x/|x||^2 made small plane by plane: r = x/|x|; b_i = sign(R_i^T r); r -= c_i R_i b_i.

    A sweep goes through the planes once more: each is put back into the residual and chosen again (block descent).
    Sweeps run backwards and forwards in turn, because the walk is at the last plane first; so each costs one walk.
    """
    c = plane_weights(frame.d, frame.m)
    u = directions(x)
    values = np.empty((len(x), frame.m, frame.d), dtype=np.float32)
    for i in range(frame.m):
        u = frame.forward(u, i)
        values[:, i] = u
        u = u - _signed(c[i], values[:, i])
    for sweep in range(sweeps):
        inwards = sweep % 2 == 0
        for i in reversed(range(frame.m - 1)) if inwards else range(1, frame.m):
            u = frame.backward(u, i + 1) if inwards else frame.forward(u, i)
            v = u + _signed(c[i], values[:, i])
            values[:, i] = v
            u = v - _signed(c[i], v)
    return values.reshape(len(x), frame.m * frame.d)


def _signed(c: np.float32, values: F32) -> F32:
    return np.where(values >= 0, c, -c)


def progressive_reconstruct(frame: Frame, codes: U8) -> F32:
    """x̂ = sum c_i R_i b_i, an estimate of x/|x|."""
    b = unpack(codes, frame.m * frame.d).reshape(-1, frame.m, frame.d)
    weighted = b * plane_weights(frame.d, frame.m)[:, None]
    return synthesis(frame, weighted.reshape(len(codes), -1))


# --- What an estimate needs --------------------------------------------------------------------------------------


def alignment(v: F32, values: F32, weights: F32) -> F64:
    """sum_i c_i <b_i, v_i> of each row: how far the code b = sign(values) points along x, whose coordinates are v.

    An estimate <W^T q, b> of <q, x> is right on average once it is divided by this. Blocks are `len(weights)` equal
    cuts of the row.
    """
    total, m = np.zeros(len(v)), len(weights)
    for c, block, of in zip(weights, np.split(v, m, axis=1), np.split(values, m, axis=1), strict=True):
        total = total + np.float64(c) * lane_sum(np.where(of >= 0, block, -block).astype(np.float64))
    return total
