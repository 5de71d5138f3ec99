"""The client: the calls of `connect` over HTTP, with the same results and errors; and what it does when things fail."""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
import time
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest

import lethevec
from lethevec import errors
from lethevec._client import AsyncCollection, RemoteCollection

KINDS = (errors.UnknownIdError, errors.IdError, errors.InputError)
RNG = np.random.default_rng(5)


@pytest.fixture
def client(start):
    with lethevec.Client(start().url) as made:
        yield made


def script(db):
    """A program as people write it; it runs on a folder and on a server."""
    said = []
    books = db.collection("books", dim=4, metric="l2")
    vectors = np.random.default_rng(1).standard_normal((30, 4)).astype(np.float32)
    books.add(
        vectors[:20],
        ids=list(range(20)),
        subjects=[f"s{n % 4}" for n in range(20)],
        payloads=[{"n": n, "tags": ["even" if n % 2 == 0 else "odd"]} for n in range(20)],
    )
    books.upsert(vectors[18:30], ids=[*range(18, 28), "x", "y"], payloads=[{"n": n} for n in range(18, 30)])
    books.update(ids=[3], payloads=[{"seen": True}], merge=True)
    books.update(ids=[4], vectors=[[9, 9, 9, 9]], subjects=["s9"])
    said.append((len(books), books.count(), books.count(where={"n": {"$lt": 5}}), books.count(subject="s1")))
    said.append((books.ids(), books.ids(subject="s2")))
    found = books.get([3, "x"])
    said += [(r.id, None if r.vector is None else r.vector.tolist(), r.subject, r.payload) for r in found]
    said += [r.id for r in books.get(where={"n": {"$gte": 2}}, limit=3, after=3)]
    said += [r.id for r in books]
    said += [[r.id for r in books.sample(count, seed=seed)] for count, seed in ((5, 0), (5, 1), (100, 0))]
    said += [[r.payload for r in books.sample(3, subject="s2")], books.sample(1)[0].vector.tolist()]
    said += [books.subjects(), books.subjects(prefix="s", after="s1", limit=2), books.subjects(prefix="none")]
    for options in ({}, {"where": {"n": {"$gte": 10}}}, {"subject": "s1"}, {"radius": 1.5}):
        hits = books.search(vectors[:3], 5, **options)
        said.append((hits.ids.tolist(), hits.distances.tolist(), hits.subjects.tolist(), hits.payloads.tolist()))
    said.append((3 in books, "nobody" in books, books.digest(), books.dim, books.metric))
    notes = db.collection("notes", dim=2)
    notes.add([[1, 0], [0, 1]], ids=["a", "b"], subjects=["s1", "s2"])
    said.append(db.collections())
    held = db.access("s1")
    said.append((len(held), held.subject, sorted(held.collections), len(held.holds), held.blocked_since))
    said.append({name: [record["id"] for record in kept] for name, kept in held.to_dict()["collections"].items()})
    receipts = [books.forget([0, 1]), books.forget(where={"n": 2}), books.forget(subject="s9"), db.forget(subject="s1")]
    receipts.append(books.update(ids=[3], payloads=[{"n": 3}], erase_old=True))
    said += [receipt.records for receipt in receipts]
    said += [bool(db.verify(receipt)) for receipt in receipts]
    assert [receipt.sequence for receipt in db.receipts()] == [receipt.sequence for receipt in receipts]
    assert all(lethevec.verify(receipt, key=db.public_key()) for receipt in receipts)
    for wrong in (
        lambda: books.get([12345]),
        lambda: books.add([[1, 1, 1, 1]], ids=[3]),
        lambda: books.add([[1, 1]], ids=[99]),
        lambda: books.search([1, 2, 3]),
        lambda: books.search([1, 2, 3, 4], where={"a": {"$nothing": 1}}),
        lambda: books.forget(subject="nobody"),
        lambda: db.collection("absent"),
    ):
        with pytest.raises(errors.LethevecError) as caught:
            wrong()
        error = caught.value
        said.append(next(kind.__name__ for kind in KINDS if isinstance(error, kind)))
    db.rename("notes", "remarks")
    said.append(db.collections())
    db.drop("remarks")
    said.append((db.collections(), len(books)))
    return said


def test_a_program_moves_from_a_folder_to_a_server_by_one_line(client, tmp_path):
    with lethevec.connect(tmp_path / "embedded") as db:
        embedded = script(db)
    assert script(client) == embedded


def test_records_without_a_vector(client):
    books = client.collection("books", dim=3)
    books.upsert(None, ids=[1], payloads=[{"title": "no vector"}])
    books.upsert([[1, 0, 0], None], ids=[2, 3])
    assert books.get([1])[0].vector is None
    assert books.get([2])[0].vector.tolist() == [1, 0, 0]
    assert books.search([1, 0, 0], 5).ids.tolist()[0][:2] == [2, -1]


