"""The ChaCha20 block function of RFC 8439, for many keys at once, in plain NumPy.

It serves as an expander (32 bytes in, any number of bytes out), never as a cipher here. Words are little-endian uint32;
the state is kept as four rows of four words, so that one NumPy operation does a step of all four quarter rounds of all
blocks.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["BLOCK", "keystream"]

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]

BLOCK = 64  # bytes of one block
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4").astype(np.uint32)


def keystream(keys: U8, blocks: int, *, counter: int = 0, nonce: bytes = bytes(12)) -> U8:
    """The first `blocks` blocks for each key: (n, 32) uint8 in, (n, 64 * blocks) uint8 out.

    >>> stream = keystream(np.zeros((1, 32), np.uint8), 1)
    >>> stream[0, :8].tobytes().hex()
    '76b8e0ada0f13d90'
    """
    n = keys.shape[0]
    words = np.ascontiguousarray(keys).view("<u4").astype(np.uint32)  # (n, 8)
    lanes = n * blocks
    start = np.empty((4, 4, lanes), dtype=np.uint32)
    start[0] = _CONSTANTS[:, None]
    start[1] = np.repeat(words[:, :4].T, blocks, axis=1)
    start[2] = np.repeat(words[:, 4:].T, blocks, axis=1)
    start[3, 0] = np.tile(np.arange(counter, counter + blocks, dtype=np.uint32), n)
    start[3, 1:] = np.frombuffer(nonce, dtype="<u4").astype(np.uint32)[:, None]

    a, b, c, d = (start[i].copy() for i in range(4))
    scratch = np.empty_like(a)
    for _ in range(10):
        _quarter_rounds(a, b, c, d, scratch)  # the columns
        b, c, d = _shift(b, 1), _shift(c, 2), _shift(d, 3)  # line the diagonals up as columns
        _quarter_rounds(a, b, c, d, scratch)
        b, c, d = _shift(b, 3), _shift(c, 2), _shift(d, 1)

    start[0] += a
    start[1] += b
    start[2] += c
    start[3] += d
    out = np.ascontiguousarray(start.reshape(16, lanes).T).astype("<u4", copy=False)
    return out.view(np.uint8).reshape(n, blocks * BLOCK)


def _quarter_rounds(a: U32, b: U32, c: U32, d: U32, scratch: U32) -> None:
    _step(a, b, d, 16, scratch)
    _step(c, d, b, 12, scratch)
    _step(a, b, d, 8, scratch)
    _step(c, d, b, 7, scratch)


def _step(x: U32, y: U32, z: U32, turn: int, scratch: U32) -> None:
    """One line of the quarter round: x += y; z = (z ^ x) <<< turn. uint32 arithmetic wraps, as the RFC asks."""
    np.add(x, y, out=x)
    np.bitwise_xor(z, x, out=z)
    np.right_shift(z, np.uint32(32 - turn), out=scratch)
    np.left_shift(z, np.uint32(turn), out=z)
    np.bitwise_or(z, scratch, out=z)


def _shift(row: U32, places: int) -> U32:
    """The four words of a row moved left by `places`, as a copy in one piece (in-place steps need that)."""
    return np.concatenate((row[places:], row[:places]))
