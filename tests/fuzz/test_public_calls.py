"""Every public call with arguments of any type: it works, or raises an error of ours, and then nothing has changed.

Hypothesis draws the arguments. What is right and what is wrong is not said here; tests of each call do that.
LETHEVEC_EXAMPLES=20 tries 20 times as many.
"""

from __future__ import annotations

import inspect
import os
import warnings
from datetime import date
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lethevec
from lethevec.errors import LethevecError

TIMES = int(os.environ.get("LETHEVEC_EXAMPLES", "1"))
DIM = 3


class Wordless:
    """What cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.builds(pow, st.just(10), st.just(5000)),  # which Python does not write out
    st.builds(Wordless),
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

paths = st.one_of(
    st.sampled_from(
        [
            "copy.jsonl",
            "copy.csv",
            "copy.npz",
            "folder",
            b"copy.jsonl",
            "a\0b.jsonl",
            "a\ud800.jsonl",
            "x" * 300 + ".jsonl",
            "nowhere/copy.jsonl",
            "copy.jsonl/copy.jsonl",
            Path("other.jsonl"),
            "",
            ".",
            "..",
        ]
    ),
    anything,
)
texts = st.one_of(st.sampled_from(["a", "b", "one", "two"]), anything)
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
    "copy": ({"vectors": paths},),
    "__contains__": (anything, {}),
}
where = st.one_of(
    anything, st.dictionaries(st.sampled_from(["a", "$and", "$not", "subject", "a.b"]), anything, max_size=2)
)
RECEIPT = object()  # stands for one of the store
STORE_CALLS = {
    "add": (vectors, ids, {"subjects": anything, "payloads": anything}),
    "update": (vectors, ids, {"subjects": anything, "payloads": anything}),
    "forget": (ids, {"subject": anything, "where": where, "timeout": anything}),
    "get": (ids, {"where": where, "subject": texts, "limit": anything, "after": anything}),
    "upsert": (
        vectors,
        ids,
        {"subjects": anything, "payloads": anything, "expires": anything, "erase_old": anything, "timeout": anything},
    ),
    "expire": ({"timeout": anything},),
    "export": (paths, {"where": where, "subject": texts}),
    "backup": (paths, {}),
    "to_arrow": ({"where": where, "subject": texts},),
    "to_pandas": ({"where": where, "subject": texts},),
    "to_polars": ({"where": where, "subject": texts},),
    "tune": (vectors, {"target_recall": anything, "k": anything, "threads": anything}),
    "subjects": ({"prefix": texts, "after": texts, "limit": anything},),
    "sample": (anything, {"where": where, "subject": texts, "seed": anything}),
    "ids": (where, {"subject": texts}),
    "count": ({"where": where, "subject": texts},),
    "search": (
        vectors,
        {"k": anything, "effort": anything, "where": where, "subject": texts, "radius": anything, "threads": anything},
    ),
    "search_radius": (vectors, st.one_of(st.just(1.0), anything), {"where": where, "subject": texts}),
    "load": (st.one_of(paths, anything), {"key": texts, "total": anything}),
    "verify": (
        st.one_of(st.just(RECEIPT), anything),
        {"ids": ids, "subject": texts, "vectors": vectors, "key": anything, "anchor": anything},
    ),
    "receipts": ({"all_kinds": anything},),
    "complete_erasures": ({"timeout": anything},),
    "rotate_keys": (anything, {"keep_audit_keys": anything}),
    "reapply": (anything, {}),
    "__contains__": (anything, {}),
}
DATABASE_CALLS = {
    "collection": (
        texts,
        {
            "dim": anything,
            "metric": texts,
            "index": anything,
            "optimize": texts,
            "encrypt": anything,
            "expires": anything,
        },
    ),
    "drop": (anything, {"timeout": anything}),
    "rename": (texts, texts, {}),
    "access": (texts, {}),
    "held": (texts, {}),
    "forget": (
        {
            "block": anything,
            "ignore_unknown": anything,
            "search_all": anything,
            "elsewhere": anything,
            "timeout": anything,
        },
    ),
    "expire": ({"skip_held": anything, "timeout": anything},),
    "hold": (texts, texts, {}),
    "lift": (texts, {"reason": texts}),
    "holds": ({"subject": texts, "names": anything},),
    "block": (anything, texts, {}),
    "unblock": (texts, {"reason": texts}),
    "is_blocked": (texts, {}),
    "complete_erasures": ({"timeout": anything},),
    "receipts": ({"all_kinds": anything},),
    "chain": ({"after": anything, "before": anything, "limit": anything},),
    "receipt_of": (anything, {}),
    "verify_chain": ({"after": anything, "limit": anything},),
    "verify": (
        st.one_of(st.just(RECEIPT), anything),
        {"ids": ids, "subject": texts, "vectors": vectors, "key": anything, "anchor": anything, "quick": anything},
    ),
    "rotate_keys": (texts, {"keep_audit_keys": anything}),
    "backup": (paths, {}),
    "__contains__": (anything, {}),
}
CLIENT_CALLS = {
    "collection": (texts, {"dim": anything, "metric": texts, "index": anything}),
    "drop": (texts, {}),
    "rename": (texts, texts, {}),
    "forget": ({"block": anything, "ignore_unknown": anything, "elsewhere": anything, "dry_run": anything},),
    "access": (texts, {}),
    "expire": ({"skip_held": anything},),
    "hold": (texts, texts, {}),
    "lift": (texts, {"reason": texts}),
    "holds": (texts, {}),
    "block": (texts, texts, {}),
    "unblock": (texts, {"reason": texts}),
    "verify": (anything, {"subject": texts}),
    "receipts": ({"all_kinds": anything},),
}
REMOTE_CALLS = {
    name: call for name, call in STORE_CALLS.items() if name not in ("__contains__", "rotate_keys", "complete_erasures")
}
#: For the parts of a folder or a cluster, which check what they are given before they call these.
INSIDE = {
    "begin_forget",
    "check_part",
    "check_same",
    "due",
    "due_parts",
    "erase_again",
    "expire_except",
    "held_count",
    "held_ids",
    "held_of",
    "held_subjects",
    "receipt_of_request",
    "selects",
    "waiting_requests",
}
FUNCTIONS = {
    "Index": (
        anything,
        {"metric": anything, "family": anything, "bits": anything, "source": anything, "seed": anything},
    ),
    "hasher": (anything, st.integers(1, 9), {"bits": anything, "expansion": anything, "seed": anything}),
    "Pivots": ({"cell_size": anything, "probes": anything, "refine": anything, "key": anything},),
    "Tables": ({"tables": anything, "key_bits": anything, "probes": anything, "expected": anything},),
    "Graph": ({"cell_size": anything, "cells": anything, "pool": anything, "key": anything},),
    "Auto": ({"pivots_from": anything, "pivots": anything},),
    "open": (
        paths,
        {
            "dim": anything,
            "metric": anything,
            "read_only": anything,
            "keys": paths,
            "timeout": anything,
            "max_setup": anything,
        },
    ),
    "Index.load": (paths, {"max_setup": anything}),
    "verify": (anything, {"key": anything}),
    "verify_chain": (anything, {"key": anything, "anchor": anything}),
    "connect": (
        paths,
        {"read_only": anything, "keys": paths, "timeout": anything, "clock": anything, "max_setup": anything},
    ),
    "restore": (paths, paths, {"timeout": anything, "max_setup": anything}),
    "Client": (texts, {"key": anything, "timeout": anything, "retries": anything}),
}
#: Arguments that cannot be left out.
NEEDED = {"verify": {"key": anything}, "restore": {"receipts": anything, "keys": paths}}


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
few = settings(common, max_examples=30 * TIMES)  # of calls that sync files, or say no to everything


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
def test_calls_of_a_store(folder, monkeypatch, name):
    monkeypatch.chdir(folder)
    path = folder / f"{name}.lethe"
    with lethevec.open(path, dim=DIM, metric="l2") as db:
        db.add(np.eye(3), ids=[1, 2, 3], subjects=["a", "b", None], payloads=[{"a": 1}, None, {"a": "x"}])
        receipt = db.forget([])

        @common
        @given(data=st.data())
        def try_it(data):
            before = db.digest()
            values, named = drawn(data, STORE_CALLS[name])
            values = [receipt if value is RECEIPT else value for value in values]
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
    named |= {one: data.draw(draw) for one, draw in NEEDED.get(name, {}).items()}
    refused(attrgetter(name)(lethevec), values, named)


@pytest.mark.parametrize("name", DATABASE_CALLS)
def test_calls_of_a_folder(folder, monkeypatch, name):
    monkeypatch.chdir(folder)
    with lethevec.connect(folder / f"{name}-folder") as db:
        db.collection("one", DIM, "l2").add(np.eye(3), ids=[1, 2, 3], subjects=["a", "b", None])
        db.collection("two", DIM).add(np.eye(3), ids=[1, 2, 3], subjects="a")
        receipt = db.forget(subject="nobody", ignore_unknown=True)

        @few
        @given(data=st.data())
        def try_it(data):
            before = db.digest(), len(db.receipts(all_kinds=True))
            values, named = drawn(data, DATABASE_CALLS[name])
            values = [receipt if value is RECEIPT else value for value in values]
            if name == "forget":
                named["subject"] = data.draw(texts)
            if refused(getattr(db, name), values, named):
                assert (db.digest(), len(db.receipts(all_kinds=True))) == before

        try_it()


@pytest.mark.parametrize("name", [*CLIENT_CALLS, *(f"collection.{name}" for name in REMOTE_CALLS)])
@few
@given(data=st.data())
def test_calls_of_a_client(tmp_path, monkeypatch, name, data):
    """Of one whose server says no to everything: what cannot be sent is refused before."""
    httpx = pytest.importorskip("httpx")
    from lethevec._client.client import RemoteCollection

    monkeypatch.chdir(tmp_path)
    client = lethevec.Client("http://127.0.0.1:9", retries=0)
    client._client.close()
    client._client = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(503)), base_url="http://x")
    collection = RemoteCollection(client, "one", DIM, "l2")
    on, _, call = name.rpartition(".")
    if on and not hasattr(collection, call):
        client.close()
        return
    values, named = drawn(data, (REMOTE_CALLS if on else CLIENT_CALLS)[call])
    values = [None if value is RECEIPT else value for value in values][: 0 if name == "collection.export" else None]
    if name == "forget":
        named["subject"] = data.draw(texts)
    method = getattr(collection if on else client, call)
    known = inspect.signature(method).parameters
    refused(method, values, {one: value for one, value in named.items() if one in known})
    client.close()


def test_calls_through_asyncio(tmp_path):
    """They are those of a store and a folder, in a thread: what is refused there is refused here."""
    import asyncio

    from lethevec import aio

    async def work():
        for wrong in (3, b"x", "a\0b", "a\ud800", "x" * 300, None):
            with pytest.raises(LethevecError):
                async with aio.open(wrong, dim=2):
                    pass
            with pytest.raises(LethevecError):
                async with aio.connect(wrong):
                    pass
        async with aio.connect(tmp_path / "folder") as db:
            for wrong in (3, b"x", "a\ud800", None, []):
                with pytest.raises(LethevecError):
                    await db.collection(wrong, dim=2)
            store = await db.collection("one", dim=2)
            with pytest.raises(LethevecError):
                await store.export(3)
            with pytest.raises(LethevecError):
                await db.backup("a\0b")

    asyncio.run(work())


@pytest.mark.parametrize(
    ("kind", "calls"),
    [
        (lethevec.Index, INDEX_CALLS),
        (lethevec.Store, STORE_CALLS),
        (lethevec.Database, DATABASE_CALLS),
        (lethevec.Client, CLIENT_CALLS),
    ],
)
def test_every_public_call_with_an_argument_is_here(kind, calls):
    methods = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    wanted = {
        name
        for name, method in methods.items()
        if inspect.isfunction(method) and len(inspect.signature(method).parameters) > 1
    }
    assert wanted - INSIDE <= set(calls)
