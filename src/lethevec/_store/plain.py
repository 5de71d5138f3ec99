"""Records in the clear: `records` beside `vectors`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .._forgetting.multiset import MultisetHash
from .._forgetting.residue import Needle, Source
from ..errors import FormatError
from .batch import Stored
from .image import has_image
from .lookup import in_parts, marks
from .tables import BUCKET, KEPT, LARGEST, Read, note_removals, require_ascending

__all__ = ["PlainTables"]

_COLUMNS = "r.slot, r.number, r.name, r.subject, r.payload, v.vector, r.expires"
_FROM = "FROM records AS r JOIN vectors AS v ON v.slot = r.slot"
# A row's texts lie side by side in its cell: the end of one and the beginning of the next may spell a forgotten id.
_TEXTS = "(ifnull(name, '') || ifnull(subject, '') || ifnull(payload, ''))"


class PlainTables:
    """The tables of a store that is not sealed."""

    sealed = False
    main_table = "main.records"
    living: tuple[tuple[str, str, str], ...] = (("records", "slot", _TEXTS), ("vectors", "slot", "vector"), *KEPT)

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        """Over the connection of an open store."""
        self.connection = connection
        self.path = path
        self.has_image = has_image(connection)

    def insert(self, records: Sequence[Stored]) -> None:
        """Write records into their slots."""
        _insert(self.connection, records)

    def delete(self, slots: Sequence[int], version: int) -> None:
        """Delete the records of these slots, and note for readers in which buckets they were."""
        note_removals(self.connection, slots, version)
        self.drop_image()  # it knows of these records
        for table in ("records", "vectors"):
            self.connection.executemany(f"DELETE FROM {table} WHERE slot = ?", ((slot,) for slot in slots))

    def read_slots(self, slots: Sequence[int]) -> Iterator[Stored]:
        """The records of these slots, by ascending slot within each part."""
        for part in in_parts(sorted(slots)):
            sql = f"SELECT {_COLUMNS} {_FROM} WHERE r.slot IN ({marks(part)}) ORDER BY r.slot"
            yield from _stored(self.connection.execute(sql, part).fetchall())

    def read_from(self, number: int, limit: int) -> list[Stored]:
        """Up to `limit` records with numbers from this one on, by ascending number."""
        if number > LARGEST:  # one more than that of the last record
            return []
        sql = f"SELECT {_COLUMNS} {_FROM} WHERE r.number >= ? ORDER BY r.number LIMIT ?"
        found = _stored(self.connection.execute(sql, (number, limit)).fetchall())
        require_ascending([record.number for record in found], number)
        return found

    def read_new(self, after: int, limit: int) -> Read | None:
        """Up to `limit` records above a slot, by ascending slot; None if there are none."""
        sql = (
            "SELECT v.slot, r.number, v.vector FROM vectors AS v JOIN records AS r ON r.slot = v.slot "
            "WHERE v.slot > ? ORDER BY v.slot LIMIT ?"
        )
        part = self.connection.execute(sql, (after, limit)).fetchall()
        if not part:
            return None
        slots, numbers, vectors = map(list, zip(*part, strict=True))
        require_ascending(slots, after + 1)
        return Read(slots[-1], slots, numbers, vectors)

    def newer(self, slot: int) -> bool:
        """Whether there is a record above this slot."""
        sql = f"SELECT 1 {_FROM} WHERE r.slot > ? LIMIT 1"
        return self.connection.execute(sql, (slot,)).fetchone() is not None

    def slots_in(self, bucket: int) -> list[int]:
        """The slots of a bucket that have a record, ascending."""
        sql = "SELECT slot FROM records WHERE slot >= ? AND slot < ? ORDER BY slot"
        return [slot for (slot,) in self.connection.execute(sql, (bucket * BUCKET, (bucket + 1) * BUCKET))]

    def drop(self, slots: Sequence[int]) -> None:
        """Nothing to do: no copy of them is in memory."""

    def loaded(self) -> None:
        """Nothing to do."""

    def lost(self) -> list[int]:
        """None: there are no keys that could be gone."""
        return []

    def keep_digest(self, digest: MultisetHash, *, renew: bool) -> bytes:
        """The state as it is."""
        return digest.to_bytes()

    def read_digest(self, kept: bytes) -> bytes | None:
        """The state as it is."""
        return kept

    def shred(self, records: Sequence[Stored]) -> None:
        """Nothing to do: they have no keys."""

    def destroy_keys(self) -> None:
        """Nothing to do."""

    def unlist_keys(self) -> None:
        """Nothing to do."""

    def mark(self) -> None:
        """Everything is in the tables."""

    def undo(self, mark: Any) -> None:
        """Nothing to do: SQLite has done it."""

    def before_commit(self) -> None:
        """Nothing to do."""

    def wrap(self, slots: Sequence[int], codes: Sequence[bytes]) -> list[bytes]:
        """As they are."""
        return list(codes)

    def unwrap(self, found: Sequence[tuple[int, bytes]]) -> dict[int, bytes]:
        """As they are."""
        return dict(found)

    def wrap_image(self, image: bytes) -> bytes:
        """As it is."""
        return image

    def unwrap_image(self, kept: bytes) -> bytes | None:
        """As it is."""
        return kept

    def drop_image(self) -> None:
        """Delete it."""
        if self.has_image:
            self.connection.execute("DELETE FROM main.image")

    def traces(self, record: Stored) -> list[Needle]:
        """Nothing."""
        return []

    def files(self) -> list[Path]:
        """None."""
        return []

    def rewritten(self) -> list[Source]:
        """None."""
        return []

    def copy_to(self, target: sqlite3.Connection, part: int) -> Iterator[int]:
        """Write all records to a backup by ascending number, in slots from 1, part by part; how many each time."""
        number, slot = 0, 1
        while found := self.read_from(number, part):
            _insert(target, [record._replace(slot=slot + place) for place, record in enumerate(found)])
            slot += len(found)
            number = found[-1].number + 1
            yield len(found)

    def close(self) -> None:
        """Nothing to do."""


def _insert(connection: sqlite3.Connection, records: Sequence[Stored]) -> None:
    connection.executemany(
        "INSERT INTO records (slot, number, name, subject, payload, expires) VALUES (?, ?, ?, ?, ?, ?)",
        (record.columns() for record in records),
    )
    connection.executemany(
        "INSERT INTO vectors (slot, vector) VALUES (?, ?)", ((r.slot, r.vector or b"") for r in records)
    )


def _stored(found: list[Any]) -> list[Stored]:
    """Rows as records; types that we never write mean a damaged file."""
    for slot, number, name, subject, payload, vector, expires in found:
        texts = all(text is None or type(text) is str for text in (name, subject, payload))
        times = expires is None or type(expires) is int
        if type(slot) is not int or type(number) is not int or type(vector) is not bytes or not texts or not times:
            raise FormatError("records: expected integers, texts and bytes in their columns, got others: damaged")
    return [
        Stored(slot, number, name, subject, payload, vector or None, expires=expires)
        for slot, number, name, subject, payload, vector, expires in found
    ]
