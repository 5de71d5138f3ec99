"""A cluster over network namespaces, one of which is cut off and joined again, twice.

    python -m tests.ray.partitions FOLDER TAG

The first time for so short that Ray does not notice, the second time until Ray has given the node up. Whatever was
acknowledged is there in the end, nothing that was forgotten was found meanwhile, and the digest is that of one store.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Ray lets its workers wait for everything else that a machine does; here it may be busy.
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_health_check_period_ms", "1000")
os.environ.setdefault("RAY_health_check_failure_threshold", "5")

import ray
from ray.cluster_utils import Cluster

import lethevec
from lethevec.cluster import ClusterDatabase, verify
from lethevec.errors import ErasureIncompleteError, LethevecError
from tests.ray.engine import until

DIM = 16
DISKS = "abc"
SMALL = 80 << 20


def run(*words: str, check: bool = True) -> None:
    subprocess.run(words, check=check, capture_output=not check)


class Network:
    """A bridge, and a namespace on it for each disk. All of their names begin with the tag."""

    def __init__(self, disks: str, tag: str) -> None:
        self.disks = disks
        self.tag = tag
        self.subnet = f"10.213.{os.getpid() % 250}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.gcs = ""

    def __enter__(self) -> Network:
        run("ip", "link", "add", self.tag, "type", "bridge")
        run("ip", "addr", "add", f"{self.subnet}.1/24", "dev", self.tag)
        run("ip", "link", "set", self.tag, "up")
        for place, disk in enumerate(self.disks):
            space, end = self.space(disk), f"{self.tag}{disk}"
            run("ip", "netns", "add", space)
            run("ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", space)
            run("ip", "link", "set", end, "master", self.tag, "up")
            run("ip", "-n", space, "addr", "add", f"{self.subnet}.{11 + place}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "address", self.hardware(place), "up")
            run("ip", "-n", space, "link", "set", "lo", "up")
            run("ip", "neigh", "add", f"{self.subnet}.{11 + place}", "lladdr", self.hardware(place), "dev", self.tag)
            for other in range(len(self.disks)):
                if other != place:
                    at = f"{self.subnet}.{11 + other}"
                    run("ip", "-n", space, "neigh", "add", at, "lladdr", self.hardware(other), "dev", "eth0")
        return self

    def hardware(self, place: int) -> str:
        """Everybody knows everybody's, so that a send to a node that is cut off does not fail for want of it."""
        return f"02:00:00:00:00:{place + 1:02x}"

    def space(self, disk: str) -> str:
        return f"{self.tag}{disk}"

    def __exit__(self, *error: object) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
        remove(self.tag, self.disks)

    def start(self, disk: str) -> None:
        """The Ray node of a disk, unless it runs."""
        process = self.processes.get(disk)
        if process is None or process.poll() is not None:
            words = ["ip", "netns", "exec", self.space(disk), str(Path(sys.executable).parent / "ray"), "start"]
            words += [f"--address={self.gcs}", f"--node-ip-address={self.subnet}.{11 + self.disks.index(disk)}"]
            words += [f'--resources={{"lethevec_disk_{disk}": 1}}', "--num-cpus=2", f"--object-store-memory={SMALL}"]
            self.processes[disk] = subprocess.Popen([*words, "--block"], stdout=subprocess.DEVNULL)

    def start_all(self) -> None:
        """Every node that does not run; one may give up starting on a machine that is busy."""
        for disk in self.disks:
            self.start(disk)

    def cut(self, disk: str) -> None:
        """From now on what is sent to this node and from it vanishes."""
        run("ip", "link", "set", f"{self.tag}{disk}", "nomaster")

    def join(self, disk: str) -> None:
        """It arrives again."""
        run("ip", "link", "set", f"{self.tag}{disk}", "master", self.tag)


def remove(tag: str, disks: str) -> None:
    """Take away what a network of this tag has left, with every process in it."""
    for disk in disks:
        inside = subprocess.run(["ip", "netns", "pids", f"{tag}{disk}"], capture_output=True, text=True).stdout
        for pid in inside.split():
            run("kill", "-9", pid, check=False)
        run("ip", "netns", "del", f"{tag}{disk}", check=False)
    run("ip", "link", "del", tag, check=False)


