"""An erasure across members: a number, every member's signature, and nothing of it in any answer before."""

from __future__ import annotations

import copy
import json
import sqlite3
import threading
import time
from contextlib import contextmanager
from datetime import timedelta

import pytest
from click.testing import CliRunner

import lethevec
from lethevec.cli.app import cli
from lethevec.cluster import ClusterReceipt, catching_up, verify, verify_part
from lethevec.cluster.calling import RefusalError
from lethevec.cluster.keeping import read_json
from lethevec.cluster.member import Member
from lethevec.errors import (
    ErasureIncompleteError,
    FileError,
    ParameterError,
    ReceiptError,
    ServerError,
    UnavailableError,
    UnknownIdError,
)
from tests.cluster.conftest import people, same_answers, until


@pytest.fixture
def db(lab):
    made = lab.connect(shards=2, replicas=2)
    for place in (made, lab.one):
        place.collection("people", dim=8, metric="l2").add(**people(60))
    return made


def test_the_combined_receipt_names_every_member_and_is_checked_offline(lab, db):
    receipt = db.forget(subject="person-1")
    assert receipt.members == dict.fromkeys(["s0-1", "s0-2", "s1-1", "s1-2"], "erased")
    assert receipt.records == lab.one.forget(subject="person-1").records
    text = receipt.to_json()
    assert verify(text, key=db.public_key())
    assert ClusterReceipt.from_json(text) == receipt
    for member in receipt.members:
        assert verify_part(receipt.part(member), key=db.public_key())
    assert "person-1" not in text
    report = db.verify(receipt, subject="person-1")
    assert report, report.failed
    assert not db.verify(receipt, subject="person-2")


def test_a_changed_receipt_is_noticed(db):
    receipt = db.collection("people").forget([2, "name-5"])
    key = db.public_key()
    good = receipt.fields

    def changed(change):
        fields = copy.deepcopy(good)
        change(fields)
        return verify(fields, key=key)

    assert changed(lambda fields: None)
    assert not changed(lambda fields: fields.update(records=7))
    assert not changed(lambda fields: fields["members"].pop())
    assert not changed(lambda fields: fields["members"][0].update(shard=1))
    assert not changed(lambda fields: fields["members"][0].update(key=fields["members"][1]["key"]))
    assert not changed(lambda fields: fields["members"][0]["receipts"][0].update(records=9))
    assert not verify(good, key=bytes(32))
    part = receipt.part("s0-1")
    part["entry"]["at"] = "2020-01-01T00:00:00Z"
    assert not verify_part(part, key=key)
    with pytest.raises(ReceiptError):
        ClusterReceipt.from_json(json.dumps(good, indent=1))
    with pytest.raises(ReceiptError):
        verify({**good, "more": 1}, key=key)


def test_numbers_and_hashes_make_a_chain(db):
    first, second = db.forget(subject="person-1"), db.forget(subject="person-2")
    assert (second.number, second.sequence) == (first.number + 1, first.sequence + 1)
    assert second["previous"] == first.hash()
    assert db.receipts() == [first, second]


def test_a_member_that_is_away_is_named_and_erases_before_it_serves(lab, db):
    collection = db.collection("people")
    lab.net.kill("s0-1")
    with pytest.raises(ErasureIncompleteError) as caught:
        db.forget(subject="person-1")
    assert caught.value.members == ("s0-1",)
    assert caught.value.number == 1
    assert collection.count(subject="person-1") == 0
    assert db.pending_erasures() == 1
    assert db.receipts() == []
    lab.one.forget(subject="person-1")
    same_answers(collection, lab.one.collection("people"), people(5)["vectors"])
    lab.restart(db, "s0-1")
    lab.wait_live(db)
    assert db.pending_erasures() == 0
    (receipt,) = db.receipts()
    assert receipt.members["s0-1"] == "erased"
    assert verify(receipt, key=db.public_key())
    lab.net.kill("s0-2")  # now the one that was away has to answer alone
    same_answers(collection, lab.one.collection("people"), people(5)["vectors"])


