"""What goes wrong: members that die, hang, are cut off or have no space; drivers that die; buckets on the move."""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from lethevec.cluster import verify
from lethevec.cluster.buckets import BUCKETS
from lethevec.cluster.calling import RefusalError, UnreachableError
from lethevec.cluster.connecting import restore_registry
from lethevec.cluster.epoch import Epoch, MemberEntry
from lethevec.cluster.registry import Registry
from lethevec.cluster.restoring import Known, newest_of
from lethevec.errors import (
    ErasureIncompleteError,
    FormatError,
    HoldError,
    IncompleteWriteError,
    LethevecError,
    ParameterError,
    StoreLockedError,
    UnavailableError,
    UnknownIdError,
)
from tests.cluster.conftest import people, same_answers, until


def test_a_member_that_is_cut_off_from_all_but_a_reader_answers_nothing_that_was_forgotten(lab):
    """The member does not know of the erasure, and cannot be told. Its lease is over before `forget` returns."""
    db = lab.connect(shards=1, replicas=2)
    collection = db.collection("people", dim=8, metric="l2")
    collection.add(**people(60))
    reader = lab.connect("reader", read_only=True)
    seen = reader.collection("people")
    query = people(60)["vectors"][1]
    assert seen.count(subject="person-1") > 0
    for end in ("driver", "registry", "s0-2"):
        lab.net.cut("s0-1", end)
    for end in ("registry", "s0-2"):
        lab.net.cut("reader", end)  # the reader reaches nobody else, and keeps its old epoch
    forgotten = set(collection.ids(subject="person-1"))
    returned: list[float] = []
    wrong: list[object] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            begun = time.monotonic()
            try:
                found = {hit.id for hit in seen.search(query, 60)[0]}
            except LethevecError:
                continue
            if returned and begun > returned[0] and found & forgotten:
                wrong.append(found & forgotten)

    reader.driver.timeout = 0.3
    thread = threading.Thread(target=read)
    thread.start()
    try:
        with pytest.raises(ErasureIncompleteError) as caught:
            db.forget(subject="person-1")
        returned.append(time.monotonic())
        assert caught.value.members == ("s0-1",)
        time.sleep(0.5)
    finally:
        stop.set()
        thread.join()
    assert not wrong
    for end in ("driver", "registry", "s0-2"):
        lab.net.cut("s0-1", end, back=True)
    lab.wait_live(db)
    assert db.receipts()[0].members == {"s0-1": "erased", "s0-2": "erased"}


def test_an_older_driver_is_refused_once_another_has_taken_over(make_lab):
    lab = make_lab(term=10.0)
    old = lab.connect("old", shards=2, replicas=2)
    old.collection("people", dim=8, metric="l2").add(**people(10))
    with pytest.raises(StoreLockedError):
        lab.connect("new")
    new = lab.connect("new", takeover=True)
    with pytest.raises(StoreLockedError):
        old.collection("people").add([[1] * 8], ["late"])
    new.collection("people").add([[1] * 8], ["in time"])
    assert "late" not in new.collection("people")


def test_replicas_that_differ_after_a_driver_died_are_made_equal(lab):
    db = lab.connect(shards=1, replicas=2)
    db.collection("people", dim=8, metric="l2").add(**people(30))
    # A write that reached one of the two: the driver died before it could acknowledge it.
    store = lab.net.ends["s0-2"]._db.collection(next(iter(db.driver.epoch.collections)))
    store.add([[9] * 8], ["half"])
    db.close()
    again = lab.connect()
    lab.wait_live(again)
    states = again.status()["members"]
    assert states[0]["digests"] == states[1]["digests"]


def test_a_slow_member_is_not_waited_for(make_lab):
    """It is told to take longer than the questions may take at all; others answer for it."""
    lab = make_lab(drills=True)
    db = lab.connect(shards=2, replicas=2)
    collection = db.collection("people", dim=8, metric="l2")
    collection.add(**people(50))
    for _ in range(20):
        collection.search(people(1)["vectors"], 3)
    db.driver.caller.call("s0-1", "slow", {"seconds": 3600.0})
    wanted = collection.search(people(1)["vectors"], 3).ids
    for _ in range(10):
        assert (collection.search(people(1)["vectors"], 3).ids == wanted).all()
    assert db.driver.epoch.members["s0-1"].state == "live"


def test_members_are_told_to_be_slow_only_where_they_were_started_for_drills(lab):
    db = lab.connect(shards=1, replicas=1)
    with pytest.raises(FormatError, match="operation"):
        db.driver.caller.call("s0-1", "slow", {"seconds": 1.0})


