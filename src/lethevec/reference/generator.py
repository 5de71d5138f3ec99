"""The generator every random thing here is drawn from, defined in full so that no library can change it under us.

    word(seed, stream, k) = mix(key + (k + 1) * GOLDEN),  key = mix(mix(seed + GOLDEN) + (stream + 1) * GOLDEN)

in arithmetic modulo 2**64, where mix is the finaliser of SplitMix64. It is addressed, not stepped: word k of a stream
does not depend on how many words were drawn before. Words and signs are the same on every platform. Gaussians go
through log, cos and sqrt of the C library, whose last bit may differ elsewhere.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A bijection of the 64-bit words in which every input bit reaches every output bit."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def words(seed: int, stream: int, n: int) -> npt.NDArray[np.uint64]:
    """The first n words of a stream.

    >>> [hex(w) for w in words(0, 0, 2)]
    ['0x238275bc38fcbe91', '0xf89a2566b5822c54']
    """
    start = mix(np.array([(seed + GOLDEN) & _MASK], dtype=np.uint64))
    key = mix(start + np.uint64(((stream + 1) * GOLDEN) & _MASK))
    steps = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return mix(key + steps)


def signs(seed: int, stream: int, n: int) -> npt.NDArray[np.float32]:
    """n independent fair signs: -1 where the top bit of the word is set.

    >>> signs(0, 0, 4).tolist()
    [1.0, -1.0, 1.0, -1.0]
    """
    return np.where(words(seed, stream, n) >> np.uint64(63), np.float32(-1), np.float32(1))


def gaussians(seed: int, stream: int, n: int) -> npt.NDArray[np.float64]:
    """n independent standard normal numbers, two from each pair of words (Box and Muller)."""
    pairs = (n + 1) // 2
    u = (words(seed, stream, 2 * pairs) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    radius = np.sqrt(-2.0 * np.log1p(-u[:pairs]))
    angle = 2.0 * np.pi * u[pairs:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:n]
