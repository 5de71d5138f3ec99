"""An erasure across a cluster: a number, every member's own receipt, and one combined receipt when the last is in.

1. The registry notes what is to be erased, as tags, and gives it a number. From here on it will be completed.
2. Every live member erases, searches its files and signs, all at the same time.
3. Who does not answer, or cannot finish, is taken out: nothing that it holds is in an answer from then on. It erases
   before it is let back, and is compared with the others.
4. The registry takes the receipts. With the last one it signs the combined receipt.

The turns of all shards are held, so nothing is written meanwhile. All sessions end: what passed through Ray before is
sealed under keys that nobody has any more.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ErasureIncompleteError, LethevecError
from .calling import RefusalError, UnreachableError
from .catching_up import state_of
from .driver import Driver
from .epoch import MemberEntry
from .messages import Message
from .receipts import ClusterEntry, ClusterReceipt, read_cluster_receipt

__all__ = ["chain", "complete", "erase", "receipts", "take_up", "waiting_for"]

_ANSWER = 5.0  # seconds more than a member is given to erase, for the rest of its work and for its answer
_LOOK = 1.0  # seconds that a member has to say that it is there, before anybody's turn is held for it
_STARTING = 5.0  # seconds that members have to start in before they are taken out


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
        if not isinstance(part, Message):  # it writes as well
            driver.settle(part)
        # From here to its own answer, whatever fails, a member may hold what it is to erase.
        doubted = {member.name for member in driver.epoch.in_state("live")} - driver.unsure
        driver.unsure |= doubted
        token = secrets.token_hex(16)
        about = {"kind": kind, "asked": asked, "wanted": wanted, "token": token, "block": block}
        begun = driver.registry("begin", about)
        number = int(begun["number"])
        live = driver.epoch.in_state("live")
        parts = {}
        for member in live:
            one = part if isinstance(part, Message) else part[member.shard]
            parts[member.name] = Message({**one.head, "number": number}, one.arrays)
        outcomes = driver.send("erase", parts, None if timeout is None else timeout + _ANSWER, watch=True)
        driver.forget_keys()
        silent, hidden, receipt = list[str](), list[str](), None
        for name, outcome in outcomes.items():
            if isinstance(outcome, Message):
                told = {"number": number, "member": name, "receipts": outcome.head["receipts"]}
                signed = driver.registry("erased", told)["receipt"]
                receipt = ClusterReceipt(signed) if signed is not None else receipt
            elif isinstance(outcome, ErasureIncompleteError):
                hidden.append(name)  # and on record; bytes are still in a file
            else:
                silent.append(name)
                continue
            driver.unsure -= doubted & {name}
        set_aside(driver, hidden, silent)
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


def set_aside(driver: Driver, hidden: Sequence[str], silent: Sequence[str]) -> None:
    """Set members away that have not erased. The last one of a shard stays live: if nobody knows what it did, it
    answers nothing and nothing is written to it before it has erased."""
    driver.unsure.update(silent)
    kept = driver.set_away(silent, fence=True)
    driver.unsure.difference_update(set(silent).difference(kept))
    driver.set_away(hidden)


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


def complete(driver: Driver, timeout: float | None = None) -> tuple[list[str], list[str]]:
    """Let live members that have not finished an erasure finish it: one that a driver's death has cut off, say.

    Who has hidden the records and cannot finish, and who may still hold them. Each has `timeout` seconds. The turn of
    its shard is held: an erasure that is being carried out waits for live members as well, and may have something to
    write to them. Who says nothing at all is not asked, so that nobody's write waits for it.
    """
    hidden, silent = list[str](), list[str]()
    for member in _live_and_waiting(driver):
        try:
            state_of(driver, member.name, _LOOK)
            with driver.writing([member.shard]):
                if member in _live_and_waiting(driver):
                    driver.run_pending(member.name, timeout)
        except ErasureIncompleteError:
            hidden.append(member.name)
        except (UnreachableError, RefusalError, LethevecError):
            silent.append(member.name)
    return hidden, silent


def _live_and_waiting(driver: Driver) -> list[MemberEntry]:
    """The live members that an erasure waits for."""
    names = {name for members in waiting_for(driver).values() for name in members}
    return [member for member in driver.epoch.in_state("live") if member.name in names]


def take_up(driver: Driver) -> None:
    """What an earlier driver has left: as `complete`, and who cannot is taken out. Members may just be starting."""
    deadline = time.monotonic() + min(driver.timeout, _STARTING)
    hidden, silent = complete(driver)
    while silent and time.monotonic() < deadline:
        time.sleep(0.1)
        hidden, silent = complete(driver)
    set_aside(driver, hidden, silent)
