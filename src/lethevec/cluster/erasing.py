"""An erasure across a cluster: a number, every member's own receipt, and one combined receipt when the last is in.

1. The registry notes what is to be erased, as tags, and gives it a number. From here on it will be completed.
2. Every live member erases, searches its files and signs, all at the same time.
3. Who does not answer is taken out: nothing that it holds is in an answer from then on. It erases before it comes back.
4. The registry takes the receipts. With the last one it signs the combined receipt.

The turns of all shards are held, so nothing is written meanwhile. All sessions end: what passed through Ray before is
sealed under keys that nobody has any more.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..errors import ErasureIncompleteError, LethevecError
from .calling import RefusalError, UnreachableError
from .driver import Driver
from .messages import Message
from .receipts import ClusterEntry, ClusterReceipt, read_cluster_receipt

__all__ = ["chain", "complete", "erase", "receipts", "waiting_for"]


def erase(
    driver: Driver,
    kind: str,
    asked: Mapping[str, Any],
    wanted: Mapping[str, Any],
    part: Message | Mapping[int, Message],
    timeout: float | None = None,
    *,
    block: str | None = None,
) -> ClusterReceipt:
    """Erase in every member. `part` is what each is asked, or what each shard's are; `block` is the tag of a subject
    for whom nothing is written from this moment on."""
    driver.require_writer()
    driver.counts["erasures"] += 1
    with driver.writing(driver.epoch.shards()):
        token = secrets.token_hex(16)
        about = {"kind": kind, "asked": asked, "wanted": wanted, "token": token, "block": block}
        begun = driver.registry("begin", about)
        number = int(begun["number"])
        live = driver.epoch.in_state("live")
        parts = {}
        for member in live:
            one = part if isinstance(part, Message) else part[member.shard]
            parts[member.name] = Message({**one.head, "number": number}, one.arrays)
        outcomes = driver.send("erase", parts, None if timeout is None else max(timeout + 30.0, driver.timeout))
        driver.caller.forget_keys()
        silent, receipt = [], None
        for name, outcome in outcomes.items():
            if isinstance(outcome, Message):
                told = {"number": number, "member": name, "receipts": outcome.head["receipts"]}
                signed = driver.registry("erased", told)["receipt"]
                receipt = ClusterReceipt(signed) if signed is not None else receipt
            elif not isinstance(outcome, ErasureIncompleteError):
                silent.append(name)  # such an error means: hidden and on record, and bytes are still in a file
        if silent:
            driver.set_away(silent, fence=True)
        if receipt is None:
            # A member that was away may have handed its part in meanwhile, as the last.
            receipt = next((one for one in receipts(driver) if one.number == number), None)
    if receipt is None:
        names = waiting_for(driver).get(number, ())
        raise ErasureIncompleteError(
            f"erasure {number}: the records are in no answer any more, but {', '.join(names) or 'the registry'} did "
            "not say yet that they are erased; it completes by itself when they are back, and no receipt was issued",
            len(waiting_for(driver)),
            members=tuple(names),
            number=number,
        )
    return receipt


def receipts(driver: Driver) -> list[ClusterReceipt]:
    """The combined receipts, oldest first."""
    return [entry for entry in chain(driver) if isinstance(entry, ClusterReceipt)]


def chain(driver: Driver) -> list[ClusterReceipt | ClusterEntry]:
    """Every entry of the chain, oldest first."""
    return [read_cluster_receipt(fields) for fields in driver.registry("receipts")["receipts"]]


def waiting_for(driver: Driver) -> dict[int, tuple[str, ...]]:
    """The erasures that have no receipt yet, each with the members that it waits for."""
    found = driver.registry("pending")["pending"]
    return {int(one["number"]): tuple(one["members"]) for one in found}


def complete(driver: Driver) -> None:
    """Let live members that have not finished an erasure finish it: one that a driver's death has cut off, say."""
    names = {name for members in waiting_for(driver).values() for name in members}
    for member in driver.epoch.in_state("live"):
        if member.name not in names:
            continue
        pending = driver.registry("pending", {"member": member.name})["pending"]
        with suppress(UnreachableError, RefusalError, LethevecError):
            driver.caller.call(member.name, "run", {"pending": pending}, timeout=driver.timeout)
    driver.caller.forget_keys()
