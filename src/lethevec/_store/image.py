"""The table `image`: what of the index takes long to find out, so that the store opens quickly.

With pivots that is whose cell each record is in. It is a help to open and nothing else: it follows from the records, is
never believed unless it can only be theirs, and what is missing, damaged, of another configuration or of other records
is made again. One that was written before records were added holds for those that were there, and the others are filed
as usual.

It is derived from records, so it goes with them: whatever takes a record out of the tables deletes the image in the
same transaction. From there on it is like any row that was forgotten: pages are overwritten, the log is emptied and
the files are searched for it before a receipt is signed. It is written again when the store is closed, or when told.
In a sealed store it is sealed under a key of its own, which is destroyed with those of the records. No backup has one.

Its bytes (sealed, in a sealed store), cut into parts, all numbers little-endian:

| what | type | |
|---|---|---|
| magic, version | 8 bytes, uint32 | `LETHEIMG`, and the version of what follows |
| context | 32 bytes | BLAKE2b-256 of the configuration, with the key that picks pivots |
| last, records, absent | int64 | the last slot that it knows of; how many records it is of; how many it is not |
| absent slots | int64 | up to the last slot, those that are not in the index: without a vector, or expired |
| image | bytes | a fingerprint of ids and vectors, and what the source wrote (`native/sources/*/image.cpp`) |
| checksum | 32 bytes | BLAKE2b-256 of everything before |
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from .._forgetting.residue import Needle
from .._index import Index
from .._index.loading import IMAGE_VERSION, has_images, image_of
from ..errors import IncompleteWriteError, StoreLockedError

if TYPE_CHECKING:
    from .session import Session

__all__ = ["Image", "Kept", "has_image", "image_columns"]

I64 = npt.NDArray[np.int64]

WORTH_FROM = 20_000  # records; fewer are filed in no time
_GROWTH = 20  # one more record in so many than the image knows of, and it is written again
_TABLE = "CREATE TABLE IF NOT EXISTS main.image (part INTEGER PRIMARY KEY, data BLOB NOT NULL)"
_PART = 8 << 20
_MOST = 1 << 34  # bytes; whoever writes more there than memory holds is not one of us
_HEAD = struct.Struct("<8sI32sqqq")
_MAGIC = b"LETHEIMG"
_CHECKSUM = 32


def has_image(connection: sqlite3.Connection) -> bool:
    """Whether the store has the table."""
    known = "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = 'image'"
    return connection.execute(known).fetchone() is not None


def image_columns(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Table, key and column of the image, if it is there: its bytes are those of living records."""
    return [("main.image", "part", "data")] if has_image(connection) else []


class Kept(NamedTuple):
    """An image as it was found: of so many records up to a slot, all but those that are absent."""

    last: int
    records: int
    absent: I64
    data: bytes


class _Made(NamedTuple):
    records: int
    whole: bytes


class Image:
    """The image of an open store."""

    def __init__(self, session: Session, index: Index) -> None:
        """Of this index's configuration, key included."""
        self._session = session
        self._connection = session.connection
        self._context = hashlib.blake2b(index.config.canonical(), digest_size=32).digest()
        self.usable = False  # whether the index was made by it
        self._known = 0  # of how many records the one that was read or written last is

    def read(self) -> Kept | None:
        """What is there, if it is whole and of this configuration."""
        if not has_image(self._connection):
            return None
        (size,) = self._connection.execute("SELECT sum(length(data)) FROM main.image").fetchone()
        if type(size) is not int or not _HEAD.size + _CHECKSUM <= size <= _MOST:
            return None
        parts = [data for (data,) in self._connection.execute("SELECT data FROM main.image ORDER BY part")]
        if set(map(type, parts)) != {bytes}:
            return None
        whole = self._session.tables.unwrap_image(b"".join(parts))
        return None if whole is None else self._parsed(whole)

    def _parsed(self, whole: bytes) -> Kept | None:
        body, checksum = memoryview(whole)[:-_CHECKSUM], whole[-_CHECKSUM:]
        if len(body) < _HEAD.size or hashlib.blake2b(body, digest_size=32).digest() != checksum:
            return None
        magic, version, context, last, records, absent = _HEAD.unpack_from(body)
        if (magic, version, context) != (_MAGIC, IMAGE_VERSION, self._context):
            return None
        if not 0 <= absent <= (len(body) - _HEAD.size) // 8:
            return None
        self._known = records
        slots = np.frombuffer(body, dtype="<i8", count=absent, offset=_HEAD.size).astype(np.int64)
        return Kept(last, records, slots, bytes(body[_HEAD.size + 8 * absent :]))

    def write(self, index: Index) -> bool:
        """Write it again, of the records that are in the index now; whether there is one then.

        It needs space and SQLite's lock, and is only a help: without, there is none.
        """
        session = self._session
        if session.read_only or not has_images(index):
            return False
        with suppress(IncompleteWriteError, StoreLockedError), session.transaction():
            made = self._made(index)
            session.tables.drop_image()
            if made is None:
                return False
            self._connection.execute(_TABLE)
            session.tables.has_image = True
            kept = session.tables.wrap_image(made.whole)
            parts = [(at // _PART, kept[at : at + _PART]) for at in range(0, len(kept), _PART)]
            self._connection.executemany("INSERT INTO main.image VALUES (?, ?)", parts)
            self.usable, self._known = True, made.records
            return True
        return False

    def _made(self, index: Index) -> _Made | None:
        found = self._connection.execute("SELECT slot, number FROM records ORDER BY slot").fetchall()
        if not found:
            return None
        rows = np.array(found, dtype=np.int64)
        indexed = np.isin(rows[:, 1], index.ids(), assume_unique=True)
        data = image_of(index, np.ascontiguousarray(rows[indexed, 1]))
        if not data:
            return None
        absent = rows[~indexed, 0].astype("<i8").tobytes()
        head = _HEAD.pack(
            _MAGIC, IMAGE_VERSION, self._context, int(rows[-1, 0]), int(indexed.sum()), int((~indexed).sum())
        )
        body = b"".join((head, absent, data))
        return _Made(int(indexed.sum()), body + hashlib.blake2b(body, digest_size=32).digest())

    def write_if_worth(self, index: Index) -> None:
        """Before the store closes: unless there is one that knows of nearly all records, or that would be of no use."""
        if self._session.read_only or len(index) < WORTH_FROM or not has_images(index):
            return
        there = self._session.tables.has_image and self._connection.execute("SELECT 1 FROM main.image").fetchone()
        if not (there and self.usable and self._known >= len(index) - len(index) // _GROWTH):
            self.write(index)

    def traces(self) -> list[Needle]:
        """What a search of the files would find of it: the end of each part. The last one's no other image has."""
        if not self._session.tables.has_image:
            return []
        sql = "SELECT substr(data, -64) FROM main.image ORDER BY part"
        return [Needle("image", end) for (end,) in self._connection.execute(sql) if type(end) is bytes]