def test_a_dry_run_says_how_many(client):
    books = client.collection("books", dim=2)
    books.add([[1, 0], [0, 1]], ids=[1, 2], subjects=["alice", "alice"])
    assert books.forget(subject="alice", dry_run=True).ids == [1, 2]
    assert client.forget(subject="alice", dry_run=True) == 2
    assert len(books) == 2


def test_holds_and_blocks(client):
    books = client.collection("books", dim=2)
    books.add([[1, 0]], ids=[1], subjects=["alice"])
    hold = client.hold("alice", "case 7")
    assert [one.reason for one in client.holds("alice")] == ["case 7"]
    with pytest.raises(errors.HoldError):
        client.forget(subject="alice")
    client.lift(hold)
    client.forget(subject="alice", block=True)
    with pytest.raises(errors.BlockedError):
        books.add([[1, 0]], ids=[1], subjects=["alice"])
    client.unblock("alice")
    books.add([[1, 0]], ids=[1], subjects=["alice"])


def test_what_is_replaced_is_erased_with_a_receipt_where_asked(client):
    books = client.collection("books", dim=2, metric="l2")
    books.add([[1, 0]], ids=[1], payloads=[{"mail": "old@example.org"}])
    assert books.update(ids=[1], payloads=[{"mail": "new@example.org"}]) is None
    receipt = books.update(ids=[1], payloads=[{"mail": "newest@example.org"}], erase_old=True)
    assert lethevec.verify(receipt, key=client.public_key())
    assert lethevec.verify(books.upsert([[2, 0]], ids=[1], erase_old=True), key=client.public_key())


def test_records_expire(client):
    books = client.collection("books", dim=2, metric="l2")
    soon = timedelta(seconds=0.5)
    books.add([[1, 0], [0, 1]], ids=[1, 2], subjects=["a", "b"], expires=[soon, None])
    books.upsert([[1, 1]], ids=[3], expires=datetime(2099, 1, 2, tzinfo=timezone.utc))
    assert books.get([3])[0].expires == datetime(2099, 1, 2, tzinfo=timezone.utc)
    assert books.get([2])[0].expires is None
    time.sleep(0.6)
    assert books.ids() == [2, 3]  # in no answer from that moment
    receipt = client.expire()
    assert receipt.records == 1
    assert client.expire() is None
    books.update(ids=[3], expires=None)
    assert books.get([3])[0].expires is None
    brief = client.collection("brief", dim=2, expires=timedelta(seconds=0.2))
    brief.add([[1, 0]], ids=[1])
    time.sleep(0.3)
    assert brief.ids() == []


def test_long_results_come_page_by_page(client):
    books = client.collection("books", dim=2, metric="l2")
    vectors = RNG.standard_normal((2300, 2)).astype(np.float32)
    assert books.load([{"vectors": vectors, "ids": np.arange(2300)}]) == 2300
    records = books.get()
    assert [record.id for record in records] == list(range(2300))
    assert np.array_equal([record.vector for record in records], vectors)
    assert books.ids() == list(range(2300))
    assert len(books.export()) == 2300
    books.update(ids=np.arange(2300), subjects=[f"s{n:04}" for n in range(2300)])
    assert list(books.subjects()) == [f"s{n:04}" for n in range(2300)]


def test_the_same_program_async(start):
    url = start().url

    async def main():
        async with lethevec.AsyncClient(url) as db:
            books = await db.collection("books", dim=2, metric="l2")
            await books.add([[0, 1], [0, 2]], ids=[1, 2], subjects=["alice", "bob"], payloads=[{"n": 1}, None])
            await books.upsert([[0, 3]], ids=[3])
            await books.update(ids=[3], payloads=[{"n": 3}])
            many = await asyncio.gather(*(books.search([0, n], 1) for n in range(10)))
            assert [hits.ids[0, 0] for hits in many[1:4]] == [1, 2, 3]
            assert [record.id async for record in books] == [1, 2, 3]
            assert await books.ids(where={"n": 3}) == [3]
            assert await books.count() == 3
            assert (await books.get([1]))[0].subject == "alice"
            assert await db.collections() == ["books"]
            receipt = await db.forget(subject="alice")
            assert await db.verify(receipt, subject="alice")
            assert lethevec.verify(receipt, key=await db.public_key())
            replaced = await books.update(ids=[3], payloads=[{"n": 4}], erase_old=True)
            assert [one.sequence for one in await db.receipts()] == [receipt.sequence, replaced.sequence]
            assert len(await books.digest()) == 64
            await db.rename("books", "tomes")
            await db.drop("tomes")
            with pytest.raises(errors.UnknownIdError):
                await db.collection("tomes")

    asyncio.run(main())


