"""A member: one copy of a shard. An ordinary folder of collections, and the rules by which it takes part.

It refuses whatever it must not do: questions without a lease, anything of another epoch, writes of an older term. What
it holds beyond its shard's buckets (while they move) is in no answer. It changes one thing at a time.

Nothing here knows Ray.
"""

from __future__ import annotations

import gc
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import lethevec

from .._forgetting.keys import AuditKey
from .._forgetting.multiset import MultisetHash
from .._forgetting.receipts import Receipt
from .._forgetting.records import canonical_json, encode_record
from .._record import Record
from .._store.survey import STEPS
from ..errors import ErasureIncompleteError, FormatError, KeysError, LethevecError, UnknownIdError
from .buckets import bucket_of
from .calling import Caller, Endpoint, Operation, RefusalError, Transport, UnreachableError
from .epoch import CollectionEntry, Epoch
from .keeping import read_json, write_json
from .ledger import Ledger
from .messages import Array, Message
from .records import pack_hits, pack_records, record_hash, unpack_batch, unpack_update
from .registry import REGISTRY
from .sealing import Secret
from .wiping import scrub_small_arrays

__all__ = ["Member"]

_ANY_SETUP = 1 << 62  # a member made what its folder holds
_PART = 2000  # records that are read, hashed or sent at a time


