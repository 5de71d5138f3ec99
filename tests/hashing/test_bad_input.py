"""Bad input at every entry: refused with an error that names what came and what was expected."""

from __future__ import annotations

import numpy as np
import pytest

import lethevec
from lethevec.errors import InputError, LethevecError, UnsupportedError, VectorError

DIM = 4
ENTRIES = ["values", "codes"]
FAMILIES = ["simhash", "superbit", "usr", "progressive", "faiss-lsh"]
GOOD = [1.0, -2.0, 3.0, 0.5]

BAD_VECTORS = {
    "nothing": (None, ["dtype object"]),
    "a string": ("abcd", ["real numbers", "dtype"]),
    "a number": (3.0, ["shape (n, 4) or (4,)", "got ()"]),
    "a set": ({1.0, 2.0}, ["dtype object"]),
    "a dict": ({"x": 1.0}, ["dtype object"]),
    "str": (np.array([["a", "b", "c", "d"]]), ["real numbers", "<U1"]),
    "bytes": (np.array([[b"a", b"b", b"c", b"d"]]), ["real numbers", "|S1"]),
    "numerals": (["1", "2", "3", "4"], ["real numbers", "<U1"]),
    "object": (np.array([GOOD], dtype=object), ["real numbers", "object"]),
    "complex": (np.array([GOOD], dtype=complex), ["real numbers", "complex128"]),
    "bool": (np.ones((1, 4), dtype=bool), ["real numbers", "bool"]),
    "dates": (np.zeros((1, 4), dtype="datetime64[s]"), ["real numbers", "datetime64"]),
    "records": (np.zeros((4,), dtype=[("x", "f4")]), ["real numbers"]),
    "ragged": ([[1.0, 2.0, 3.0, 4.0], [1.0, 2.0]], ["rows of equal length"]),
    "holes": ([[1.0, None, 3.0, 4.0]], ["real numbers", "object"]),
    "too few columns": (np.ones((2, 3)), ["(n, 4)", "(2, 3)"]),
    "too many columns": (np.ones((2, 5)), ["(n, 4)", "(2, 5)"]),
    "too short": (np.ones(3), ["(4,)", "(3,)"]),
    "a flat batch": (np.ones(8), ["(4,)", "(8,)"]),
    "transposed": (np.ones((4, 2)), ["(n, 4)", "(4, 2)"]),
    "3-D": (np.ones((1, 1, 4)), ["(n, 4)", "(1, 1, 4)"]),
    "empty list": ([], ["(n, 4)", "(0,)"]),
    "empty row": ([[]], ["(n, 4)", "(1, 0)"]),
    "no rows": (np.ones((0, 4)), ["at least one vector", "(0, 4)"]),
    "NaN": ([GOOD, [0.0, 0.0, np.nan, 0.0]], ["finite", "1 that are not", "row 1, column 2", "nan"]),
    "infinity": ([[np.inf, 0.0, 0.0, -np.inf]], ["finite", "2 that are not", "row 0, column 0", "inf"]),
    "minus infinity": ([[0.0, 0.0, 0.0, -np.inf]], ["finite", "column 3", "-inf"]),
    "float16 infinity": (np.array([GOOD, [np.inf] * 4], dtype=np.float16), ["finite", "4 that are not", "row 1"]),
    "beyond float32": ([[0.0, 1e39, 0.0, 0.0]], ["finite", "column 1", "beyond the range of float32"]),
    "just beyond float32": ([[0.0, 0.0, -3.4028236e38, 0.0]], ["finite", "column 2", "beyond the range of float32"]),
    "too long": ([GOOD, [0.0, 8e17, 8e17, 0.0]], ["norms up to 1e+18", "got 1.13137e+18", "row 1"]),
    "large integers": ([[10**18 + 10**15, 0, 0, 0]], ["norms up to 1e+18", "got 1.001e+18", "row 0"]),
    "masked": (np.ma.array([GOOD], mask=[[False, True, False, False]]), ["numbers everywhere", "masked entries"]),
    "huge integers": ([[10**400, 0, 0, 0]], ["real numbers", "object"]),
}


def refusal(call, argument):
    with pytest.raises(VectorError) as caught:
        call(argument)
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("case", BAD_VECTORS)
def test_vectors(family, entry, case):
    argument, fragments = BAD_VECTORS[case]
    h = lethevec.hasher(family, dim=DIM, bits=2 * DIM)
    message = refusal(getattr(h, entry), argument)
    assert message.startswith("vectors: expected")
    assert "got" in message
    for fragment in fragments:
        assert fragment in message
    # And the hasher is as it was.
    np.testing.assert_array_equal(h.codes(GOOD), lethevec.hasher(family, dim=DIM, bits=2 * DIM).codes(GOOD))


