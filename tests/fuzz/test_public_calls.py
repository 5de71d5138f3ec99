"""Every public call with arguments of any type: it works, or raises an error of ours, and then nothing has changed.

Hypothesis draws the arguments. What is right and what is wrong is not said here; tests of each call do that.
LETHEVEC_EXAMPLES=20 tries 20 times as many.
"""

from __future__ import annotations

import os
import warnings
from datetime import date
from operator import attrgetter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lethevec
from lethevec.errors import LethevecError

TIMES = int(os.environ.get("LETHEVEC_EXAMPLES", "1"))
DIM = 3

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(0, 6),
    st.floats(width=64),
    st.sampled_from([float("nan"), float("inf"), 1e-300, -0.0]),
    st.text(max_size=3),
    st.just("a\ud800"),
    st.binary(max_size=3),
    st.complex_numbers(max_magnitude=9),
    st.sampled_from(
        [
            np.int64(3),
            np.uint64(2**64 - 1),
            np.float32(0.5),
            np.bool_(True),
            np.timedelta64(3, "s"),
            np.datetime64("2020-01-01"),
            np.str_("x"),
            date(2020, 1, 1),
            object(),
            len,
            int,
            ...,
            range(3),
            np.ma.masked,
        ]
    ),
)
arrays = st.one_of(
    st.sampled_from(
        [
            np.zeros(0),
            np.zeros((0, DIM), dtype=np.float32),
            np.ones((2, DIM)),
            np.ones((2, DIM), dtype=np.float32),
            np.ones(DIM, dtype=np.int8),
            np.ones((2, DIM), dtype=np.complex64),
            np.ones((2, DIM), dtype=object),
            np.full((2, DIM), np.nan),
            np.full((1, DIM), 1e300),
            np.array(["a", "b"]),
            np.array([1, 2]),
            np.array([1, 2], dtype="m8[s]"),
            np.array([1, 2], dtype="M8[s]"),
            np.array([True, False]),
            np.array([2**63], dtype=np.uint64),
            np.array(5),
            np.zeros((1, 1, 1)),
            np.ma.masked_array([1, 2], [True, False]),
            np.array([(1, 2)], dtype=[("a", int), ("b", int)]),
        ]
    ),
    st.lists(scalars, max_size=3),
    st.tuples(scalars, scalars),
)
anything = st.one_of(
    scalars,
    arrays,
    st.dictionaries(
        st.one_of(st.text(max_size=2), st.just("a\ud800"), scalars.filter(lambda x: x.__hash__)), scalars, max_size=2
    ),
    st.lists(st.dictionaries(st.text(max_size=2), scalars, max_size=2), max_size=2),
    st.lists(st.lists(scalars, max_size=3), max_size=2),
    st.sets(st.integers(0, 9), max_size=3),
    st.builds(iter, st.just([1, 2])),
)

vectors = st.one_of(st.just([[1.0, 0, 0]]), anything)
ids = st.one_of(st.just([7]), st.just([1]), anything)

INDEX_CALLS = {
    "add": (vectors, ids, {"threads": anything}),
    "update": (vectors, ids, {"threads": anything}),
    "forget": (ids, {"ignore_unknown": anything}),
    "get": (ids, {}),
    "vectors": (ids, {}),
    "search": (vectors, {"k": anything, "effort": anything, "allow": anything, "threads": anything}),
    "search_radius": (vectors, st.one_of(st.just(1.0), anything), {"allow": anything}),
    "tune": (vectors, {"target_recall": anything, "k": anything, "threads": anything}),
    "digest": ({"threads": anything},),
    "save": (anything, {}),
    "__contains__": (anything, {}),
}
where = st.one_of(
    anything, st.dictionaries(st.sampled_from(["a", "$and", "$not", "subject", "a.b"]), anything, max_size=2)
)
STORE_CALLS = {
    "add": (vectors, ids, {"subjects": anything, "payloads": anything}),
    "update": (vectors, ids, {"subjects": anything, "payloads": anything}),
    "forget": (ids, {"subject": anything, "where": where, "timeout": anything}),
    "get": (ids, {}),
    "count": ({"where": where, "subject": anything},),
    "search": (vectors, {"k": anything, "effort": anything, "where": where, "subject": anything}),
    "search_radius": (vectors, st.one_of(st.just(1.0), anything), {"where": where}),
    "load": (anything, {"total": anything}),
    "verify": (anything, {}),
    "receipts": ({"all_kinds": anything},),
    "complete_erasures": ({"timeout": anything},),
    "rotate_keys": (anything, {"keep_audit_keys": anything}),
    "reapply": (anything, {}),
    "__contains__": (anything, {}),
}
FUNCTIONS = {
    "Index": (
        anything,
        {"metric": anything, "family": anything, "bits": anything, "source": anything, "seed": anything},
    ),
    "hasher": (anything, st.integers(1, 9), {"bits": anything, "expansion": anything, "seed": anything}),
    "Pivots": ({"cell_size": anything, "probes": anything, "refine": anything, "key": anything},),
    "Tables": ({"tables": anything, "key_bits": anything, "probes": anything, "expected": anything},),
    "Auto": ({"pivots_from": anything, "pivots": anything},),
    "open": (
        anything,
        {"dim": anything, "metric": anything, "read_only": anything, "keys": anything, "timeout": anything},
    ),
    "Index.load": (anything, {"max_setup": anything}),
    "verify_chain": (anything, {"key": anything}),
}


def drawn(data, call):
    """Positional arguments, and some of the named ones."""
    *positional, named = call
    values = [data.draw(one) for one in positional]
    chosen = data.draw(st.lists(st.sampled_from(sorted(named)), unique=True, max_size=2)) if named else []
    return values, {name: data.draw(named[name]) for name in chosen}


def refused(function, values, named) -> bool:
    """Whether the call was refused. Python itself refuses missing arguments and the like with TypeError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(*values, **named)
    except LethevecError:
        return True
    return False


common = settings(
    max_examples=150 * TIMES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("name", INDEX_CALLS)
@common
@given(data=st.data())
def test_calls_of_an_index(tmp_path, monkeypatch, name, data):
    monkeypatch.chdir(tmp_path)
    index = lethevec.Index(DIM, metric="l2")
    index.add(np.eye(3), ids=[1, 2, 3])
    before = index.digest()
    values, named = drawn(data, INDEX_CALLS[name])
    if refused(getattr(index, name), values, named):
        assert index.digest() == before


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.mark.parametrize("name", STORE_CALLS)
def test_calls_of_a_store(folder, name):
    path = folder / f"{name}.lethe"
    with lethevec.open(path, dim=DIM, metric="l2") as db:
        db.add(np.eye(3), ids=[1, 2, 3], subjects=["a", "b", None], payloads=[{"a": 1}, None, {"a": "x"}])

        @common
        @given(data=st.data())
        def try_it(data):
            before = db.digest()
            values, named = drawn(data, STORE_CALLS[name])
            if refused(getattr(db, name), values, named):
                assert db.digest() == before

        try_it()


@pytest.mark.parametrize("name", FUNCTIONS)
@common
@given(data=st.data())
def test_functions(tmp_path, monkeypatch, name, data):
    monkeypatch.chdir(tmp_path)
    values, named = drawn(data, FUNCTIONS[name])
    if name == "hasher":  # which takes nothing but its family by position
        named["dim"] = values.pop()
    refused(attrgetter(name)(lethevec), values, named)
