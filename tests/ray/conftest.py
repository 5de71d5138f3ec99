"""One Ray with three nodes for all tests of this folder; each test has a cluster of its own on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lethevec
from lethevec.cluster import ClusterDatabase
from tests.ray.engine import Nodes


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    made.connect()
    yield made
    made.close()


class Place:
    """A cluster on Ray, and one folder beside it."""

    def __init__(self, nodes: Nodes, folder: Path, name: str) -> None:
        self.nodes, self.folder, self.name = nodes, folder, name
        self.one = lethevec.connect(folder / "one")
        self.open: list[ClusterDatabase] = []

    def connect(self, **options: Any) -> ClusterDatabase:
        db = lethevec.cluster.connect(
            folder=self.folder / "cluster", name=self.name, lease=2.0, term=4.0, timeout=120.0, **options
        )
        self.open.append(db)
        return db

    def actor(self, name: str) -> Any:
        import ray

        return ray.get_actor(f"lethevec-{self.name}-{name}", namespace="lethevec")

    def kill(self, name: str, *, restart: bool = True) -> None:
        import ray

        ray.kill(self.actor(name), no_restart=not restart)

    def close(self) -> None:
        import ray

        names = list(self.open[-1].driver.epoch.members) if self.open else []
        for db in self.open:
            db.close()
        for name in [*names, "registry"]:
            try:
                ray.kill(self.actor(name), no_restart=True)
            except ValueError:
                continue
        self.one.close()


@pytest.fixture
def place(nodes: Nodes, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    name = "t" + str(abs(hash(request.node.name)) % 10**8)
    made = Place(nodes, tmp_path, name)
    yield made
    for disk in nodes.disks:  # a test that failed may have left one down
        nodes.start(disk)
    made.close()
