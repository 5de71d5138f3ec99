"""`ClusterDatabase`: the calls of a folder of collections, over the members of a cluster."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from .._collections.access import Access, Held
from .._collections.names import check_name
from .._collections.rights import Hold
from .._forgetting.elsewhere import read_elsewhere
from .._forgetting.receipts import GENESIS_PREVIOUS, now
from .._forgetting.trusted import KeyLike
from .._forgetting.verify import Verification
from .._record import KEEP, Keep
from .._shown import shown
from .._store.ids import check_ids, check_text
from .._store.retention import check_duration
from ..errors import (
    ErasureIncompleteError,
    InputError,
    LethevecError,
    ParameterError,
    UnavailableError,
    UnknownIdError,
    UnsupportedError,
)
from . import catching_up, erasing, rebalancing, rights
from .arguments import boolean
from .calling import RefusalError, UnreachableError
from .collection import ClusterCollection
from .driver import Driver
from .epoch import STATES
from .messages import Message
from .receipts import ClusterEntry, ClusterReceipt, read_cluster_receipt
from .receipts import verify as verify_offline

__all__ = ["ClusterDatabase"]

_BRIEF = 3.0  # seconds for which writes to a shard wait while one of its members finishes erasures in the background


class ClusterDatabase:
    """An open cluster; made by `connect`. Threads may share it."""

    def __init__(self, driver: Driver, *, watch: bool = True) -> None:
        """Take up what an earlier driver has left. `watch`: bring members back in the background."""
        self._driver = driver
        self.place: dict[str, str] = {}  # where the cluster is: its name, and the path of its secret
        self._stop = threading.Event()
        self._handles: dict[str, ClusterCollection] = {}
        self._watch_lock = threading.Lock()
        if not driver.read_only:
            self._begin()
        self._beating = threading.Thread(target=self._beat, name="cluster-beat", daemon=True)
        self._beating.start()
        self._watching: threading.Thread | None = None
        if watch and not driver.read_only:
            self._watching = threading.Thread(target=self._watch, name="cluster-watch", daemon=True)
            self._watching.start()

    def _begin(self) -> None:
        """Start members that do not run, admit new ones, and see that replicas are equal."""
        driver = self._driver
        for member in driver.epoch.in_state("live", "away", "joining"):
            with suppress(UnavailableError):  # its disk may be gone
                driver.launcher.start_member(member)
        self._admit_new()
        with driver.writing(driver.epoch.shards()):
            erasing.take_up(driver)
            catching_up.compare_replicas(driver)

    def _admit_new(self) -> None:
        """Members of a new cluster hold nothing yet, and there is nothing to compare them with."""
        driver = self._driver
        fresh = [
            member for member in driver.epoch.in_state("joining") if not driver.epoch.of_shard(member.shard, "live")
        ]
        if not fresh:
            return
        deadline = time.monotonic() + driver.timeout
        ready: dict[str, str] = {}
        while len(ready) < len(fresh):
            for member in fresh:
                if member.name not in ready:
                    with suppress(UnreachableError, RefusalError):
                        state = catching_up.state_of(driver, member.name, 5.0)
                        if state["version"]:
                            ready[member.name] = state["incarnation"]
            if len(ready) < len(fresh):
                if time.monotonic() > deadline:
                    missing = sorted({member.name for member in fresh} - set(ready))
                    raise UnavailableError(f"cluster: expected every new member to start, got none of {missing}")
                time.sleep(0.1)
        driver.registry("admit", {"members": ready})

    def _beat(self) -> None:
        while not self._stop.wait(self._driver.beat_seconds):
            with suppress(LethevecError, RefusalError):
                self._driver.beat()

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            with suppress(LethevecError, RefusalError, UnreachableError):
                self.bring_back()
            with suppress(LethevecError, RefusalError, UnreachableError):
                erasing.complete(self._driver, _BRIEF)

    # --- What it is --------------------------------------------------------------------------------------------------

    @property
    def read_only(self) -> bool:
        """Whether this is a reader."""
        return self._driver.read_only

    @property
    def driver(self) -> Driver:
        """The connection below."""
        return self._driver

    def __repr__(self) -> str:
        """How many shards, members and collections."""
        epoch = self._driver.epoch
        return (
            f"<ClusterDatabase: {len(epoch.shards())} shards, {len(epoch.members)} members, "
            f"{len(epoch.collections)} collections>"
        )

    def digest(self) -> str:
        """The digest of all collections: that of one folder with the same names and records."""
        total = hashlib.blake2b(digest_size=32, person=b"lethevec-folder1")
        for name in self.collections():
            encoded = name.encode()
            total.update(len(encoded).to_bytes(8, "little") + encoded + self.collection(name).digest().encode())
        return total.hexdigest()

    def status(self) -> dict[str, Any]:
        """What an operator wants to know: members, their states, what waits."""
        answer = self._driver.registry("status")
        epoch = self._driver.epoch

        def described(name: str) -> dict[str, Any]:
            member = epoch.members[name]
            entry: dict[str, Any] = {
                "member": name,
                "shard": member.shard,
                "disk": member.disk,
                "state": member.state,
                "lease": answer["leases"].get(name, 0.0),
            }
            if member.state != "lost":
                try:
                    state = catching_up.state_of(self._driver, name, 1.0)
                    entry["records"] = sum(one["records"] for one in state["digests"].values())
                    entry["digests"] = {id: one["digest"] for id, one in state["digests"].items()}
                    entry["reachable"] = True
                except (UnreachableError, RefusalError, LethevecError):
                    entry["reachable"] = False
            return entry

        names = sorted(epoch.members)
        with ThreadPoolExecutor(max(1, min(len(names), 32))) as pool:  # those that do not answer are waited for once
            members = list(pool.map(described, names))
        return {
            "cluster": epoch.cluster,
            "epoch": epoch.version,
            "term": epoch.term,
            "shards": {
                str(shard): {"buckets": epoch.buckets.count(shard), "live": len(epoch.of_shard(shard, "live"))}
                for shard in epoch.shards()
            },
            "members": members,
            "collections": [entry.name for entry in sorted(epoch.collections.values(), key=lambda e: e.name)],
            "waiting": {int(number): names for number, names in answer["waiting"].items()},
            "erasures": answer["erasures"],
            "counts": dict(self._driver.counts),
        }

    def metrics(self) -> str:
        """The same as numbers, in the text form of Prometheus."""
        status = self.status()
        lines = []

        def add(name: str, kind: str, values: dict[str, float]) -> None:
            lines.append(f"# TYPE lethevec_cluster_{name} {kind}")
            lines.extend(f"lethevec_cluster_{name}{labels} {value:g}" for labels, value in values.items())

        states = {state: sum(one["state"] == state for one in status["members"]) for state in STATES}
        add("members", "gauge", {f'{{state="{state}"}}': count for state, count in states.items()})
        records = {one["member"]: one["records"] for one in status["members"] if "records" in one}
        add("member_records", "gauge", {f'{{member="{name}"}}': count for name, count in records.items()})
        add("epoch", "counter", {"": status["epoch"]})
        add("erasures_waiting", "gauge", {"": len(status["waiting"])})
        add("erasures_total", "counter", {"": status["erasures"]})
        add("driver_calls_total", "counter", {f'{{kind="{name}"}}': n for name, n in status["counts"].items()})
        return "\n".join(lines) + "\n"

    # --- Collections -------------------------------------------------------------------------------------------------

    def collections(self) -> list[str]:
        """The names of all collections, by code point."""
        self._driver.refresh()
        return sorted(entry.name for entry in self._driver.epoch.collections.values())

    def __contains__(self, name: object) -> bool:
        """Whether there is a collection of that name."""
        return name in self.collections()

    def __iter__(self) -> Iterator[str]:
        """The names of all collections, by code point."""
        return iter(self.collections())

    def collection(
        self,
        name: str,
        dim: int | None = None,
        metric: str | None = None,
        *,
        index: dict[str, Any] | None = None,
        encrypt: bool | None = None,
        expires: timedelta | Keep | None = KEEP,
    ) -> ClusterCollection:
        """The collection of that name; it is made if there is none and `dim` is given (see `Database.collection`)."""
        check_name(name)
        retention = None if isinstance(expires, Keep) else check_duration(expires)
        seconds = None if retention is None else retention.total_seconds()
        entry = self._driver.epoch.find(name)
        if entry is None:
            self._driver.refresh()
            entry = self._driver.epoch.find(name)
        if entry is None:
            if dim is None or self.read_only:
                known = ", ".join(self.collections()[:5]) or "none"
                raise UnknownIdError(
                    f"name: expected one of the collections ({known}), got {name!r}; dim= makes a new one"
                )
            _check_settings(dim, metric, index)
            head = {"name": name, "dim": int(dim), "metric": metric, "index": index, "encrypt": encrypt}
            self._driver.require_writer()
            with self._driver.writing(self._driver.epoch.shards()):
                self._driver.registry("collection", {**head, "expires": seconds})
            entry = self._driver.epoch.find(name)
            assert entry is not None
        else:
            settings: list[tuple[str, Any, Any]] = [
                ("dim", dim, entry.dim),
                ("metric", metric, entry.metric or "cosine"),
            ]
            for what, given, known in settings:
                if given is not None and given != known:
                    raise ParameterError(
                        f"{what}: expected {known!r}, with which the collection was made, got {shown(given)}"
                    )
            if not isinstance(expires, Keep) and seconds != entry.expires:
                self._driver.require_writer()
                self._driver.registry("expires", {"collection": entry.id, "seconds": seconds})
        if entry.id not in self._handles:
            self._handles[entry.id] = ClusterCollection(self, self._driver, entry)
        return self._handles[entry.id]

    def drop(self, name: str, *, timeout: float | None = None) -> ClusterReceipt:
        """Erase a collection with everything in it, in every member. It cannot be undone."""
        entry = self._driver.epoch.find(check_name(name))
        if entry is None:
            raise UnknownIdError(f"name: expected one of the collections, got {name!r}, which is not there")
        self._driver.require_writer()
        rights.may_change_collection(self._driver, entry.id)
        asked: dict[str, Any] = {"by": "drop", "subject": None, "collection": entry.id, "ids": []}
        wanted: dict[str, Any] = {"collection": entry.id, "ids": [], "subject": None, "drop": True}
        head = {"action": "drop", "collection": entry.id, "timeout": timeout}
        return erasing.erase(self._driver, "drop", asked, wanted, Message(head, []), timeout)

    def rename(self, old: str, new: str) -> None:
        """Give a collection another name."""
        check_name(new, what="new")
        entry = self._driver.epoch.find(check_name(old))
        if entry is None:
            raise UnknownIdError(f"name: expected one of the collections, got {old!r}, which is not there")
        if self._driver.epoch.find(new) is not None:
            raise ParameterError(f"new: expected a name that is free, got {new!r}, which another collection has")
        self._driver.require_writer()
        self._driver.registry("rename", {"collection": entry.id, "new": new})

    # --- People ------------------------------------------------------------------------------------------------------

    def subjects(self) -> dict[str, int]:
        """Every subject with the number of its records in all collections, by code point."""
        found: dict[str, int] = {}
        for name in self.collections():
            for subject, count in self.collection(name).subjects().items():
                found[subject] = found.get(subject, 0) + count
        return dict(sorted(found.items()))

    def access(self, subject: str) -> Access:
        """Everything that is held of a subject in every collection, and the combined receipts that are about them."""
        check_text(subject, "subject")
        found = {name: self.collection(name).held_of(subject) for name in self.collections()}
        tag = self._driver.audit.tag_subject(subject)
        held = {name: records for name, records in found.items() if records}
        return Access(subject, now(), held, self._about(tag), self.holds(subject), self._blocked_since(subject))

    def _about(self, tag: str) -> list[Any]:
        """The entries of the chain that are about a subject, by its tag."""
        return [
            entry
            for entry in erasing.chain(self._driver)
            if tag == (entry["asked"]["subject"] if isinstance(entry, ClusterReceipt) else entry["subject"])
        ]

    def held(self, subject: str) -> Held:
        """How many records of a subject each collection holds, with the rest of what `access` says. It reads none."""
        tag = self._driver.audit.tag_subject(check_text(subject, "subject"))
        counts = {name: self.collection(name).held_count(subject) for name in self.collections()}
        return Held(
            {name: count for name, count in counts.items() if count},
            self._about(tag),
            self.holds(subject),
            self._blocked_since(subject),
        )

    def hold(self, subject: str, reason: str) -> ClusterEntry:
        """Set a legal hold: the records of this subject can be neither changed nor erased until `lift`.

        The entry is signed; `entry["hold"]` is the id to lift it by. A subject without records is refused.
        """
        check_text(subject, "subject")
        self._driver.require_writer()
        with self._driver.writing(self._driver.epoch.shards()):
            if not any(self.collection(name).count(subject=subject) for name in self.collections()):
                raise UnknownIdError(f"subject: expected one that has records, got {subject!r:.80}, which has none")
            return self._right("hold", reason, subject=self._driver.audit.tag_subject(subject))

    def lift(self, hold: str | ClusterEntry, reason: str = "no longer needed") -> ClusterEntry:
        """End a legal hold, by its id or the entry that set it."""
        id = str(hold["hold"]) if isinstance(hold, ClusterEntry) else check_text(hold, "hold")
        self._driver.require_writer()
        return self._right("lift", reason, hold=id)

    def holds(self, subject: str | None = None, *, names: bool = True) -> list[Hold]:
        """The legal holds in force, oldest first; of one subject, or all.

        A hold is kept without the name of its subject, so naming all of them tries every subject that has records.
        `names=False` leaves that out.
        """
        if subject is not None:
            return rights.holds_on(self._driver, check_text(subject, "subject"))
        return rights.all_holds(self._driver, self.subjects() if boolean("names", names) else ())

    def block(self, subject: str, reason: str) -> ClusterEntry:
        """Refuse to write for a subject until `unblock`. Records that are there stay; `forget` has `block` too."""
        tag = self._driver.audit.tag_subject(check_text(subject, "subject"))
        self._driver.require_writer()
        with self._driver.writing(self._driver.epoch.shards()):
            return self._right("block", reason, subject=tag)

    def unblock(self, subject: str, reason: str = "no longer needed") -> ClusterEntry:
        """Allow to write for a subject again."""
        tag = self._driver.audit.tag_subject(check_text(subject, "subject"))
        self._driver.require_writer()
        return self._right("unblock", reason, subject=tag)

    def is_blocked(self, subject: str) -> bool:
        """Whether nothing may be written for a subject."""
        return self._blocked_since(check_text(subject, "subject")) is not None

    def _blocked_since(self, subject: str) -> str | None:
        self._driver.refresh()
        return self._driver.epoch.blocks.get(self._driver.audit.tag_subject(subject))

    def _right(self, kind: str, reason: str, **about: str) -> ClusterEntry:
        head = {"kind": kind, "reason": check_text(reason, "reason"), "token": secrets.token_hex(16), **about}
        return ClusterEntry(self._driver.registry("right", head)["entry"])

    def forget(
        self,
        *,
        subject: str,
        block: bool = False,
        ignore_unknown: bool = False,
        search_all: bool = False,
        elsewhere: Any = None,
        timeout: float | None = None,
    ) -> ClusterReceipt:
        """Forget every record of a subject in all collections and all members, with one combined receipt.

        With `block`, nothing may be written for the subject from then on, until `unblock`. `elsewhere` is what you
        erased outside the cluster, for the receipt to state (see `Store.forget`).

        `ErasureIncompleteError` names the members that have not erased yet. The records are in no answer from then on,
        and the erasure completes by itself when those members are back.
        """
        check_text(subject, "subject")
        boolean("block", block)
        places = read_elsewhere(elsewhere)
        self._driver.require_writer()
        with self._driver.writing(self._driver.epoch.shards()):
            rights.may_forget(self._driver, subject)
            if not ignore_unknown and not any(self.collection(n).may_have(subject) for n in self.collections()):
                raise UnknownIdError(f"subject: expected one that has records, got {subject!r:.80}, which has none")
            tag = self._driver.audit.tag_subject(subject)
            asked: dict[str, Any] = {"by": "subject", "subject": tag, "collection": None, "ids": []}
            if block:
                asked["block"] = True
            if places:
                asked["elsewhere"] = places
            wanted: dict[str, Any] = {"collection": None, "ids": [], "subject": tag}
            head = {"action": "subject", "subject": subject, "search_all": search_all, "timeout": timeout}
            kept_out = tag if block else None
            return erasing.erase(self._driver, "erasure", asked, wanted, Message(head, []), timeout, block=kept_out)

    def expire(self, *, skip_held: bool = False, timeout: float | None = None) -> ClusterReceipt | None:
        """Erase the records of all collections whose time has come, in all members; None if there are none.

        Records under legal hold are not erased: `HoldError` names the hold, and nothing is erased. With `skip_held` the
        others are.
        """
        self._driver.require_writer()
        if not boolean("skip_held", skip_held):
            rights.may_expire(self._driver)
        if not any(self.collection(name).expired() for name in self.collections()):
            return None
        at = time.time()
        asked: dict[str, Any] = {"by": "expiry", "subject": None, "collection": None, "ids": []}
        wanted: dict[str, Any] = {"collection": None, "ids": [], "subject": None, "at": at}
        head = {"action": "expire", "at": at, "timeout": timeout}
        return erasing.erase(self._driver, "expiry", asked, wanted, Message(head, []), timeout)

    # --- Erasures and receipts ---------------------------------------------------------------------------------------

    def complete_erasures(self, *, timeout: float | None = None) -> list[ClusterReceipt]:
        """Finish the erasures that wait, or say with `ErasureIncompleteError` for whom; the receipts signed since."""
        self._driver.require_writer()
        before = {receipt.number for receipt in erasing.receipts(self._driver)}
        deadline = time.monotonic() + (5.0 if timeout is None else timeout)
        while True:
            erasing.complete(self._driver, max(_BRIEF, deadline - time.monotonic()))
            self.bring_back()
            waiting = erasing.waiting_for(self._driver)
            if not waiting:
                break
            if time.monotonic() >= deadline:
                names = tuple(sorted({name for members in waiting.values() for name in members}))
                raise ErasureIncompleteError(
                    f"cluster: expected every member to erase, got no answer from {', '.join(names)}",
                    len(waiting),
                    members=names,
                )
            time.sleep(0.1)
        return [receipt for receipt in erasing.receipts(self._driver) if receipt.number not in before]

    def pending_erasures(self) -> int:
        """How many erasures wait for a member."""
        return len(erasing.waiting_for(self._driver))

    def receipts(self, *, all_kinds: bool = False) -> list[Any]:
        """The combined receipts, oldest first; with `all_kinds` every entry of the chain, holds and blocks included."""
        return erasing.chain(self._driver) if boolean("all_kinds", all_kinds) else erasing.receipts(self._driver)

    def chain(
        self, *, after: int = -1, before: int | None = None, limit: int = 1000
    ) -> list[ClusterReceipt | ClusterEntry]:
        """A part of the chain: up to `limit` entries after one, oldest first; or those `before` one, newest first."""
        found = erasing.chain(self._driver)
        if before is not None:
            return [one for one in reversed(found) if one.sequence < before][:limit]
        return [one for one in found if one.sequence > after][:limit]

    def receipt_of(self, given: Any) -> ClusterReceipt | ClusterEntry:
        """An entry of the chain, from its fields or its exact text; its form is checked."""
        return read_cluster_receipt(given)

    def verify_chain(self, *, after: int = -1, limit: int = 1000) -> tuple[Verification, int | None]:
        """Check a part of the chain of combined receipts: signatures, and that each names the one before."""
        known = erasing.chain(self._driver)
        part = [one for one in known if one.sequence > after][:limit]
        report = Verification()
        for one in part:
            previous = GENESIS_PREVIOUS if one.sequence == 0 else known[one.sequence - 1].hash()
            good = bool(verify_offline(one, key=self._driver.public_key)) and one["previous"] == previous
            report.add(
                f"receipt {one.sequence}", good, "signed and in its place" if good else "changed or out of place"
            )
        report.add("signature", not report.failed, f"{len(part)} receipts")
        return report, part[-1].sequence if part and part[-1].sequence + 1 < len(known) else None

    def public_key(self) -> bytes:
        """The public key that combined receipts are signed with: give it to whoever is to check them."""
        return self._driver.public_key

    def verify(
        self,
        receipt: Any,
        *,
        ids: Any = None,
        subject: str | None = None,
        vectors: npt.ArrayLike | None = None,
        key: KeyLike | None = None,
        quick: bool = False,
    ) -> Verification:
        """Check a combined receipt offline, then (unless `quick`) each member's part against its files as they are."""
        given = read_cluster_receipt(receipt)
        report = verify_offline(given, key=self._driver.public_key if key is None else key)
        wanted = [] if ids is None else check_ids(ids)[0]
        if subject is not None:
            tag = self._driver.audit.tag_subject(check_text(subject, "subject"))
            good = tag == (given["subject"] if isinstance(given, ClusterEntry) else given["asked"]["subject"])
            report.add("about", good, "it is about this subject" if good else "it is about another subject")
        if isinstance(given, ClusterEntry):
            return report
        if wanted:
            tags = set(given["asked"]["ids"])
            good = given["asked"]["by"] == "subject" or all(self._driver.audit.tag_id(id) in tags for id in wanted)
            report.add("about ids", good, "it is about these ids" if good else "it is about other ids")
        arrays = [] if vectors is None else [np.atleast_2d(np.asarray(vectors, dtype=np.float32))]
        for name, state in given.members.items():
            if quick or state != "erased" or name not in self._driver.epoch.members:
                continue
            # Which ids a member's own receipt is about, its own audit key says; what it holds is looked at for all.
            head = {"receipts": [one.fields for one in given.receipts_of(name)], "subject": None, "ids": None}
            try:
                checks = self._driver.caller.call(name, "verify", head, arrays, timeout=60.0).head["checks"]
            except (UnreachableError, RefusalError) as error:
                report.add(f"{name} now", None, f"it does not answer: {error}")
                continue
            for check in checks:
                report.add(f"{name}: {check['name']}", check["passed"], check["detail"])
        return report

    def load_files(self, collection: str, files: Any, **options: Any) -> int:
        """Load Parquet or Arrow files into a collection through Ray Data (see `loading`); how many records."""
        from .loading import load_files

        return load_files(self, collection, files, **options)

    # --- Members -----------------------------------------------------------------------------------------------------

    def bring_back(self) -> list[str]:
        """Let members that were away catch up and answer again, as far as they can be reached; which did."""
        self._driver.require_writer()
        done = []
        with self._watch_lock:
            self._driver.refresh()
            for member in self._driver.epoch.in_state("away", "joining"):
                if self._stop.is_set():
                    break
                if catching_up.bring_back(self._driver, member.name):
                    done.append(member.name)
        return done

    def rebalance(self, *, shards: int | None = None, replicas: int | None = None) -> dict[str, Any]:
        """Move buckets until every shard has its share; with more or fewer shards or replicas, if given.

        Searches go on. A crash leaves copies at both places, never at none; `rebalance` again goes on from there.
        """
        self._driver.require_writer()
        with self._watch_lock:
            return rebalancing.rebalance(self._driver, shards=shards, replicas=replicas)

    def declare_lost(self, member: str) -> list[ClusterReceipt]:
        """Say that a member never comes back. Erasures no longer wait for it: their receipts say "declared" of it.

        Do this when its medium is destroyed, or will be: whatever it held is out of this cluster's reach.
        """
        self._driver.require_writer()
        with suppress(UnavailableError):
            self._driver.launcher.stop_member(member)
        answer = self._driver.registry("lost", {"member": str(member)})
        return [ClusterReceipt(fields) for fields in answer["receipts"]]

    def backup(self, *args: Any, **options: Any) -> NoReturn:
        """Refused: replicas are the copies of a cluster, and a collection's `export` writes its records to a file."""
        raise UnsupportedError(
            "backup: expected a folder of collections, got a cluster; replicas= keeps copies, export() writes one"
        )

    def rotate_keys(self, *args: Any, **options: Any) -> NoReturn:
        """Refused: the keys of a cluster are the registry's, and stay."""
        raise UnsupportedError("rotate_keys: expected a folder of collections, got a cluster, whose keys stay")

    # --- The end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End this connection. The members go on."""
        self._stop.set()
        if self._watching is not None:
            self._watching.join(10)
        self._beating.join(10)
        self._driver.close()

    def __enter__(self) -> ClusterDatabase:
        """Return itself; the connection ends with the block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refused: connect again in the other process."""
        raise UnsupportedError("an open cluster cannot be copied or pickled: connect again where it is needed")


def _check_settings(dim: Any, metric: Any, index: Any) -> None:
    """Refuse what no member could make, before anybody tries: an index with these settings is made here once."""
    from lethevec import Index

    if index is not None and not isinstance(index, dict):
        raise InputError(f"index: expected a dict of options, got {type(index).__name__}")
    Index(dim=dim, **({} if metric is None else {"metric": metric}), **(index or {}))
