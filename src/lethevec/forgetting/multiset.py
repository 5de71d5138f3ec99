"""The digest of a set of records: a homomorphic multiset hash (LtHash).

`record_keys`, `expand` and `sum_lanes` are the spec, in plain NumPy; `MultisetHash` uses the native core, which agrees.

    key    = BLAKE2b-256(encoding of the record, person "lethevec-record1")
    lanes  = the first 2,048 bytes of the ChaCha20 keystream of key (counter from 0, nonce of zeros),
             read as 1,024 little-endian uint16
    state  = the lane-wise sum, mod 2^16, over the records; and their number
    digest = BLAKE2b-256(configuration || number as uint64 LE || lanes LE, person "lethevec-digest1"), in hexadecimal

A sum does not depend on order, and subtracting a record gives exactly the state without it. So the digest is a function
of configuration and records alone, and a store can keep it up to date record by record. Finding two sets with the same
sum is a hard lattice problem (Bellare and Micciancio; LtHash with 1,024 lanes of 16 bits), with one exception that
callers must respect: 2^16 copies of one item add up to zero, so items must be unique. Records are: ids are.

Removing what was never added cannot be noticed here; callers check presence first. `encode_record` of `records` makes
the encoding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from .._native import core
from ..errors import FormatError
from .chacha20 import BLOCK, keystream

__all__ = ["LANES", "STATE_BYTES", "MultisetHash", "expand", "record_keys", "sum_lanes"]

U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]

LANES = 1024
STATE_BYTES = 8 + 2 * LANES
_RECORD_PERSON = b"lethevec-record1"
_DIGEST_PERSON = b"lethevec-digest1"
_CHUNK = 128  # records expanded at once: 256 kB of keystream, which stays in the cache


def record_keys(items: Sequence[bytes]) -> U8:
    """BLAKE2b-256 of each encoded record: (n, 32) uint8."""
    hashed = b"".join(hashlib.blake2b(item, digest_size=32, person=_RECORD_PERSON).digest() for item in items)
    return np.frombuffer(hashed, dtype=np.uint8).reshape(len(items), 32)


def expand(keys: U8) -> U16:
    """The 1,024 lanes of each key: (n, 32) uint8 in, (n, 1024) uint16 out."""
    stream = keystream(keys, 2 * LANES // BLOCK)
    return stream.view("<u2").astype(np.uint16, copy=False)


class MultisetHash:
    """The running state: add and remove encoded records in any order, ask for the digest at any time.

    >>> one, two = MultisetHash(b"configuration"), MultisetHash(b"configuration")
    >>> one.add([b"a", b"b", b"c"])
    >>> one.remove([b"b"])
    >>> two.add([b"c", b"a"])
    >>> one.digest() == two.digest()
    True
    """

    def __init__(self, configuration: bytes) -> None:
        """Start with no records."""
        self.configuration = configuration
        self.count = 0
        self._lanes: U16 = np.zeros(LANES, dtype=np.uint16)

    def add(self, items: Iterable[bytes]) -> None:
        """Add encoded records."""
        lanes, count = _sum_lanes_native(items)
        self._lanes += lanes
        self.count += count

    def remove(self, items: Iterable[bytes]) -> None:
        """Take encoded records out again. They must be in: the hash cannot tell."""
        lanes, count = _sum_lanes_native(items)
        self._lanes -= lanes
        self.count -= count

    def digest(self) -> str:
        """The digest of configuration and records, 64 hexadecimal digits."""
        content = self.configuration + self.to_bytes()
        return hashlib.blake2b(content, digest_size=32, person=_DIGEST_PERSON).hexdigest()

    def copy(self) -> MultisetHash:
        """An independent copy: what a transaction works on until it is committed."""
        other = MultisetHash(self.configuration)
        other.count = self.count
        other._lanes = self._lanes.copy()
        return other

    def to_bytes(self) -> bytes:
        """The state, 2,056 bytes: the number of records (uint64 LE), then the lanes (uint16 LE)."""
        return self.count.to_bytes(8, "little") + self._lanes.astype("<u2", copy=False).tobytes()

    @classmethod
    def from_bytes(cls, configuration: bytes, state: bytes) -> MultisetHash:
        """Take up a state that `to_bytes` gave."""
        if len(state) != STATE_BYTES:
            raise FormatError(f"multiset state: expected {STATE_BYTES} bytes, got {len(state)}")
        self = cls(configuration)
        self.count = int.from_bytes(state[:8], "little")
        self._lanes = np.frombuffer(state, dtype="<u2", offset=8).astype(np.uint16)
        return self


def sum_lanes(items: Iterable[bytes]) -> tuple[U16, int]:
    """The lane-wise sum over encoded records and their number: the spec, in bounded memory."""
    total = np.zeros(LANES, dtype=np.uint16)
    count = 0
    chunk: list[bytes] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == _CHUNK:
            total += expand(record_keys(chunk)).sum(axis=0, dtype=np.uint16)
            count += len(chunk)
            chunk.clear()
    if chunk:
        total += expand(record_keys(chunk)).sum(axis=0, dtype=np.uint16)
        count += len(chunk)
    return total, count


def _sum_lanes_native(items: Iterable[bytes]) -> tuple[U16, int]:
    """The same, by the native core."""
    total = np.zeros(LANES, dtype=np.uint16)
    count = 0
    for item in items:
        core.record_lanes(item, total)
        count += 1
    return total, count
