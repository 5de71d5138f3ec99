"""The check: what passes, in which form, and what is refused. At every entry: tests/hashing/test_bad_input.py."""

from __future__ import annotations

import numpy as np
import pytest

from lethevec._vectors import MAX_NORM, as_vectors
from lethevec.errors import VectorError


def assert_checked(array, n, dim):
    assert array.shape == (n, dim)
    assert array.dtype == np.dtype("=f4")
    assert array.flags.c_contiguous


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", "g", ">f4", ">f8", "<f4", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4"]
)
def test_any_real_type(dtype):
    x = as_vectors(np.array([[1, 2, 3], [4, 5, 6]], dtype=dtype), 3)
    assert_checked(x, 2, 3)
    assert x.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


@pytest.mark.parametrize(
    "view",
    [lambda a: a[:, ::2], lambda a: a[::-1, :3], lambda a: np.asfortranarray(a[:, :3]), lambda a: a.T[:3].T],
    ids=["columns", "reversed", "fortran", "transposed"],
)
def test_any_strides(view):
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = as_vectors(view(a), 3)
    assert_checked(x, 4, 3)
    np.testing.assert_array_equal(x, view(a))


def test_lists_tuples_and_mixtures():
    for given in ([1, 2.5, 3], (1, 2.5, 3), [[1, 2.5, 3]], [(1, 2.5, 3)], [np.array([1, 2.5, 3])]):
        x = as_vectors(given, 3)
        assert_checked(x, 1, 3)
        assert x.tolist() == [[1.0, 2.5, 3.0]]


def test_dim_one():
    """A single number in a list is a vector; several are not a batch."""
    assert as_vectors([5.0], 1).tolist() == [[5.0]]
    assert as_vectors([[5.0], [6.0]], 1).tolist() == [[5.0], [6.0]]
    with pytest.raises(VectorError, match=r"expected shape \(n, 1\) or \(1,\), got \(2,\)"):
        as_vectors([5.0, 6.0], 1)


LARGEST = np.nextafter(np.float32(MAX_NORM), np.float32(0))  # float32(1e18) itself, or the one below it


def test_the_largest_and_the_smallest_pass():
    x = as_vectors([[LARGEST, 1e-45, -1e-45, -0.0], [0.0, -LARGEST, 0.0, 0.0]], 4)
    assert x.tolist() == [[LARGEST, np.float32(1e-45), -np.float32(1e-45), 0.0], [0.0, -LARGEST, 0.0, 0.0]]
    assert np.signbit(x[0, 3])


def test_only_the_norm_of_a_row_counts():
    """Not its largest entry, and not the sum over the batch."""
    x = np.full((100, 50), 1.4e17, dtype=np.float32)  # norms of 9.9e17
    np.testing.assert_array_equal(as_vectors(x, 50), x)
    x[71] *= np.float32(1.02)
    with pytest.raises(VectorError, match=r"expected norms up to 1e\+18, .*, got 1\.00975e\+18 in row 71"):
        as_vectors(x, 50)


@pytest.mark.parametrize("value", [1.0001e18, 1e19, 1e30, float(np.finfo(np.float32).max)])
@pytest.mark.parametrize("where", [(0, 0), (299, 2), (599, 4)])
def test_larger_norms_are_refused(value, where):
    x = np.ones((600, 5))
    x[where] = -value
    with pytest.raises(VectorError) as caught:
        as_vectors(x, 5, name="queries")
    assert str(caught.value).startswith("queries: expected norms up to 1e+18")
    assert str(caught.value).endswith(f"got {value:g} in row {where[0]}")


@pytest.mark.parametrize("row", [[1.0, np.nan], [np.nan, 1e30], [1e30, np.inf]])
def test_what_is_not_finite_is_named_before_what_is_large(row):
    with pytest.raises(VectorError, match="expected finite numbers, got 1 that are not, the first at row 1"):
        as_vectors([[1e30, 0.0], row], 2)


def test_masked_entries_are_refused():
    """NumPy would hand out whatever lies under the mask."""
    x = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, False], [False, True]])
    with pytest.raises(VectorError, match="expected numbers everywhere, got a masked array with masked entries"):
        as_vectors(x, 2)
    assert as_vectors(x[:1], 2).tolist() == [[1.0, 2.0]]
    for rows in ([x[1], x[0]], (x[0], x[1])):
        with pytest.raises(VectorError, match="expected numbers everywhere, got a masked array with masked entries"):
            as_vectors(rows, 2)
    assert as_vectors([x[0], [5.0, 6.0]], 2).tolist() == [[1.0, 2.0], [5.0, 6.0]]


def test_float64_rounds_to_nearest():
    x = as_vectors([[0.1, 1 / 3]], 2)
    np.testing.assert_array_equal(x, np.array([[0.1, 1 / 3]]).astype(np.float32))


def test_float64_that_rounds_to_infinity():
    limit = float(np.finfo(np.float32).max)
    with pytest.raises(VectorError, match=r"got 3\.40282e\+38 in row 0"):
        as_vectors([[np.nextafter(limit, np.inf)]], 1)  # rounds back to the largest float32
    with pytest.raises(VectorError, match="row 0, column 0: a number beyond the range of float32"):
        as_vectors([[limit * 1.0001]], 1)


@pytest.mark.parametrize("where", [(0, 0), (7, 2), (99, 4)])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_first_bad_entry_is_named(where, value):
    x = np.zeros((100, 5))
    x[where] = value
    x[99, 4] = value
    count = 1 if where == (99, 4) else 2
    with pytest.raises(VectorError) as caught:
        as_vectors(x, 5)
    assert f"got {count} that are not, the first at row {where[0]}, column {where[1]}: {value}" in str(caught.value)


def test_opposite_infinities_do_not_cancel():
    with pytest.raises(VectorError, match="2 that are not"):
        as_vectors([[np.inf, -np.inf]], 2)


def test_zero_vectors_when_a_direction_is_needed():
    x = np.ones((5, 3))
    x[1] = x[3] = 0
    x[3, 0] = -0.0
    assert as_vectors(x, 3).shape == (5, 3)
    with pytest.raises(VectorError, match=r"nonzero vectors .*, got 2 zero, the first in row 1"):
        as_vectors(x, 3, nonzero=True)


def test_what_rounds_to_zero_is_refused_as_too_short_and_not_as_zero():
    with pytest.raises(VectorError, match=r"norms of at least 1e-12, .* the first in row 0: 1\.41e-60"):
        as_vectors([[1e-60, -1e-60]], 2, nonzero=True)


def test_what_rounds_to_zero_has_no_direction_where_any_norm_is_taken():
    with pytest.raises(VectorError, match="got 1 zero"):
        as_vectors([[1e-60, -1e-60]], 2, nonzero=True, smallest=0.0)


def test_the_smallest_vector_has_a_direction_where_any_norm_is_taken():
    assert as_vectors([[1e-45, 0.0]], 2, nonzero=True, smallest=0.0).any()


def test_the_name_is_the_callers():
    for bad in ("x", [[np.nan]], [[1.0, 2.0]], np.ones((0, 1)), [[0.0]]):
        with pytest.raises(VectorError, match=r"^queries: expected"):
            as_vectors(bad, 1, name="queries", nonzero=True)


def test_a_good_array_is_not_copied_and_never_changed():
    x = np.ones((3, 4), dtype=np.float32)
    assert np.shares_memory(as_vectors(x, 4), x)
    y = np.ones((3, 4), dtype=np.float64)
    as_vectors(y, 4)[:] = 5
    assert (y == 1).all()