def test_an_id_that_is_added_again_survives_the_erasure_that_came_before(lab, db):
    collection, one = db.collection("people"), lab.one.collection("people")
    lab.net.kill("s0-1")
    lab.net.kill("s1-1")
    ids = list(range(0, 20, 2))
    with pytest.raises(ErasureIncompleteError):
        collection.forget(ids)
    one.forget(ids)
    for store in (collection, one):
        store.add(people(10)["vectors"], ids, subjects="person-again")
    for name in ("s0-1", "s1-1"):
        lab.restart(db, name)
    lab.wait_live(db)
    for name in ("s0-2", "s1-2"):
        lab.net.kill(name)
    same_answers(collection, one, people(5)["vectors"])


def test_the_last_member_of_a_shard_answers_nothing_until_it_has_erased(make_lab):
    lab = make_lab()
    db = lab.connect(shards=2, replicas=1)
    collection = db.collection("people", dim=8, metric="l2")
    collection.add(**people(60))
    lab.net.cut("driver", "s0-1")
    with pytest.raises(ErasureIncompleteError) as caught:
        db.forget(subject="person-1")
    assert caught.value.members == ("s0-1",)
    lab.net.cut("driver", "s0-1", back=True)
    until(lambda: db.pending_erasures() == 0)  # without any driver's help
    assert collection.count(subject="person-1") == 0
    assert db.receipts()[0].members == {"s0-1": "erased", "s1-1": "erased"}


def test_a_lost_member_is_declared_and_the_receipt_says_so(lab, db):
    with pytest.raises(ParameterError, match="live"):
        db.declare_lost("s0-1")
    with pytest.raises(UnknownIdError):
        db.declare_lost("nobody")
    lab.net.kill("s0-1")
    with pytest.raises(ErasureIncompleteError):
        db.forget(subject="person-1")
    (receipt,) = db.declare_lost("s0-1")
    assert receipt.members == {"s0-1": "declared", "s0-2": "erased", "s1-1": "erased", "s1-2": "erased"}
    report = verify(receipt, key=db.public_key())
    assert report
    assert report["member s0-1"].passed is None
    assert any("declared s0-1 lost" in what for what in report.proves)
    epoch = db.driver.epoch
    lab.net.start_member(epoch.members["s0-1"])  # its disk is found again
    made = db.rebalance(replicas=2)["members"]
    assert made == ["s0-3"]
    lab.net.kill("s0-2")
    assert db.collection("people").count(subject="person-1") == 0
    assert db.driver.epoch.members["s0-1"].state == "lost"


def test_a_driver_that_dies_in_an_erasure_leaves_it_to_the_next(lab, db):
    driver = db.driver
    tag = driver.audit.tag_subject("person-1")
    asked = {"by": "subject", "subject": tag, "collection": None, "ids": []}
    wanted = {"collection": None, "ids": [], "subject": tag}
    driver.registry("begin", {"kind": "erasure", "asked": asked, "wanted": wanted, "token": "t"})
    again = driver.registry("begin", {"kind": "erasure", "asked": asked, "wanted": wanted, "token": "t"})
    assert again["number"] == 1  # asked twice, begun once
    other = lab.connect("other", takeover=True)
    assert other.collection("people").count(subject="person-1") == 0
    assert other.receipts()[0].number == 1
    lab.one.forget(subject="person-1")
    assert other.digest() == lab.one.digest()


def test_what_an_update_replaced_is_erased_in_every_member(lab, db):
    collection = db.collection("people")
    receipt = collection.update(ids=[2], payloads=[{"year": 1}], erase_old=True)
    assert (receipt.kind, len(receipt.members)) == ("rectification", 4)
    lab.net.kill("s0-1")
    lab.net.kill("s1-1")
    with pytest.raises(ErasureIncompleteError):
        collection.upsert(people(1)["vectors"], [2], erase_old=True)
    for name in ("s0-1", "s1-1"):
        lab.restart(db, name)
    lab.wait_live(db)
    assert db.receipts()[-1].kind == "rectification"
    assert collection.get(2)[0].payload is None


@contextmanager
def somebody_reads(lab, member):
    """Somebody holds an old state of a member's files: records can be hidden, and their bytes stay."""
    readers = []
    for path in lab.net.folder.rglob(f"{member}/records/**/*.lethe"):
        readers.append(sqlite3.connect(path))
        readers[-1].execute("BEGIN")
        readers[-1].execute("SELECT count(*) FROM sqlite_master").fetchone()
    assert readers
    try:
        yield
    finally:
        for reader in readers:
            reader.close()


