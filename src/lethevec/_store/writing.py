"""Putting records in, and replacing parts of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .._progress import Progress
from ..errors import IdError
from . import rows
from .ids import check_ids
from .reading import ReadingStore
from .rows import Batch

__all__ = ["KEEP", "WritingStore"]


class _Keep:
    """Says "leave this part of the record as it is"."""

    def __repr__(self) -> str:
        return "KEEP"


KEEP = _Keep()


class WritingStore(ReadingStore):
    """The operations that add and replace."""

    def add(self, vectors: npt.ArrayLike, *, ids: Any, subjects: Any = None, payloads: Any = None) -> None:
        """Add records in one transaction. Ids that are there already are refused, and then nothing is added."""
        batch = rows.make_batch(self.dim, self.metric, vectors, ids, subjects, payloads)
        self._add([batch], None)

    def load(self, batches: Iterable[Mapping[str, Any]], *, total: int | None = None) -> int:
        """Add many records in one transaction and bounded memory, with a progress line; the number of records.

        Each batch is a mapping with the arguments of `add`: `vectors`, `ids`, and perhaps `subjects` and `payloads`.
        """
        made = (
            rows.make_batch(self.dim, self.metric, b["vectors"], b["ids"], b.get("subjects"), b.get("payloads"))
            for b in batches
        )
        return self._add(made, total)

    def _add(self, batches: Iterable[Batch], total: int | None) -> int:
        session = self._session
        added: list[npt.NDArray[np.int64]] = []
        with session.guard, Progress(total, "adding", unit="records") as progress:
            self._settle()
            row = replace(session.row, digest=session.row.digest.copy(), version=session.row.version + 1)
            try:
                with session.transaction():
                    for batch in batches:
                        self._refuse_present(batch)
                        stored = list(batch.stored(row.next_slot))
                        session.tables.insert(stored)
                        row.digest.add(record.encoding() for record in stored)
                        row.next_slot += len(stored)
                        # The index goes first: what it refuses must not be committed.
                        self._mirror.engine.add(batch.vectors, ids=batch.rows)
                        added.append(batch.rows)
                        self._put_codes([record.slot for record in stored], batch.vectors, batch.rows)
                        progress.advance(len(batch))
                    session.write_row(row)
            except BaseException:
                if session.committed:
                    session.row = row
                else:
                    for undone in added:
                        self._mirror.engine.forget(undone)
                raise
            session.row = row
            self._empty_long_log()
            self._fill_codes()
        return sum(len(part) for part in added)

    def _refuse_present(self, batch: Batch) -> None:
        taken = rows.occupied(self._session.connection, batch.rows.tolist())
        if taken:
            place = int(np.flatnonzero(batch.rows == taken[0])[0])
            raise IdError(
                f"ids: expected new ids, got {batch.ids[place]!r}, which is there already "
                f"({len(taken)} of {len(batch)} are); update replaces"
            )

    def update(self, *, ids: Any, vectors: Any = KEEP, subjects: Any = KEEP, payloads: Any = KEEP) -> None:
        """Replace parts of records in one transaction. What is not given stays; None takes a subject or payload off."""
        checked, row_numbers = check_ids(ids)
        n = len(checked)
        given = (
            None if vectors is KEEP else rows.make_batch(self.dim, self.metric, vectors, checked, None, None).vectors
        )
        new_subjects = None if subjects is KEEP else rows.check_subjects(subjects, n)
        new_payloads = None if payloads is KEEP else rows.check_payloads(payloads, n)
        session = self._session
        with session.guard:
            self._settle()
            row = replace(session.row, digest=session.row.digest.copy(), version=session.row.version + 1)
            before: npt.NDArray[np.float32] | None = None
            try:
                with session.transaction():
                    slots = self._known_slots(checked)
                    found = {record.slot: record for record in session.tables.read_slots(slots)}
                    old = [found[slot] for slot in slots]
                    _, old_vectors = rows.to_arrays([r.row for r in old], [r.vector for r in old], self.dim, self.path)
                    batch = Batch(
                        checked,
                        row_numbers,
                        old_vectors if given is None else given,
                        [r.subject for r in old] if new_subjects is None else new_subjects,
                        [r.payload for r in old] if new_payloads is None else new_payloads,
                    )
                    # The old key, so that destroying it reaches the old version too, in copies made before.
                    numbers = [record.number for record in old]
                    stored = [
                        record._replace(number=number)
                        for record, number in zip(batch.stored(row.next_slot), numbers, strict=True)
                    ]
                    # New slots, so that readers see replaced records as new ones.
                    session.tables.delete(slots, row.version)
                    session.tables.insert(stored)
                    row.digest.remove(record.encoding() for record in old)
                    row.digest.add(record.encoding() for record in stored)
                    row.next_slot += n
                    if given is not None:
                        self._mirror.engine.update(given, ids=row_numbers)
                        before = old_vectors
                    self._put_codes([record.slot for record in stored], batch.vectors, row_numbers)
                    session.write_row(row)
            except BaseException:
                if session.committed:
                    session.row = row
                elif before is not None:
                    self._mirror.engine.update(before, ids=row_numbers)
                raise
            session.row = row
            self._empty_long_log()
            self._fill_codes()