def test_a_member_without_space_is_set_away_and_comes_back_when_there_is_some(lab, monkeypatch):
    db = lab.connect(shards=1, replicas=2)
    for place in (db, lab.one):
        place.collection("people", dim=8, metric="l2").add(**people(30))
    store = lab.net.ends["s0-1"]._db.collection(next(iter(db.driver.epoch.collections)))

    def full(*args, **options):
        raise IncompleteWriteError("no space left on device")

    for name in ("add", "upsert", "forget"):
        monkeypatch.setattr(store, name, full)
    for place in (db, lab.one):
        place.collection("people").add([[3] * 8], ["more"])
    assert db.driver.epoch.members["s0-1"].state == "away"
    time.sleep(1.0)
    assert db.driver.epoch.members["s0-1"].state == "away"
    monkeypatch.undo()
    lab.wait_live(db)
    lab.net.kill("s0-2")
    same_answers(db.collection("people"), lab.one.collection("people"), people(3)["vectors"])


def test_nobody_has_space(lab, monkeypatch):
    db = lab.connect(shards=1, replicas=2)
    collection = db.collection("people", dim=8, metric="l2")
    collection.add(**people(30))
    digest = collection.digest()
    for name in ("s0-1", "s0-2"):
        store = lab.net.ends[name]._db.collection(next(iter(db.driver.epoch.collections)))

        def full(*args, **options):
            raise IncompleteWriteError("no space left on device")

        monkeypatch.setattr(store, "add", full)
    with pytest.raises(IncompleteWriteError):
        collection.add([[3] * 8], ["more"])
    monkeypatch.undo()
    lab.wait_live(db)
    assert collection.digest() == digest


def test_the_registry_is_started_again(make_lab):
    lab = make_lab(lease=15.0, term=15.0)
    db = lab.connect(shards=2, replicas=2)
    collection = db.collection("people", dim=8, metric="l2")
    collection.add(**people(30))
    digest = collection.digest()
    lab.net.kill("registry")
    collection.search(people(1)["vectors"], 3)  # leases go on for a while
    lab.net.start_registry()
    until(lambda: collection.digest() == digest, 60)
    db.forget(subject="person-1")
    assert db.receipts()[0].number == 1


@pytest.mark.parametrize("meanwhile", ["erasures", "moves"])
@pytest.mark.parametrize("who_first", ["members", "drivers"])
def test_a_registry_that_was_put_back_as_it_was_before_changes_nothing(make_lab, meanwhile, who_first):
    """It would give the number of an erasure again, and members would hand in the receipts of the other one."""
    lab = make_lab()
    db = lab.connect(shards=1, replicas=2)
    people_ = db.collection("people", dim=2, metric="l2")
    people_.add([[1, 1], [2, 2], [3, 3]], ["a", "b", "c"], subjects=["ann", "bob", "cat"])
    registry, copy = lab.net.folder / "registry", lab.net.folder / "copy"
    shutil.copytree(registry, copy)
    if meanwhile == "erasures":
        db.forget(subject="ann")
    else:
        db.rebalance(shards=2)
    db.close()
    members = list(db.driver.epoch.members)
    lab.net.kill("registry")
    registry.rename(lab.net.folder / "newest")
    shutil.copytree(copy, registry)
    if who_first == "drivers":
        for name in members:
            lab.net.kill(name)
    lab.net.start_registry()
    if who_first == "members":
        until(lambda: lab.net.ends["registry"]._newer is not None)
    for k in range(6):  # as many changes as may lead to the version that members know
        with suppress(LethevecError, UnreachableError, RefusalError):
            other = lab.connect(f"driver-{k}", takeover=True, timeout=0.5)
            other.collection(f"more-{k}", dim=2)
            other.close()
    for name in members:
        if who_first == "drivers":
            lab.restart(db, name)
    until(lambda: lab.net.ends["registry"]._newer is not None)
    with pytest.raises(UnavailableError, match="an older copy"):
        lab.connect("late", takeover=True, timeout=2.0).forget(subject="bob")

    lab.net.kill("registry")
    shutil.rmtree(registry)
    (lab.net.folder / "newest").rename(registry)
    lab.net.start_registry()
    db = lab.connect("newest", takeover=True)
    lab.wait_live(db)
    people_ = db.collection("people")
    assert db.forget(subject="bob").records == 1
    assert sorted(people_.ids()) == (["c"] if meanwhile == "erasures" else ["a", "c"])


