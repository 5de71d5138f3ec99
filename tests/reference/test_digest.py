"""The digest, step by step as it is defined."""

from __future__ import annotations

import hashlib

import numpy as np

from lethevec import reference
from lethevec.reference.chacha20 import keystream
from lethevec.reference.constants import DIGEST_LANES


def test_by_the_definition_step_by_step():
    records = [b"one", b"two", b""]
    total = np.zeros(DIGEST_LANES, dtype=np.int64)
    for record in records:
        key = hashlib.blake2b(record, digest_size=32, person=b"lethevec-record1").digest()
        stream = keystream(np.frombuffer(key, np.uint8)[None], 32).tobytes()
        total += [int.from_bytes(stream[i : i + 2], "little") for i in range(0, 2048, 2)]
    lanes = b"".join(int(lane % 65536).to_bytes(2, "little") for lane in total)
    state = (3).to_bytes(8, "little") + lanes
    assert reference.multiset_state(records) == state
    expected = hashlib.blake2b(b"configuration" + state, digest_size=32, person=b"lethevec-digest1").hexdigest()
    assert reference.digest_of_state(b"configuration", state) == expected


def test_a_digest_that_must_never_change():
    state = reference.multiset_state([b"alpha", b"beta"])
    expected = "cd45c46ca9a5dc0d43800c875d8df4b0b8041ef8d9800fdfcec2b8ff44c800ee"
    assert reference.digest_of_state(b'{"dim":2}', state) == expected


def test_more_records_than_are_expanded_at_once():
    records = [b"%d" % i for i in range(300)]
    lanes = reference.expand(reference.record_keys(records)).astype(np.uint64).sum(axis=0).astype("<u2")
    assert reference.multiset_state(records) == (300).to_bytes(8, "little") + lanes.tobytes()


def test_records_of_different_kinds_and_ids_differ():
    vector, code = np.zeros(3, dtype=np.float32), np.zeros(4, dtype=np.uint8)
    encodings = {
        reference.vector_record(1, vector),
        reference.vector_record(-1, vector),
        reference.vector_record(1, -vector),
        reference.code_record(1, 0.0, 0.0, code),
        reference.code_record(1, 0.0, 1.0, code),
    }
    assert len(encodings) == 5
