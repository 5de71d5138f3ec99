"""Bad input at every entry of the index: an error that says what came and what was expected, and nothing changed."""

from __future__ import annotations

import numpy as np
import pytest

import lethevec
from lethevec.errors import IdError, InputError, LethevecError, ParameterError, VectorError

DIM = 4
GOOD = [1.0, -2.0, 3.0, 0.5]

BAD_VECTORS = {
    "nothing": None,
    "a string": "abcd",
    "a number": 3.0,
    "a set": {1.0, 2.0},
    "numerals": ["1", "2", "3", "4"],
    "objects": np.array([GOOD], dtype=object),
    "complex": np.array([GOOD], dtype=complex),
    "booleans": np.ones((1, 4), dtype=bool),
    "dates": np.zeros((1, 4), dtype="datetime64[s]"),
    "ragged": [[1.0, 2.0, 3.0, 4.0], [1.0, 2.0]],
    "holes": [[1.0, None, 3.0, 4.0]],
    "too few columns": np.ones((1, 3)),
    "too many columns": np.ones((1, 5)),
    "too short": np.ones(3),
    "3-D": np.ones((1, 1, 4)),
    "empty list": [],
    "no rows": np.ones((0, 4)),
    "NaN": [[1.0, np.nan, 0.0, 0.0]],
    "infinity": [[1.0, np.inf, 0.0, 0.0]],
    "beyond float32": [[1e39, 0.0, 0.0, 0.0]],
    "huge integers": [[10**400, 0, 0, 0]],
    "too long for squares": [[9e17, 9e17, 0.0, 0.0]],
    "longest": [[3e38, 3e38, 3e38, 3e38]],
    "masked": np.ma.array([GOOD], mask=[[False, True, False, False]]),
    "a masked row": [np.ma.array(GOOD, mask=[False, True, False, False])],
}
BAD_IDS = {
    "nothing": None,
    "a string": "1",
    "a float": 1.0,
    "floats": [1.0],
    "NaN": [np.nan],
    "a boolean": True,
    "booleans": [True],
    "strings": ["1"],
    "bytes": [b"1"],
    "objects": np.array([1], dtype=object),
    "ragged": [[1], [2, 3]],
    "2-D": [[1]],
    "too large": [1 << 63],
    "far too large": [1 << 70],
    "too small": [-(1 << 63) - 1],
    "uint64": np.array([1 << 63], dtype=np.uint64),
    "a set": {1},
    "a dict": {1: 1},
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "complex": [1 + 0j],
    "masked": np.ma.array([1], mask=[True]),
    "one that is too large": 1 << 63,
    "one that is too small": -(1 << 63) - 1,
}
CONFIGURATIONS = {
    "default": {},
    "codes": {"keep_vectors": False},
    "usr": {"family": "usr", "bits": 8},
    "hamming": {"ranking": "hamming"},
}


@pytest.fixture(params=CONFIGURATIONS)
def index(request):
    made = lethevec.Index(DIM, "l2", **CONFIGURATIONS[request.param])
    made.add(np.random.default_rng(0).normal(size=(20, DIM)), ids=range(20))
    return made


class Unchanged:
    """The index is afterwards as it was before, and the error is ours and reads like one."""

    def __init__(self, index, error, name):
        self.index, self.error, self.name = index, error, name
        self.before = self.look()

    def look(self):
        hits = self.index.search([GOOD], k=25)
        return self.index.digest(), self.index.stats(), hits.ids.tolist(), hits.distances.tolist()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        assert kind is not None, "nothing was raised"
        assert isinstance(value, self.error), repr(value)
        assert isinstance(value, InputError)
        assert isinstance(value, ValueError)
        assert isinstance(value, LethevecError)
        assert str(value).startswith(f"{self.name}: ")
        assert "expected" in str(value)
        assert "got" in str(value)
        assert self.look() == self.before
        return True


@pytest.mark.parametrize("call", ["add", "update", "search", "search_radius"])
@pytest.mark.parametrize("case", BAD_VECTORS)
def test_vectors(index, call, case):
    given = BAD_VECTORS[case]
    name = "queries" if call.startswith("search") else "vectors"
    with Unchanged(index, VectorError, name):
        if call == "search":
            index.search(given)
        elif call == "search_radius":
            index.search_radius(given, 1.0)
        else:
            getattr(index, call)(given, ids=[100 if call == "add" else 0])