def test_a_registry_goes_on_from_an_older_copy_with_what_the_members_know(make_lab):
    """s0-3 was away in an erasure that the copy knows nothing of, and must not bring back what was forgotten."""
    lab = make_lab()
    db = lab.connect(shards=1, replicas=3)
    people_ = db.collection("people", dim=2, metric="l2")
    people_.add(np.eye(6, 2), list("abcdef"), subjects=["ann", "bob", "cat", "dan", "eve", "fay"])
    assert db.forget(subject="fay").number == 1
    registry, copy = lab.net.folder / "registry", lab.net.folder / "copy"
    shutil.copytree(registry, copy)
    db.hold("eve", reason="a trial")
    lab.net.kill("s0-3")
    with pytest.raises(ErasureIncompleteError):
        db.forget(subject="ann", timeout=1)
    db.collection("later", dim=2).add([[1, 2]], ["x"])
    db.rebalance(shards=2, replicas=2)
    assert db.driver.epoch.members["s0-3"].state == "away"
    digest, places = db.digest(), db.driver.epoch.buckets
    db.close()
    lab.net.kill("registry")
    shutil.rmtree(registry)
    shutil.copytree(copy, registry)
    lab.net.start_registry()

    def restore(without=(), timeout=1.0):
        return restore_registry(
            lab.net, lab.net.transport("operator"), lab.net.cluster, lab.net.secret, without, timeout
        )

    lab.net.kill("s0-2")
    hidden = lab.net.folder / "b" / "s0-2"
    hidden.rename(hidden.with_name("elsewhere"))  # its disk is away
    hidden.write_text("no folder")
    with pytest.raises((UnavailableError, OSError, LethevecError)):
        restore()
    hidden.unlink()
    hidden.with_name("elsewhere").rename(hidden)
    epoch = restore(timeout=20.0)
    assert epoch.buckets == places
    assert epoch.erasures == 2

    db = lab.connect("after", takeover=True)
    lab.wait_live(db)
    people_ = db.collection("people")
    assert db.digest() == digest
    assert people_.ids() == list("bcde")
    assert db.collection("later").ids() == ["x"]
    with pytest.raises(HoldError):
        db.forget(subject="eve")
    receipt = db.forget(subject="bob")
    assert (receipt.number, receipt.records) == (3, 1)
    assert set(receipt.members.values()) == {"erased"}
    assert verify(receipt, key=db.public_key())
    for name in ("s0-1", "s0-2"):  # s0-3 alone answers for its shard
        lab.net.kill(name)
    until(lambda: _answers(people_))
    assert people_.ids() == list("cde")
    with pytest.raises(ParameterError, match="older copy"):
        restore()


def test_a_registry_does_not_go_on_without_those_who_may_know_more(make_lab):
    lab = make_lab()
    db = lab.connect(shards=1, replicas=2)
    people_ = db.collection("people", dim=2, metric="l2")
    people_.add([[1, 1], [2, 2]], ["a", "b"], subjects=["ann", "bob"])
    members = dict(db.driver.epoch.members)
    first = Epoch.from_dict(db.driver.epoch.to_dict()).made_by("one")
    done, later = frozenset({1, 2}), replace(first.made_by("two"), erasures=2)
    all_of_it = {"s0-1": Known(later, done, done), "s0-2": Known(later, done, done)}
    assert newest_of(all_of_it, set(), 0).members.keys() == members.keys()
    some = {**all_of_it, "s0-1": Known(later, frozenset({1}), done)}
    made = newest_of(some, set(), 0)
    assert [made.members[name].state for name in sorted(members)] == ["away", "live"]
    assert newest_of(some, set(), 1).erasures == 2
    with pytest.raises(UnavailableError, match=r"answer of every member that is live.*s0-2"):
        newest_of({"s0-1": all_of_it["s0-1"]}, set(), 0)
    assert newest_of({"s0-1": all_of_it["s0-1"]}, {"s0-2"}, 0).members["s0-2"].state == "lost"
    with pytest.raises(UnavailableError, match="shard 0 that has done erasures 1 to 2"):
        newest_of({"s0-1": some["s0-1"]}, {"s0-2"}, 0)
    with pytest.raises(UnavailableError, match="erasures 1 to 3"):  # begun somewhere, and done nowhere
        newest_of({name: Known(later, done, frozenset({3})) for name in members}, set(), 0)
    since = later.admitted("s0-1")
    assert newest_of({"s0-1": Known(since, frozenset(), frozenset())}, {"s0-2"}, 0).members["s0-1"].state == "live"
    astray = {**all_of_it, "s0-2": Known(first.made_by("three"), done, done)}
    assert newest_of(astray, set(), 0).members["s0-2"].state == "lost"
    with pytest.raises(UnknownIdError, match="nobody"):
        newest_of(all_of_it, {"nobody"}, 0)
    with pytest.raises(UnavailableError):
        newest_of({}, set(), 0)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_member_whose_folder_was_put_back_as_it_was_before_answers_nothing_that_was_forgotten(make_lab, replicas):
    lab = make_lab()
    db = lab.connect(shards=1, replicas=replicas)
    people_ = db.collection("people", dim=2, metric="l2")
    people_.add([[1, 1], [2, 2], [3, 3]], ["a", "b", "c"], subjects=["ann", "bob", "cat"])
    db.forget(subject="cat")
    folder = lab.net.folder / db.driver.epoch.members["s0-1"].disk / "s0-1"
    lab.net.kill("s0-1")
    shutil.copytree(folder, folder.with_name("copy"))
    lab.restart(db, "s0-1")
    until(lambda: _answers(people_))
    lab.wait_live(db)
    people_.upsert([[4, 4]], ["d"])
    db.forget(subject="ann")
    lab.net.kill("s0-1")
    shutil.rmtree(folder)
    folder.with_name("copy").rename(folder)
    lab.restart(db, "s0-1")
    if replicas == 1:  # nobody to compare it with
        time.sleep(2.0)
        with pytest.raises(UnavailableError):
            db.driver.ask("ids", {"collection": people_._id, "where": None, "subject": None}, timeout=0.5)
        return
    until(lambda: db.driver.refresh() or db.driver.epoch.members["s0-1"].state == "away")
    assert sorted(people_.ids()) == ["b", "d"]
    lab.wait_live(db)
    lab.net.kill("s0-2")
    until(lambda: _answers(people_))
    assert sorted(people_.ids()) == ["b", "d"]


