"""Several Ray nodes on this machine, which can be killed: small object stores, no dashboard, loopback alone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_DEDUP_LOGS", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Ray lets its workers wait for everything else that a machine does; here it may be busy.
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_health_check_period_ms", "1000")
os.environ.setdefault("RAY_health_check_failure_threshold", "3")

import ray
from ray.cluster_utils import Cluster

# Ray takes 127.0.0.1 for "this machine's own address"; another one of the loopback network stays what it is.
LOOPBACK = "127.0.0.2"
_SMALL = 80 << 20


class Nodes:
    """A head without a disk, and a node for each disk."""

    def __init__(self, disks: str = "abc") -> None:
        shared: dict[str, Any] = {"num_cpus": 2, "object_store_memory": _SMALL, "node_ip_address": LOOPBACK}
        self._shared = shared
        self.cluster = Cluster(initialize_head=True, head_node_args={**shared, "include_dashboard": False})
        self.nodes: dict[str, Any] = {}
        self.disks = disks
        for disk in disks:
            self.start(disk)

    def start(self, disk: str) -> None:
        """Start the node of a disk, unless it runs."""
        if disk not in self.nodes:
            resources = {f"lethevec_disk_{disk}": 1}
            self.nodes[disk] = self.cluster.add_node(resources=resources, wait=False, **self._shared)

    def kill(self, disk: str) -> None:
        """End a node without a word, with every process on it."""
        node = self.nodes.pop(disk, None)
        if node is not None:
            self.cluster.remove_node(node, allow_graceful=False)

    @property
    def address(self) -> str:
        """Where drivers find it."""
        return str(self.cluster.address)

    def connect(self) -> None:
        """Make this process a driver."""
        if not ray.is_initialized():
            ray.init(address=self.address, namespace="lethevec", log_to_driver=False, _node_ip_address=LOOPBACK)

    def close(self) -> None:
        """End everything that was started here."""
        ray.shutdown()
        self.cluster.shutdown()


def ray_processes() -> Iterator[tuple[int, str]]:
    """Every process of Ray on this machine but this one: number and command line."""
    for path in Path("/proc").iterdir():
        if path.name.isdecimal() and int(path.name) != os.getpid():
            try:
                words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if "ray::" in words or "/ray/" in words:
                yield int(path.name), words


def has_open(pid: int, folder: Path, part: str = "/records/") -> bool:
    """Whether a process has a file below a folder open, with `part` in its path."""
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    return any(part in link and str(folder) in link for link in links)


def member_process(name: str, cluster: str = "default") -> int | None:
    """The process of a member, by what its actor is called in the table of actors."""
    from ray.util.state import list_actors

    for actor in list_actors(address=None, filters=[("name", "=", f"lethevec-{cluster}-{name}")], detail=True):
        if actor.pid:
            return int(actor.pid)
    return None


def stop_for(pid: int, seconds: float) -> None:
    """Let a process hang for a while."""
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait for something."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.1)
