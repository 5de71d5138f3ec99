"""The multiset hash: order does not matter, removal is exact, the native core equals the spec."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethevec.errors import FormatError
from lethevec.forgetting.chacha20 import keystream
from lethevec.forgetting.multiset import LANES, STATE_BYTES, MultisetHash, expand, record_keys, sum_lanes

items = st.lists(st.binary(max_size=300), unique=True, max_size=12)


def test_by_the_definition_step_by_step():
    records = [b"one", b"two", b""]
    total = np.zeros(LANES, dtype=np.int64)
    for record in records:
        key = hashlib.blake2b(record, digest_size=32, person=b"lethevec-record1").digest()
        stream = keystream(np.frombuffer(key, np.uint8)[None], 32).tobytes()
        total += [int.from_bytes(stream[i : i + 2], "little") for i in range(0, 2048, 2)]
    lanes = b"".join(int(lane % 65536).to_bytes(2, "little") for lane in total)
    expected = hashlib.blake2b(
        b"configuration" + (3).to_bytes(8, "little") + lanes, digest_size=32, person=b"lethevec-digest1"
    )
    hashed = MultisetHash(b"configuration")
    hashed.add(records)
    assert hashed.digest() == expected.hexdigest()


def test_a_digest_that_must_never_change():
    hashed = MultisetHash(b'{"dim":2}')
    hashed.add([b"alpha", b"beta"])
    assert hashed.digest() == "cd45c46ca9a5dc0d43800c875d8df4b0b8041ef8d9800fdfcec2b8ff44c800ee"


@given(items)
def test_the_native_core_equals_the_spec(records: list[bytes]):
    hashed = MultisetHash(b"")
    hashed.add(records)
    lanes, count = sum_lanes(records)
    assert hashed.to_bytes() == count.to_bytes(8, "little") + lanes.astype("<u2").tobytes()


def test_the_spec_over_more_than_one_chunk():
    records = [b"%d" % i for i in range(300)]
    lanes, count = sum_lanes(records)
    assert count == 300
    assert (lanes == expand(record_keys(records)).astype(np.uint64).sum(axis=0).astype(np.uint16)).all()


@given(items, items, st.randoms(use_true_random=False))
def test_any_order_and_any_detour_end_the_same(stay: list[bytes], leave: list[bytes], random):
    leave = [item for item in leave if item not in stay]
    straight = MultisetHash(b"c")
    straight.add(stay)
    detour = MultisetHash(b"c")
    steps = [(item, True) for item in stay + leave]
    random.shuffle(steps)
    for item, _ in steps:
        detour.add([item])
    random.shuffle(leave)
    detour.remove(leave)
    assert detour.digest() == straight.digest()
    assert detour.to_bytes() == straight.to_bytes()


def test_what_is_in_it_matters():
    seen = set()
    for configuration, records in [(b"a", []), (b"b", []), (b"a", [b"x"]), (b"a", [b"y"]), (b"a", [b"x", b"y"])]:
        hashed = MultisetHash(configuration)
        hashed.add(records)
        seen.add(hashed.digest())
    assert len(seen) == 5


def test_state_round_trip_and_copy():
    hashed = MultisetHash(b"c")
    hashed.add([b"x", b"y"])
    again = MultisetHash.from_bytes(b"c", hashed.to_bytes())
    assert again.digest() == hashed.digest()
    assert again.count == 2
    copy = hashed.copy()
    copy.add([b"z"])
    assert again.digest() == hashed.digest() != copy.digest()


@pytest.mark.parametrize("size", [0, 8, STATE_BYTES - 1, STATE_BYTES + 1])
def test_a_state_of_the_wrong_length_is_refused(size: int):
    with pytest.raises(FormatError, match=f"expected {STATE_BYTES} bytes, got {size}"):
        MultisetHash.from_bytes(b"", bytes(size))
