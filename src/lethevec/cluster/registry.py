"""The registry: the one place where an epoch changes, where writers and members get leases, and where an erasure has a
number.

It holds no record, no id and no subject: erasures are noted as tags under the cluster's audit key, which tell nothing
without it. Everything that must not be lost is in its folder before a call is answered:

    registry.json        the epoch, the key of the buckets, each member's public key, legal holds
    keys.json            the cluster's signing and audit keys
    erasures/N.json      erasure N: what was asked for, as tags; each member's receipts; the combined receipt
    entries/N.json       entry N of the chain that erases nothing: a hold, a block, or the end of one

**Leases.** A member answers questions only while it holds a lease, which it renews every second or so. A member is set
away by a new epoch, and the call returns when its lease has run out: from then on nothing that it holds is in any
answer, even if it cannot be reached and does not know. A lease comes with the epoch, so that whoever has a lease that
was given after a change knows of the change.

**Terms.** One driver writes. Its term is renewed too; another driver may take over when it has run out, with the next
term, and members refuse what comes with an older one.

**An older copy.** A folder that was put back as it was before knows nothing of the erasures since, and would give their
numbers again. Members know better: they take up no epoch that does not follow theirs. As soon as one calls whose epoch
this registry's does not follow, nothing is changed any more. Where there is no newer copy of the folder, an operator
lets the registry go on from what the members know (see `restoring`).
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._forgetting.keys import KeyRing, verify_signature
from .._forgetting.receipts import GENESIS_PREVIOUS, Receipt, now
from .._store.lock import WriterLock
from ..errors import (
    FormatError,
    LethevecError,
    ParameterError,
    ReceiptError,
    StoreLockedError,
    UnavailableError,
    UnknownIdError,
)
from .buckets import BUCKETS, assign
from .calling import Caller, Endpoint, RefusalError, Transport, UnreachableError
from .epoch import CollectionEntry, Epoch, MemberEntry
from .keeping import read_json, write_json
from .messages import Array
from .receipts import DECLARED, ENTRIES, ERASED, ClusterEntry, ClusterReceipt
from .restoring import ask_what_is_known, newest_of
from .sealing import Secret

__all__ = ["REGISTRY", "Registry"]

REGISTRY = "registry"
FORMAT = "lethevec-registry/1"
_WAITING = "waiting"


class Registry:
    """The registry of one cluster. Threads may call it; changes take turns."""

    def __init__(
        self,
        folder: Path,
        cluster: str,
        transport: Transport,
        secret: Secret,
        *,
        lease: float = 3.0,
        term: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open the folder or make it. `lease` and `term` are how many seconds members and writers have.

        `StoreLockedError` while another process has it: one that is about to end with its node may still be called.
        """
        self._folder = folder
        self._path = folder / "registry.json"
        for name in ("erasures", "entries"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._name = cluster
        self._lease = lease
        self._term = term
        self._clock = clock
        self._changing = threading.RLock()
        self._leasing = threading.Lock()  # short: leases go on while a change waits for a silent member
        self._caller = Caller(transport, cluster, secret, timeout=5.0)
        self._until: dict[str, float] = {}  # when a member's lease ends
        self._incarnations: dict[str, str] = {}  # which process of a member is admitted
        self._writer: tuple[int, float] = (0, 0.0)  # the term in force, and when it ends
        self._driver = ""  # whose it is
        self._renewals = 0  # how often terms were renewed
        self._life = secrets.token_hex(8)
        self._newer: tuple[str, int] | None = None  # a member that knows what came after, and the version that it knows
        self._lock = WriterLock(folder / "lock")
        self._started = clock()  # whoever gave a lease before has ended by now
        try:
            self._load()
        except BaseException:
            self._lock.release()
            raise
        self.endpoint = Endpoint(
            REGISTRY,
            cluster,
            secret,
            {
                "status": self._status,
                "found": self._found,
                "join": self._join,
                "leave": self._leave,
                "epoch": self._give_epoch,
                "term": self._renew_term,
                "announce": self._announce,
                "lease": self._renew_lease,
                "away": self._away,
                "admit": self._admit,
                "begin": self._begin,
                "erased": self._erased,
                "pending": self._pending,
                "receipts": self._receipts,
                "lost": self._declare_lost,
                "collection": self._make_collection,
                "rename": self._rename,
                "expires": self._set_expires,
                "members": self._add_members,
                "retire": self._retire,
                "move": self._move,
                "mark": self._mark,
                "rights": self._rights,
                "right": self._change_right,
                "restore": self._restore,
            },
        )

    def close(self) -> None:
        """Let another process have the folder; all that matters is in it."""
        self._caller.close()
        self._lock.release()

    # --- What is kept ------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        kept = read_json(self._path)
        self._epoch: Epoch | None = None
        self._keys_of: dict[str, str] = {}
        self._marks: dict[str, Any] = {}
        self._holds: list[dict[str, Any]] = []  # each with its id, the subject's tag, the reason and since when
        self._newest: dict[str, Any] | None = None  # entry of the chain: its file is written after it is in force
        self._bucket_key = secrets.token_hex(32)
        if kept is not None:
            if not isinstance(kept, dict) or kept.get("format") != FORMAT:
                raise FormatError(f"{self._path}: expected {FORMAT}, got something else")
            self._epoch = Epoch.from_dict(kept["epoch"])
            self._bucket_key = str(kept["bucket_key"])
            self._keys_of = dict(kept["keys"])
            self._marks = dict(kept["marks"])
            self._holds = list(kept.get("holds", []))
            self._newest = kept.get("newest")
            self._writer = (self._epoch.term, self._clock() + self._term)  # the writer may still be at work
        keys = self._folder / "keys.json"
        self._keys = KeyRing.load(keys) if keys.exists() else KeyRing.create()
        if not keys.exists():
            self._keys.save(keys)
        self._erasures: dict[int, dict[str, Any]] = {}
        for path in sorted((self._folder / "erasures").glob("*.json")):
            self._erasures[int(path.stem)] = read_json(path)
        if self._epoch is not None:
            # Kept by a process that ended before its epoch was in force. Members hear of it with their leases.
            late = [erasure for number, erasure in sorted(self._erasures.items()) if number > self._epoch.erasures]
            for erasure in late:
                self._epoch = _begun(self._epoch, erasure).made_by(self._life)
            if late:
                self._save()
        self._entries = [ClusterEntry(read_json(path)) for path in sorted((self._folder / "entries").glob("*.json"))]
        if self._newest is not None:
            self._keep_entry(ClusterEntry(self._newest))

    def _save(self, epoch: Epoch | None = None, *, erase_old: bool = False) -> None:
        write_json(
            self._path,
            {
                "format": FORMAT,
                "epoch": (self.epoch if epoch is None else epoch).to_dict(),
                "bucket_key": self._bucket_key,
                "keys": self._keys_of,
                "marks": self._marks,
                "holds": self._holds,
                "newest": self._newest,
            },
            erase_old=erase_old,
        )

    @property
    def epoch(self) -> Epoch:
        """The epoch in force."""
        if self._epoch is None:
            raise RefusalError("empty")
        return self._epoch

    def _change(self, epoch: Epoch, *, erase_old: bool = False) -> None:
        """Put the next version into force: kept first, then told to the members."""
        self._expect_newest()
        made = epoch.made_by(self._life)
        with self._leasing:  # a lease that is given from here on is given under the new epoch
            self._save(made, erase_old=erase_old)  # before anybody can be told of it
            self._epoch = made
        self._publish()

    def _expect_newest(self) -> None:
        """Refuse to go on from a folder that is older than what a member knows."""
        if self._newer is not None:
            name, version = self._newer
            raise UnavailableError(
                f"registry: expected the folder as it was last, got an older copy of it: {name} knows version "
                f"{version} of the epoch, which this one does not follow; put the newest copy back, or go on from what "
                "the members know with `lethevec cluster restore-registry`"
            )

    def _is_followed(self, head: Mapping[str, Any]) -> bool:
        """Whether the epoch follows the one that a member knows. The caller holds `_leasing`."""
        version, life = int(head.get("version", 0)), str(head.get("life", ""))
        if self.epoch.follows(version, life):
            return True
        self._newer = str(head["member"]), version
        return False

    def _publish(self) -> None:
        """Tell the members. Who does not answer keeps the old epoch until its lease is over; then nobody does."""
        told = {"epoch": self.epoch.to_dict()}
        waiting = {}
        silent = []
        for member in self.epoch.in_state("live"):  # the others ask when they come back
            try:
                waiting[member.name] = self._caller.start(member.name, "epoch", told, timeout=1.0)
            except (UnreachableError, LethevecError):
                silent.append(member.name)
        deadline = time.monotonic() + 1.0
        for name, pending in waiting.items():
            try:
                self._caller.finish(pending, max(0.05, deadline - time.monotonic()))
            except (UnreachableError, RefusalError, LethevecError):
                silent.append(name)
        self._outwait(silent)

    def _outwait(self, names: Iterable[str]) -> None:
        """Wait until the leases of these members are over. What was given before this process began is not known.

        Those that they have now: who gets another one meanwhile gets the new epoch with it.
        """
        until = max((self._until.get(name, self._started + self._lease) for name in names), default=0.0)
        while (left := until - self._clock()) > 0:
            time.sleep(min(left, 0.05))

    # --- Drivers -----------------------------------------------------------------------------------------------------

    def _found(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Make the cluster: so many shards with so many members each, on these disks."""
        with self._changing:
            if self._epoch is not None:
                return {"epoch": self.epoch.to_dict(), "made": False}
            disks, shards, replicas = list(head["disks"]), int(head["shards"]), int(head["replicas"])
            members = place_members(range(shards), replicas, disks, {})
            buckets = tuple(assign([], range(shards)))
            begin = Epoch(secrets.token_hex(16), 0, 0, buckets, {member.name: member for member in members})
            made = begin.made_by(self._life)
            self._save(made)
            self._epoch = made
            return {"epoch": self.epoch.to_dict(), "made": True}

    def _join(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """A driver begins. One that writes gets a term, unless another one has it."""
        with self._changing:
            self._expect_newest()
            if head.get("write"):
                term, until = self._writer
                again = head.get("driver") == self._driver
                if until > self._clock() and not again and not head.get("takeover"):
                    raise StoreLockedError(
                        f"cluster {self._name}: expected no other driver that writes, got one whose term runs for "
                        f"{until - self._clock():.1f} more seconds; read_only=True reads beside it"
                    )
                self._driver = str(head.get("driver"))
                self._writer = (max(term, self.epoch.term) + 1, self._clock() + self._term)
                self._change(replace(self.epoch, term=self._writer[0]))
            return {
                "epoch": self.epoch.to_dict(),
                "bucket_key": self._bucket_key,
                "audit": {"id": self._keys.audit.id, "key": self._keys.audit.secret.hex()},
                "public_key": self._keys.public.hex(),
                "term_seconds": self._term,
                "lease_seconds": self._lease,
            }

    def _leave(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """A driver that wrote ends: another one need not wait."""
        with self._changing:
            if head.get("term") == self._writer[0]:
                self._writer = (self._writer[0], 0.0)
        return {}

    def _renew_term(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        self._require_term(head)
        with self._changing:
            if head["term"] == self._writer[0]:
                self._writer = (self._writer[0], self._clock() + self._term)
                self._renewals += 1
        return {"version": self.epoch.version, "erasures": self.epoch.erasures}

    def _require_term(self, head: Mapping[str, Any]) -> None:
        if head.get("term") != self.epoch.term:
            raise RefusalError("term", term=self.epoch.term)

    def _give_epoch(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """The epoch, if the caller does not have it."""
        epoch = self.epoch
        if head.get("version") == epoch.version:
            return {"version": epoch.version}
        return {"version": epoch.version, "epoch": epoch.to_dict()}

    def _status(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        if self._epoch is None:
            return {"made": False}
        waiting = {
            str(number): sorted(name for name, part in erasure["members"].items() if part["state"] == _WAITING)
            for number, erasure in self._erasures.items()
            if erasure["receipt"] is None
        }
        leases = {name: round(max(0.0, until - self._clock()), 3) for name, until in self._until.items()}
        return {
            "made": True,
            "epoch": self.epoch.to_dict(),
            "waiting": waiting,
            "leases": leases,
            "writer": self._writer[1] > self._clock(),
            "renewals": self._renewals,
            "erasures": len(self._erasures),
            "marks": self._marks,
            "newer": self._newer,
        }

    # --- Members -----------------------------------------------------------------------------------------------------

    def _announce(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """A process of a member has begun. It answers nothing until it is admitted.

        One that the epoch has as live holds everything that was acknowledged, because nothing is acknowledged without
        the live members: it is admitted at once, when it has run the erasures that wait for it. One that is away has to
        be compared with the others first, which is a driver's work; and so has one that does not know an erasure whose
        receipts it has handed in, because its folder was put back as it was before.
        """
        name, incarnation = str(head["member"]), str(head["incarnation"])
        with self._changing:
            member = self.epoch.members.get(name)
            if member is None or member.state == "lost":
                raise RefusalError("unknown")
            with self._leasing:
                follows = self._is_followed(head)
            if not follows:
                raise RefusalError("newer", version=self.epoch.version)
            known = self._keys_of.get(name)
            if known is not None and known != head["key"]:
                raise RefusalError("key", expected=known)
            if known is None:
                self._keys_of[name] = str(head["key"])
                self._save()
            if member.state == "live" and int(head.get("erased", 0)) < self._erased_by(name):
                if len(self.epoch.of_shard(member.shard, "live")) == 1:
                    raise RefusalError("older", erasure=self._erased_by(name))
                self._change(self.epoch.with_member(name, "away"))
                member = self.epoch.members[name]
            pending = self._pending_of(name)
            with self._leasing:
                if self._incarnations.get(name) != incarnation:
                    self._until[name] = 0.0  # the process that had the lease is gone
                    self._incarnations.pop(name, None)
                if member.state == "live" and not pending:
                    self._incarnations[name] = incarnation
            return {
                "epoch": self.epoch.to_dict(),
                "bucket_key": self._bucket_key,
                "audit": {"id": self._keys.audit.id, "key": self._keys.audit.secret.hex()},
                "pending": pending,
                "lease_seconds": self._lease,
            }

    def _renew_lease(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        name = str(head["member"])
        with self._leasing:
            member = self.epoch.members.get(name)
            told = {} if head.get("version") == self.epoch.version else {"epoch": self.epoch.to_dict()}
            good = member is not None and member.state == "live" and self._incarnations.get(name) == head["incarnation"]
            if good and self._is_followed(head):
                self._until[name] = self._clock() + self._lease
            else:
                good = False
            return {"seconds": self._lease if good else 0.0, **told}

    def _away(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Set members away, and return when nothing that they hold can be in an answer.

        The last one of a shard stays live: it has everything, and what could it be compared with? With `fence` it gets
        no lease until it has announced itself again and has run the erasures that wait for it.
        """
        self._require_term(head)
        kept = []
        with self._changing:
            epoch = self.epoch
            for name in head["members"]:
                member = epoch.members[name]
                if member.state == "live":
                    if len(epoch.of_shard(member.shard, "live")) == 1:
                        kept.append(name)
                        continue
                    epoch = epoch.with_member(name, "away")
            if epoch is not self.epoch:
                self._change(epoch)
            if head.get("fence"):
                with self._leasing:
                    for name in kept:
                        self._incarnations.pop(name, None)
            self._outwait(name for name in head["members"] if head.get("fence") or name not in kept)
            return {"epoch": self.epoch.to_dict(), "kept": kept}

    def _admit(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Members have everything: they may answer from now on. Each comes with the process that was compared."""
        self._require_term(head)
        with self._changing:
            epoch = self.epoch
            for name in head["members"]:
                pending = self._pending_of(name)
                if epoch.members[name].state == "lost" or pending:
                    raise RefusalError("pending", pending=[one["number"] for one in pending])
            for name, incarnation in head["members"].items():
                with self._leasing:
                    self._incarnations[name] = str(incarnation)
                epoch = epoch.admitted(name)
            self._change(epoch)
            return {"epoch": self.epoch.to_dict()}

    def _add_members(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """New members, so that each of these shards has so many that are not lost."""
        self._require_term(head)
        with self._changing:
            made = place_members(head["shards"], int(head["replicas"]), list(head["disks"]), self.epoch.members)
            if made:
                self._change(
                    replace(self.epoch, members={**self.epoch.members, **{member.name: member for member in made}})
                )
            return {"epoch": self.epoch.to_dict(), "made": [member.name for member in made]}

    def _retire(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Take members out that hold nothing: those of shards without buckets, or those that are one too many."""
        self._require_term(head)
        with self._changing:
            names = set(map(str, head["members"]))
            for name in names:
                if self._pending_of(name):
                    raise ParameterError(f"member: expected one that no erasure waits for, got {name}")
            left = {name: member for name, member in self.epoch.members.items() if name not in names}
            used = set(self.epoch.buckets)
            if used - {member.shard for member in left.values() if member.state == "live"}:
                raise ParameterError("member: expected to leave a live one to every shard that has buckets")
            self._change(replace(self.epoch, members=left))
            for name in names:
                self._incarnations.pop(name, None)
            return {"epoch": self.epoch.to_dict()}

    def _move(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Buckets belong to another shard from now on."""
        self._require_term(head)
        with self._changing:
            buckets = list(self.epoch.buckets)
            for bucket in head["buckets"]:
                if not 0 <= int(bucket) < BUCKETS:
                    raise ParameterError(f"bucket: expected 0 to {BUCKETS - 1}, got {bucket}")
                buckets[int(bucket)] = int(head["shard"])
            if not self.epoch.of_shard(int(head["shard"]), "live"):
                raise ParameterError(f"shard: expected one with live members, got {head['shard']}")
            self._change(replace(self.epoch, buckets=tuple(buckets)))
            return {"epoch": self.epoch.to_dict()}

    def _mark(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Note how far something has come that a driver may have to take up again; None takes the note off."""
        self._require_term(head)
        with self._changing:
            name = str(head["name"])
            if "value" in head:
                if head["value"] is None:
                    self._marks.pop(name, None)
                else:
                    self._marks[name] = head["value"]
                self._save()
            return {"value": self._marks.get(name)}

    # --- Collections -------------------------------------------------------------------------------------------------

    def _make_collection(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        self._require_term(head)
        with self._changing:
            known = self.epoch.find(str(head["name"]))
            if known is None:
                entry = CollectionEntry(
                    "c" + secrets.token_hex(15),
                    str(head["name"]),
                    int(head["dim"]),
                    head.get("metric"),
                    head.get("index"),
                    head.get("encrypt"),
                    head.get("expires"),
                )
                self._change(replace(self.epoch, collections={**self.epoch.collections, entry.id: entry}))
            return {"epoch": self.epoch.to_dict()}

    def _rename(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        return self._with_entry(head, name=str(head["new"]))

    def _set_expires(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        return self._with_entry(head, expires=head["seconds"])

    def _with_entry(self, head: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
        self._require_term(head)
        with self._changing:
            entry = replace(self.epoch.collections[str(head["collection"])], **changes)
            self._change(replace(self.epoch, collections={**self.epoch.collections, entry.id: entry}))
            return {"epoch": self.epoch.to_dict()}

    # --- Legal holds and blocks --------------------------------------------------------------------------------------

    def _rights(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """The holds in force with their reasons, oldest first."""
        with self._changing:
            return {"holds": [dict(one) for one in self._holds], "epoch": self.epoch.to_dict()}

    def _change_right(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Set a hold or a block, or end one: kept and told to the members, with a signed entry of the chain."""
        self._require_term(head)
        with self._changing:
            known = next((entry for entry in self._entries if entry["token"] == head["token"]), None)
            if known is not None:  # asked twice, because the first answer was lost
                return {"entry": known.fields, "epoch": self.epoch.to_dict()}
            kind, tag, hold = str(head["kind"]), str(head.get("subject", "")), str(head.get("hold", ""))
            if kind not in ENTRIES:
                raise FormatError(f"right: expected one of {', '.join(ENTRIES)}, got another")
            holds, blocks = list(self._holds), dict(self.epoch.blocks)
            if kind == "hold":
                hold = secrets.token_hex(16)
                holds.append({"hold": hold, "subject": tag, "reason": str(head["reason"]), "since": now()})
            elif kind == "lift":
                found = next((one for one in holds if one["hold"] == hold), None)
                if found is None:
                    raise UnknownIdError(f"hold: expected the id of a hold that is in force, got {hold!r:.80}")
                holds.remove(found)
                tag = found["subject"]
            elif kind == "block":
                blocks.setdefault(tag, now())
            elif blocks.pop(tag, None) is None:
                raise UnknownIdError("subject: expected one that is blocked, got one that is not")
            audit, signed = self._keys.audit, self._signed()
            entry = ClusterEntry.issue(
                self._keys,
                self.epoch.cluster,
                len(signed),
                signed[-1].hash() if signed else GENESIS_PREVIOUS,
                {
                    "kind": kind,
                    "token": str(head["token"]),
                    "audit_key": audit.id,
                    "subject": tag,
                    "reason": audit.tag("reason", str(head["reason"]).encode()),
                    "hold": hold,
                },
            )
            before = self._holds, self._newest
            self._holds, self._newest = holds, entry.fields
            try:
                held = frozenset(one["subject"] for one in holds)
                # The reason of a hold that ends was in words: the old file is overwritten.
                self._change(replace(self.epoch, held=held, blocks=blocks), erase_old=kind == "lift")
            except LethevecError:
                self._holds, self._newest = before
                raise
            self._keep_entry(entry)
            return {"entry": entry.fields, "epoch": self.epoch.to_dict()}

    def _keep_entry(self, entry: ClusterEntry) -> None:
        if all(known.sequence != entry.sequence for known in self._entries):
            write_json(self._folder / "entries" / f"{entry.sequence:012d}.json", entry.fields)
            self._entries.append(entry)

    # --- Erasures ----------------------------------------------------------------------------------------------------

    def _begin(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Give an erasure its number and note what is to be erased, before anybody erases anything."""
        self._require_term(head)
        with self._changing:
            for known in self._erasures.values():
                if known["token"] == head["token"]:  # asked twice, because the first answer was lost
                    if self.epoch.erasures < known["number"]:
                        self._change(_begun(self.epoch, known))
                    return {"number": known["number"], "epoch": self.epoch.to_dict()}
            number = max([*self._erasures, self.epoch.erasures]) + 1
            members = {
                member.name: {"state": _WAITING, "shard": member.shard, "receipts": [], "at": ""}
                for member in self.epoch.in_state("live", "away", "joining")
            }
            erasure = {
                "number": number,
                "token": str(head["token"]),
                "kind": str(head["kind"]),
                "asked": head["asked"],
                "asked_at": now(),
                "wanted": head["wanted"],
                "block": head.get("block"),
                "epoch": self.epoch.version,
                "members": members,
                "receipt": None,
            }
            self._keep_erasure(erasure)
            self._change(_begun(self.epoch, erasure))
            return {"number": number, "epoch": self.epoch.to_dict()}

    def _keep_erasure(self, erasure: dict[str, Any]) -> None:
        write_json(self._folder / "erasures" / f"{erasure['number']:012d}.json", erasure)
        self._erasures[erasure["number"]] = erasure

    def _erased(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Take a member's receipts for an erasure; the combined receipt if it was the last."""
        with self._changing:
            number, name = int(head["number"]), str(head["member"])
            erasure = self._erasures.get(number)
            if erasure is None or name not in erasure["members"]:
                raise UnknownIdError(f"erasure: expected one that waits for {name}, got number {number}")
            part = erasure["members"][name]
            if part["state"] == _WAITING:
                receipts = [Receipt(fields) for fields in head["receipts"]]
                if not receipts or not all(receipt.erases for receipt in receipts):
                    raise ReceiptError(f"receipt: expected receipts of erasures from {name}, got others")
                public = bytes.fromhex(self._keys_of.get(name, ""))
                for one in receipts:
                    if not public or not verify_signature(public, one.signature, one.signed_bytes()):
                        raise ReceiptError(f"receipt: expected receipts that {name} has signed, got another's")
                changed = {**part, "state": ERASED, "at": now(), "receipts": [r.fields for r in receipts]}
                erasure = {**erasure, "members": {**erasure["members"], name: changed}}
                self._keep_erasure(erasure)
            receipt = self._try_sign(erasure)
            return {"receipt": None if receipt is None else receipt.fields}

    def _erased_by(self, name: str) -> int:
        """The highest number of an erasure that a member has handed in; 0 if there is none."""
        done = (n for n, one in self._erasures.items() if one["members"].get(name, {}).get("state") == ERASED)
        return max(done, default=0)

    def _try_sign(self, erasure: dict[str, Any]) -> ClusterReceipt | None:
        if erasure["receipt"] is not None:
            return ClusterReceipt(erasure["receipt"])
        if any(part["state"] == _WAITING for part in erasure["members"].values()):
            return None
        entries: list[dict[str, Any]] = []
        counts: dict[int, int] = {}
        for name, part in sorted(erasure["members"].items()):
            receipts = [Receipt(fields) for fields in part["receipts"]]
            counts[part["shard"]] = max(counts.get(part["shard"], 0), sum(receipt.records for receipt in receipts))
            entries.append(
                {
                    "member": name,
                    "shard": part["shard"],
                    "state": part["state"],
                    "at": part["at"],
                    "key": self._keys_of.get(name, ""),
                    "hashes": [receipt.hash() for receipt in receipts],
                    "receipts": part["receipts"],
                }
            )
        signed = self._signed()
        receipt = ClusterReceipt.issue(
            self._keys,
            self.epoch.cluster,
            len(signed),
            signed[-1].hash() if signed else GENESIS_PREVIOUS,
            {
                "number": erasure["number"],
                "kind": erasure["kind"],
                "asked": erasure["asked"],
                "asked_at": erasure["asked_at"],
                "audit_key": self._keys.audit.id,
                "epoch": erasure["epoch"],
                "shards": len({part["shard"] for part in erasure["members"].values()}),
                "records": sum(counts.values()),
                "members": entries,
            },
        )
        # What was wanted has been done; the receipt says what it has to say.
        self._keep_erasure({**erasure, "wanted": None, "receipt": receipt.fields})
        return receipt

    def _signed(self) -> list[ClusterReceipt | ClusterEntry]:
        found = [ClusterReceipt(one["receipt"]) for one in self._erasures.values() if one["receipt"] is not None]
        return sorted([*found, *self._entries], key=lambda entry: entry.sequence)

    def _pending_of(self, name: str) -> list[dict[str, Any]]:
        """What a member has still to erase, oldest first."""
        return [
            {"number": number, "kind": erasure["kind"], "wanted": erasure["wanted"]}
            for number, erasure in sorted(self._erasures.items())
            if erasure["receipt"] is None and erasure["members"].get(name, {}).get("state") == _WAITING
        ]

    def _pending(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        with self._changing:
            if "member" in head:
                return {"pending": self._pending_of(str(head["member"]))}
            return {
                "pending": [
                    {
                        "number": number,
                        "members": [name for name, part in erasure["members"].items() if part["state"] == _WAITING],
                    }
                    for number, erasure in sorted(self._erasures.items())
                    if erasure["receipt"] is None
                ]
            }

    def _receipts(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        with self._changing:
            return {"receipts": [receipt.fields for receipt in self._signed()]}

    def _declare_lost(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """An operator says that a member never comes back: it is waited for no longer, and receipts say so."""
        self._require_term(head)
        with self._changing:
            name = str(head["member"])
            member = self.epoch.members.get(name)
            if member is None:
                known = ", ".join(sorted(self.epoch.members))
                raise UnknownIdError(f"member: expected one of {known}, got {name!r:.80}")
            if member.state == "live":
                raise ParameterError(f"member: expected one that is away, got {name}, which is live")
            if not self.epoch.of_shard(member.shard, "live") and member.shard in self.epoch.buckets:
                raise ParameterError(
                    f"member: expected one whose shard {member.shard} has a live member, got {name}: its records "
                    "would be lost with it"
                )
            if member.state != "lost":
                self._change(self.epoch.with_member(name, "lost"))
                self._outwait([name])
            signed = []
            for number in [one["number"] for one in self._pending_of(name)]:
                erasure = self._erasures[number]
                part = {**erasure["members"][name], "state": DECLARED, "at": now()}
                erasure = {**erasure, "members": {**erasure["members"], name: part}}
                self._keep_erasure(erasure)
                receipt = self._try_sign(erasure)
                if receipt is not None:
                    signed.append(receipt.fields)
            return {"epoch": self.epoch.to_dict(), "receipts": signed}

    # --- From an older copy ------------------------------------------------------------------------------------------

    def _restore(self, head: Mapping[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Go on from what the members know. What nobody knows any more: the combined receipts since the copy, and the
        reasons of legal holds. Loads that were cut off begin from their start."""
        with self._changing:
            if self._newer is None:
                raise ParameterError("registry: expected an older copy, which a member has told of, got none")
            before = max(self._erasures, default=0)
            names = sorted(self.epoch.members)
            told = ask_what_is_known(self._caller, names, before)
            more = sorted({n for one in told.values() for n in one.epoch.members} - set(names))
            told.update(ask_what_is_known(self._caller, more, before))
            epoch = newest_of(told, set(map(str, head["without"])), before)
            begun = self._epoch, self._newer, self._life, self._holds, self._marks
            reasons = {one["subject"]: one for one in self._holds}
            self._newer, self._life, self._marks = None, secrets.token_hex(8), {}
            self._holds = [
                reasons.get(tag) or {"hold": secrets.token_hex(16), "subject": tag, "reason": "", "since": now()}
                for tag in sorted(epoch.held)
            ]
            self._writer = (epoch.term, 0.0)
            with self._leasing:
                self._incarnations.clear()  # everybody announces itself again
            try:
                self._change(epoch)
            except LethevecError:
                self._epoch, self._newer, self._life, self._holds, self._marks = begun
                raise
            with self._leasing:  # who called in between was judged by the old epoch
                self._newer = None
            return {"epoch": self.epoch.to_dict()}


def _begun(epoch: Epoch, erasure: Mapping[str, Any]) -> Epoch:
    """What an erasure changes in an epoch when it is begun."""
    changed = replace(epoch, erasures=int(erasure["number"]))
    block = erasure.get("block")
    if block is not None and block not in epoch.blocks:
        changed = replace(changed, blocks={**epoch.blocks, str(block): str(erasure["asked_at"])})
    if erasure["kind"] == "drop" and erasure["wanted"] is not None:
        gone = str(erasure["wanted"]["collection"])
        changed = replace(changed, collections={id: one for id, one in epoch.collections.items() if id != gone})
    return changed


def place_members(
    shards: Iterable[int], replicas: int, disks: Sequence[str], present: Mapping[str, MemberEntry]
) -> list[MemberEntry]:
    """New members so that each shard has so many: on different disks, those with the fewest members first.

    >>> [(m.name, m.disk) for m in place_members([0, 1], 2, ["a", "b", "c"], {})]
    [('s0-1', 'a'), ('s0-2', 'b'), ('s1-1', 'c'), ('s1-2', 'a')]
    """
    if replicas > len(disks):
        raise ParameterError(f"replicas: expected at most one for each of {len(disks)} disks, got {replicas}")
    load = dict.fromkeys(disks, 0)
    for member in present.values():
        if member.state != "lost" and member.disk in load:
            load[member.disk] += 1
    made: list[MemberEntry] = []
    for shard in shards:
        there = [m for m in present.values() if m.shard == shard and m.state != "lost"]
        used = {member.disk for member in there}
        count = sum(1 for m in present.values() if m.shard == shard)
        for _ in range(replicas - len(there)):
            free = [disk for disk in disks if disk not in used]
            if not free:
                raise ParameterError(f"replicas: expected a free disk for shard {shard}, got none of {len(disks)}")
            disk = min(free, key=lambda one: (load[one], disks.index(one)))
            count += 1
            made.append(MemberEntry(f"s{shard}-{count}", shard, disk))
            used.add(disk)
            load[disk] += 1
    return made
