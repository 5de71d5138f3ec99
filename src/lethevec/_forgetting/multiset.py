"""The digest of a set of records, kept up to date while records come and go.

`lethevec.reference.digest` defines it: each record expands to 1,024 numbers of 16 bits, and these are added up. Here
the native core expands the records. Removing a record that was never added cannot be noticed; callers check presence
first, and callers see to it that no record is added twice.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from .._native import core
from ..errors import FormatError
from ..reference import digest_of_state
from ..reference.constants import DIGEST_LANES

__all__ = ["LANES", "STATE_BYTES", "MultisetHash"]

LANES = DIGEST_LANES
STATE_BYTES = 8 + 2 * LANES


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
        self._lanes: npt.NDArray[np.uint16] = np.zeros(LANES, dtype=np.uint16)

    def add(self, items: Iterable[bytes]) -> None:
        """Add encoded records."""
        lanes, count = _sum_lanes(items)
        self._lanes += lanes
        self.count += count

    def remove(self, items: Iterable[bytes]) -> None:
        """Take encoded records out again. They must be in: the hash cannot tell."""
        lanes, count = _sum_lanes(items)
        self._lanes -= lanes
        self.count -= count

    def merge(self, other: MultisetHash) -> None:
        """Add all records of another sum. They must be other records: the hash cannot tell."""
        self._lanes += other._lanes
        self.count += other.count

    def digest(self) -> str:
        """The digest of configuration and records, 64 hexadecimal digits."""
        return digest_of_state(self.configuration, self.to_bytes())

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


def _sum_lanes(items: Iterable[bytes]) -> tuple[npt.NDArray[np.uint16], int]:
    """The lane-wise sum over encoded records, and their number."""
    total = np.zeros(LANES, dtype=np.uint16)
    count = 0
    for item in items:
        core.record_lanes(item, total)
        count += 1
    return total, count
