"""Rebalancing: buckets move between shards while searches go on.

For each group of buckets: copy (while others write), copy again what changed (holding both shards' turns), compare
digests, switch the epoch, and only then forget at the source, with a receipt. Whenever this is cut off, the records are
at the source or at both places; what is where it does not belong is in no answer, and the next run takes it away.
"""

from __future__ import annotations

import time
from typing import Any

from .._shown import shown
from ..errors import ParameterError, UnavailableError
from .buckets import assign, moves
from .catching_up import bring_back, copy_buckets, release, same_buckets, tell
from .driver import Driver
from .messages import Message

__all__ = ["rebalance"]

_GROUP = 64  # buckets that move together
_MOST_SHARDS = 512


def rebalance(driver: Driver, *, shards: int | None, replicas: int | None) -> dict[str, Any]:
    """Bring the cluster to so many shards and replicas (as many as now unless given); what was done."""
    now = sorted(set(driver.epoch.buckets))
    count = len(now) if shards is None else shards
    if not isinstance(count, int) or not 1 <= count <= _MOST_SHARDS:
        raise ParameterError(f"shards: expected 1 to {_MOST_SHARDS}, got {shown(count, 40)}")
    present = max(len(driver.epoch.of_shard(shard)) for shard in now)
    copies = present if replicas is None else replicas
    if not isinstance(copies, int) or copies < 1:
        raise ParameterError(f"replicas: expected at least 1, got {shown(copies, 40)}")
    wanted = now[:count] if count <= len(now) else now + _new(driver, count - len(now))
    made = driver.registry("members", {"shards": wanted, "replicas": copies, "disks": driver.launcher.disks()})["made"]
    for name in made:
        driver.launcher.start_member(driver.epoch.members[name])
    _admit(driver, wanted)
    target = assign(driver.epoch.buckets, wanted)
    moved = copied = 0
    receipts: list[dict[str, Any]] = []
    todo = moves(driver.epoch.buckets, target)
    pairs = sorted({(driver.epoch.buckets[bucket], target[bucket]) for bucket in todo})
    for source, shard in pairs:
        mine = [b for b in todo if driver.epoch.buckets[b] == source and target[b] == shard]
        for at in range(0, len(mine), _GROUP):
            group = mine[at : at + _GROUP]
            copied += _move(driver, group, source, shard)
            moved += len(group)
    for member in driver.epoch.in_state("live"):
        with driver.writing(driver.epoch.shards()):
            receipts += release(driver, member.name)
    retired = _retire(driver, wanted, copies)
    return {"moved": moved, "copied": copied, "members": made, "retired": retired, "receipts": receipts}


def _new(driver: Driver, count: int) -> list[int]:
    """Numbers for new shards: those of an earlier run that was cut off, then ones that were never used."""
    used = set(driver.epoch.buckets)
    begun = [shard for shard in driver.epoch.shards() if shard not in used]
    first = max((member.shard for member in driver.epoch.members.values()), default=-1) + 1
    return (begun + list(range(first, first + count)))[:count]


def _admit(driver: Driver, shards: list[int]) -> None:
    """New members catch up (those of new shards hold nothing, and have nothing to hold)."""
    deadline = time.monotonic() + driver.timeout
    while True:
        driver.refresh()
        left = [member.name for shard in shards for member in driver.epoch.of_shard(shard, "joining")]
        if not left:
            return
        for name in left:
            bring_back(driver, name)
        if time.monotonic() > deadline and not all(driver.epoch.of_shard(shard, "live") for shard in shards):
            raise UnavailableError(f"cluster: expected the new members to start, got nothing from {', '.join(left)}")
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)


def _move(driver: Driver, buckets: list[int], source: int, target: int) -> int:
    givers = driver.epoch.of_shard(source, "live")
    if not givers:
        raise UnavailableError(f"cluster: expected a live member of shard {source}, got none")
    giver = givers[0].name
    copied = 0
    with driver.writing(driver.epoch.shards()):
        driver.settle([source, target])
    for member in driver.epoch.of_shard(target, "live"):
        copied += copy_buckets(driver, giver, member.name, buckets)
    with driver.writing(driver.epoch.shards()):
        driver.settle([source, target])
        takers = driver.epoch.of_shard(target, "live")
        for member in takers:
            copied += copy_buckets(driver, giver, member.name, buckets)
            if not same_buckets(driver, giver, member.name, buckets):
                raise UnavailableError(
                    f"cluster: expected {member.name} to hold what {giver} holds of the buckets that move, got a "
                    "difference; nothing was switched"
                )
        driver.registry("move", {"buckets": buckets, "shard": target})
    return copied


def _retire(driver: Driver, shards: list[int], replicas: int) -> list[str]:
    """Take out members of shards that have no buckets any more, and those that are one too many; their files stay.

    What they held was erased, with receipts, before they go.
    """
    names = []
    for shard in driver.epoch.shards():
        members = driver.epoch.of_shard(shard)
        extra = members if shard not in shards else sorted(members, key=lambda m: m.state != "live")[replicas:]
        names += [member.name for member in extra]
    for name in list(names):
        if driver.epoch.members[name].state != "live":
            names.remove(name)  # it cannot erase now; when it is back, the next run takes it out
    if not names:
        return []
    with driver.writing(driver.epoch.shards()):
        extra_names = [name for name in names if driver.epoch.members[name].shard in shards]
        driver.set_away(extra_names)  # nobody asks them any more, and then they are emptied
        for name in extra_names:
            _empty(driver, name)
        driver.registry("retire", {"members": names})
    for name in names:
        driver.launcher.stop_member(name)
    return names


def _empty(driver: Driver, name: str) -> None:
    tell(driver, name)
    outcome = driver.send("empty", {name: Message({}, [])}, 3600.0)[name]
    if isinstance(outcome, Exception):
        raise outcome