def digests_of(db):
    """The digests of the members of each shard: replicas are equal if there is one."""
    found: dict[int, set[str]] = {}
    for entry in db.status()["members"]:
        found.setdefault(entry["shard"], set()).add(str(entry["digests"]))
    return list(found.values())


def test_a_member_that_cannot_finish_is_set_away_and_erases_nothing_that_was_added_since(lab, db, monkeypatch):
    def in_the_way(*args, **options):
        raise ErasureIncompleteError("a reader is in the way")

    monkeypatch.setattr(lab.net.ends["s0-1"]._db, "forget", in_the_way)
    with pytest.raises(ErasureIncompleteError) as caught:
        db.forget(subject="person-1")
    assert caught.value.members == ("s0-1",)
    assert db.driver.epoch.members["s0-1"].state == "away"
    lab.one.forget(subject="person-1")
    ids = list(range(1000, 1020))
    for place in (db, lab.one):
        place.collection("people").add(people(20)["vectors"], ids, subjects="person-1")
    monkeypatch.undo()
    db.complete_erasures(timeout=20)
    lab.wait_live(db)
    assert all(len(digests) == 1 for digests in digests_of(db))
    for name in (None, "s0-2", "s1-2"):
        if name is not None:
            lab.net.kill(name)
        same_answers(db.collection("people"), lab.one.collection("people"), people(5)["vectors"])
    (receipt,) = db.receipts()
    assert set(receipt.members.values()) == {"erased"}


def test_the_last_member_of_a_shard_finishes_by_itself_and_keeps_what_was_added_since(make_lab):
    """Somebody reads an old state of its file: the records are hidden, and their bytes still there."""
    lab = make_lab()
    db = lab.connect(shards=1, replicas=1)
    given = people(60)
    for place in (db, lab.one):
        place.collection("people", dim=8, metric="l2").add(**given)
    collection = db.collection("people")
    count = collection.count(subject="person-1")
    with somebody_reads(lab, "s0-1"):
        with pytest.raises(ErasureIncompleteError) as caught:
            db.forget(subject="person-1", timeout=0.3)
        assert caught.value.members == ("s0-1",)
        assert collection.count(subject="person-1") == 0
        lab.one.forget(subject="person-1")
        for place in (db, lab.one):
            place.collection("people").add(people(20)["vectors"], list(range(1000, 1020)), subjects="person-1")
        assert db.pending_erasures() == 1
    until(lambda: db.pending_erasures() == 0)  # nobody calls complete_erasures
    same_answers(collection, lab.one.collection("people"), people(5)["vectors"])
    (receipt,) = db.receipts()
    assert receipt.records == count
    assert verify(receipt, key=db.public_key())


def test_a_member_that_comes_back_erases_what_was_asked_whatever_has_expired_in_it(make_lab, monkeypatch):
    ahead = 0.0
    monkeypatch.setattr(Member, "_now", lambda member: time.time() + ahead)
    lab = make_lab()
    db = lab.connect(shards=1, replicas=2)
    collection = db.collection("people", dim=8, metric="l2")
    collection.add(**people(60))
    brief = {"subjects": ["person-1", None, "person-brief"], "expires": timedelta(hours=1)}
    collection.add(people(3)["vectors"], ["x", "y", "z"], **brief)
    ahead = 7200.0
    assert collection.expired() == 3
    lab.net.kill("s0-1")
    with pytest.raises(ErasureIncompleteError):
        db.forget(subject="person-1")
    with pytest.raises(ErasureIncompleteError):
        collection.forget(["y"], ignore_unknown=True)
    with pytest.raises(ErasureIncompleteError):
        db.forget(subject="person-brief", ignore_unknown=True)
    with somebody_reads(lab, "s0-1"):
        lab.restart(db, "s0-1")
        kept = lab.net.folder / "a" / "s0-1" / "erasures" / "000000000001.json"
        until(lambda: (read_json(kept) or {}).get("hidden"))
    until(lambda: db.pending_erasures() == 0)
    member = lab.net.ends["s0-1"]._db
    (store,) = (member.collection(name) for name in member.collections())
    assert store.held_of("person-1") == []
    assert {"x", "y", "z"}.isdisjoint(store.held_ids())
    assert {"person-1", "person-brief"}.isdisjoint(store.held_subjects())
    assert len(db.receipts()) == 3
    for receipt in db.receipts():
        counts = {sum(one.records for one in receipt.receipts_of(name)) for name in receipt.members}
        assert counts == {receipt.records}
        assert receipt.records


