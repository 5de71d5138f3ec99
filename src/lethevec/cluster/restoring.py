"""A registry that goes on from an older copy of its folder: what it has to learn from the members first.

Every change of the epoch was told to the members that were live then, so the newest epoch that they know is the newest
one, if all of them answer that are live in it. Erasures since the copy have numbers that the registry does not know,
nor what they were of. So each shard needs a live member that has done them all, or was made equal to others since;
the rest of the shard is set away, and is compared with that one before it answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from typing import NamedTuple

from ..errors import LethevecError, UnavailableError, UnknownIdError
from .calling import Caller, Pending, RefusalError, UnreachableError
from .epoch import Epoch

__all__ = ["Known", "ask_what_is_known", "newest_of"]

_TIMEOUT = 5.0


class Known(NamedTuple):
    """What a member knows."""

    epoch: Epoch
    done: frozenset[int]  # erasures since the copy
    begun: frozenset[int]


def ask_what_is_known(caller: Caller, names: Iterable[str], after: int) -> dict[str, Known]:
    """What each member knows that answers; `after` is the last erasure that the copy has."""
    asked: dict[str, Pending] = {}
    told: dict[str, Known] = {}
    for name in names:
        try:
            asked[name] = caller.start(name, "known", {"after": after}, timeout=_TIMEOUT)
        except (UnreachableError, LethevecError):
            continue
    for name, pending in asked.items():
        try:
            answer = caller.finish(pending, _TIMEOUT).head
        except (UnreachableError, RefusalError, LethevecError):
            continue
        if answer["epoch"] is not None:
            begun = {int(number): bool(done) for number, done in answer["begun"]}
            done = frozenset(number for number, finished in begun.items() if finished)
            told[name] = Known(Epoch.from_dict(answer["epoch"]), done, frozenset(begun))
    return told


def newest_of(told: Mapping[str, Known], without: Set[str], after: int) -> Epoch:
    """The epoch to go on from. `without` are members that are given up, as by `declare-lost`."""
    if not told:
        raise UnavailableError("registry: expected members to answer, got nothing")
    epoch = max((one.epoch for one in told.values()), key=lambda one: one.version)
    # Whoever followed the copy while nobody had noticed yet knows of a past that was not.
    astray = {name for name, one in told.items() if not epoch.follows(one.epoch.version, one.epoch.life)}
    silent = [member.name for member in epoch.in_state("live") if member.name not in told.keys() | without]
    if silent:
        raise UnavailableError(
            f"registry: expected an answer of every member that is live, got none of {', '.join(silent)}: it may know "
            "more than the others; --without gives one up"
        )
    numbers = frozenset(range(after + 1, epoch.erasures + 1)).union(*(one.begun for one in told.values()))
    made = replace(epoch, erasures=max([epoch.erasures, *numbers]))
    unknown = sorted(without - made.members.keys())
    if unknown:
        raise UnknownIdError(f"without: expected some of {', '.join(sorted(made.members))}, got {unknown[0]!r:.80}")
    for shard in epoch.shards():
        live = [member.name for member in epoch.of_shard(shard, "live")]
        whole = [
            name
            for name in live
            if name not in astray | without and {n for n in numbers if n > epoch.members[name].since} <= told[name].done
        ]
        if live and not whole:
            raise UnavailableError(
                f"registry: expected a live member of shard {shard} that has done erasures {after + 1} to "
                f"{made.erasures}, of which this copy of the registry does not know what they were of, got none"
            )
        for name in set(live) - set(whole):
            made = made.with_member(name, "away")
    for name in (astray | without) & made.members.keys():
        made = made.with_member(name, "lost")
    return made
