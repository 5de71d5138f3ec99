"""ChaCha20 against the vectors of RFC 8439, and many keys at once against one at a time."""

from __future__ import annotations

import numpy as np
import pytest

from lethevec.reference.chacha20 import keystream

# RFC 8439, 2.3.2: the block function.
RFC_KEY = bytes(range(32))
RFC_NONCE = bytes.fromhex("000000090000004a00000000")
RFC_BLOCK = bytes.fromhex(
    "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
    "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
)
# RFC 8439, A.1: test vectors 1, 2 and 4 of the block function (key, counter, block).
RFC_A1 = [
    (
        bytes(32),
        0,
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (
        bytes(32),
        1,
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    (
        b"\0\xff" + bytes(30),
        2,
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
        "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
    ),
]


def as_keys(*keys: bytes) -> np.ndarray:
    return np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, 32)


def test_block_of_the_rfc():
    assert keystream(as_keys(RFC_KEY), 1, counter=1, nonce=RFC_NONCE).tobytes() == RFC_BLOCK


@pytest.mark.parametrize(("key", "counter", "block"), RFC_A1)
def test_appendix_of_the_rfc(key: bytes, counter: int, block: str):
    assert keystream(as_keys(key), 1, counter=counter).tobytes().hex() == block


def test_many_keys_and_blocks_are_each_on_their_own():
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 256, (7, 32), dtype=np.uint8)
    together = keystream(keys, 5)
    assert together.shape == (7, 320)
    for key, stream in zip(keys, together, strict=True):
        for block in range(5):
            alone = keystream(key[None], 1, counter=block)
            assert alone.tobytes() == stream[64 * block : 64 * block + 64].tobytes()


def test_against_cryptography():
    ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers")
    key = bytes(range(100, 132))
    # Its nonce of 16 bytes is our counter (4 bytes LE) and nonce.
    cipher = ciphers.Cipher(ciphers.algorithms.ChaCha20(key, bytes(16)), mode=None)
    assert keystream(as_keys(key), 32).tobytes() == cipher.encryptor().update(bytes(2048))