def test_two_erasures_that_one_member_has_hidden_have_a_receipt_each_and_keep_what_was_added_since(make_lab):
    lab = make_lab()
    db = lab.connect(shards=1, replicas=1)
    for place in (db, lab.one):
        place.collection("people", dim=8, metric="l2").add(**people(60))
    wanted = ("person-1", "person-2")
    counts = [db.collection("people").count(subject=name) for name in wanted]
    with somebody_reads(lab, "s0-1"):
        for name in wanted:
            with pytest.raises(ErasureIncompleteError):
                db.forget(subject=name, timeout=0.3)
            lab.one.forget(subject=name)
        for place in (db, lab.one):
            place.collection("people").add(people(20)["vectors"], list(range(1000, 1020)), subjects="person-2")
    until(lambda: db.pending_erasures() == 0)
    same_answers(db.collection("people"), lab.one.collection("people"), people(5)["vectors"])
    assert [receipt.records for receipt in db.receipts()] == counts


def test_what_is_hidden_is_finished_by_the_process_that_comes_after(make_lab):
    lab = make_lab()
    db = lab.connect(shards=1, replicas=1)
    for place in (db, lab.one):
        place.collection("people", dim=8, metric="l2").add(**people(60))
    count = db.collection("people").count(subject="person-1")
    with somebody_reads(lab, "s0-1"):
        with pytest.raises(ErasureIncompleteError):
            db.forget(subject="person-1", timeout=0.3)
        lab.one.forget(subject="person-1")
        for place in (db, lab.one):
            place.collection("people").add(people(20)["vectors"], list(range(1000, 1020)), subjects="person-1")
        lab.net.kill("s0-1")
    lab.restart(db, "s0-1")
    until(lambda: db.pending_erasures() == 0)
    same_answers(db.collection("people"), lab.one.collection("people"), people(5)["vectors"])
    assert [receipt.records for receipt in db.receipts()] == [count]


@pytest.mark.parametrize("op", ["begin", "away"])
def test_an_erasure_that_the_registry_cuts_off_takes_nothing_that_is_written_afterwards(make_lab, monkeypatch, op):
    lab = make_lab()
    db = lab.connect(shards=1, replicas=1)
    for place in (db, lab.one):
        place.collection("people", dim=8, metric="l2").add(**people(60))
    driver = db.driver
    real = driver.registry

    def registry(asked, *args, **options):
        if asked == op == "away":
            raise UnavailableError("it starts again")
        answer = real(asked, *args, **options)
        if asked == op:
            raise UnavailableError("its answer was lost")
        return answer

    with driver.writing(driver.epoch.shards()):  # before anybody completes it in the background
        if op == "away":
            lab.net.cut("driver", "s0-1")
        monkeypatch.setattr(driver, "registry", registry)
        with pytest.raises(UnavailableError):
            db.forget(subject="person-1", timeout=1)
        monkeypatch.undo()
        lab.net.cuts.clear()
        lab.one.forget(subject="person-1")
        for place in (db, lab.one):
            place.collection("people").upsert(people(20)["vectors"], list(range(1000, 1020)), subjects="person-1")
    until(lambda: db.pending_erasures() == 0)
    same_answers(db.collection("people"), lab.one.collection("people"), people(5)["vectors"])