def _answers(collection) -> bool:
    try:
        return len(collection) >= 0
    except UnavailableError:
        return False


def test_a_member_that_misses_a_change_and_renews_its_lease_keeps_nobody_waiting(lab):
    """It learns of the change with its lease: the lease that it had before is waited for, and not every later one."""
    db = lab.connect(shards=1, replicas=2, timeout=6.0)
    db.collection("people", dim=2).add([[1, 2]], ["a"])

    def busy(head, arrays):
        raise RefusalError("busy")

    lab.net.ends["s0-1"].endpoint._operations["epoch"] = busy
    for name in ("more", "still-more"):
        db.collection(name, dim=2).add([[1, 2]], ["a"])
    assert db.collection("more").forget(["a"]).records == 1
    assert db.collection("people").ids() == ["a"]


def test_one_process_has_the_registry_s_folder(lab, monkeypatch):
    """Ray may start it again while the process before is still there, and is still called."""
    lab.connect(shards=1).close()
    first = lab.net.ends["registry"]
    folder, transport = lab.net.folder / "registry", lab.net.transport("registry")
    with pytest.raises(StoreLockedError):
        Registry(folder, lab.net.cluster, transport, lab.net.secret)
    first.close()
    text = (folder / "registry.json").read_text()
    (folder / "registry.json").write_text("no JSON")
    with pytest.raises(FormatError):
        Registry(folder, lab.net.cluster, transport, lab.net.secret)
    (folder / "registry.json").write_text(text)
    second = Registry(folder, lab.net.cluster, transport, lab.net.secret)

    # What is not kept yet is told to nobody: a process that ends then has changed nothing.
    told = []
    save = second._save

    def saving(*args, **options):
        told.append(second._give_epoch({"version": 0}, [])["epoch"]["version"])
        save(*args, **options)

    monkeypatch.setattr(second, "_save", saving)
    before = second.epoch.version
    second._change(second.epoch)
    assert told == [before]
    assert second.epoch.version == before + 1
    second.close()


def test_epochs_know_which_of_them_came_first():
    members = {"s0-1": MemberEntry("s0-1", 0, "a", "live")}
    first = Epoch("c", 0, 0, (0,) * BUCKETS, members).made_by("one").made_by("one")
    second = first.made_by("two").made_by("two")
    other = first.made_by("three").made_by("three").made_by("three")
    assert (first.version, second.version, other.version) == (2, 4, 5)
    assert Epoch.from_dict(json.loads(json.dumps(second.to_dict()))) == second
    for one in (first, second, other):
        assert one.follows(first.version, first.life)
        assert one.follows(one.version, one.life)
        assert one.follows(0, "")
        assert not one.follows(one.version + 1, one.life)
    assert not other.follows(second.version, second.life)
    assert not second.follows(3, "three")
    assert not second.follows(3, "one")  # the first process of the registry made no third version
    for k in range(200):
        second = second.made_by(str(k))
    assert len(second.lives) == 64
    assert second.follows(first.version, first.life)
    assert not second.follows(second.lives[0][1], "three")