@pytest.mark.parametrize("call", ["add", "update", "search", "search_radius"])
def test_zero_vectors_under_cosine(call):
    index = lethevec.Index(DIM, "cosine")
    index.add([GOOD], ids=[0])
    given = [GOOD, [0.0, 0.0, -0.0, 0.0]]
    with Unchanged(index, VectorError, "queries" if call.startswith("search") else "vectors"):
        if call == "search":
            index.search(given)
        elif call == "search_radius":
            index.search_radius(given, 1.0)
        else:
            getattr(index, call)(given, ids=[0, 1])


@pytest.mark.parametrize("call", ["add", "update", "forget", "forget, ignoring", "search", "search_radius"])
@pytest.mark.parametrize("case", BAD_IDS)
def test_ids(index, call, case):
    ids = BAD_IDS[case]
    if call.startswith("search") and ids is None:
        return  # no filter
    with Unchanged(index, IdError, "allow" if call.startswith("search") else "ids"):
        if call in ("add", "update"):
            getattr(index, call)([GOOD], ids=ids)
        elif call.startswith("forget"):
            index.forget(ids, ignore_unknown=call != "forget")
        elif call == "search":
            index.search([GOOD], allow=ids)
        else:
            index.search_radius([GOOD], 1.0, allow=ids)


@pytest.mark.parametrize("case", BAD_IDS)
def test_ids_of_get(case):
    index = lethevec.Index(DIM)
    index.add([GOOD], ids=[1])
    with Unchanged(index, IdError, "ids"):
        index.vectors(BAD_IDS[case])


@pytest.mark.parametrize("call", ["add", "update"])
@pytest.mark.parametrize("ids", [[], [0], [0, 1, 2]])
def test_as_many_ids_as_vectors(index, call, ids):
    with Unchanged(index, IdError, "ids"):
        getattr(index, call)([GOOD, GOOD], ids=ids)


@pytest.mark.parametrize("mask", [np.ones(19, dtype=bool), np.ones(21, dtype=bool), np.ones((20, 1), dtype=bool)])
def test_masks(index, mask):
    with Unchanged(index, IdError, "allow"):
        index.search([GOOD], allow=mask)


NOT_INTEGERS = [0, -1, 1.0, 2.5, "3", None, True, np.float32(2), np.nan, [3], 1 << 40, 10**400]
NOT_POSITIVE = [0, -1.0, -np.inf, np.nan, "1", None, True, [1.0], 1 + 0j, np.complex64(1), 10**400]
NOT_NUMBERS = [np.nan, "1", None, True, [1.0], 1 + 0j, np.complex64(1)]


@pytest.mark.parametrize("k", NOT_INTEGERS, ids=repr)
def test_k(index, k):
    with Unchanged(index, ParameterError, "k"):
        index.search([GOOD], k)


@pytest.mark.parametrize(("queries", "k"), [(1, 1 << 31), (1, (1 << 28) + 1), (1 << 20, 257)])
def test_k_beyond_all_padding(index, queries, k):
    """Refused before any memory is asked for."""
    with Unchanged(index, ParameterError, "k"):
        index.search(np.broadcast_to(np.float32(GOOD), (queries, DIM)), k)


@pytest.mark.parametrize("effort", NOT_POSITIVE, ids=lambda e: repr(e)[:20])
def test_effort(index, effort):
    with Unchanged(index, ParameterError, "effort"):
        index.search([GOOD], effort=effort)


@pytest.mark.parametrize("radius", NOT_NUMBERS, ids=repr)
def test_radius(index, radius):
    with Unchanged(index, ParameterError, "radius"):
        index.search_radius([GOOD], radius)


@pytest.mark.parametrize("radius", [10**400, 1e300, -(10**400)], ids=["10**400", "1e300", "-10**400"])
def test_a_radius_beyond_float32_is_infinity_or_refused(index, radius):
    """Either is an answer; an error that is not ours is not."""
    try:
        hits = index.search_radius([GOOD], radius)
    except ParameterError:
        return
    assert hits.ids.shape == (1, 20 if radius > 0 else 0)


@pytest.mark.parametrize("threads", [0, -1, 1.0, "2", True, 1025, 1 << 40], ids=repr)
@pytest.mark.parametrize("call", ["add", "update", "search", "digest"])
def test_threads(index, call, threads):
    with Unchanged(index, ParameterError, "threads"):
        if call == "search":
            index.search([GOOD], threads=threads)
        elif call == "digest":
            index.digest(threads=threads)
        else:
            getattr(index, call)([GOOD], ids=[50 if call == "add" else 0], threads=threads)


