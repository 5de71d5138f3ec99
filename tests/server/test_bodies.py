"""Vectors taken out of a JSON body without a Python object for each number: the same floats as the long way gives."""

from __future__ import annotations

import json
import random
import struct
from fractions import Fraction

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethevec._native import core

NAMES = ("vector", "vectors")


def long_way(body, dim):
    """What orjson and NumPy make of it: the array, and the rest; None if it is not what is asked for."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if type(content) is not dict or sum(type(content.get(name)) is list for name in NAMES) != 1:
        return None
    name = next(name for name in NAMES if type(content.get(name)) is list)
    rows = content.pop(name)
    rows = rows if rows and type(rows[0]) is list else [rows]
    if not all(type(row) is list and len(row) == dim for row in rows):
        return None
    if not all(type(number) in (int, float) for row in rows for number in row):
        return None
    with np.errstate(over="ignore"):
        return np.array(rows, dtype=np.float64).astype(np.float32), {**content, name: None}


def short_way(body, dim):
    """The native one."""
    taken = core.take_vectors(body, NAMES, dim)
    if taken is None:
        return None
    try:
        return taken[0], orjson.loads(taken[1])
    except orjson.JSONDecodeError:
        return None


def assert_same(body, dim, *, may_pass=True):
    short, long = short_way(body, dim), long_way(body, dim)
    if short is None:
        assert may_pass or long is None, body
        return
    assert long is not None, body
    assert short[0].tobytes() == long[0].tobytes(), body
    assert short[1] == long[1], body


def test_a_search_as_callers_send_it():
    vectors = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    for given_vectors in (vectors[0].tolist(), vectors.tolist(), vectors.astype(float).round(6).tolist()):
        name = "vector" if type(given_vectors[0]) is float else "vectors"
        for content in ({name: given_vectors, "k": 3}, {"k": 3, "where": {"a": ["}", '\\"', 1]}, name: given_vectors}):
            for indent in (None, 1):
                assert_same(json.dumps(content, indent=indent).encode(), 8, may_pass=False)


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**25), 10**25).map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=12))
def test_every_number_is_the_float_that_the_long_way_gives(texts):
    body = ('{"vector":[' + ",".join(texts) + "]}").encode()
    taken = core.take_vectors(body, NAMES, len(texts))
    assert taken is not None
    with np.errstate(over="ignore"):
        expected = np.array([float(text) for text in texts], dtype=np.float64).astype(np.float32)
    assert taken[0].tobytes() == expected.tobytes()


def test_numbers_half_way_between_two_floats():
    """The nearest double decides, and then the nearest float, as always: also where that rounds twice."""
    chance = random.Random(3)
    for _ in range(2000):
        bits = chance.randrange(0x2E000000, 0x4F000000)
        low, high = struct.unpack("<2f", struct.pack("<2I", bits, bits + 1))
        middle = (Fraction(low) + Fraction(high)) / 2
        for nudge in (0, 1, -1, 3, -3):
            value = middle * (1 + Fraction(nudge, 10**17))
            text = f"{float(value):.17g}" if chance.random() < 0.5 else f"{value.numerator / value.denominator:.18e}"
            taken = core.take_vectors(b'{"vector":[%s]}' % text.encode(), NAMES, 1)
            assert taken is not None
            assert taken[0][0, 0] == np.float32(float(text)), text


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"{",
        b"{}",
        b"[1]",
        b'{"vector":[1,2]',
        b'{"vector":[1,2,]}',
        b'{"vector":[1]}',
        b'{"vector":[1,2,3]}',
        b'{"vector":[1,null]}',
        b'{"vector":[1,true]}',
        b'{"vector":[01,2]}',
        b'{"vector":[.5,2]}',
        b'{"vector":[1.,2]}',
        b'{"vector":[+1,2]}',
        b'{"vector":[1e,2]}',
        b'{"vector":[NaN,2]}',
        b'{"vector":[1,2],"vector":[3,4]}',
        b'{"vector":[1,2],"vectors":[[3,4]]}',
        b'{"vectors":[[1,2],[3]]}',
        b'{"vectors":[[1,2],3]}',
        b'{"vectors":[]}',
        b'{"vector":"AAAA"}',
        b'{"a":{"vector":[1,2]}}',
        b'{"a":"\\',
        b'{"a":"\\"}',
        b'{"vec\\u0074or":[1,2]}',
    ],
)
def test_what_is_wrong_or_unusual_is_left_to_others(wrong):
    assert core.take_vectors(wrong, NAMES, 2) is None


def test_changed_bodies_are_never_read_in_another_way():
    chance = random.Random(7)
    seeds = [
        b'{"vector": [1.5, -2e-3, 0.25], "k": 10}',
        b'{"k":10,"where":{"a":"x]}\\"","b":[1,{"vector":[1,2,3]}]},"vectors":[[1,2,3],[4,5,6]]}',
        b'{"vectors": [[0.1, 0.2, 0.3]], "include": ["payloads"], "subject": "a\\u0041"}',
    ]
    alphabet = b'0123456789.-+eE[]{},:" \\nvector'
    read = 0
    for _ in range(20_000):
        body = bytearray(chance.choice(seeds))
        for _ in range(chance.randrange(3)):
            place = chance.randrange(len(body))
            action = chance.randrange(3)
            if action == 0:
                body[place] = chance.choice(alphabet)
            elif action == 1:
                body.insert(place, chance.choice(alphabet))
            else:
                del body[place]
        assert_same(bytes(body), 3)
        read += short_way(bytes(body), 3) is not None
    assert read > 5000


def test_bytes_are_wiped_but_for_those_that_python_shares():
    data = b"".join([b"secret ", b"text"])
    core.wipe_bytes(data)
    assert data == bytes(11)
    one = b"".join([b"x", b""])
    core.wipe_bytes(one)
    core.wipe_bytes(b"")
    assert one == b"\x78"