def test_buckets_move_while_others_search_and_write(lab, monkeypatch):
    from lethevec.cluster import rebalancing

    db = lab.connect(shards=2, replicas=2)
    given = people(200)
    for place in (db, lab.one):
        place.collection("people", dim=8, metric="l2").add(**given)
    ours, theirs = db.collection("people"), lab.one.collection("people")
    wanted = theirs.search(given["vectors"][:4], 9, effort=float("inf"))
    stop, wrong, count = threading.Event(), [], [0]

    def read() -> None:
        while not stop.is_set():
            found = ours.search(given["vectors"][:4], 9, effort=float("inf"))
            count[0] += 1
            if not (found.ids == wanted.ids).all():
                wrong.append(found.ids)

    real, during = rebalancing.same_buckets, [0]

    def compare(*args):
        """In the middle of a move: others are answered meanwhile."""
        before = count[0]
        until(lambda: count[0] > before)
        during[0] += 1
        return real(*args)

    monkeypatch.setattr(rebalancing, "same_buckets", compare)
    thread = threading.Thread(target=read)
    thread.start()
    try:
        for shards in (4, 3, 1):
            done = db.rebalance(shards=shards)
            assert done["moved"] > 0
            for store in (ours, theirs):
                store.add(np.full((1, 8), 40.0 + shards), [f"during-{shards}"])
    finally:
        stop.set()
        thread.join()
    assert during[0] >= 3
    assert not wrong
    same_answers(ours, theirs, given["vectors"][:5])
    assert sorted(m.name for m in db.driver.epoch.members.values()) == ["s0-1", "s0-2"]
    kept = [entry["records"] for entry in db.status()["members"]]
    assert kept == [len(theirs)] * 2


def test_a_move_that_is_cut_off_leaves_both_copies_and_is_taken_up_again(lab, monkeypatch):
    from lethevec.cluster import rebalancing

    db = lab.connect(shards=1, replicas=2)
    for place in (db, lab.one):
        place.collection("people", dim=8, metric="l2").add(**people(100))
    for step in ("same_buckets", "release"):
        calls = [0]
        real = getattr(rebalancing, step)

        def cut(*args, calls=calls, real=real):
            calls[0] += 1
            if calls[0] == 3:
                raise UnavailableError("cut off")
            return real(*args)

        monkeypatch.setattr(rebalancing, step, cut)
        with pytest.raises(UnavailableError):
            db.rebalance(shards=2 if step == "same_buckets" else 3)
        monkeypatch.undo()
        same_answers(db.collection("people"), lab.one.collection("people"), people(3)["vectors"])
        victim = db.collection("people").ids(subject="person-2")[:1]
        receipt = db.collection("people").forget(victim)  # wherever its copies are
        assert verify(receipt, key=db.public_key())
        lab.one.collection("people").forget(victim)
    db.rebalance(shards=3)
    same_answers(db.collection("people"), lab.one.collection("people"), people(3)["vectors"])
    held = sum(entry["records"] for entry in db.status()["members"])
    assert held == 2 * len(lab.one.collection("people"))


def test_a_history_of_faults(make_lab):
    """Random adds, updates, erasures, kills, cuts, moves and new drivers; then everything is as in one store."""
    from tests.cluster.history import History

    for seed in range(int(os.environ.get("LETHEVEC_CLUSTER_HISTORIES", "1"))):
        lab = make_lab()
        history = History(lab, random.Random(seed))
        history.run(25)
        history.settle()


def test_metrics_say_who_is_away(lab):
    db = lab.connect(shards=1, replicas=2)
    db.collection("people", dim=8, metric="l2").add(**people(30))
    lab.net.kill("s0-1")
    with pytest.raises(ErasureIncompleteError):
        db.forget(subject="person-1")
    lines = db.metrics().splitlines()
    assert 'lethevec_cluster_members{state="away"} 1' in lines
    assert "lethevec_cluster_erasures_waiting 1" in lines
    assert any(line.startswith('lethevec_cluster_member_records{member="s0-2"} ') for line in lines)


def test_an_unknown_cluster_is_not_made_by_accident(lab):
    with pytest.raises(UnknownIdError, match="shards="):
        lab.connect()
