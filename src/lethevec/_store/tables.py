"""How records lie in the tables: as they are (`PlainTables`); `sealed` has the other way.

Everything here runs inside the caller's transaction. What only reads `records` (ids, subjects, filters) is in `rows`,
and is the same for both.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .._forgetting.multiset import MultisetHash
from .._forgetting.residue import Needle, Source
from ..errors import FormatError
from .codes import CodeTable
from .rows import Stored, in_parts, marks

__all__ = ["BUCKET", "KEPT", "PlainTables", "Read"]

BUCKET = 4096  # slots
_COLUMNS = "r.slot, r.row, r.name, r.subject, r.payload, v.vector"
_FROM = "FROM records AS r JOIN vectors AS v ON v.slot = r.slot"
# A row's texts lie side by side in its cell: the end of one and the beginning of the next may spell a forgotten id.
_TEXTS = "(ifnull(name, '') || ifnull(subject, '') || ifnull(payload, ''))"
# Table, key, column: everything that a file may hold of living rows. What is found there too is theirs.
KEPT = (
    ("receipts", "sequence", "receipt"),
    ("erasures", "number", "draft"),
    ("store", "", "configuration"),
    ("main.sqlite_master", "", "sql"),
    ("main.sqlite_master", "", "name"),
)


class Read(NamedTuple):
    """Some records as the index wants them, and the last slot that was looked at."""

    last: int
    slots: list[int]
    rows: list[int]
    vectors: list[bytes]


class PlainTables:
    """Records in the clear: `records` beside `vectors`."""

    sealed = False
    _living: tuple[tuple[str, str, str], ...] = (("records", "slot", _TEXTS), ("vectors", "slot", "vector"), *KEPT)

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        """Over the connection of an open store."""
        self.connection = connection
        self.path = path
        self.codes = CodeTable(self)

    @property
    def living(self) -> tuple[tuple[str, str, str], ...]:
        """Table, key and column of everything that living records have in files."""
        return (*((name, "slot", "code") for name in self.codes.names), *self._living)

    def insert(self, records: Sequence[Stored]) -> None:
        """Write records into their slots."""
        self.connection.executemany(
            "INSERT INTO records (slot, row, name, subject, payload) VALUES (?, ?, ?, ?, ?)", (r[:5] for r in records)
        )
        self.connection.executemany(
            "INSERT INTO vectors (slot, vector) VALUES (?, ?)", ((r.slot, r.vector) for r in records)
        )

    def delete(self, slots: Sequence[int], version: int) -> None:
        """Delete the records of these slots, and note for readers in which buckets they were."""
        buckets = sorted({slot // BUCKET for slot in slots})
        self.connection.executemany("REPLACE INTO removals VALUES (?, ?)", ((bucket, version) for bucket in buckets))
        for table in ("records", "vectors", *self.codes.names):
            self.connection.executemany(f"DELETE FROM {table} WHERE slot = ?", ((slot,) for slot in slots))

    def read_slots(self, slots: Sequence[int]) -> Iterator[Stored]:
        """The records of these slots, by ascending slot within each part."""
        for part in in_parts(sorted(slots)):
            sql = f"SELECT {_COLUMNS} {_FROM} WHERE r.slot IN ({marks(part)}) ORDER BY r.slot"
            yield from self._stored(self.connection.execute(sql, part).fetchall())

    def read_from_row(self, row: int, limit: int) -> list[Stored]:
        """Up to `limit` records with rows from this one on, by ascending row."""
        sql = f"SELECT {_COLUMNS} {_FROM} WHERE r.row >= ? ORDER BY r.row LIMIT ?"
        return self._stored(self.connection.execute(sql, (row, limit)).fetchall())

    def read_new(self, after: int, limit: int) -> Read | None:
        """Up to `limit` records above a slot, by ascending slot; None if there are none."""
        sql = (
            "SELECT v.slot, r.row, v.vector FROM vectors AS v JOIN records AS r ON r.slot = v.slot "
            "WHERE v.slot > ? ORDER BY v.slot LIMIT ?"
        )
        part = self.connection.execute(sql, (after, limit)).fetchall()
        if not part:
            return None
        slots, rows, vectors = map(list, zip(*part, strict=True))
        return Read(slots[-1], slots, rows, vectors)

    def newer(self, slot: int) -> bool:
        """Whether there is a record above this slot."""
        return self.connection.execute("SELECT 1 FROM vectors WHERE slot > ? LIMIT 1", (slot,)).fetchone() is not None

    def slots_in(self, bucket: int) -> list[int]:
        """The slots of a bucket that have a record, ascending."""
        sql = "SELECT slot FROM records WHERE slot >= ? AND slot < ? ORDER BY slot"
        return [slot for (slot,) in self.connection.execute(sql, (bucket * BUCKET, (bucket + 1) * BUCKET))]

    def drop(self, slots: Sequence[int]) -> None:
        """A reader has noticed that these records are gone."""

    def loaded(self) -> None:
        """All records have been read."""

    def lost(self) -> list[int]:
        """Slots of records that are there and cannot be read, because their keys are gone."""
        return []

    def keep_state(self, digest: MultisetHash, *, renew: bool) -> bytes:
        """The state of the digest as the table `store` keeps it; `renew` makes earlier copies of it unreadable."""
        return digest.to_bytes()

    def read_state(self, kept: bytes) -> bytes | None:
        """What `keep_state` was given; None if nobody can tell any more."""
        return kept

    def shred(self, records: Sequence[Stored]) -> None:
        """Note that the keys of these records are to be destroyed, in the transaction that deletes them."""

    def destroy_keys(self) -> None:
        """Destroy the keys that were noted."""

    def settle(self) -> None:
        """Take destroyed keys off the list, in the transaction that signs for them."""

    def begin(self) -> None:
        """A write transaction has begun."""
        self.codes.begin()

    def before_commit(self) -> None:
        """A write transaction is about to be committed."""

    def undo(self) -> None:
        """It was rolled back."""
        self.codes.undo()

    def wrap(self, slots: Sequence[int], codes: Sequence[bytes]) -> list[bytes]:
        """The codes of these slots as their table has them."""
        return list(codes)

    def unwrap(self, found: Sequence[tuple[int, bytes]]) -> dict[int, bytes]:
        """The codes by slot, of those that can be read."""
        return dict(found)

    def traces(self, record: Stored) -> list[Needle]:
        """What a record leaves in files besides its own parts."""
        return [Needle("code", code) for code in self.codes.as_kept(record.slot)]

    def files(self) -> list[Path]:
        """Further files that are to be searched for residue."""
        return []

    def rewritten(self) -> list[Source]:
        """The parts of those files that an erasure rewrote."""
        return []

    def copy_to(self, target: PlainTables, part: int) -> Iterator[int]:
        """Write all records to a backup in its canonical order, part by part; how many each time."""
        row, slot = 0, 1
        while found := self.read_from_row(row, part):
            target.insert([record._replace(slot=slot + place) for place, record in enumerate(found)])
            slot += len(found)
            row = found[-1].row + 1
            yield len(found)

    def close(self) -> None:
        """Give up what else is open."""

    def _stored(self, found: list[Any]) -> list[Stored]:
        """Rows as records; types that we never write mean a damaged file."""
        for slot, row, name, subject, payload, vector in found:
            texts = all(text is None or type(text) is str for text in (name, subject, payload))
            if type(slot) is not int or type(row) is not int or type(vector) is not bytes or not texts:
                raise FormatError("records: expected integers, texts and bytes in their columns, got others: damaged")
        return [Stored(*row) for row in found]