class Member:
    """One member of a cluster, on its folder."""

    def __init__(
        self,
        name: str,
        cluster: str,
        folder: Path,
        transport: Transport,
        secret: Secret,
        *,
        beat: float = 0.7,
        clock: Callable[[], float] = time.monotonic,
        drills: bool = False,
    ) -> None:
        """Open the folder; `start` makes it take part. `beat` is the time between two renewals of its lease.

        With `drills` it can be told to be slow.
        """
        self._name = name
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._set_time: float | None = None  # while an expiry runs, everybody's clock is that of the driver
        self._db = lethevec.connect(folder / "records", clock=self._now, max_setup=_ANY_SETUP)
        self._ledger = Ledger(folder / "erasures", self._db)
        self._caller = Caller(transport, cluster, secret, timeout=30.0)
        self._clock = clock
        self._beat = beat
        self._incarnation = secrets.token_hex(8)
        self._changing = threading.RLock()
        self._learning = threading.RLock()  # short: an epoch is taken up while a change goes on
        self._epoch: Epoch | None = None
        self._audit: AuditKey | None = None
        self._bucket_key = b""
        self._lease_until = 0.0
        self._foreign: set[str] = set()  # collections that may hold records of other shards' buckets
        self._stores: dict[str, lethevec.Store] = {}
        self._delay = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        kept = read_json(folder / "epoch.json")
        if kept is not None:
            self._epoch = Epoch.from_dict(kept["epoch"])
            self._foreign = set(kept["foreign"])
        questions: dict[str, Operation] = {
            "search": self._search,
            "radius": self._search_radius,
            "get": self._get,
            "page": self._page,
            "ids": self._ids,
            "count": self._count,
            "contains": self._contains,
            "subjects": self._subjects,
            "held": self._held,
            "sums": self._sums,
            "stats": self._stats,
            "expired": self._expired,
            "held-count": self._held_count,
            "held-among": self._held_among,
            "survey": self._survey,
            "sample": self._sample,
        }
        writes: dict[str, Operation] = {
            "add": self._add,
            "upsert": self._upsert,
            "update": self._update,
            "erase": self._erase,
            "release": self._release,
            "pull": self._pull,
            "empty": self._empty,
        }
        free: dict[str, Operation] = {
            "epoch": self._take_epoch,
            "state": self._state,
            "known": self._known,
            "run": self._run_pending,
            "hashes": self._hashes,
            "fetch": self._fetch,
            "bucket-sums": self._bucket_sums,
            "verify": self._verify,
        }
        if drills:
            free["slow"] = self._slow
        operations: dict[str, Operation] = dict(free)
        operations.update({op: self._question(one) for op, one in questions.items()})
        operations.update({op: self._write(one) for op, one in writes.items()})
        self.endpoint = Endpoint(name, cluster, secret, operations)

    # --- Taking part -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Announce itself to the registry, and keep a lease from then on."""
        self._thread = threading.Thread(target=self._live, name=f"lease-{self._name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop taking part, and close the folder."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(10)
        self._caller.close()
        with self._changing:
            self._db.close()

    def _live(self) -> None:
        announced = False
        while not self._stop.is_set():
            with suppress(UnreachableError, RefusalError, LethevecError):
                announced = self._renew() if announced else self._announce()
            self._stop.wait(self._beat if announced else 0.2)

    def _announce(self) -> bool:
        """Tell the registry that this process has begun; run what it says has to be erased first."""
        head = {**self._itself(), "key": self._db.public_key().hex(), "erased": self._ledger.newest()}
        answer = self._caller.call(REGISTRY, "announce", head, timeout=5.0).head
        self._learn(answer)
        if answer["pending"]:
            self._erase_pending(answer["pending"])
            answer = self._caller.call(REGISTRY, "announce", head, timeout=5.0).head
            self._learn(answer)
        return True

    def _itself(self) -> dict[str, Any]:
        """Who it is, and what it knows."""
        version, life = (0, "") if self._epoch is None else (self._epoch.version, self._epoch.life)
        return {"member": self._name, "incarnation": self._incarnation, "version": version, "life": life}

    def _learn(self, answer: Mapping[str, Any]) -> None:
        self._bucket_key = bytes.fromhex(answer["bucket_key"])
        self._audit = AuditKey(answer["audit"]["id"], bytes.fromhex(answer["audit"]["key"]))
        self._adopt(Epoch.from_dict(answer["epoch"]))

    def _renew(self) -> bool:
        asked = self._clock()  # the lease counts from before the question, so that it ends here before it ends there
        answer = self._caller.call(REGISTRY, "lease", self._itself(), timeout=5.0).head
        if "epoch" in answer:
            self._adopt(Epoch.from_dict(answer["epoch"]))
        if answer["seconds"] > 0:
            self._lease_until = asked + float(answer["seconds"])
            return True
        member = None if self._epoch is None else self._epoch.members.get(self._name)
        # Live, but without a lease: the registry was started again and does not know this process.
        return member is None or member.state != "live"

    def _adopt(self, epoch: Epoch) -> None:
        """Take an epoch up if it is newer; it is kept, so that the members' copies could replace a lost registry."""
        with self._learning:
            known = self._epoch
            if known is not None and known.cluster != epoch.cluster:
                raise KeysError(
                    f"{self._folder}: expected a folder of cluster {epoch.cluster}, got one of {known.cluster}"
                )
            if known is not None and epoch.version <= known.version:
                return
            if known is not None and not epoch.follows(known.version, known.life):
                raise RefusalError("newer", version=known.version)  # of a registry that was put back as it was before
            foreign = self._foreign & set(epoch.collections)
            if known is not None and known.buckets != epoch.buckets:
                foreign = set(epoch.collections)
            self._keep_epoch(epoch, foreign)
            if known is not None and known.erasures != epoch.erasures:
                self._caller.forget_keys()

    def _keep_epoch(self, epoch: Epoch, foreign: set[str]) -> None:
        with self._learning:
            write_json(self._folder / "epoch.json", {"epoch": epoch.to_dict(), "foreign": sorted(foreign)})
            self._epoch, self._foreign = epoch, foreign

    def _take_epoch(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        self._adopt(Epoch.from_dict(head["epoch"]))
        return {}

    def _now(self) -> float:
        return time.time() if self._set_time is None else self._set_time

    @property
    def epoch(self) -> Epoch:
        """The epoch that it knows."""
        if self._epoch is None:
            raise RefusalError("joining")
        return self._epoch

    # --- What it must not do -----------------------------------------------------------------------------------------

    def _question(self, operation: Operation) -> Operation:
        def guarded(head: dict[str, Any], arrays: list[Array]) -> Message | dict[str, Any]:
            if self._delay:
                self._stop.wait(self._delay)
            self._may_answer(head)
            answer = operation(head, arrays)
            self._may_answer(head)  # what was true when it began must be true when it ends
            return answer

        return guarded

    def _write(self, operation: Operation) -> Operation:
        def guarded(head: dict[str, Any], arrays: list[Array]) -> Message | dict[str, Any]:
            if self._delay:
                self._stop.wait(self._delay)
            if head.get("term") != self.epoch.term:
                raise RefusalError("term", term=self.epoch.term)
            self._same_version(head)
            return operation(head, arrays)

        return guarded

    def _same_version(self, head: Mapping[str, Any]) -> None:
        if head.get("version") != self.epoch.version:
            raise RefusalError("version", version=self.epoch.version)

    def _may_answer(self, head: Mapping[str, Any]) -> None:
        self._same_version(head)
        if self.epoch.members[self._name].state != "live" or self._clock() >= self._lease_until:
            raise RefusalError("lease")

    # --- Collections and buckets -------------------------------------------------------------------------------------

    def _store(self, head: Mapping[str, Any]) -> lethevec.Store:
        """The collection of a call, made if it is not there yet."""
        entry = self.epoch.collections.get(str(head.get("collection")))
        if entry is None:
            raise UnknownIdError("name: expected one of the collections, got one that is not there")
        return self._open(entry)

    def _open(self, entry: CollectionEntry) -> lethevec.Store:
        known = self._stores.get(entry.id)  # asking the catalog takes longer than a small search
        if known is None or known.closed:
            known = self._stores[entry.id] = self._db.collection(
                entry.id, dim=entry.dim, metric=entry.metric, index=entry.index, encrypt=entry.encrypt
            )
        return known

    def _owns(self, id: int | str) -> bool:
        return self.epoch.buckets[bucket_of(id, self._bucket_key)] == self.epoch.members[self._name].shard

    def _mixed(self, head: Mapping[str, Any]) -> bool:
        """Whether a collection may hold records of other shards' buckets, which are in no answer."""
        return str(head.get("collection")) in self._foreign

    # --- Questions ---------------------------------------------------------------------------------------------------

    def _search(self, head: dict[str, Any], arrays: Sequence[Array]) -> Message:
        store, k = self._store(head), head["k"]
        about = {name: head.get(name) for name in ("where", "subject", "radius")}
        about["threads"] = head.get("threads", 1)
        effort = float("inf") if head["effort"] is None else head["effort"]
        if not self._mixed(head) or not isinstance(k, int):
            return pack_hits(store.search(arrays[0], k, effort=effort, **about))
        # Ask for more until every query has k that are its own, or there are no more.
        wanted, most = k + 8, max(1, len(store))
        while True:
            found = pack_hits(store.search(arrays[0], min(wanted, most), effort=effort, **about), self._owns, k)
            if found.head["least"] >= k or wanted >= most:
                return found
            wanted *= 2

    def _search_radius(self, head: dict[str, Any], arrays: Sequence[Array]) -> Message:
        hits = self._store(head).search_radius(
            arrays[0], head["radius"], where=head.get("where"), subject=head.get("subject")
        )
        return pack_hits(hits, self._owns if self._mixed(head) else None)

    def _get(self, head: dict[str, Any], arrays: Sequence[Array]) -> Message:
        store = self._store(head)
        present = [id for id in head["ids"] if id in store and self._owns(id)]
        missing = [id for id in head["ids"] if id not in set(present)]
        return pack_records(store.get(present) if present else [], store.dim, missing=missing)

    def _page(self, head: dict[str, Any], arrays: Sequence[Array]) -> Message:
        store, limit = self._store(head), head.get("limit")
        about = {"where": head.get("where"), "subject": head.get("subject")}
        records: list[Record] = []
        after = head.get("after")
        while True:
            part = store.get(limit=limit, after=after, **about)
            records += [record for record in part if self._owns(record.id)]
            if not self._mixed(head) or limit is None or len(part) < limit or len(records) >= limit:
                return pack_records(records[:limit], store.dim)
            after = part[-1].id

    def _ids(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        ids = self._store(head).ids(head.get("where"), subject=head.get("subject"))
        return {"ids": [id for id in ids if self._owns(id)] if self._mixed(head) else ids}

    def _count(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        if self._mixed(head):
            return {"count": len(self._ids(head, arrays)["ids"])}
        return {"count": self._store(head).count(head.get("where"), subject=head.get("subject"))}

    def _contains(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        store = self._store(head)
        return {"there": [id in store and self._owns(id) for id in head["ids"]]}

    def _subjects(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        store, prefix, after = self._store(head), head["prefix"], head["after"]
        if not self._mixed(head):
            return {"subjects": store.subjects(prefix=prefix, after=after, limit=head["limit"])}
        found: Counter[str] = Counter()
        for record in store:
            subject = record.subject
            if subject is not None and subject.startswith(prefix) and self._owns(record.id):
                found[subject] += after is None or subject > after
        return {"subjects": {subject: count for subject, count in found.items() if count}}

    def _held_count(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        store = self._store(head)
        if not self._mixed(head):
            return {"count": store.held_count(head["subject"])}
        return {"count": sum(self._owns(record.id) for record in store.held_of(head["subject"]))}

    def _held(self, head: dict[str, Any], arrays: Sequence[Array]) -> Message:
        store = self._store(head)
        return pack_records([r for r in store.held_of(head["subject"]) if self._owns(r.id)], store.dim)

    def _sums(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """The sum that its part of a collection's digest is, and the configuration that belongs to it."""
        store = self._store(head)
        total = store.digest_sum()
        if self._mixed(head):
            sums = self._sum_buckets(store, None)
            shard = self.epoch.members[self._name].shard
            total = MultisetHash(total.configuration)
            for bucket, one in sums.items():
                if self.epoch.buckets[bucket] == shard:
                    total.merge(one)
        return {"configuration": total.configuration.decode(), "sum": total.to_bytes().hex()}

    def _expired(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        return {"count": self._store(head).expired()}

    def _held_among(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """One subject under legal hold among the records of these ids (None: of all), or among what is due."""
        store, ids = self._store(head), head["ids"]
        late: list[str] = []  # what is due is in no answer, and may be under hold

        def note(subject: str) -> bool:
            late.append(subject)
            return False

        store.due(note)
        found: set[str | None] = set(late)
        if ids is None:
            found.update(store.subjects())
        elif not head.get("due"):
            due = {record.id: record.subject for name in late for record in store.held_of(name)}
            present = store.get([id for id in ids if id in store])
            found = {due[id] for id in ids if id in due} | {record.subject for record in present}
        return {"subject": next((name for name in sorted(filter(None, found)) if self._is_held(name)), None)}

    def _is_held(self, subject: str) -> bool:
        return self._audit is not None and self._audit.tag_subject(subject) in self.epoch.held

    def _survey(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        store = self._store(head)
        if not self._mixed(head):
            counts = asdict(store.survey())
            last, parts = store.due_parts()
            return {"counts": {**counts, "due": None}, "last": last, "parts": list(parts.items())}
        mine = [record for record in store if self._owns(record.id)]
        times = [round(record.expires.timestamp() * 1000) for record in mine if record.expires is not None]
        counts = {
            "records": len(mine),
            "without_subject": sum(record.subject is None for record in mine),
            "without_vector": sum(record.vector is None for record in mine),
            "without_expiry": len(mine) - len(times),
            "expired": store.expired(),
        }
        spread = [(step, sorted(Counter(at // step for at in times).items())) for step in STEPS]
        return {"counts": counts, "last": max(times, default=None), "parts": spread}

    def _sample(self, head: dict[str, Any], arrays: Sequence[Array]) -> Message:
        """As many as the whole sample has: which of them are in it, all shards together say."""
        store, count = self._store(head), head["count"]
        about = {"where": head.get("where"), "subject": head.get("subject"), "seed": head["seed"]}
        most = count
        while True:
            found = [r for r in store.sample(most, **about) if self._owns(r.id)]
            if not self._mixed(head) or len(found) >= count or most >= len(store):
                return pack_records(found, store.dim)
            most *= 2

    def _stats(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        return {"stats": self._store(head).stats()}

    def _state(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """What an operator sees, and what a driver compares before it lets this member answer."""
        digests = {}
        if self._epoch is not None:
            for entry in self._epoch.collections.values():
                if entry.id in self._db:
                    store = self._open(entry)
                    digests[entry.id] = {"digest": store.digest(), "records": store.digest_sum().count}
        return {
            "incarnation": self._incarnation,
            "version": 0 if self._epoch is None else self._epoch.version,
            "term": 0 if self._epoch is None else self._epoch.term,
            "digests": digests,
            "lease": max(0.0, self._lease_until - self._clock()),
            "foreign": sorted(self._foreign),
            "waiting": self._db.pending_erasures(),
        }

    def _known(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """What a registry has to know that was put back from an older copy: the epoch, and the erasures since."""
        begun = self._ledger.begun(int(head["after"]))
        return {"epoch": None if self._epoch is None else self._epoch.to_dict(), "begun": list(begun.items())}

    def _slow(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """For drills: answer every question so many seconds later."""
        self._delay = float(head["seconds"])
        return {}

    # --- Changes -----------------------------------------------------------------------------------------------------

    def _add(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        with self._changing:
            self._store(head).add(**unpack_batch(head, arrays))
        return {}

    def _upsert(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        with self._changing:
            self._store(head).upsert(**unpack_batch(head, arrays))
        return {}

    def _update(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        with self._changing:
            self._store(head).update(**unpack_update(head, arrays))
        return {}

    # --- Erasures ----------------------------------------------------------------------------------------------------

    def _erase(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Carry out an erasure by its number. Sessions end with it: Ray still holds what came in them."""

        def erase() -> list[Receipt]:
            return self._carry_out(head, arrays)

        with self._changing:
            receipts = self._ledger.run(int(head["number"]), erase)
        self._forget_keys()
        return {"receipts": receipts}

    def _carry_out(self, head: dict[str, Any], arrays: Sequence[Array]) -> list[Receipt]:
        action = head["action"]
        options: dict[str, Any] = {"timeout": head.get("timeout")}
        everything = bool(head.get("search_all"))
        if action == "subject" and head.get("collection") is None:
            return [self._db.forget(subject=head["subject"], ignore_unknown=True, search_all=everything, **options)]
        if action == "drop":
            if str(head["collection"]) in self._db:
                return [self._db.drop(str(head["collection"]), **options)]
            return [self._nothing(options)]
        if action == "expire":
            self._set_time = float(head["at"])
            try:
                receipt = self._db.expire_except(self._is_held, **options)
            finally:
                self._set_time = None
            return [receipt or self._nothing(options)]
        entry = self.epoch.collections.get(str(head["collection"]))
        if entry is None:
            return [self._nothing(options)]
        store = self._open(entry)
        if action == "ids":
            return [store.forget(head["ids"], ignore_unknown=True, search_all=everything, **options)]
        if action == "subject":
            return [store.forget(subject=head["subject"], ignore_unknown=True, search_all=everything, **options)]
        mine = action in ("upsert", "update") and bool(head["ids"])
        if mine and action == "upsert":
            made = store.upsert(**unpack_batch(head, arrays), erase_old=True, **options)
        elif mine:
            made = store.update(**unpack_update(head, arrays), erase_old=True, **options)
        elif action in ("upsert", "update"):
            return [self._nothing(options)]
        else:
            raise FormatError(f"erasure: expected an action that is known, got {action!r:.40}")
        assert made is not None
        return [made]

    def _nothing(self, options: Mapping[str, Any]) -> Receipt:
        """A signed statement that there was nothing to erase here."""
        return self._db.forget(subject=f"nobody-{secrets.token_hex(16)}", ignore_unknown=True, **options)

    def _forget_keys(self) -> None:
        """What follows an erasure: keys end, and what libraries keep of earlier calls is overwritten."""
        self.endpoint.forget_keys()
        self._caller.forget_keys()
        self._stores = {id: store for id, store in self._stores.items() if not store.closed}  # what was dropped
        nobody = f"nobody-{secrets.token_hex(8)}"
        for name in self._db.collections():  # SQLite's statements keep what was bound to them until the next time
            store = self._db.collection(name)
            store.count(subject=nobody)
            store.ids(subject=nobody)
            store.get(subject=nobody, limit=1)
            store.held_of(nobody)
        gc.collect()  # what only points to itself is freed now, and overwritten with that
        scrub_small_arrays()

    def _run_pending(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Run the erasures that were begun while this member was away, if the turn comes while somebody waits for it:
        a process has so many threads, and they are needed for questions."""
        if not self._changing.acquire(timeout=float(head["seconds"])):
            raise RefusalError("busy")
        self._changing.release()
        self._erase_pending(head["pending"])
        return {}

    def _erase_pending(self, pending: Iterable[Mapping[str, Any]]) -> None:
        """By tags: what is to be erased was noted without naming it. Each is handed in when it is done.

        All are begun, whatever keeps one from its end: when `ErasureIncompleteError` comes, none of these records is in
        an answer.
        """
        if self._audit is None:
            raise RefusalError("joining")
        incomplete: ErasureIncompleteError | None = None
        for one in sorted(pending, key=lambda erasure: int(erasure["number"])):
            number, wanted = int(one["number"]), one["wanted"]

            def erase(wanted: Mapping[str, Any] = wanted) -> list[Receipt]:
                return self._erase_tagged(wanted)

            try:
                with self._changing:
                    receipts = self._ledger.run(number, erase)
            except ErasureIncompleteError as error:
                incomplete = error
                continue
            finally:
                self._forget_keys()
            self._caller.call(
                REGISTRY, "erased", {"number": number, "member": self._name, "receipts": receipts}, timeout=30.0
            )
        if incomplete is not None:
            raise incomplete

    def _erase_tagged(self, wanted: Mapping[str, Any]) -> list[Receipt]:
        """Erase every record whose id or subject has one of the tags, those that have expired as well."""
        assert self._audit is not None
        audit, made = self._audit, list[Receipt]()
        incomplete: list[ErasureIncompleteError] = []

        def erase(forget: Callable[[], Receipt]) -> None:
            """The next one is begun as well where this one cannot end."""
            try:
                made.append(forget())
            except ErasureIncompleteError as error:
                incomplete.append(error)

        wanted_ids, subject, collection = set(wanted["ids"]), wanted["subject"], wanted["collection"]
        if wanted.get("drop"):
            return [self._db.drop(collection) if collection in self._db else self._nothing({})]
        if wanted.get("at") is not None:
            self._set_time = float(wanted["at"])
            try:
                receipt = self._db.expire_except(self._is_held)
            finally:
                self._set_time = None
            return [receipt or self._nothing({})]
        if subject is not None:
            stores = [self._db.collection(name) for name in self._db.collections()]
            for name in sorted({name for store in stores for name in store.held_subjects()}):
                if audit.tag_subject(name) == subject:
                    if collection is None:
                        erase(partial(self._db.forget, subject=name, ignore_unknown=True))
                    elif collection in self._db:
                        erase(partial(self._db.collection(collection).forget, subject=name, ignore_unknown=True))
        if wanted_ids and collection in self._db:
            store = self._db.collection(collection)
            found = [id for id in store.held_ids() if audit.tag_id(id) in wanted_ids]
            if found:
                erase(partial(store.forget, found, ignore_unknown=True))
        if incomplete:
            raise incomplete[0]
        return made or [self._nothing({})]

    def _verify(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Check receipts of its own against its folder as it is now."""
        checks = []
        vectors = arrays[0] if arrays else None
        for fields in head["receipts"]:
            report = self._db.verify(fields, ids=head.get("ids"), subject=head.get("subject"), vectors=vectors)
            checks += [asdict(check) for check in report.checks]
        return {"checks": checks}

    # --- Comparing and copying ---------------------------------------------------------------------------------------

    def _records(self, store: lethevec.Store, buckets: set[int] | None) -> Iterator[tuple[int, Record]]:
        """Every record with its bucket, or those of some buckets."""
        for record in store:
            bucket = bucket_of(record.id, self._bucket_key)
            if buckets is None or bucket in buckets:
                yield bucket, record

    def _sum_buckets(self, store: lethevec.Store, buckets: set[int] | None) -> dict[int, MultisetHash]:
        configuration = store.digest_sum().configuration
        sums: dict[int, MultisetHash] = {}
        for bucket, record in self._records(store, buckets):
            if bucket not in sums:
                sums[bucket] = MultisetHash(configuration)
            sums[bucket].add([encoded(record)])
        return sums

    def _bucket_sums(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """A digest for each bucket that has records: what two members compare without sending any."""
        buckets = None if head.get("buckets") is None else set(map(int, head["buckets"]))
        sums = self._sum_buckets(self._store(head), buckets)
        return {"sums": {str(bucket): one.digest() for bucket, one in sums.items()}}

    def _hashes(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """The ids of some buckets, each with a hash of its record."""
        wanted = set(map(int, head["buckets"]))
        found = [(record.id, record_hash(encoded(record))) for _, record in self._records(self._store(head), wanted)]
        return {"hashes": found}

    def _fetch(self, head: dict[str, Any], arrays: Sequence[Array]) -> Message:
        """Records by id, for another member; those that are gone by now are left out."""
        store = self._store(head)
        return pack_records(store.get([id for id in head["ids"] if id in store]), store.dim)

    def _pull(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Make some buckets of a collection equal to those of another member: what is not there is erased.

        The turn is held from fetching records to putting them down. An erasure that comes in between waits, and then
        finds them here.
        """
        store, source = self._store(head), str(head["source"])
        buckets = set(map(int, head["buckets"]))
        shard = self.epoch.members[self._name].shard
        if any(self.epoch.buckets[bucket] != shard for bucket in buckets):
            with self._learning:
                self._keep_epoch(self.epoch, self._foreign | {str(head["collection"])})
        about = {"collection": head["collection"]}
        theirs = self._caller.call(source, "bucket-sums", {**about, "buckets": sorted(buckets)}, timeout=600.0).head
        mine = {str(bucket): one.digest() for bucket, one in self._sum_buckets(store, buckets).items()}
        different = [b for b in sorted(buckets) if mine.get(str(b)) != theirs["sums"].get(str(b))]
        copied = erased = 0
        for at in range(0, len(different), 16):
            part = different[at : at + 16]
            wanted = dict(self._ask(source, "hashes", {**about, "buckets": part})["hashes"])
            here = {r.id: record_hash(encoded(r)) for _, r in self._records(store, set(part))}
            gone = [id for id in here if id not in wanted]
            if gone:
                with self._changing:
                    store.forget(gone, ignore_unknown=True)
                erased += len(gone)
            changed = [id for id, value in wanted.items() if here.get(id) != value]
            for begin in range(0, len(changed), _PART):
                copied += self._copy(store, source, str(head["collection"]), changed[begin : begin + _PART], here)
        return {"copied": copied, "erased": erased, "different": len(different)}

    def _copy(
        self, store: lethevec.Store, source: str, collection: str, ids: Sequence[int | str], here: Mapping[Any, str]
    ) -> int:
        with self._changing:
            answer = self._caller.call(source, "fetch", {"collection": collection, "ids": list(ids)}, timeout=60.0)
            if answer.head["ids"]:
                old = any(id in here for id in answer.head["ids"])
                store.upsert(**unpack_batch(answer.head, answer.arrays), erase_old=old)
            return len(answer.head["ids"])

    def _ask(self, source: str, op: str, head: Mapping[str, Any]) -> dict[str, Any]:
        return self._caller.call(source, op, head, timeout=600.0).head

    def _release(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Erase what belongs to other shards, with a receipt for each collection that had something."""
        receipts = []
        with self._changing:
            for entry in self.epoch.collections.values():
                if entry.id not in self._foreign:
                    continue
                if entry.id in self._db:
                    store = self._open(entry)
                    gone = [id for id in store.ids() if not self._owns(id)]
                    if gone:
                        receipts.append(store.forget(gone, ignore_unknown=True).fields)
            with self._learning:
                self._keep_epoch(self.epoch, set())
        if receipts:
            self._forget_keys()
        return {"receipts": receipts}

    def _empty(self, head: dict[str, Any], arrays: Sequence[Array]) -> dict[str, Any]:
        """Erase everything, because another member holds it too and this one leaves the cluster."""
        with self._changing:
            receipts = [self._db.drop(name).fields for name in self._db.collections()]
        self._forget_keys()
        return {"receipts": receipts}


def encoded(record: Record) -> bytes:
    """The encoding of a record that digests are made of."""
    vector = None if record.vector is None else np.ascontiguousarray(record.vector, dtype="<f4").tobytes()
    payload = None if record.payload is None else canonical_json(record.payload)
    expires = None if record.expires is None else round(record.expires.timestamp() * 1000)
    return encode_record(record.id, vector, record.subject, payload, expires)
