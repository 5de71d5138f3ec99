"""One sealed thing: AES-256-GCM under a key of its own, with the number of that key in front.

    number (8 bytes, big-endian) || nonce (12 random bytes) || ciphertext and tag (16 bytes)

The number is authenticated too, and for all but records what it is, so that it cannot stand in for one. A record keeps
its key when it is updated, so that destroying the key reaches every version of it; hence the random nonce.
"""

from __future__ import annotations

import secrets
from functools import cache
from typing import Any

from ..errors import FormatError, MissingDependencyError

__all__ = ["CODE", "IMAGE", "OVERHEAD", "is_sealed", "key_number", "seal", "unseal"]

_NUMBER = 8
_NONCE = 12
_MOST = 1 << 48  # more than a file has room for
OVERHEAD = _NUMBER + _NONCE + 16
CODE = b"code"  # what a sealed code says that it is; a record says nothing
IMAGE = b"image"  # and an image of the index


def seal(number: int, key: bytes, content: bytes, kind: bytes = b"") -> bytes:
    """Seal some bytes under the key with this number."""
    head = number.to_bytes(_NUMBER, "big")
    nonce = secrets.token_bytes(_NONCE)
    sealed: bytes = _aesgcm()(key).encrypt(nonce, content, head + kind)
    return head + nonce + sealed


def is_sealed(sealed: bytes) -> bool:
    """Whether it is long enough, and names a key that could be."""
    return len(sealed) >= OVERHEAD and int.from_bytes(sealed[:_NUMBER], "big") < _MOST


def key_number(sealed: bytes) -> int:
    """The number of the key that opens it."""
    if len(sealed) < OVERHEAD:
        raise FormatError(f"expected at least {OVERHEAD} bytes of a sealed record, got {len(sealed)}: damaged")
    number = int.from_bytes(sealed[:_NUMBER], "big")
    if number >= _MOST:
        raise FormatError(f"expected the number of a key below {_MOST}, got {number}: damaged")
    return number


def unseal(sealed: bytes, key: bytes, kind: bytes = b"") -> bytes:
    """The content; anything but what `seal` made of this kind under this key is a `FormatError`."""
    head, nonce = sealed[:_NUMBER], sealed[_NUMBER : _NUMBER + _NONCE]
    try:
        content: bytes = _aesgcm()(key).decrypt(nonce, sealed[_NUMBER + _NONCE :], head + kind)
    except _invalid_tag():
        raise FormatError(
            f"record of key {int.from_bytes(head, 'big')}: expected what was sealed with it, got other bytes: damaged"
        ) from None
    return content


@cache
def _invalid_tag() -> type[Exception]:
    from cryptography.exceptions import InvalidTag

    kind: type[Exception] = InvalidTag
    return kind


@cache
def _aesgcm() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise MissingDependencyError(
            "sealed stores are encrypted with AES-256-GCM, which needs the package cryptography; "
            "install it with: pip install 'lethevec[store]'"
        ) from None
    return AESGCM
