"""The encoding of records: unambiguous."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethevec._forgetting.records import canonical_json, configuration_bytes, decode_record, encode_record
from lethevec.errors import FormatError

texts = st.text(st.characters(codec="utf-8"), max_size=6)
records = st.tuples(
    st.one_of(st.integers(-(2**63), 2**63 - 1), texts),
    st.binary(max_size=12),
    st.one_of(st.none(), texts),
    st.one_of(st.none(), texts),
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
)


@given(records, records)
def test_two_records_have_two_encodings(one, two):
    same = one == two and type(one[0]) is type(two[0])
    assert (encode_record(*one) == encode_record(*two)) == same


def test_pieces_cannot_be_moved_between_fields():
    assert encode_record("ab", b"c") != encode_record("a", b"bc")
    assert encode_record(1, b"", "x", None) != encode_record(1, b"", None, "x")
    assert encode_record(1, b"", "", None) != encode_record(1, b"", None, None)


def test_an_int_is_not_its_digits():
    assert encode_record(7, b"") != encode_record("7", b"")


@pytest.mark.parametrize("id", [-(2**63) - 1, 2**63])
def test_an_int_beyond_64_bits_has_none(id: int):
    with pytest.raises(OverflowError):
        encode_record(id, b"")


def test_canonical_json_does_not_depend_on_insertion_order():
    assert canonical_json({"a": 1, "b": {"d": 2, "c": 3}}) == canonical_json({"b": {"c": 3, "d": 2}, "a": 1})
    assert configuration_bytes({"é": 1}) == '{"é":1}'.encode()
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))


@pytest.mark.parametrize("id", [0, 7, 2**63 - 1, "7", "é"])
@pytest.mark.parametrize("subject", [None, "", "somebody"])
@pytest.mark.parametrize("payload", [None, '{"a":1}'])
def test_decoding_gives_back_what_was_encoded(id, subject, payload):
    for expires in (None, 0, 2**62, -1):
        record = (id, b"vector", subject, payload, expires)
        assert decode_record(encode_record(*record)) == record


@pytest.mark.parametrize(
    "encoding",
    [
        b"",
        b"i",
        encode_record(7, b"")[:-1],
        encode_record(7, b"vector") + b"x",
        encode_record(7, b"vector")[:-1],
        encode_record(7, b"vector")[17:],
        encode_record(7, b"") + encode_record(7, b""),
        encode_record("a", b"", "s").replace(b"u", b"p", 1) + encode_record("a", b"", "s")[-10:],
        b"i" + (4).to_bytes(8, "little") + b"1234" + b"v" + bytes(8),
        b"s" + (1).to_bytes(8, "little") + b"\xff" + b"v" + bytes(8),
        b"i" + (2**63).to_bytes(8, "little") + b"12345678",
    ],
)
def test_anything_else_is_refused(encoding):
    with pytest.raises(FormatError, match="record: expected"):
        decode_record(encoding)
