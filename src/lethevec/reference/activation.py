"""tanh as a quotient of two polynomials: the same eight multiplications, seven additions and one division everywhere.

A C library's tanh differs in its last bits from the next one's, and a vector unit has none. This one is
x P(x^2)/Q(x^2) on [-7, 7], constant outside, fitted so that its largest error is smallest. It stays within
TANH_ERROR of the true tanh, and strictly inside (-1, 1).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

LIMIT = np.float32(7.0)
P = tuple(np.float32(float.fromhex(c)) for c in ("0x1.ffff7p-1", "0x1.f7e5bp-4", "0x1.2a72eap-9", "0x1.07bcb6p-18"))
Q = tuple(np.float32(float.fromhex(c)) for c in ("0x1p+0", "0x1.d34adep-2", "0x1.593f0ap-6", "0x1.2a87cp-13"))
TANH_ERROR = 1.25e-6


def tanh(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The activation of USR: tanh to within TANH_ERROR."""
    x = np.minimum(np.maximum(x, -LIMIT), LIMIT)
    s = x * x
    p = ((P[3] * s + P[2]) * s + P[1]) * s + P[0]
    q = ((Q[3] * s + Q[2]) * s + Q[1]) * s + Q[0]
    return np.asarray(x * p / q, dtype=np.float32)
