"""Bringing a member back: it erases what it missed, is compared with another one bucket by bucket, and then answers.

Digests are sums, so two members find the buckets in which they differ without sending a record. Copies go from member
to member. The first pass runs while others write; the second holds the shard's turn, and finds little left.
"""

from __future__ import annotations

from typing import Any

from ..errors import LethevecError, UnavailableError
from .calling import RefusalError, UnreachableError
from .driver import Driver
from .messages import Message

__all__ = ["bring_back", "compare_replicas", "copy_buckets", "same"]

_LONG = 3600.0  # seconds that copying a shard may take


def state_of(driver: Driver, name: str, timeout: float = 2.0) -> dict[str, Any]:
    """What a member says of itself."""
    return driver.caller.call(name, "state", {}, timeout=timeout).head


def bring_back(driver: Driver, name: str) -> bool:
    """Make a member that is away, or new, equal to a live one of its shard and let it answer; whether that worked."""
    try:
        incarnation = state_of(driver, name)["incarnation"]
        shard = driver.epoch.members[name].shard
        driver.run_pending(name, _LONG)
        tell(driver, name)
        with_others = driver.epoch.of_shard(shard, "live")
        owned = [bucket for bucket, owner in enumerate(driver.epoch.buckets) if owner == shard]
        if with_others and not same(driver, with_others[0].name, name):
            copy_buckets(driver, with_others[0].name, name, owned)
        with driver.writing(driver.epoch.shards()):
            driver.run_pending(name, _LONG)
            tell(driver, name)
            others = driver.epoch.of_shard(shard, "live")
            if others:
                if not same(driver, others[0].name, name):
                    copy_buckets(driver, others[0].name, name, owned)
                    release(driver, name)
                    if not same(driver, others[0].name, name) and not same_buckets(driver, others[0].name, name, owned):
                        return False
            elif owned and driver.epoch.members[name].state != "joining":
                return False  # nobody has what it may have missed
            if state_of(driver, name)["incarnation"] != incarnation:
                return False
            driver.registry("admit", {"members": {name: incarnation}})
    except (UnreachableError, RefusalError, UnavailableError, LethevecError):
        return False
    return True


def tell(driver: Driver, name: str) -> None:
    """See to it that a member knows the epoch that this driver knows."""
    driver.caller.call(name, "epoch", {"epoch": driver.epoch.to_dict()}, timeout=5.0)


def same(driver: Driver, one: str, other: str) -> bool:
    """Whether two members hold the same records: their digests say."""
    first, second = state_of(driver, one, 30.0)["digests"], state_of(driver, other, 30.0)["digests"]
    for id in driver.epoch.collections:
        left, right = first.get(id), second.get(id)
        if left is None and right is None:
            continue
        if left is None or right is None:
            if (left or right)["records"]:
                return False
        elif left["digest"] != right["digest"]:
            return False
    return True


def same_buckets(driver: Driver, one: str, other: str, buckets: list[int]) -> bool:
    """Whether two members hold the same records of some buckets, whatever else they hold."""
    for id in driver.epoch.collections:
        about = {"collection": id, "buckets": buckets}
        first, second = (
            driver.caller.call(name, "bucket-sums", about, timeout=_LONG).head["sums"] for name in (one, other)
        )
        if first != second:
            return False
    return True


def copy_buckets(driver: Driver, source: str, target: str, buckets: list[int]) -> int:
    """Make buckets of every collection at `target` equal to those at `source`; how many records were sent."""
    copied = 0
    for id in driver.epoch.collections:
        about = Message({"collection": id, "source": source, "buckets": buckets}, [])
        outcome = driver.send("pull", {target: about}, _LONG)[target]
        if isinstance(outcome, Exception):
            raise outcome
        copied += int(outcome.head["copied"])
    return copied


def release(driver: Driver, name: str) -> list[dict[str, Any]]:
    """Let a member erase what belongs to other shards; its receipts."""
    outcome = driver.send("release", {name: Message({}, [])}, _LONG)[name]
    if isinstance(outcome, Exception):
        raise outcome
    receipts: list[dict[str, Any]] = outcome.head["receipts"]
    return receipts


def compare_replicas(driver: Driver) -> list[str]:
    """Set those members away that differ from another live one of their shard: a driver may have died while writing."""
    different = []
    for shard in driver.epoch.shards():
        reference: str | None = None
        for member in driver.epoch.of_shard(shard, "live"):
            try:
                tell(driver, member.name)
                if reference is None:
                    state_of(driver, member.name, 5.0)
                    reference = member.name
                elif not same(driver, reference, member.name):
                    different.append(member.name)
            except (UnreachableError, RefusalError, LethevecError):
                different.append(member.name)
    driver.set_away(different)
    return different
