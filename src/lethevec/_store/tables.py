"""Records in the tables, behind one interface: in the clear (`plain`) or sealed (`sealed`).

Whoever is above does not know which. Everything runs inside the caller's transaction. What only reads `records` (ids,
subjects, filters) is in `lookup`, and is the same for both.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from .._forgetting.multiset import MultisetHash
from .._forgetting.residue import Needle, Source
from ..errors import FormatError
from .batch import Stored

__all__ = ["BUCKET", "KEPT", "LARGEST", "Read", "RecordTables", "note_removals", "require_ascending"]

BUCKET = 4096  # slots
LARGEST = (1 << 63) - 1  # of SQLite's integers
# Table, key, column: everything that a file may hold besides records. What is found there too is no residue.
KEPT = (
    ("receipts", "sequence", "receipt"),
    ("erasures", "number", "draft"),
    ("store", "", "configuration"),
    ("main.sqlite_master", "", "sql"),
    ("main.sqlite_master", "", "name"),
)


def require_ascending(keys: Sequence[Any], least: int) -> None:
    """Refuse rows that are out of order: who reads on after the last one of them might never come to an end."""
    if not set(map(type, keys)) <= {int}:
        raise FormatError("records: expected integers for keys, got others: the file is damaged")
    if keys and (keys[0] < least or any(after <= before for before, after in pairwise(keys))):
        raise FormatError("records: expected rows by ascending keys, got others: the file is damaged")


class Read(NamedTuple):
    """Some records as the index wants them, and the last slot that was looked at."""

    last: int
    slots: list[int]
    numbers: list[int]
    vectors: list[bytes]  # empty for a record without one


class RecordTables(Protocol):
    """How records lie in the tables of an open store."""

    sealed: bool
    connection: sqlite3.Connection
    path: Path
    #: Whether there is a table for an image of the index (see `image`), which goes with the first record that does.
    has_image: bool
    #: The table that has a row for each record.
    main_table: str
    #: Table, key and column of everything that living records have in files, codes apart.
    living: tuple[tuple[str, str, str], ...]

    def insert(self, records: Sequence[Stored]) -> None:
        """Write records into their slots."""
        ...

    def delete(self, slots: Sequence[int], version: int) -> None:
        """Delete the records of these slots, and note for readers in which buckets they were."""
        ...

    def read_slots(self, slots: Sequence[int]) -> Iterator[Stored]:
        """The records of these slots, by ascending slot within each part."""
        ...

    def read_from(self, number: int, limit: int) -> list[Stored]:
        """Up to `limit` records with numbers from this one on, by ascending number."""
        ...

    def read_new(self, after: int, limit: int) -> Read | None:
        """Up to `limit` records above a slot, by ascending slot; None if there are none."""
        ...

    def newer(self, slot: int) -> bool:
        """Whether there is a record above this slot."""
        ...

    def slots_in(self, bucket: int) -> list[int]:
        """The slots of a bucket that have a record, ascending."""
        ...

    def drop(self, slots: Sequence[int]) -> None:
        """A reader has noticed that these records are gone."""
        ...

    def loaded(self) -> None:
        """All records have been read."""
        ...

    def lost(self) -> list[int]:
        """Slots of records that are there and cannot be read, because their keys are gone."""
        ...

    def keep_digest(self, digest: MultisetHash, *, renew: bool) -> bytes:
        """The state of the digest as the table `store` keeps it; `renew` makes earlier copies of it unreadable."""
        ...

    def read_digest(self, kept: bytes) -> bytes | None:
        """What `keep_digest` was given; None if nobody can tell any more."""
        ...

    def shred(self, records: Sequence[Stored]) -> None:
        """Note that the keys of these records are to be destroyed, in the transaction that deletes them."""
        ...

    def destroy_keys(self) -> None:
        """Destroy the keys that were noted."""
        ...

    def unlist_keys(self) -> None:
        """Take destroyed keys off the list, in the transaction that signs for them."""
        ...

    def mark(self) -> Any:
        """For `undo`: where things are at the beginning of a transaction."""
        ...

    def undo(self, mark: Any) -> None:
        """It was rolled back."""
        ...

    def before_commit(self) -> None:
        """A write transaction is about to be committed."""
        ...

    def wrap(self, slots: Sequence[int], codes: Sequence[bytes]) -> list[bytes]:
        """The codes of these slots as their table has them."""
        ...

    def unwrap(self, found: Sequence[tuple[int, bytes]]) -> dict[int, bytes]:
        """The codes by slot, of those that can be read."""
        ...

    def wrap_image(self, image: bytes) -> bytes:
        """The image of the index as its table has it."""
        ...

    def unwrap_image(self, kept: bytes) -> bytes | None:
        """What `wrap_image` was given; None if nobody can tell any more."""
        ...

    def drop_image(self) -> None:
        """Delete the image, in the transaction of a change that takes a record out or writes another image."""
        ...

    def traces(self, record: Stored) -> list[Needle]:
        """What a record leaves in files besides its own parts and its code."""
        ...

    def files(self) -> list[Path]:
        """Further files that are to be searched for residue."""
        ...

    def rewritten(self) -> list[Source]:
        """The parts of those files that an erasure rewrote."""
        ...

    def copy_to(self, target: sqlite3.Connection, part: int) -> Iterator[int]:
        """Write all records to a backup in its canonical order, part by part; how many each time."""
        ...

    def close(self) -> None:
        """Give up what else is open."""
        ...


def note_removals(connection: sqlite3.Connection, slots: Sequence[int], version: int) -> None:
    """Note for readers from which buckets of slots a write took something."""
    buckets = sorted({slot // BUCKET for slot in slots})
    connection.executemany("REPLACE INTO removals VALUES (?, ?)", ((bucket, version) for bucket in buckets))