class User:
    """A thread that adds and searches all the time; what was acknowledged is in the one store too."""

    def __init__(self, db: ClusterDatabase, one: lethevec.Store) -> None:
        self.collection, self.one = db.collection("people"), one
        self.next, self.searches = 1000, 0
        self.unsure: list[int] = []
        self.gone: set[int] = set()
        self.wrong: list[object] = []
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        rng = np.random.default_rng(5)
        while not self.stop.is_set():
            ids = list(range(self.next, self.next + 5))
            self.next += 5
            given = {"ids": ids, "subjects": [f"p{id % 20}" for id in ids]}
            vectors = rng.standard_normal((5, DIM)).astype(np.float32)
            with self.lock:  # so that an erasure does not come between the two
                try:
                    self.collection.add(vectors, **given)
                    self.one.add(vectors, **given)
                except LethevecError:
                    self.unsure += ids
            with self.lock:
                gone = set(self.gone)
            try:
                found = {hit.id for hit in self.collection.search(vectors[0], 100)[0]}
                self.searches += 1
            except LethevecError:
                continue
            if found & gone:
                self.wrong.append(found & gone)
            time.sleep(0.05)

    def forget(self, db: ClusterDatabase, person: str) -> tuple[str, ...]:
        """In both; who has not erased yet."""
        with self.lock:
            ids = set(self.one.ids(subject=person))
            assert ids
            members: tuple[str, ...] = ()
            try:
                db.forget(subject=person, timeout=2)
            except ErasureIncompleteError as error:
                members = error.members
            self.one.forget(subject=person)
            self.gone |= ids
            return members


def alive() -> int:
    """How many nodes Ray takes for alive."""
    return len([node for node in ray.nodes() if node["Alive"]])


def main(folder: str, tag: str) -> None:
    place = Path(folder)
    with Network(DISKS, tag) as net:
        shared = {"num_cpus": 1, "object_store_memory": SMALL, "node_ip_address": f"{net.subnet}.1"}
        head = Cluster(initialize_head=True, head_node_args={**shared, "include_dashboard": False})
        net.gcs = str(head.address)
        db: ClusterDatabase | None = None
        user: User | None = None
        try:
            ray.init(address=net.gcs, namespace="lethevec", log_to_driver=False, _node_ip_address=f"{net.subnet}.1")
            until(lambda: net.start_all() or alive() == 4, 180)
            db = lethevec.cluster.connect(
                folder=place / "cluster", shards=2, replicas=2, lease=2.0, term=10.0, timeout=60.0
            )
            one = lethevec.connect(place / "one").collection("people", dim=DIM, metric="l2")
            people = db.collection("people", dim=DIM, metric="l2")
            given = np.random.default_rng(0).standard_normal((400, DIM)).astype(np.float32)
            for store in (people, one):
                store.add(given, list(range(400)), subjects=[f"p{id % 20}" for id in range(400)])
            # The registry is on the first disk: another one is cut off.
            away = {name for name, member in db.driver.epoch.members.items() if member.disk == "lethevec_disk_b"}
            assert away
            user = User(db, one)
            done = 0
            for person, noticed in (("p1", False), ("p2", True)):
                before = user.searches
                net.cut("b")
                waited_for = user.forget(db, person)
                assert set(waited_for) == away, waited_for
                assert not people.count(subject=person)
                if noticed:
                    until(lambda: alive() == 3, 90)
                until(lambda before=before: user.searches > before + 3, 90)
                net.join("b")
                if noticed:  # Ray ends what it has given up, and somebody starts it again
                    net.processes["b"].terminate()
                    net.processes["b"].wait(30)
                    until(lambda: net.start_all() or alive() == 4, 180)
                until(lambda: db.driver.refresh() or not db.driver.epoch.in_state("away", "joining"), 180)
                db.complete_erasures(timeout=60)
                done += 1
            user.stop.set()
            user.thread.join(90)
            assert not user.thread.is_alive()
            assert not user.wrong, user.wrong
            if user.unsure:  # neither done nor known not to be done: taken out of both
                people.forget([id for id in user.unsure if id in people])
            assert people.digest() == one.digest()
            found, wanted = (store.search(given[:20], 10, effort=float("inf")) for store in (people, one))
            assert (found.ids == wanted.ids).all()
            digests: dict[int, set[str]] = {}
            for entry in db.status()["members"]:
                digests.setdefault(entry["shard"], set()).add(str(entry["digests"]))
            assert all(len(some) == 1 for some in digests.values())
            receipts = db.receipts()
            assert len(receipts) >= 2
            assert all(verify(receipt, key=db.public_key()) for receipt in receipts)
            assert all(set(receipt.members.values()) == {"erased"} for receipt in receipts)
            print(f"{user.next - 1000} added meanwhile, {len(user.unsure)} of them unsure, {user.searches} searches")
            print(f"partitions: {done}")
        finally:  # nobody may call Ray when it is gone
            if user is not None:
                user.stop.set()
                user.thread.join(90)
            if db is not None:
                db.close()
            ray.shutdown()
            head.shutdown()


if __name__ == "__main__":
    words: Sequence[str] = sys.argv[1:]
    main(*words)