def test_an_erasure_that_one_collection_has_not_begun_is_not_taken_for_hidden(make_lab, monkeypatch):
    lab = make_lab()
    db = lab.connect(shards=1, replicas=1)
    names = ("people", "places")
    for place in (db, lab.one):
        for name in names:
            place.collection(name, dim=8, metric="l2").add(**people(60))
    real, begun = lethevec.Store.begin_forget, []

    def begin_forget(store, request):
        if begun:
            raise FileError("it cannot be read")
        begun.append(store)
        real(store, request)

    with db.driver.writing(db.driver.epoch.shards()):
        monkeypatch.setattr(lethevec.Store, "begin_forget", begin_forget)
        with pytest.raises(ErasureIncompleteError) as caught:
            db.forget(subject="person-1")
        assert caught.value.members == ("s0-1",)
        assert db.driver.unsure == {"s0-1"}
        monkeypatch.undo()
        lab.one.forget(subject="person-1")
        for place in (db, lab.one):
            for name in names:
                place.collection(name).add(people(20)["vectors"], list(range(1000, 1020)), subjects="person-1")
    until(lambda: db.pending_erasures() == 0)
    for name in names:
        same_answers(db.collection(name), lab.one.collection(name), people(5)["vectors"])


@pytest.mark.parametrize("hangs", [("run", "state"), ("run",)])
def test_a_member_that_hangs_in_the_background_stalls_nobody_for_long(make_lab, hangs):
    lab = make_lab()
    db = lab.connect(shards=2, replicas=1)
    collection = db.collection("people", dim=8, metric="l2")
    collection.add(**people(60))
    driver, go_on, asked = db.driver, threading.Event(), threading.Event()
    operations = lab.net.ends["s0-1"].endpoint._operations

    def hang(*args):
        asked.set()
        go_on.wait(300)
        raise RefusalError("busy")

    before = dict(operations)
    operations.update(dict.fromkeys(hangs, hang))
    driver.timeout = 3600.0
    tag = driver.audit.tag_subject("person-1")
    about = {"by": "subject", "subject": tag, "collection": None, "ids": []}
    wanted = {"collection": None, "ids": [], "subject": tag}
    driver.registry("begin", {"kind": "erasure", "asked": about, "wanted": wanted, "token": "t"})
    try:
        assert asked.wait(60)
        raised, done = in_a_thread(lambda: collection.add(people(20)["vectors"], list(range(1000, 1020))))
        assert done.wait(60)
        assert raised == []
    finally:
        operations.update(before)
        driver.timeout = 20.0
        go_on.set()
    until(lambda: db.pending_erasures() == 0)


def test_a_member_that_erases_keeps_no_threads_for_those_who_ask_again(lab, db):
    member = lab.net.ends["s0-1"]
    asked, go_on = threading.Event(), threading.Event()

    def work():
        with member._changing:
            asked.set()
            go_on.wait(300)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        assert asked.wait(60)
        with pytest.raises(RefusalError, match="busy"):
            member._run_pending({"pending": [], "seconds": 0.05}, [])
    finally:
        go_on.set()
        thread.join()


def test_all_members_are_asked_for_their_status_at_the_same_time(db, monkeypatch):
    real, together = catching_up.state_of, threading.Barrier(4)

    def state_of(*args):
        together.wait(60)
        return real(*args)

    monkeypatch.setattr(catching_up, "state_of", state_of)
    status = db.status()
    assert [one["member"] for one in status["members"]] == ["s0-1", "s0-2", "s1-1", "s1-2"]
    assert all(one["reachable"] for one in status["members"])
    assert sum(one["records"] for one in status["members"]) == 120


def test_nothing_is_written_to_a_shard_whose_last_member_may_not_have_erased(make_lab):
    lab = make_lab()
    db = lab.connect(shards=1, replicas=1)
    for place in (db, lab.one):
        place.collection("people", dim=8, metric="l2").add(**people(60))
    lab.net.cut("driver", "s0-1")
    lab.net.cut("registry", "s0-1")
    with pytest.raises(ErasureIncompleteError):
        db.forget(subject="person-1")
    lab.net.cut("driver", "s0-1", back=True)  # it takes writes, and does not know of the erasure

    def add(place):
        place.collection("people").upsert(people(20)["vectors"], list(range(1000, 1020)), subjects="person-1")

    with pytest.raises(UnavailableError, match="nothing was written"):
        add(db)
    lab.net.cut("registry", "s0-1", back=True)
    lab.one.forget(subject="person-1")
    for place in (db, lab.one):
        add(place)
    until(lambda: db.pending_erasures() == 0)
    same_answers(db.collection("people"), lab.one.collection("people"), people(5)["vectors"])


