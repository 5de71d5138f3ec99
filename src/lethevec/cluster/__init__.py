"""A cluster: collections over many machines, whose erasures are complete when the last copy is gone.

`connect` gives what `lethevec.connect` gives, over members that Ray runs. It needs the extra `ray`.

| module | job |
|---|---|
| `buckets` | which of 1,024 buckets an id belongs to, and which shard a bucket |
| `wiping`, `sealing`, `messages`, `calling` | what travels: sealed, of one form, with errors of ours |
| `lines` | connections that carry most of it, beside the engine |
| `epoch`, `keeping`, `registry` | what everybody agrees on, and where it changes; numbers and leases |
| `records`, `ledger`, `member` | one copy of a shard, on one node's disk |
| `receipts` | the combined receipt, and its verification offline |
| `driver` | questions to one member of each shard, writes to all |
| `erasing`, `catching_up`, `rebalancing` | erasures, members that were away, buckets that move |
| `restoring` | a registry that goes on from an older copy of its folder |
| `rights` | legal holds and blocks |
| `collection`, `database`, `connecting` | the public calls |
| `engine`, `loading`, `serving` | Ray, Ray Data and Ray Serve: the only modules that import them |
| `local` | a cluster in one process, for tests and drills |
| `planning` | how many machines, and what latency |
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._shown import shown
from ..errors import ParameterError
from .calling import Transport
from .collection import ClusterCollection
from .connecting import open_cluster
from .connecting import restore_registry as _restore_registry
from .database import ClusterDatabase
from .driver import Launcher
from .receipts import ClusterEntry, ClusterReceipt, verify, verify_part
from .sealing import Secret

__all__ = [
    "ClusterCollection",
    "ClusterDatabase",
    "ClusterEntry",
    "ClusterReceipt",
    "connect",
    "restore_registry",
    "verify",
    "verify_part",
]


def connect(
    address: str | None = None,
    *,
    folder: str | os.PathLike[str],
    shards: int | None = None,
    replicas: int | None = None,
    name: str = "default",
    secret: str | os.PathLike[str] | None = None,
    read_only: bool = False,
    takeover: bool = False,
    timeout: float = 30.0,
    lease: float = 3.0,
    term: float = 10.0,
) -> ClusterDatabase:
    """Join the cluster of that name on Ray, or make it: then `shards` is needed, and `replicas` is 1 unless given.

    `address` is that of Ray ("auto", "10.0.0.1:6379"); None takes the Ray that this process is connected to, or finds
    it. `folder` is a path on every node's own disk, below which members keep their files. `secret` is a path on every
    node and here, of the file with the cluster's secret (FOLDER/NAME.secret unless given); where it is missing here, a
    new cluster gets a new one, which has to be on the other nodes too before members start there.

    One driver writes; others are opened with `read_only`. A writer that died holds its term for `term` seconds, and
    `takeover` does not wait. `lease` is how many seconds a member that is cut off may still answer: a write or an
    erasure without it takes as long, and some seconds more if it hangs. `timeout` is how long a call waits for members
    that take too long, all of them together.
    """
    if not 0.2 <= lease <= 3600 or not lease <= term <= 86400:
        raise ParameterError(
            f"lease, term: expected seconds, 0.2 <= lease <= term, got {shown(lease)} and {shown(term)}"
        )
    place, secret_path = _places(folder, name, secret)
    known = Secret.load(secret_path) if shards is None or secret_path.exists() else Secret.create(secret_path)
    launcher, transport = _reach(address, name, place, secret_path, lease=lease, term=term, timeout=timeout)
    db = open_cluster(
        launcher,
        transport,
        name,
        known,
        shards=shards,
        replicas=replicas,
        read_only=read_only,
        takeover=takeover,
        timeout=timeout,
    )
    db.place = {"cluster": name, "secret": str(secret_path)}
    return db


def restore_registry(
    address: str | None = None,
    *,
    folder: str | os.PathLike[str],
    name: str = "default",
    secret: str | os.PathLike[str] | None = None,
    without: Sequence[str] = (),
    timeout: float = 30.0,
    lease: float = 3.0,
    term: float = 10.0,
) -> dict[str, str]:
    """Let the registry go on from an older copy of its folder, where there is no newer one; each member with its state.

    It learns from the members what came after the copy: every one that was live has to answer, or to be given up
    with `without`, which declares it lost. What only the registry knew is gone: the combined receipts since the copy,
    whose numbers in the chain are given again, and the reasons of legal holds. The other arguments are those of
    `connect`.
    """
    place, secret_path = _places(folder, name, secret)
    launcher, transport = _reach(address, name, place, secret_path, lease=lease, term=term, timeout=timeout)
    epoch = _restore_registry(launcher, transport, name, Secret.load(secret_path), without, timeout)
    return {member.name: member.state for _, member in sorted(epoch.members.items())}


def _places(folder: str | os.PathLike[str], name: str, secret: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    """The folder, and the file of the secret."""
    if not isinstance(name, str) or not name.isascii() or not name.replace("-", "").isalnum():
        raise ParameterError(f"name: expected letters, digits and -, got {shown(name, 80)}")
    place = Path(folder).absolute()
    return place, place / f"{name}.secret" if secret is None else Path(secret).absolute()


def _reach(address: str | None, name: str, place: Path, secret: Path, **times: float) -> tuple[Launcher, Transport]:
    """How members are started and called, over a Ray that this process is connected to."""
    from .engine import RayLauncher, ray_module, ray_transport

    ray = ray_module()
    if not ray.is_initialized():
        options: dict[str, Any] = {"namespace": "lethevec", "log_to_driver": False, "configure_logging": False}
        ray.init(address=address or "auto", **options)
    return RayLauncher(name, str(place), str(secret), **times), ray_transport(name)
