"""SQLite's pages from the outside: which ones the log rewrote, and what lies in their unused parts.

`secure_delete=ON` overwrites a deleted cell and a freed page. It does not cover one case: when a b-tree page is rebuilt
while rows move between neighbours, copies of moved rows stay in the gap between the page's cell pointers and its cells.
Their rows live on elsewhere, and a later delete overwrites them there and not here. (Seen with SQLite 3.40: pieces of
one record in a thousand after random inserts and deletes.) So after each checkpoint every page that it rewrote is
read, and what is not zero in its gap, or in a free block, is overwritten with zeros.

A page is a b-tree page if its first byte (after the 100-byte file header, on page 1) is 2, 5, 10 or 13. Pages of other
kinds begin with the number of another page, whose first byte is 0 up to 16 million pages and none of those up to 33
million: larger files are refused. Format: https://www.sqlite.org/fileformat2.html
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .._durable import open_regular
from .._progress import Progress
from ..errors import FileError, FormatError, UnsupportedError
from .files import RawFile

__all__ = ["Header", "WalState", "owner", "read_header", "scrub", "unused_ranges", "wal_state"]

_INTERIOR = (2, 5)
_LEAF = (10, 13)
_MAX_PAGES = 1 << 25
_WAL_HEADER = 32
_FRAME_HEADER = 24
_WAL_MAGIC = (0x377F0682, 0x377F0683)


@dataclass(frozen=True)
class Header:
    """What the first 100 bytes of a database say."""

    page_size: int
    pages: int
    user_version: int
    application_id: int


def read_header(raw: RawFile) -> Header:
    """The file header, or a `FormatError` if this is not an SQLite database."""
    head = raw.read(0, 100)
    if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
        raise FormatError(f"{raw.path}: expected a lethevec store (an SQLite database), got something else")
    size = int.from_bytes(head[16:18], "big")
    size = 65536 if size == 1 else size
    if size < 512 or size & (size - 1) or head[20]:
        raise FormatError(f"{raw.path}: expected a page size that is a power of two and no reserved bytes, got {size}")
    pages, user_version, application_id = struct.unpack(">28xI28xI4xI28x", head)
    return Header(size, pages, user_version, application_id)


@dataclass(frozen=True)
class WalState:
    """The log at one moment: its salts (new after every reset), its length, and the pages that its frames hold."""

    salts: bytes = b""
    size: int = 0
    pages: frozenset[int] = frozenset()


def wal_state(path: Path, *, with_pages: bool = True) -> WalState:
    """Read the log's frame headers. Frames of older rounds, with other salts, are passed over.

    Unlike the database, the log carries no locks, so it may be opened and closed at will.
    """
    try:
        descriptor = open_regular(path, os.O_RDONLY)
    except FileNotFoundError:
        return WalState()
    except OSError as error:
        raise FileError(f"{path}: SQLite's log could not be read: {error}") from error
    try:
        size = os.fstat(descriptor).st_size
        head = os.pread(descriptor, _WAL_HEADER, 0)
        if len(head) < _WAL_HEADER:
            return WalState(size=size)
        magic, _, page_size = struct.unpack(">III", head[:12])
        if magic not in _WAL_MAGIC:
            raise FormatError(f"{path}: expected SQLite's log, got something else")
        salts = head[16:24]
        pages: set[int] = set()
        if with_pages:
            for offset in range(_WAL_HEADER, size, _FRAME_HEADER + page_size):
                frame = os.pread(descriptor, _FRAME_HEADER, offset)
                if len(frame) == _FRAME_HEADER and frame[8:16] == salts:
                    pages.add(int.from_bytes(frame[:4], "big"))
        return WalState(salts, size, frozenset(pages))
    finally:
        os.close(descriptor)


def unused_ranges(page: bytes, number: int) -> list[tuple[int, int]]:
    """The parts of a b-tree page that hold nothing: the gap, and free blocks without their 4-byte heads.

    Pages of other kinds have none. A page that contradicts itself is a `FormatError`: better that than a wrong zero.
    """
    start = 100 if number == 1 else 0
    kind = page[start]
    if kind not in _INTERIOR and kind not in _LEAF:
        return []
    free, cells, content = struct.unpack_from(">HHH", page, start + 1)
    content = content or 65536
    gap = start + (12 if kind in _INTERIOR else 8) + 2 * cells
    if not gap <= content <= len(page):
        raise FormatError(f"page {number}: expected cells to begin in {gap}..{len(page)}, got {content}")
    ranges = [(gap, content)]
    while free:
        if not content <= free <= len(page) - 4:
            raise FormatError(f"page {number}: expected a free block in {content}..{len(page) - 4}, got {free}")
        following, size = struct.unpack_from(">HH", page, free)
        end = free + size
        if size < 4 or end > len(page) or (following and following < end):
            raise FormatError(f"page {number}: expected a free block within the page and in order, got {free}..{end}")
        ranges.append((free + 4, end))
        free = following
    return ranges


def owner(page: bytes, number: int, offset: int) -> int | None:
    """The slot of the row whose cell covers this offset of the page; None if no cell of a leaf or of an index does.

    For a table that is the cell's rowid; for an index, whose entries end with it, the last value.
    """
    start = 100 if number == 1 else 0
    kind = page[start]
    if kind not in (2, 10, 13):
        return None
    cells = int.from_bytes(page[start + 3 : start + 5], "big")
    pointers = start + (12 if kind == 2 else 8)
    places = [place for (place,) in struct.iter_unpack(">H", page[pointers : pointers + 2 * cells]) if place <= offset]
    if not places:
        return None
    place = max(places)
    length, at = _varint(page, place + (4 if kind == 2 else 0))
    if kind == 13:
        return _varint(page, at)[0]
    return _last_integer(page[at : at + length])


def _last_integer(record: bytes) -> int | None:
    """The last value of a record, if it is an integer and not in an overflow page."""
    head, at = _varint(record, 0)
    kind = 0
    while at < head:
        kind, at = _varint(record, at)
    if kind in (8, 9):
        return kind - 8
    size = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}.get(kind)
    return None if size is None else int.from_bytes(record[-size:], "big", signed=True)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint and where it ends: 7 bits a byte, high bits first, the ninth byte whole."""
    value = 0
    for place in range(at, min(at + 9, len(data))):
        byte = data[place]
        if place == at + 8:
            return value << 8 | byte, place + 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + 1
    raise FormatError("expected a whole varint, got the end of a page")


