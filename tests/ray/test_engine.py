"""A cluster on Ray: what one store gives, also after processes and nodes were killed; and nothing left in Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import ray

from lethevec.cluster import verify
from lethevec.errors import ErasureIncompleteError, IdError, StoreLockedError, UnknownIdError
from tests.ray.engine import has_open, ray_processes, until
from tests.ray.residue import MARKS, VECTOR, marks_in, places_of


def records(n: int, dim: int = 32, seed: int = 0) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    return {
        "vectors": rng.standard_normal((n, dim)).astype(np.float32),
        "ids": list(range(n)),
        "subjects": [f"person-{k % 20}" for k in range(n)],
        "payloads": [{"year": 1990 + k % 9} for k in range(n)],
    }


def all_live(db) -> bool:
    db.driver.refresh()
    return not db.driver.epoch.in_state("away", "joining")


def test_members_and_nodes_come_and_go(place):
    db = place.connect(shards=2, replicas=2)
    given = records(400)
    for one in (db, place.one):
        one.collection("people", dim=32).add(**given)
    ours, theirs = db.collection("people"), place.one.collection("people")
    queries = given["vectors"][:10] + np.float32(0.1)

    def same() -> None:
        found, wanted = (store.search(queries, 10, effort=float("inf")) for store in (ours, theirs))
        assert (found.ids == wanted.ids).all()
        assert (found.distances == wanted.distances).all()
        assert ours.digest() == theirs.digest()
        assert db.digest() == place.one.digest()

    same()
    receipt = db.forget(subject="person-3")
    place.one.forget(subject="person-3")
    assert verify(receipt.to_json(), key=db.public_key())
    same()

    place.kill("s0-1")  # the process; Ray starts it again where its disk is
    ours.upsert(given["vectors"][:20] * 2, [f"new-{k}" for k in range(20)])
    theirs.upsert(given["vectors"][:20] * 2, [f"new-{k}" for k in range(20)])
    same()
    until(lambda: all_live(db))
    same()

    disk = db.driver.epoch.members["s1-1"].disk.removeprefix("lethevec_disk_")
    place.nodes.kill(disk)  # the node, with every member on it
    until(lambda: not any(_is_member(pid, place, "s1-1") for pid, _ in ray_processes()))
    try:
        with pytest.raises(ErasureIncompleteError) as caught:
            db.forget(subject="person-4", timeout=5)
        assert "s1-1" in caught.value.members
        place.one.forget(subject="person-4")
        same()
    finally:
        place.nodes.start(disk)
    until(lambda: db.pending_erasures() == 0, 120)
    until(lambda: all_live(db), 120)
    same()
    assert [verify(one, key=db.public_key()).failed for one in db.receipts()] == [[], []]

    reader = place.connect(read_only=True)
    assert reader.digest() == place.one.digest()
    with pytest.raises(StoreLockedError):
        place.connect()
    moved = db.rebalance(shards=3)
    assert moved["moved"] > 300
    same()
    assert reader.digest() == place.one.digest()


def test_a_process_that_hangs_answers_nothing_that_was_forgotten_when_it_goes_on(place):
    """Stopped before the erasure and continued after it: its lease is over, whatever its clock was doing."""
    db = place.connect(shards=1, replicas=2)
    people = db.collection("people", dim=32)
    people.add(**records(100))
    pid = next(pid for pid, words in ray_processes() if _is_member(pid, place, "s0-1"))
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(ErasureIncompleteError):
            db.forget(subject="person-1", timeout=1)
    finally:
        os.kill(pid, signal.SIGCONT)
    for _ in range(20):
        assert people.count(subject="person-1") == 0
    until(lambda: db.pending_erasures() == 0)


def _is_member(pid: int, place, name: str) -> bool:
    """Whether a process has the files of a member open."""
    return has_open(pid, place.folder, f"/{name}/records/")


# --- Nothing is left in the engine ---------------------------------------------------------------------------------


@ray.remote(num_cpus=0)
class Plain:
    """What would happen without sealing."""

    def take(self, content: bytes) -> int:
        return len(content)


def test_nothing_is_left_in_ray_after_an_erasure(place):
    db = place.connect(shards=2, replicas=2)
    rng = np.random.default_rng(7)
    people = db.collection("people", dim=64, metric="l2")
    others = rng.standard_normal((300, 64)).astype(np.float32)
    people.add(others, list(range(300)))
    id, subject = (MARKS[name].decode() for name in ("id", "subject"))
    for _ in range(3):  # written, replaced, found and read, by small messages and large ones
        people.upsert(
            np.vstack([VECTOR, *rng.standard_normal((2000, 64))]).astype(np.float32),
            [id, *[f"filler-{k}" for k in range(2000)]],
            subjects=[subject] + [None] * 2000,
            payloads=[{"street": MARKS["payload"].decode()}] + [None] * 2000,
        )
        assert people.search(VECTOR, 1)[0][0].id == id
        people.get([id])
        db.access(subject)
        with pytest.raises(IdError, match=id):  # a member's error that names it
            people.add(VECTOR.reshape(1, -1), [id])
    folders = [Path(ray._private.worker.global_worker.node.get_session_dir_path()), place.folder / "cluster"]
    assert marks_in(places_of(MARKS, folders)) == set(MARKS)  # while it is there, the search finds all of it
    receipt = db.forget(subject=subject)
    assert verify(receipt, key=db.public_key())
    with pytest.raises(UnknownIdError, match=id):
        people.get([id])
    assert db.forget(subject=subject, ignore_unknown=True).records == 0  # its keys end as well
    assert places_of(MARKS, folders) == []

    # The search would find it: bytes that are sent through Ray in the clear. They stay there, so they are no mark that
    # another test looks for.
    plain = b"what went through in the clear 5c"
    actor = Plain.remote()
    assert ray.get(actor.take.remote(plain * 20_000)) > 0
    assert places_of({"plain": plain}, [])
    ray.kill(actor)


def test_a_disk_without_space(place, tmp_path):
    """A member on a small file system of its own: it is taken out when that is full, and comes back when it is not."""
    small = place.folder / "cluster" / place.name / "b"
    small.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(small)], capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        db = place.connect(shards=1, replicas=3)
        people = db.collection("people", dim=32)
        people.add(**records(200))
        filler = small / "filler"
        with filler.open("wb") as file:
            with pytest.raises(OSError, match="space"):
                while True:
                    file.write(bytes(1 << 20))
                    file.flush()
        full = next(m.name for m in db.driver.epoch.members.values() if m.disk == "lethevec_disk_b")
        rng = np.random.default_rng(3)
        people.upsert(rng.standard_normal((3000, 32)).astype(np.float32), [f"more-{k}" for k in range(3000)])
        assert db.driver.epoch.members[full].state == "away"
        assert len(people) == 3200
        filler.unlink()
        until(lambda: all_live(db))
        digests = {str(entry["digests"]) for entry in db.status()["members"]}
        assert len(digests) == 1
    finally:
        place.close()
        place.open.clear()
        time.sleep(1)
        subprocess.run(["umount", "-l", str(small)], check=False)
