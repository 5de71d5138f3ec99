"""A cluster in one process, beside one folder that is given the same records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lethevec
from lethevec.cluster import ClusterDatabase
from lethevec.cluster.connecting import open_cluster
from lethevec.cluster.local import LocalNetwork


class Lab:
    """A local cluster under test: drivers by name, and ways to break it."""

    def __init__(self, folder: Path, **network: Any) -> None:
        self.net = LocalNetwork(folder / "cluster", **network)
        self.one = lethevec.connect(folder / "one")
        self._drivers: list[ClusterDatabase] = []

    def connect(self, name: str = "driver", **options: Any) -> ClusterDatabase:
        options.setdefault("timeout", 20.0)
        db = open_cluster(self.net, self.net.transport(name), self.net.cluster, self.net.secret, **options)
        self._drivers.append(db)
        return db

    def restart(self, db: ClusterDatabase, name: str) -> None:
        self.net.start_member(db.driver.epoch.members[name])

    def wait_live(self, db: ClusterDatabase, seconds: float = 60.0) -> None:
        until(lambda: db.driver.refresh() or not db.driver.epoch.in_state("away", "joining"), seconds)

    def close(self) -> None:
        for db in self._drivers:
            db.close()
        self.net.close()
        self.one.close()


def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.02)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    made.close()


@pytest.fixture
def make_lab(tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    made: list[Lab] = []

    def make(**options: Any) -> Lab:
        made.append(Lab(tmp_path / str(len(made)), **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def people(n: int, dim: int = 8, seed: int = 0) -> dict[str, Any]:
    """Records with both kinds of ids, ten subjects and payloads; vectors on a grid, so that distances tie."""
    rng = np.random.default_rng(seed)
    return {
        "vectors": rng.integers(-2, 3, (n, dim)).astype(np.float32) + np.float32(0.5),
        "ids": [f"name-{place}" if place % 2 else place for place in range(n)],
        "subjects": [f"person-{place % 10}" if place % 3 else None for place in range(n)],
        "payloads": [{"year": 1990 + place % 7} if place % 4 else None for place in range(n)],
    }


def same_answers(cluster: Any, store: Any, queries: Any) -> None:
    """Every question gives what one store gives."""
    for options in ({}, {"where": {"year": {"$lt": 1994}}}, {"subject": "person-4"}):
        ours = cluster.search(queries, 7, effort=float("inf"), **options)
        theirs = store.search(queries, 7, effort=float("inf"), **options)
        for name in ("ids", "distances", "subjects", "payloads"):
            assert (getattr(ours, name) == getattr(theirs, name)).all(), name
    assert cluster.ids() == store.ids()
    assert len(cluster) == len(store)
    assert cluster.subjects() == store.subjects()
    assert cluster.digest() == store.digest()