def test_both_clients_have_the_calls_of_connect():
    def calls(kind):
        return {
            name: list(inspect.signature(thing).parameters)
            for name, thing in vars(kind).items()
            if not name.startswith("_") and inspect.isfunction(thing)
        }

    assert calls(lethevec.Client) == calls(lethevec.AsyncClient)
    assert calls(RemoteCollection) == calls(AsyncCollection)
    for ours, theirs in ((RemoteCollection, lethevec.Store), (lethevec.Client, lethevec.Database)):
        for name in set(calls(ours)) & set(calls(theirs)):
            shared = set(calls(ours)[name])
            extra = shared - set(calls(theirs)[name]) - {"options", "dry_run"}
            assert not extra, (name, extra)


class Flaky:
    """A proxy that loses connections: the first so many before they reach the server, or after it has answered."""

    def __init__(self, port, lose, after=False):
        self._to = port
        self._left = lose
        self._after = after
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.seen = 0

    def _run(self):
        while True:
            try:
                caller, _ = self._listening.accept()
            except OSError:
                return
            with caller:
                self.seen += 1
                lose = self._left > 0
                self._left -= 1
                if lose and not self._after:
                    continue
                caller.settimeout(5)
                with socket.create_connection(("127.0.0.1", self._to)) as server:
                    server.settimeout(5)
                    head = b""
                    while b"\r\n\r\n" not in head:
                        head += caller.recv(65536)
                    start, _, rest = head.partition(b"\r\n\r\n")
                    size = [
                        int(x.split(b":")[1]) for x in start.lower().split(b"\r\n") if x.startswith(b"content-length")
                    ]
                    while size and len(rest) < size[0]:
                        rest += caller.recv(65536)
                    server.sendall(start + b"\r\nconnection: close\r\n\r\n" + rest)
                    answer = b""
                    while part := server.recv(65536):
                        answer += part
                    if not lose:
                        caller.sendall(answer)

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)


@pytest.mark.parametrize("after", [False, True])
def test_lost_connections_are_tried_again_and_nothing_is_done_twice(start, after):
    server = start()
    with lethevec.Client(server.url) as steady:
        steady.collection("books", dim=2).add([[1, 0], [0, 1]], ids=[1, 2], subjects=["alice", "bob"])
        proxy = Flaky(server.port, 2, after)
        try:
            with lethevec.Client(proxy.url, retries=3) as client:
                receipt = client.forget(subject="alice")  # a second time it would be unknown
                assert receipt.records == 1
                assert proxy.seen == 3
        finally:
            proxy.close()
        assert len(steady.receipts()) == 1
        assert steady.collection("books").ids() == [2]


def test_a_server_that_is_not_there_is_an_error_that_says_so():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with lethevec.Client(f"http://127.0.0.1:{port}", retries=1) as client, pytest.raises(errors.ServerError) as error:
        client.collections()
    assert str(port) in str(error.value)


def test_keys_and_what_they_may(start, make_key):
    reader = make_key("reader")
    make_key("admin")
    url = start().url
    with lethevec.Client(url) as nobody, pytest.raises(errors.AccessError):
        nobody.collections()
    with lethevec.Client(url, key=reader) as client:
        assert client.collections() == []
        with pytest.raises(errors.AccessError, match="right to write"):
            client.collection("books", dim=2)


@pytest.mark.parametrize("url", ["", "localhost:80", "ftp://x", None])
def test_what_is_no_url_is_refused(url):
    with pytest.raises(errors.ParameterError, match="expected one such as http"):
        lethevec.Client(url)


def test_bad_arguments_are_refused_before_anything_is_sent(client):
    books = client.collection("books", dim=2)
    with pytest.raises(errors.VectorError):
        books.add([[1, 2], [3]], ids=[1, 2])
    with pytest.raises(errors.ParameterError):
        books.add([[1, 2]], ids=[1], payloads=[{"x": object()}])
    with pytest.raises(errors.ParameterError, match="name"):
        client.collection("a/../b")
    assert len(books) == 0


def test_files_and_tables_are_loaded(client, tmp_path):
    pa = pytest.importorskip("pyarrow")
    far = datetime(8000, 1, 2, 3, 4, 5, 678_000, tzinfo=timezone.utc)
    with lethevec.open(tmp_path / "a.lethe", dim=4, metric="l2") as db:
        db.add(RNG.normal(size=(2500, 4)), ids=range(2500), payloads=[{"n": n} for n in range(2500)])
        db.add([None, np.ones(4)], ids=[5000, 5001], subjects="ann", expires=[None, far])
        for suffix in ("jsonl", "parquet"):
            path = tmp_path / f"all.{suffix}"
            db.export(path)
            remote = client.collection(suffix, dim=4, metric="l2")
            assert remote.load(path) == 2502
            assert remote.digest() == db.digest()
            assert remote.get([5001])[0].expires == far
    table = pa.table({"id": ["a"], "embedding": [[1.0, 2.0, 3.0, 4.0]], "title": ["Dune"]})
    remote = client.collection("tables", dim=4, metric="l2")
    assert remote.load(table) == 1
    assert remote.get(["a"])[0].payload == {"title": "Dune"}
    with pytest.raises(errors.InputError, match="expected vectors, ids"):
        remote.load([{"vectors": [[1, 2, 3, 4]]}])