BAD_CODES = {
    "nothing": None,
    "a string": "ab",
    "a number": 7,
    "a list of ints": [[1, 2]],
    "vectors": np.ones((1, 4), dtype=np.float32),
    "floats": np.ones((1, 2)),
    "int8": np.ones((1, 2), dtype=np.int8),
    "uint16": np.ones((1, 2), dtype=np.uint16),
    "bool": np.ones((1, 2), dtype=bool),
    "object": np.ones((1, 2), dtype=object),
    "complex": np.ones((1, 2), dtype=complex),
    "str": np.array([["a", "b"]]),
    "too few bytes": np.ones((3, 1), dtype=np.uint8),
    "too many bytes": np.ones((3, 3), dtype=np.uint8),
    "unpacked bits": np.ones((3, 12), dtype=np.uint8),
    "no rows": np.ones((0, 2), dtype=np.uint8),
    "empty": np.array([], dtype=np.uint8),
    "3-D": np.ones((1, 1, 2), dtype=np.uint8),
    "ragged": [[1, 2], [3]],
    "NaN": [[np.nan, 0.0]],
    "infinity": [[np.inf, 0.0]],
}


@pytest.mark.parametrize("family", ["superbit", "usr", "progressive", "faiss-lsh"])
@pytest.mark.parametrize("case", BAD_CODES)
def test_codes(family, case):
    h = lethevec.hasher(family, dim=DIM, bits=3 * DIM)  # two bytes, the second half used
    message = refusal(h.reconstruct, BAD_CODES[case])
    assert message.startswith("codes: expected")
    assert "got" in message
    if case != "ragged":
        assert "uint8 of shape (n, 2)" in message


@pytest.mark.parametrize("bits", [3, 9])
def test_no_reconstruction_of_simhash(bits):
    """Of simHash by name, and where Faiss's rule chooses it."""
    for family in ("simhash", "faiss-lsh") if bits < DIM else ("simhash",):
        h = lethevec.hasher(family, dim=DIM, bits=bits)
        with pytest.raises(UnsupportedError, match=f"{family}: its codes have no reconstruction") as caught:
            h.reconstruct(h.codes(GOOD))
        assert isinstance(caught.value, LethevecError)


def test_no_reconstruction_of_a_cut_block():
    h = lethevec.hasher("superbit", dim=DIM, bits=9)
    with pytest.raises(UnsupportedError, match="multiple of dim=4, got 9"):
        h.reconstruct(h.codes(GOOD))


GOOD_VECTORS = {
    "list": GOOD,
    "tuple": tuple(GOOD),
    "nested list": [GOOD],
    "float16": np.array([GOOD], dtype=np.float16),
    "float32": np.array([GOOD], dtype=np.float32),
    "float64": np.array([GOOD], dtype=np.float64),
    "long double": np.array([GOOD], dtype=np.longdouble),
    "other byte order": np.array([GOOD], dtype=np.dtype("f4").newbyteorder()),
    "Fortran order": np.asfortranarray(np.array([GOOD, GOOD], dtype=np.float32)),
    "strided": np.repeat(np.array([GOOD], dtype=np.float32), 2, axis=1)[:, ::2],
    "reversed": np.array([GOOD[::-1]], dtype=np.float32)[:, ::-1],
    "read-only": np.frombuffer(np.array(GOOD, dtype=np.float32).tobytes(), dtype=np.float32),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("case", GOOD_VECTORS)
def test_what_is_converted(family, case):
    h = lethevec.hasher(family, dim=DIM, bits=2 * DIM)
    argument = GOOD_VECTORS[case]
    expected = h.values(np.array([GOOD], dtype=np.float32))
    for row in h.values(argument):
        np.testing.assert_array_equal(row, expected[0])


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integers_are_converted(dtype):
    h = lethevec.hasher("usr", dim=DIM, bits=8)
    np.testing.assert_array_equal(h.values(np.array([1, 2, 3, 4], dtype=dtype)), h.values([1.0, 2.0, 3.0, 4.0]))


def test_the_callers_array_is_not_touched():
    x = np.array([GOOD, GOOD], dtype=np.float32)
    before = x.copy()
    for family in FAMILIES:
        h = lethevec.hasher(family, dim=DIM, bits=8)
        h.values(x)
        h.codes(x)
    np.testing.assert_array_equal(x, before)


def test_codes_that_are_converted():
    h = lethevec.hasher("superbit", dim=DIM, bits=12)
    codes = h.codes([GOOD, GOOD[::-1], GOOD])
    expected = h.reconstruct(codes)
    np.testing.assert_array_equal(h.reconstruct(np.asfortranarray(codes)), expected)
    np.testing.assert_array_equal(h.reconstruct(codes[::2]), expected[::2])
    np.testing.assert_array_equal(h.reconstruct(codes[1]), expected[1:2])