def in_a_thread(call):
    """Whether a call has returned within so many seconds, and what it raised."""
    raised, done = [], threading.Event()

    def run():
        try:
            call()
        except Exception as error:
            raised.append(error)
        done.set()

    threading.Thread(target=run, daemon=True).start()
    return raised, done


def test_members_that_hang_share_the_time_that_an_erasure_is_given(lab, db, monkeypatch):
    go_on = threading.Event()
    for name in ("s0-1", "s1-1"):
        real = lab.net.ends[name]._db.forget

        def hang(*args, real=real, **options):
            go_on.wait(300)
            return real(*args, **options)

        monkeypatch.setattr(lab.net.ends[name]._db, "forget", hang)
    db.driver.timeout = 60.0
    raised, done = in_a_thread(lambda: db.forget(subject="person-1", timeout=0.2))
    try:
        assert done.wait(40)  # each of the two has less than the driver's own time
        assert raised[0].members == ("s0-1", "s1-1")
        assert db.collection("people").count(subject="person-1") == 0
    finally:
        db.driver.timeout = 20.0
        go_on.set()
    lab.wait_live(db)
    assert db.pending_erasures() == 0
    assert all(len(digests) == 1 for digests in digests_of(db))


def test_who_hangs_and_has_no_lease_is_not_waited_for(lab, db, monkeypatch):
    go_on = threading.Event()
    member = lab.net.ends["s0-1"]
    real = member._db.forget

    def hang(*args, **options):
        lab.net.cut("registry", "s0-1")
        go_on.wait(300)
        return real(*args, **options)

    monkeypatch.setattr(member._db, "forget", hang)
    db.driver.timeout = 3600.0
    raised, done = in_a_thread(lambda: db.forget(subject="person-1"))
    try:
        assert done.wait(60)
        assert raised[0].members == ("s0-1",)
    finally:
        db.driver.timeout = 20.0
        go_on.set()
        lab.net.cuts.clear()
    lab.wait_live(db)
    assert db.pending_erasures() == 0


@pytest.mark.parametrize("again", [True, False])
def test_a_registry_that_dies_while_it_begins_an_erasure_changes_the_epoch_later(lab, db, monkeypatch, again):
    """The erasure is kept, the epoch is not in force yet."""
    driver, registry = db.driver, lab.net.ends["registry"]
    entry, tag = driver.epoch.find("people"), driver.audit.tag_subject("person-1")
    asked = {"by": "drop", "subject": None, "collection": entry.id, "ids": []}
    wanted = {"collection": entry.id, "ids": [], "subject": None, "drop": True}
    about = {"kind": "drop", "asked": asked, "wanted": wanted, "token": "t", "block": tag}

    def dies(*args, **options):
        raise RuntimeError("killed")

    monkeypatch.setattr(registry, "_change", dies)
    with driver.writing(driver.epoch.shards()):
        with pytest.raises(ServerError):
            driver.registry("begin", about)
        monkeypatch.undo()
        if again:  # the same process is asked once more
            assert driver.registry("begin", about)["number"] == 1
        else:  # another one takes up what was kept
            lab.net.kill("registry")
            lab.net.start_registry()
            driver.refresh()
        assert driver.epoch.erasures == 1
        assert driver.epoch.find("people") is None
        assert tag in driver.epoch.blocks
    db.complete_erasures(timeout=20)
    assert [receipt.kind for receipt in db.receipts()] == ["drop"]
    assert db.collections() == []
    assert db.is_blocked("person-1")


def test_the_command_checks_the_chain(lab, db, monkeypatch):
    for person in ("person-1", "person-2"):
        db.forget(subject=person)
    monkeypatch.setattr("lethevec.cluster.connect", lambda *place, **options: lab.connect("command", read_only=True))

    def verify_chain():
        return CliRunner().invoke(cli, ["cluster", "verify", "--folder", "anywhere", "--json"])

    result = verify_chain()
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"entries": 2, "good": True, "failed": []}
    erasures = lab.net.ends["registry"]._erasures
    erasures[1] = {**erasures[1], "receipt": {**erasures[1]["receipt"], "records": 99}}
    result = verify_chain()
    assert result.exit_code == 1
    assert "receipt 0" in json.loads(result.stdout)["failed"]
