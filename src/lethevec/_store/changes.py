"""Changes of records: tables, digest, index in memory and kept codes together, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._hashing.parameters import boolean
from .._progress import Progress
from .._record import Keep
from ..errors import IdError
from .batch import Batch, Stored, check_payloads, check_subjects, make_batch, merged
from .codes import Codes
from .ids import check_ids
from .lookup import expired, known_slots, locate, occupied
from .mirror import Mirror
from .retention import Retention
from .rules import Rules
from .schema import State
from .session import Session, Transaction

__all__ = ["Changes", "Note", "Update"]

I64 = npt.NDArray[np.int64]
_PART = 2000  # records held at once

#: Who is told which records go, before they do.
Note = Callable[[Sequence[Stored]], None]


class Update:
    """What is to be replaced, checked: None for a part that stays as it is."""

    def __init__(
        self,
        dim: int,
        metric: str,
        ids: Any,
        vectors: Any,
        subjects: Any,
        payloads: Any,
        expires: Callable[[int], list[int | None]] | None = None,
        *,
        merge: bool = False,
        keep_vectors: bool | str = True,
    ) -> None:
        """Check what a caller gave; with `merge`, payloads are merged with those that are there."""
        if ids is None:
            raise IdError("ids: expected the ids of the records to update, got none")
        self.ids, self.numbers = check_ids(ids)
        n = len(self.ids)
        self.given = None
        if not isinstance(vectors, Keep):
            self.given = make_batch(dim, metric, vectors, self.ids, None, None, keep_vectors=keep_vectors)
        self.subjects = None if isinstance(subjects, Keep) else check_subjects(subjects, n)
        self.payloads = None if isinstance(payloads, Keep) else check_payloads(payloads, n)
        self.expires = None if expires is None else expires(n)
        self._merge = boolean("merge", merge)

    def of(self, old: Sequence[Stored], first_slot: int) -> list[Stored]:
        """The records as they are to be: in new slots, so that readers see them as new ones; under their old keys, so
        that destroying one reaches the old version of its record too, in copies made before."""
        vectors = None if self.given is None else [record.vector for record in self.given.stored(0)]
        return [
            record._replace(
                slot=first_slot + place,
                subject=record.subject if self.subjects is None else self.subjects[place],
                payload=self._payload(record, place),
                vector=record.vector if vectors is None else vectors[place],
                sealed=None,
                expires=record.expires if self.expires is None else self.expires[place],
            )
            for place, record in enumerate(old)
        ]

    def _payload(self, old: Stored, place: int) -> str | None:
        if self.payloads is None:
            return old.payload
        return merged(old.payload, self.payloads[place]) if self._merge else self.payloads[place]


class Changes:
    """Adds, replaces and deletes. The caller holds the guard."""

    def __init__(self, session: Session, mirror: Mirror, codes: Codes, rules: Rules, retention: Retention) -> None:
        """Of an open store."""
        self._retention = retention
        self._rules = rules
        self._session = session
        self._mirror = mirror
        self._codes = codes

    def add(self, batches: Iterable[Batch], total: int | None = None) -> int:
        """Add records in one transaction; their number."""
        added = 0
        with Progress(total, "adding", unit="records") as progress, self._session.transaction() as transaction:
            for batch in batches:
                self._make_room(transaction, batch)
                self._insert(transaction, batch)
                added += len(batch)
                progress.advance(len(batch))
        return added

    def _insert(self, transaction: Transaction, batch: Batch) -> None:
        self._rules.may_write(batch.subjects)
        self._retention.stale = True
        state = transaction.write()
        stored = list(batch.stored(state.next_slot))
        self._session.tables.insert(stored)
        state.digest.add(record.encoding() for record in stored)
        state.next_slot += len(stored)
        # The index goes before the commit: what it refuses must not be committed.
        numbers = batch.numbers[batch.placed]
        self._mirror.enter(numbers, batch.vectors, np.delete(batch.numbers, batch.placed).tolist())
        self._codes.put([stored[place].slot for place in batch.placed.tolist()], batch.vectors, numbers)

    def _make_room(self, transaction: Transaction, batch: Batch) -> None:
        """Refuse ids that are there. Those of records that have expired are free: what is left of them goes."""
        taken = occupied(self._session.connection, batch.numbers.tolist())
        if taken and (gone := expired(self._session.connection, taken)):
            self._remove(transaction.write(forgets=True), self._read(gone))
            taken = occupied(self._session.connection, batch.numbers.tolist())
        if taken:
            place = int(np.flatnonzero(batch.numbers == taken[0])[0])
            raise IdError(
                f"ids: expected new ids, got {batch.ids[place]!r}, which is there already "
                f"({len(taken)} of {len(batch)} are); update replaces"
            )

    def update(self, update: Update, note: Note | None = None) -> None:
        """Replace parts of records in one transaction; `note` is told what they were, which is then to be erased."""
        session = self._session
        with session.transaction() as transaction:
            slots = known_slots(session.connection, update.ids)
            if slots:
                old = self._read(slots)
                new = update.of(old, session.state.next_slot)
                self._replace(transaction, old, new, vectors_too=update.given is not None, note=note)

    def upsert(self, batch: Batch, note: Note | None = None) -> None:
        """Add records, or put them in the place of those with the same ids, in one transaction."""
        session = self._session
        with session.transaction() as transaction:
            slots = locate(session.connection, batch.ids)
            there = [place for place, slot in enumerate(slots) if slot is not None]
            new = [place for place, slot in enumerate(slots) if slot is None]
            if new:
                added = batch.part(new)
                self._make_room(transaction, added)
                self._insert(transaction, added)
            if there:
                old = self._read([slot for slot in slots if slot is not None])
                stored = batch.part(there).stored(session.state.next_slot)
                kept = [record._replace(key=before.key) for record, before in zip(stored, old, strict=True)]
                self._replace(transaction, old, kept, vectors_too=True, note=note)

    def _read(self, slots: Sequence[int]) -> list[Stored]:
        found = {record.slot: record for record in self._session.tables.read_slots(slots)}
        return [found[slot] for slot in slots]

    def _replace(
        self,
        transaction: Transaction,
        old: Sequence[Stored],
        new: Sequence[Stored],
        *,
        vectors_too: bool,
        note: Note | None,
    ) -> None:
        self._retention.stale = True
        self._rules.may_change(record.subject for record in old)
        self._rules.may_write(now.subject for was, now in zip(old, new, strict=True) if now.subject != was.subject)
        state = transaction.write(forgets=note is not None)
        slots = [record.slot for record in old]
        if note is not None:
            note(old)
            self._session.tables.shred(old)
            new = [record._replace(key=None) for record in new]  # the old key goes with what it sealed
        self._session.tables.delete(slots, state.version)
        self._codes.delete(slots)
        self._session.tables.insert(new)
        state.digest.remove(record.encoding() for record in old)
        state.digest.add(record.encoding() for record in new)
        state.next_slot += len(new)
        whole = [record for record in new if record.vector is not None]
        numbers, vectors = self._mirror.arrays(whole)
        if vectors_too:
            bare = [record.number for record in new if record.vector is None]
            self._mirror.enter(numbers, vectors, bare, replacing=True)
        else:
            self._mirror.entered([record.number for record in new])
        self._codes.follow_gain()
        self._codes.put([record.slot for record in whole], vectors, numbers)
        vectors.fill(0)  # a copy

    def _remove(self, state: State, records: Sequence[Stored]) -> None:
        self._rules.may_change(record.subject for record in records)
        slots = [record.slot for record in records]
        state.digest.remove(record.encoding() for record in records)
        self._session.tables.shred(records)
        self._session.tables.delete(slots, state.version)
        self._codes.delete(slots)
        self._mirror.leave(np.array([record.number for record in records], dtype=np.int64))

    def delete(self, slots: Sequence[int], before: Note) -> None:
        """Delete records in one transaction, in parts, so that memory stays bounded. `before` sees each part."""
        tables = self._session.tables
        self._retention.stale = True
        numbers: list[int] = []
        with self._session.transaction() as transaction, Progress(len(slots), "forgetting", unit="records") as progress:
            state = transaction.write(forgets=True)
            for start in range(0, len(slots), _PART):
                part = slots[start : start + _PART]
                stored = list(tables.read_slots(part))
                self._rules.may_change(record.subject for record in stored)
                state.digest.remove(record.encoding() for record in stored)
                before(stored)
                numbers += [record.number for record in stored]
                tables.shred(stored)
                tables.delete(part, state.version)
                self._codes.delete(part)
                progress.advance(len(part))
            self._mirror.leave(np.array(numbers, dtype=np.int64))
            self._codes.follow_gain()