BAD_ARGUMENTS = [
    ({"dim": 0}, "dim"),
    ({"dim": -3}, "dim"),
    ({"dim": 4.0}, "dim"),
    ({"dim": "4"}, "dim"),
    ({"dim": True}, "dim"),
    ({"dim": 65_537}, "dim"),
    ({"metric": "euclid"}, "metric"),
    ({"metric": None}, "metric"),
    ({"metric": ["l2"]}, "metric"),
    ({"family": "lsh"}, "family"),
    ({"family": None}, "family"),
    ({"bits": 0}, "bits"),
    ({"bits": 7}, "bits"),
    ({"bits": 8.0}, "bits"),
    ({"bits": 1 << 21}, "bits"),
    ({"bits": 32_772}, "bits"),
    ({"dim": 128, "family": "superbit", "bits": 65_664}, "bits"),
    ({"ranking": "cosine"}, "ranking"),
    ({"keep_vectors": 1}, "keep_vectors"),
    ({"keep_vectors": None}, "keep_vectors"),
    ({"source": "tables of stone"}, "source"),
    ({"seed": -1}, "seed"),
    ({"seed": 1 << 64}, "seed"),
    ({"seed": None}, "seed"),
    ({"sweeps": -1}, "sweeps"),
    ({"sweeps": 1.5}, "sweeps"),
    ({"rotation": "none"}, "rotation"),
    ({"colour": "red"}, "progressive"),
    ({"steps": 5}, "progressive"),
    ({"family": "usr", "bits": 8, "gain": 0}, "gain"),
    ({"family": "usr", "bits": 8, "gain": np.inf}, "gain"),
    ({"family": "usr", "bits": 8, "gain": 10**400}, "gain"),
    ({"family": "usr", "bits": 8, "gain": 1.0, "mean_norm": 1.0}, "usr"),
    ({"family": "usr", "bits": 8, "metric": "l2", "keep_vectors": False}, "keep_vectors=False"),
    ({"family": "usr", "bits": 8, "metric": "ip", "keep_vectors": False}, "keep_vectors=False"),
    ({"expansion": 2, "bits": 8}, "progressive"),
]


@pytest.mark.parametrize(("arguments", "name"), BAD_ARGUMENTS, ids=lambda a: str(a)[:60])
def test_arguments(arguments, name):
    with pytest.raises(ParameterError) as caught:
        lethevec.Index(**{"dim": DIM, **arguments})
    message = str(caught.value)
    assert message.startswith(f"{name}:")
    assert "expected" in message


GOOD_ARGUMENTS = [
    {"dim": np.int64(DIM), "bits": np.int32(8), "seed": np.uint64(3)},
    {"family": "usr", "bits": 8, "steps": np.int64(5)},
    {"family": "usr", "bits": 8, "gain": np.float32(1.5)},
    {"family": "usr", "bits": 8, "metric": "l2", "mean_norm": np.float64(2.0)},
    {"bits": 8, "sweeps": np.int8(1)},
]


@pytest.mark.parametrize("arguments", GOOD_ARGUMENTS, ids=str)
def test_numpy_numbers_are_numbers(tmp_path, arguments):
    """And give the same index as Python's own, digest and snapshot included."""
    given = {"dim": DIM, **arguments}
    plain = {key: value.item() if isinstance(value, np.generic) else value for key, value in given.items()}
    digests = set()
    for number, how in enumerate((given, plain)):
        index = lethevec.Index(**how)
        index.add([GOOD], ids=[1])
        index.save(tmp_path / str(number))
        digests.add(index.digest())
    assert len(digests) == 1
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


SAME_ARGUMENTS = [
    ({}, {"bits": 32, "family": "progressive", "seed": 0, "metric": "cosine"}),
    ({}, {"sweeps": 0}),
    ({}, {"rotation": "hadamard"}),
    ({"family": "usr", "bits": 8}, {"family": "usr", "bits": 8, "steps": 17}),
    ({"family": "usr", "bits": 8, "gain": 2}, {"family": "usr", "bits": 8, "gain": 2.0}),
]


@pytest.mark.parametrize(("one", "other"), SAME_ARGUMENTS, ids=str)
def test_a_default_that_is_spelled_out_changes_nothing(one, other):
    """Two indexes of the same configuration are comparable, however it was written down."""
    assert lethevec.Index(DIM, **one).digest() == lethevec.Index(DIM, **other).digest()
