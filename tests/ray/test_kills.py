"""Members, nodes and the driver are killed at random while records are added, searched and forgotten.

`LETHEVEC_CLUSTER_KILLS=100` for the long run. In the end nothing that was acknowledged is missing, nothing that was
forgotten was ever found, replicas are equal, and every receipt verifies.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import ray

from lethevec.cluster import verify
from tests.ray.engine import ray_processes, until
from tests.ray.kill_worker import DIM, Model

KILLS = int(os.environ.get("LETHEVEC_CLUSTER_KILLS", "6"))
ROOT = Path(__file__).resolve().parents[2]


def test_random_kills(place, nodes):
    rng = random.Random(int(os.environ.get("LETHEVEC_CLUSTER_SEED", "1")))
    db = place.connect(shards=2, replicas=2)
    db.collection("people", dim=DIM, metric="l2")
    members = sorted(db.driver.epoch.members)
    db.close()
    log = place.folder / "log.jsonl"
    starts = 0

    def start() -> subprocess.Popen[bytes]:
        nonlocal starts
        starts += 1
        words = [nodes.address, str(place.folder / "cluster"), place.name, str(log), str(starts)]
        command = [sys.executable, "-m", "tests.ray.kill_worker", *words]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet)

    driver = start()
    down: dict[str, float] = {}
    counts = dict.fromkeys(["member", "registry", "node", "driver", "hang"], 0)
    hanging: list[tuple[int, float]] = []
    idle = 0

    def done() -> int:
        return log.read_text().count('"done"')

    def tend() -> None:
        """Start again what was down for long enough."""
        nonlocal driver
        for disk in [disk for disk, at in down.items() if time.monotonic() > at]:
            del down[disk]
            nodes.start(disk)
        for pid, at in list(hanging):
            if time.monotonic() > at:
                hanging.remove((pid, at))
                _signal(pid, signal.SIGCONT)
        if driver.poll() is not None:
            driver = start()

    try:
        until(lambda: log.exists() and log.stat().st_size > 2000, 120)
        for _ in range(KILLS):
            # Something must be going on when the next one dies: wait until a call was carried out since the last.
            before = done()
            limit = time.monotonic() + 30
            while done() == before and time.monotonic() < limit:
                tend()
                time.sleep(0.1)
            idle += done() == before
            time.sleep(rng.uniform(0.0, 1.5))
            tend()
            kind = rng.choice(["member"] * 4 + ["registry", "node", "node", "driver", "driver", "hang"])
            if kind == "node" and down:
                kind = "member"
            counts[kind] += 1
            if kind in ("member", "registry"):
                try:
                    place.kill("registry" if kind == "registry" else rng.choice(members))
                except (ValueError, ray.exceptions.RayError):
                    pass  # it is just being started
            elif kind == "node":
                disk = rng.choice(sorted(nodes.nodes))
                nodes.kill(disk)
                down[disk] = time.monotonic() + rng.uniform(1.0, 6.0)
            elif kind == "driver":
                driver.kill()
                driver.wait()
                driver = start()
            else:
                pid = next((pid for pid, words in ray_processes() if "ray::MemberActor" in words), None)
                if pid is not None:
                    _signal(pid, signal.SIGSTOP)
                    hanging.append((pid, time.monotonic() + rng.uniform(1.0, 4.0)))
    finally:
        for pid, _ in hanging:
            _signal(pid, signal.SIGCONT)
        for disk in list(down):
            nodes.start(disk)
        time.sleep(3)
        driver.kill()
        driver.wait()
    model = Model(log)
    db = place.connect(takeover=True)
    until(lambda: db.driver.refresh() or not db.driver.epoch.in_state("away", "joining"), 180)
    db.complete_erasures(timeout=60)
    there = set(db.collection("people").ids())
    print(f"kills {counts}; {model.calls} calls, {len(model.added)} added, {len(model.gone)} forgotten, {idle} idle")
    assert not model.wrong
    assert not model.sure - there
    assert not model.gone & there
    assert there <= model.added | model.unsure
    by_shard: dict[int, set[str]] = {}
    for entry in db.status()["members"]:
        by_shard.setdefault(entry["shard"], set()).add(str(entry["digests"]))
    assert all(len(digests) == 1 for digests in by_shard.values())
    receipts = db.receipts()
    assert receipts
    assert all(verify(receipt, key=db.public_key()) for receipt in receipts)
    assert [one.sequence for one in receipts] == list(range(len(receipts)))


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
