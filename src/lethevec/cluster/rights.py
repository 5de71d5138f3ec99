"""Legal holds and blocks of a cluster: subjects whose records must stay, and subjects for whom nothing may be written.

Both are kept by the registry, as tags of the subject; each change of them is a signed entry of the cluster's chain. The
tags are part of the epoch, the reason of a hold is not: members need not know it. The driver that writes asks before it
changes anything, while it holds the turns of all shards, so that a batch is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .._collections.rights import Hold, describe
from ..errors import BlockedError, HoldError
from .driver import Driver
from .epoch import Epoch

__all__ = ["all_holds", "holds_on", "may_change", "may_change_collection", "may_expire", "may_forget", "may_write"]


def may_write(driver: Driver, subjects: Iterable[str | None]) -> None:
    """Refuse to write for a subject that is blocked."""
    blocks = driver.epoch.blocks
    if not blocks:
        return
    for subject in {subject for subject in subjects if subject is not None}:
        since = blocks.get(driver.audit.tag_subject(subject))
        if since is not None:
            raise BlockedError(
                f"subject: expected one for whom records may be written, got {subject!r:.80}, who is blocked since "
                f"{since}; unblock() lifts that"
            )


def may_forget(driver: Driver, subject: str) -> None:
    """Refuse to erase a subject under hold."""
    if driver.audit.tag_subject(subject) in driver.epoch.held:
        _refuse(driver, subject)


def may_change(driver: Driver, collection: str, ids: Sequence[int | str]) -> None:
    """Refuse to replace or erase records of a subject under hold."""
    if not driver.epoch.held or not ids:
        return

    def split(epoch: Epoch) -> dict[int, dict[str, Any]]:
        asked: dict[int, dict[str, Any]] = {}
        for id in ids:
            asked.setdefault(driver.shard_of(id, epoch), {"ids": []})["ids"].append(id)
        return asked

    _refuse_first(driver, driver.ask("held-among", {"collection": collection}, by_shard=split))


def may_change_collection(driver: Driver, collection: str) -> None:
    """Refuse to drop a collection with records of a subject under hold."""
    if driver.epoch.held:
        _refuse_first(driver, driver.ask("held-among", {"collection": collection, "ids": None}))


def may_expire(driver: Driver) -> None:
    """Refuse to erase what is due, where some of it is under hold."""
    if driver.epoch.held:
        for collection in driver.epoch.collections:
            _refuse_first(driver, driver.ask("held-among", {"collection": collection, "ids": [], "due": True}))


def _refuse_first(driver: Driver, answers: dict[int, Any]) -> None:
    for answer in answers.values():
        if answer.head["subject"] is not None:
            _refuse(driver, answer.head["subject"])


def _refuse(driver: Driver, subject: str) -> None:
    found = holds_on(driver, subject)
    if found:  # it may have been lifted since
        raise HoldError(describe(found[0], subject), found[0].id)


def holds_on(driver: Driver, subject: str) -> list[Hold]:
    """The holds on the records of a subject, oldest first."""
    return [hold for hold in all_holds(driver, [subject]) if hold.subject is not None]


def all_holds(driver: Driver, subjects: Iterable[str]) -> list[Hold]:
    """All holds, oldest first; the subjects are those that they can be named after."""
    kept = driver.registry("rights")["holds"]
    names = {driver.audit.tag_subject(subject): subject for subject in subjects} if kept else {}
    return [Hold(one["hold"], one["reason"], one["since"], names.get(one["subject"])) for one in kept]
