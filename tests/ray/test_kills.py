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
from tests.ray.engine import has_open, ray_processes, until
from tests.ray.kill_worker import DIM, Model

KILLS = int(os.environ.get("LETHEVEC_CLUSTER_KILLS", "6"))
PATIENCE = 180  # seconds in which a call must be carried out, whatever was killed
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
    tries = 0

    def done() -> int:
        return log.read_text().count('"done"')

    def strike(kind: str) -> bool:
        """Whether it hit something: what is just being started cannot be killed, and does not count."""
        nonlocal driver
        if kind in ("member", "registry"):
            try:
                place.kill("registry" if kind == "registry" else rng.choice(members))
            except (ValueError, ray.exceptions.RayError):
                return False
        elif kind == "node":
            if down:
                return False
            disk = rng.choice(sorted(nodes.nodes))
            nodes.kill(disk)
            down[disk] = time.monotonic() + rng.uniform(1.0, 6.0)
        elif kind == "driver":
            if driver.poll() is not None:
                return False
            driver.kill()
            driver.wait()
            driver = start()
        else:
            pids = [pid for pid, _ in ray_processes() if has_open(pid, place.folder)]
            pid = rng.choice(pids) if pids else None
            if pid is None or not _signal(pid, signal.SIGSTOP):
                return False
            hanging.append((pid, time.monotonic() + rng.uniform(1.0, 4.0)))
        return True

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
        while sum(counts.values()) < KILLS:
            # Something must be going on when the next one dies: a call was carried out since the last.
            before = done()
            limit = time.monotonic() + PATIENCE
            while done() == before:
                assert time.monotonic() < limit, f"no call was carried out for {PATIENCE} s, after {counts}"
                tend()
                time.sleep(0.1)
            time.sleep(rng.uniform(0.0, 1.5))
            tend()
            kind = rng.choice(["member"] * 4 + ["registry", "node", "node", "driver", "driver", "hang"])
            tries += 1
            assert tries < 20 * KILLS, f"most tries hit nothing: {counts}"
            counts[kind] += strike(kind)
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
    print(f"kills {counts}; {model.calls} calls, {len(model.added)} added, {len(model.gone)} forgotten")
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


def _signal(pid: int, number: int) -> bool:
    """Whether there was such a process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
