"""The multiset hash: order does not matter, removal is exact, the native core equals the spec."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethevec import reference
from lethevec._forgetting.multiset import STATE_BYTES, MultisetHash
from lethevec.errors import FormatError

items = st.lists(st.binary(max_size=300), unique=True, max_size=12)


def test_a_digest_that_must_never_change():
    hashed = MultisetHash(b'{"dim":2}')
    hashed.add([b"alpha", b"beta"])
    assert hashed.digest() == "cd45c46ca9a5dc0d43800c875d8df4b0b8041ef8d9800fdfcec2b8ff44c800ee"


@given(items)
def test_the_native_core_equals_the_spec(records: list[bytes]):
    hashed = MultisetHash(b"")
    hashed.add(records)
    state = reference.multiset_state(records)
    assert hashed.to_bytes() == state
    assert hashed.digest() == reference.digest_of_state(b"", state)


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
