"""A process that damages copies of a store, one way after the other, and sees what becomes of whoever opens them.

    python damaging.py FOLDER SEED ROUNDS [KIND]

Every copy must be refused with an error of ours, or open and answer; within a time limit, and without a crash.
FOLDER has a store, closed (`people.lethe`), and one that was killed with a log beside it (`killed.lethe`).
"""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import struct
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import lethevec
from lethevec.errors import LethevecError

LIMIT = 20.0  # seconds for one copy
WAL_HEADER, FRAME_HEADER = 32, 24


class HangsError(Exception):
    """It took too long."""


def checksum(data: bytes, start: tuple[int, int], order: str) -> tuple[int, int]:
    """SQLite's checksum of a log."""
    a, b = start
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for first, second in zip(words[::2], words[1::2], strict=True):
        a = (a + first + b) & 0xFFFFFFFF
        b = (b + second + a) & 0xFFFFFFFF
    return a, b


def mend_checksums(log: bytearray) -> None:
    """Make the checksums of a log right, so that SQLite takes what is in it."""
    if len(log) < WAL_HEADER:
        return
    (magic, _, page_size) = struct.unpack(">III", log[:12])
    if page_size < 512 or page_size > 65536:
        return
    order = ">" if magic & 1 else "<"
    sums = checksum(log[:24], (0, 0), order)
    struct.pack_into(">II", log, 24, *sums)
    for at in range(WAL_HEADER, len(log) - FRAME_HEADER - page_size + 1, FRAME_HEADER + page_size):
        sums = checksum(log[at : at + 8], sums, order)
        sums = checksum(log[at + FRAME_HEADER : at + FRAME_HEADER + page_size], sums, order)
        struct.pack_into(">II", log, at + 16, *sums)


def flip(path: Path) -> None:
    """One bit, or a few; often near the head of a page, where its structure is."""
    data = bytearray(path.read_bytes())
    page_size = int.from_bytes(data[16:18], "big") or 65536
    page_size = 65536 if page_size == 1 else page_size
    for _ in range(random.choice([1, 1, 1, 3])):
        page = random.randrange(max(1, len(data) // page_size)) * page_size
        at = page + random.randrange(random.choice([16, 200, page_size]))
        if at < len(data):
            data[at] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def flip_log(path: Path) -> None:
    log = path.with_name(path.name + "-wal")
    data = bytearray(log.read_bytes())
    for _ in range(random.choice([1, 1, 3])):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    if random.random() < 0.9:
        mend_checksums(data)
    log.write_bytes(data)


def flip_vault(path: Path) -> None:
    vault = path.with_name(path.name + "-keys-vault")
    target = vault if vault.exists() else path.with_name(path.name + "-keys")
    data = bytearray(target.read_bytes())
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    target.write_bytes(data)


VALUES: list[Any] = [
    None,
    0,
    1,
    -1,
    2**62,
    -(2**63),
    2**63 - 1,
    0.5,
    "",
    "x",
    "a\0b",
    b"",
    b"\xff\xfe",
    b"x" * 5000,
    "{}",
    "[]",
]


def change_rows(path: Path) -> None:
    """Rows that are deleted, doubled, moved to another key, or given other values."""
    connection = sqlite3.connect(path)
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA writable_schema=ON")
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        for _ in range(random.choice([1, 1, 2])):
            table = random.choice([name for name in tables if not name.startswith("sqlite_")])
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            rows = [rowid for (rowid,) in connection.execute(f"SELECT rowid FROM {table}")]
            column, row = random.choice(columns), random.choice(rows) if rows else None
            what = random.choice(["delete", "double", "move", "value", "value", "insert", "index"])
            with suppress(sqlite3.Error):
                if what == "delete":
                    connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
                elif what == "double":
                    names = ",".join(columns[1:])
                    connection.execute(
                        f"INSERT INTO {table} ({names}) SELECT {names} FROM {table} WHERE rowid = ?", (row,)
                    )
                elif what == "move":
                    to = random.choice([-5, 0, 2**40, 2**63 - 1, random.randrange(200)])
                    connection.execute(f"UPDATE {table} SET rowid = ? WHERE rowid = ?", (to, row))
                elif what == "value":
                    connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (random.choice(VALUES), row))
                elif what == "insert":
                    connection.execute(f"INSERT INTO {table} ({column}) VALUES (?)", (random.choice(VALUES),))
                else:  # an index that says something else than its table
                    connection.execute(
                        "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master "
                        "WHERE type = 'index' ORDER BY random() LIMIT 1) WHERE type = 'index'"
                    )
        connection.commit()
    connection.close()


def swap_rows(path: Path) -> None:
    """Cells of a page change places: keys are out of order."""
    data = bytearray(path.read_bytes())
    page_size = int.from_bytes(data[16:18], "big")
    page_size = 65536 if page_size == 1 else page_size
    pages = [at for at in range(0, len(data), page_size) if data[at + (100 if at == 0 else 0)] in (2, 5, 10, 13)]
    for _ in range(random.choice([1, 3])):
        at = random.choice(pages)
        head = at + (100 if at == 0 else 0)
        count = int.from_bytes(data[head + 3 : head + 5], "big")
        first = head + (12 if data[head] in (2, 5) else 8)
        if count < 2:
            continue
        a, b = (first + 2 * random.randrange(count) for _ in range(2))
        data[a : a + 2], data[b : b + 2] = data[b : b + 2], data[a : a + 2]
        if random.random() < 0.3:  # or one cell is there twice
            data[a : a + 2] = data[b : b + 2]
    path.write_bytes(data)


KINDS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "bits": ("people.lethe", flip),
    "rows": ("people.lethe", change_rows),
    "order": ("people.lethe", swap_rows),
    "log": ("killed.lethe", flip_log),
    "killed": ("killed.lethe", flip),
    "keys": ("people.lethe", flip_vault),
}


def use(path: Path, *, read_only: bool) -> None:
    """Everything that one would do with a store."""
    with lethevec.open(path, read_only=read_only) as db:
        query = [1.0] + [0.0] * (db.dim - 1)
        db.search(query, k=3)
        db.search(query, k=3, where={"n": 3})
        ids = db.ids()
        list(db)
        db.subjects()
        db.stats()
        if ids:
            db.get(ids[:2])
        for receipt in db.receipts():
            db.verify(receipt)
        if not read_only:
            db.add([query], ids=["one more"])
            db.forget(["one more"])
            db.forget(ids[:1])
            db.backup(path.with_name("backup"))


def on_alarm(*_: object) -> None:
    raise HangsError


def main() -> None:
    """Run, and say how many copies opened without an error."""
    folder, seed, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    kinds = sys.argv[4:] or list(KINDS)
    warnings.simplefilter("error")
    signal.signal(signal.SIGALRM, on_alarm)
    opened = 0
    for number in range(seed, seed + rounds):
        random.seed(number)
        kind = kinds[number % len(kinds)]
        name, damage = KINDS[kind]
        copy = folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for path in folder.glob(name + "*"):
            shutil.copy(path, copy / path.name)
        damage(copy / name)
        for read_only in (True, False):
            signal.setitimer(signal.ITIMER_REAL, LIMIT)
            try:
                use(copy / name, read_only=read_only)
                opened += 1
            except LethevecError:
                pass
            except BaseException:
                print(f"round {number}, {kind}, read_only={read_only}", file=sys.stderr, flush=True)
                raise
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    print(opened)


if __name__ == "__main__":
    main()
