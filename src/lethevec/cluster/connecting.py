"""Making a cluster, or finding it: what `connect` does once it knows how to reach and start members."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from .._shown import shown
from ..errors import ParameterError, UnavailableError, UnknownIdError
from .calling import Caller, Transport, UnreachableError
from .database import ClusterDatabase
from .driver import Driver, Launcher
from .epoch import Epoch
from .registry import REGISTRY
from .restoring import ask_what_is_known
from .sealing import Secret

__all__ = ["open_cluster", "restore_registry"]

_MOST = 512


def open_cluster(
    launcher: Launcher,
    transport: Transport,
    cluster: str,
    secret: Secret,
    *,
    shards: int | None = None,
    replicas: int | None = None,
    read_only: bool = False,
    takeover: bool = False,
    timeout: float = 30.0,
    watch: bool = True,
) -> ClusterDatabase:
    """Join a cluster; with `shards`, make it if it is not there."""
    for name, value in (("shards", shards), ("replicas", replicas)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST):
            raise ParameterError(f"{name}: expected a whole number from 1 to {_MOST}, got {shown(value, 40)}")
    caller = Caller(transport, cluster, secret, timeout=timeout)
    try:
        _make(caller, launcher, cluster, shards, replicas, read_only, timeout)
        driver = Driver(caller, launcher, read_only=read_only, takeover=takeover, timeout=timeout)
    except BaseException:
        caller.close()
        raise
    try:
        if shards is not None and len(set(driver.epoch.buckets)) != shards:
            raise ParameterError(
                f"shards: expected {len(set(driver.epoch.buckets))}, with which the cluster was made, got {shards}; "
                "`lethevec cluster rebalance --shards` changes that"
            )
        return ClusterDatabase(driver, watch=watch)
    except BaseException:
        driver.close()
        raise


def restore_registry(
    launcher: Launcher, transport: Transport, cluster: str, secret: Secret, without: Sequence[str], timeout: float
) -> Epoch:
    """Let a registry go on whose folder was put back from an older copy; the epoch from then on."""
    caller = Caller(transport, cluster, secret, timeout=timeout)
    try:
        launcher.start_registry()
        status = _status(caller, timeout)
        if not status["made"]:
            raise UnknownIdError(f"cluster {cluster!r}: expected one that is there, got none")
        deadline = time.monotonic() + timeout
        epochs = [Epoch.from_dict(status["epoch"])]
        while True:
            for entry in {entry.name: entry for one in epochs for entry in one.in_state("live")}.values():
                launcher.start_member(entry)
            try:
                head = {"without": list(without)}
                answer = caller.call(REGISTRY, "restore", head, timeout=timeout + 60.0).head
                return Epoch.from_dict(answer["epoch"])
            except (UnavailableError, ParameterError):  # members may be starting, or may be known to others alone
                if time.monotonic() >= deadline:
                    raise
            names = {name for one in epochs for name in one.members}
            epochs += [one.epoch for one in ask_what_is_known(caller, names, 0).values()]
            time.sleep(0.2)
    finally:
        caller.close()


def _make(
    caller: Caller,
    launcher: Launcher,
    cluster: str,
    shards: int | None,
    replicas: int | None,
    read_only: bool,
    timeout: float,
) -> None:
    """Start the registry, and make the cluster if it is not there."""
    launcher.start_registry()
    status = _status(caller, timeout)
    if not status["made"]:
        if shards is None or read_only:
            raise UnknownIdError(f"cluster {cluster!r}: expected one that is there, got none; shards= makes a new one")
        disks = launcher.disks()
        copies = 1 if replicas is None else replicas
        if copies > len(disks):
            raise ParameterError(
                f"replicas: expected at most one for each of {len(disks)} disks, got {copies}: copies on one disk "
                "are lost together"
            )
        head: dict[str, Any] = {"disks": disks, "shards": shards, "replicas": copies}
        caller.call(REGISTRY, "found", head, timeout=timeout)


def _status(caller: Caller, timeout: float) -> dict[str, Any]:
    """What the registry says, which may be starting."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return caller.call(REGISTRY, "status", {}, timeout=max(1.0, deadline - time.monotonic())).head
        except UnreachableError as error:
            if time.monotonic() >= deadline:
                raise UnavailableError(f"cluster: expected the registry to answer, got nothing ({error})") from None
            time.sleep(0.1)
