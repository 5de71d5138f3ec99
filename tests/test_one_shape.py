"""A program moves between an index, a store, a collection of a folder, of a server and of a cluster by one line.

So a call that two of them have takes the same arguments in the same order, with the same defaults. What one of them
leaves out is listed here, with the reason.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import lethevec
from lethevec._client.aio import AsyncCollection
from lethevec._client.client import RemoteCollection
from lethevec.cluster.collection import ClusterCollection
from lethevec.cluster.database import ClusterDatabase

#: Of an index: it has vectors and ids, and nothing of what is kept beside them or in files.
_BESIDE = {"where", "subject", "subjects", "payloads", "expires", "merge"}
_FILES = {"dry_run", "search_all", "elsewhere", "timeout", "erase_old", "limit", "after", "radius"}
#: Of a client: the server decides how long an erasure may take, on how many threads, and what it searches.
_SERVERS = {"timeout", "search_all", "threads", "vectors", "key", "anchor", "quick", "total", "names"}

#: What each leaves out of the arguments that the first of its pair has.
LEFT_OUT = {
    lethevec.Index: _BESIDE | _FILES,
    RemoteCollection: _SERVERS | {"path"},  # `export` gives the records themselves: files are where the caller is
    AsyncCollection: _SERVERS | {"path"},
    ClusterCollection: {"elsewhere", "prefix", "after", "limit"},
    lethevec.Client: _SERVERS,
    lethevec.AsyncClient: _SERVERS,
    ClusterDatabase: {"optimize", "anchor", "names"},
}
#: And what each has besides.
ADDED = {
    lethevec.Index: {"threads", "allow"},
    RemoteCollection: set(),
    AsyncCollection: set(),
    ClusterCollection: {"batches"},  # in place of `source` and `key` of `load`: files are loaded by `load_files`
    lethevec.Client: {"dry_run"},  # a count; in a folder `held` has the numbers
    lethevec.AsyncClient: {"dry_run"},
    ClusterDatabase: set(),
}
#: Where the ids are the only way to say which records are meant, they must be given.
NEEDED = {(lethevec.Index, "forget", "ids"), (lethevec.Index, "get", "ids")}

PAIRS = [
    (lethevec.Store, lethevec.Index),
    (lethevec.Store, RemoteCollection),
    (lethevec.Store, AsyncCollection),
    (lethevec.Store, ClusterCollection),
    (lethevec.Database, lethevec.Client),
    (lethevec.Database, lethevec.AsyncClient),
    (lethevec.Database, ClusterDatabase),
]


def calls(kind: type) -> dict[str, dict[str, inspect.Parameter]]:
    found = {}
    for name, thing in vars(kind).items():
        if not name.startswith("_") and inspect.isfunction(thing):
            parameters = dict(inspect.signature(thing).parameters)
            parameters.pop("self", None)
            if not any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters.values()):
                found[name] = parameters  # others pass on what they get, or refuse it
    return found


@pytest.mark.parametrize(("model", "other"), PAIRS, ids=lambda kind: kind.__name__)
def test_shared_calls_take_the_same_arguments(model, other):
    wanted, got = calls(model), calls(other)
    shared = sorted(set(wanted) & set(got))
    assert len(shared) >= 8
    for name in shared:
        ours, theirs = wanted[name], got[name]
        both = [argument for argument in ours if argument in theirs]
        for argument in both:
            assert ours[argument].kind == theirs[argument].kind, (name, argument)
            needed = theirs[argument].default is inspect.Parameter.empty and (other, name, argument) in NEEDED
            assert needed or ours[argument].default == theirs[argument].default, (name, argument)
        placed = [argument for argument in both if ours[argument].kind is not inspect.Parameter.KEYWORD_ONLY]
        assert placed == [argument for argument in theirs if argument in placed], name
        replaced = {"source", "key"} if "batches" in theirs else set()
        assert set(ours) - set(theirs) - replaced <= LEFT_OUT[other], name
        assert set(theirs) - set(ours) <= ADDED[other], name


def test_everyday_calls_are_everywhere():
    everyday = {"add", "update", "forget", "get", "ids", "search", "digest"}
    for kind in (lethevec.Index, lethevec.Store, RemoteCollection, AsyncCollection, ClusterCollection):
        assert everyday <= set(calls(kind))
        assert kind is lethevec.Index or {"upsert", "count", "subjects", "load", "close"} <= set(calls(kind))
        for name in ("dim", "metric"):
            assert hasattr(kind, name) or f"self.{name} =" in inspect.getsource(kind.__init__)


def test_an_index_and_a_store_answer_alike(tmp_path):
    x = np.random.default_rng(3).normal(size=(40, 8)).astype(np.float32)
    index = lethevec.Index(dim=8, metric="l2")
    with lethevec.open(tmp_path / "s.lethe", dim=8, metric="l2") as store:
        for one in (index, store):
            one.add(x, np.arange(40, dtype=np.uint16))
            one.update(x[:1] + 1, np.int16(3))
            before = one.digest()
            one.forget([])
            one.forget(np.empty(0, dtype=np.int64))
            assert one.digest() == before
            one.forget(np.int32(7))
            assert one.search(x[:3], 2, threads=np.int64(2)).ids.shape == (3, 2)
            one.forget([np.int64(8), np.uint8(9)])
            assert np.int64(7) not in one
            assert np.int8(10) in one
        assert index.get([np.int64(3)])[0].vector.tolist() == store.get([np.int64(3)])[0].vector.tolist()
        for one, other in (
            (index.search(x[:3], np.int64(5)), store.search(x[:3], np.int64(5))),
            (index.search_radius(x[:3], np.float32(3.0)), store.search_radius(x[:3], np.float32(3.0))),
            (index.search(x[:2], 50), store.search(x[:2], 50)),
        ):
            assert type(one) is type(other) is lethevec.Hits
            assert one.ids.ndim == one.distances.ndim == 2
            assert one.ids.tolist() == other.ids.tolist()
            assert one.distances.tobytes() == other.distances.tobytes()
            assert [[hit.id for hit in hits] for hits in one] == [[hit.id for hit in hits] for hits in other]


def test_numbers_of_numpy_are_numbers_everywhere(tmp_path):
    with lethevec.connect(tmp_path / "people") as db:
        one = db.collection("one", dim=np.int64(2), metric="l2")
        one.add([[1, 2], [3, 4]], ids=[1, 2], subjects="ann")
        receipt = one.forget([1], timeout=np.float32(9), elsewhere={"logs": np.int16(3)})
        assert receipt.elsewhere == {"logs": 3}
        assert db.chain(after=np.int64(0), limit=np.uint8(5)) == db.chain()[1:]
        assert bool(db.verify_chain(after=np.int64(-1), limit=np.int32(9))[0])
        assert len(one.get(limit=np.int64(1), after=np.int64(1))) == 1


def test_tune_looks_for_the_recall_that_effort_1_is_meant_for():
    for kind in (lethevec.Index, lethevec.Store):
        assert inspect.signature(kind.tune).parameters["target_recall"].default == 0.95
        assert inspect.signature(kind.search).parameters["effort"].default == 1.0
