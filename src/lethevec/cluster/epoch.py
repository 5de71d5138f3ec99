"""The epoch: what everybody in a cluster has to agree on at one time.

Which shard each bucket belongs to, which members each shard has and in what state, which collections there are, whose
records are under legal hold or blocked, and which driver may write (its *term*). Every change gives it the next
version. Each question and each write names the version that the caller knows, and a member that knows another one
refuses: so one answer is never put together from two epochs.

**Lives.** An epoch also names the processes that the registry has had, each with the first version that it made. Of two
epochs that tells whether one came from the other, or both from a registry whose folder was put back as it was before:
then what one of them says was done (an erasure of some number, a move) was done in another past.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..errors import FormatError
from .buckets import BUCKETS

__all__ = ["STATES", "CollectionEntry", "Epoch", "MemberEntry"]

_MOST_LIVES = 64

#: live: it answers. away: it is cut off or behind, and answers nothing. joining: it is new and empty. lost: an operator
#: has said that it never comes back.
STATES = ("live", "away", "joining", "lost")


@dataclass(frozen=True)
class MemberEntry:
    """One copy of a shard: an ordinary folder of collections on one node's disk."""

    name: str
    shard: int
    disk: str  # the resource that pins it to where its files are
    state: str = "joining"
    since: int = 0  # when it was last admitted, so many erasures had been begun: what they were of, it does not hold


@dataclass(frozen=True)
class CollectionEntry:
    """A collection. Members know it by its id, which outlives a change of name."""

    id: str
    name: str
    dim: int
    metric: str | None
    index: dict[str, Any] | None = None
    encrypt: bool | None = None
    expires: float | None = None  # seconds that records are kept unless they say otherwise

    @property
    def keep_vectors(self) -> bool | str:
        """How the members' indexes keep vectors; see `lethevec.Index`."""
        kept: bool | str = (self.index or {}).get("keep_vectors", True)
        return kept


@dataclass(frozen=True)
class Epoch:
    """One version of it. `erasures` counts those that were begun: when it moves, keys are to be forgotten."""

    cluster: str
    version: int
    term: int
    buckets: tuple[int, ...]
    members: Mapping[str, MemberEntry]
    collections: Mapping[str, CollectionEntry] = field(default_factory=dict)
    erasures: int = 0
    held: frozenset[str] = frozenset()  # tags of the subjects whose records must stay
    blocks: Mapping[str, str] = field(default_factory=dict)  # tags of those for whom nothing is written, since when
    lives: tuple[tuple[str, int], ...] = ()  # the registry's latest processes, and the first version of each

    @property
    def life(self) -> str:
        """The process of the registry that made this version; "" where they were not noted yet."""
        return self.lives[-1][0] if self.lives else ""

    def made_by(self, life: str) -> Epoch:
        """The next version, made by a process of the registry."""
        version = self.version + 1
        lives = self.lives if self.life == life else (*self.lives, (life, version))[-_MOST_LIVES:]
        return replace(self, version=version, lives=lives)

    def follows(self, version: int, life: str) -> bool:
        """Whether this is a version that was made by a process of the registry, or came after it."""
        if version > self.version:
            return False
        if not life:  # before lives were noted
            return True
        for (name, first), following in zip(self.lives, [*self.lives[1:], None], strict=True):
            if name == life:
                return version >= first and (following is None or version < following[1])
        return len(self.lives) == _MOST_LIVES and version < self.lives[0][1]

    def shards(self) -> list[int]:
        """The shards that have members."""
        return sorted({member.shard for member in self.members.values() if member.state != "lost"})

    def of_shard(self, shard: int, *states: str) -> list[MemberEntry]:
        """The members of a shard in one of these states (any but lost), by name."""
        wanted = states or ("live", "away", "joining")
        return [m for _, m in sorted(self.members.items()) if m.shard == shard and m.state in wanted]

    def in_state(self, *states: str) -> list[MemberEntry]:
        """All members in one of these states, by name."""
        return [member for _, member in sorted(self.members.items()) if member.state in states]

    def find(self, name: str) -> CollectionEntry | None:
        """The collection of a name."""
        return next((entry for entry in self.collections.values() if entry.name == name), None)

    def with_member(self, name: str, state: str) -> Epoch:
        """The same with one member in another state."""
        return replace(self, members={**self.members, name: replace(self.members[name], state=state)})

    def admitted(self, name: str) -> Epoch:
        """The same with a live member, which was made equal to others."""
        member = replace(self.members[name], state="live", since=self.erasures)
        return replace(self, members={**self.members, name: member})

    def to_dict(self) -> dict[str, Any]:
        """As it travels and is kept."""
        return {
            "cluster": self.cluster,
            "version": self.version,
            "term": self.term,
            "buckets": list(self.buckets),
            "members": [asdict(member) for _, member in sorted(self.members.items())],
            "collections": [asdict(entry) for _, entry in sorted(self.collections.items())],
            "erasures": self.erasures,
            "held": sorted(self.held),
            "blocks": dict(self.blocks),
            "lives": [list(one) for one in self.lives],
        }

    @classmethod
    def from_dict(cls, given: Any) -> Epoch:
        """Read what `to_dict` gave; anything else is a `FormatError`."""
        try:
            members = [MemberEntry(**one) for one in given["members"]]
            collections = [CollectionEntry(**one) for one in given["collections"]]
            made = cls(
                str(given["cluster"]),
                int(given["version"]),
                int(given["term"]),
                tuple(map(int, given["buckets"])),
                {member.name: member for member in members},
                {entry.id: entry for entry in collections},
                int(given["erasures"]),
                frozenset(map(str, given.get("held", ()))),
                {str(tag): str(since) for tag, since in given.get("blocks", {}).items()},
                tuple((str(life), int(first)) for life, first in given.get("lives", ())),
            )
            if len(made.buckets) != BUCKETS or any(member.state not in STATES for member in members):
                raise ValueError(f"{len(made.buckets)} buckets, or members in another state")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"epoch: expected buckets, members and collections, got something else ({error})"
            ) from None
        return made
