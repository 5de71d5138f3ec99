"""The digest of a set of records: a homomorphic multiset hash (LtHash) of their encodings.

    record = "v", id (int64), vector (float32)                          where vectors are kept
             "c", id (int64), |x| (float32), factor (float32), code     otherwise; all of it little-endian
    key    = BLAKE2b-256(record, person "lethevec-record1")
    lanes  = the first 2,048 bytes of the ChaCha20 keystream of key (counter from 0, nonce of zeros),
             read as 1,024 little-endian uint16
    state  = the number of records (uint64 LE), and the lane-wise sum of their lanes modulo 2^16 (uint16 LE)
    digest = BLAKE2b-256(configuration || state, person "lethevec-digest1"), in hexadecimal

A sum does not depend on order, and subtracting a record gives exactly the state without it. So the digest is a function
of configuration and records alone, and it can be kept up to date record by record. To find two sets with the same sum
is a hard lattice problem (Bellare and Micciancio; LtHash with 1,024 lanes of 16 bits), with one exception: 2^16 copies
of one record add up to zero, so records must be unique. They are, because their ids are.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .chacha20 import BLOCK, keystream
from .codes import U8
from .constants import CODE_TAG, DIGEST_LANES, DIGEST_PERSON, RECORD_PERSON, VECTOR_TAG
from .vectors import F32

U16 = npt.NDArray[np.uint16]

_AT_ONCE = 128  # records that are expanded together: 256 kB of keystream


def vector_record(id: int, vector: F32) -> bytes:
    """A record whose vector is kept.

    >>> vector_record(7, np.float32([1.0])).hex(" ", 4)
    '76 07000000 00000000 0000803f'
    """
    return VECTOR_TAG + struct.pack("<q", id) + vector.astype("<f4").tobytes()


def code_record(id: int, norm: float, factor: float, code: U8) -> bytes:
    """A record of which only the code is kept.

    >>> code_record(7, 1.0, 2.0, np.uint8([255, 1])).hex(" ")
    '63 07 00 00 00 00 00 00 00 00 00 80 3f 00 00 00 40 ff 01'
    """
    return CODE_TAG + struct.pack("<qff", id, norm, factor) + code.tobytes()


def configuration_json(configuration: Mapping[str, Any]) -> bytes:
    """The bytes of an index's configuration: JSON with sorted keys, without spaces.

    >>> configuration_json({"metric": "l2", "dim": 2})
    b'{"dim":2,"metric":"l2"}'
    """
    return json.dumps(dict(configuration), sort_keys=True, separators=(",", ":")).encode()


def record_keys(records: Sequence[bytes]) -> U8:
    """BLAKE2b-256 of each encoded record: (n, 32) uint8."""
    hashed = b"".join(hashlib.blake2b(record, digest_size=32, person=RECORD_PERSON).digest() for record in records)
    return np.frombuffer(hashed, dtype=np.uint8).reshape(len(records), 32)


def expand(keys: U8) -> U16:
    """The 1,024 lanes of each key: (n, 32) uint8 in, (n, 1024) uint16 out."""
    stream = keystream(keys, 2 * DIGEST_LANES // BLOCK)
    return stream.view("<u2").astype(np.uint16, copy=False)


def multiset_state(records: Iterable[bytes]) -> bytes:
    """The state of a set of encoded records, 2,056 bytes.

    >>> multiset_state([b"a", b"b"]) == multiset_state([b"b", b"a"])
    True
    """
    everything = list(records)
    lanes = np.zeros(DIGEST_LANES, dtype=np.uint16)
    for at in range(0, len(everything), _AT_ONCE):
        lanes += expand(record_keys(everything[at : at + _AT_ONCE])).sum(axis=0, dtype=np.uint16)
    return len(everything).to_bytes(8, "little") + lanes.astype("<u2", copy=False).tobytes()


def digest_of_state(configuration: bytes, state: bytes) -> str:
    """The digest, 64 hexadecimal digits.

    >>> digest_of_state(b"", multiset_state([]))[:16]
    '61fc0944b85e0f9c'
    """
    return hashlib.blake2b(configuration + state, digest_size=32, person=DIGEST_PERSON).hexdigest()