def scrub(raw: RawFile, page_size: int, pages: Iterable[int] | None = None, *, dry: bool = False) -> list[int]:
    """Overwrite what is left in the unused parts of these pages (all, if None); sync; return the pages that had some.

    The caller holds SQLite's write lock and has an empty log, so nobody writes pages meanwhile. Readers may read: they
    never look at these parts. A crash in the middle leaves every page valid. `dry` only looks.
    """
    count = raw.size // page_size
    if count >= _MAX_PAGES:
        raise UnsupportedError(f"{raw.path}: expected fewer than {_MAX_PAGES:,} pages, got {count:,}")
    # A page may have been freed and cut off the file since it was named.
    wanted = range(1, count + 1) if pages is None else sorted(number for number in pages if number <= count)
    label = "checking unused bytes" if dry else "clearing unused bytes"
    cleaned = []
    with Progress(len(wanted) * page_size, label, unit="bytes") as progress:
        for number in wanted:
            if _scrub_page(raw, page_size, number, dry=dry):
                cleaned.append(number)
            progress.advance(page_size)
    if cleaned and not dry:
        raw.sync()
    return cleaned


def _scrub_page(raw: RawFile, page_size: int, number: int, *, dry: bool) -> bool:
    """Whether there was something in the unused parts of one page."""
    offset = (number - 1) * page_size
    page = raw.read(offset, page_size)
    dirty = False
    for start, end in unused_ranges(page, number):
        zeros = bytes(end - start)
        if page[start:end] != zeros:
            dirty = True
            if not dry:
                raw.write(offset + start, zeros)
    return dirty
