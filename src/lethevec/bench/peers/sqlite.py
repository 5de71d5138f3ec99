"""SQLite: the extension sqlite-vec, and a plain table of BLOBs: what our store would be without its scrubber."""

from __future__ import annotations

import importlib
import importlib.util
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .peer import F32, Ids, Peer


class SqliteVec(Peer):
    """sqlite-vec's table vec0 in a database of its own."""

    name = "sqlite-vec"
    module = "sqlite_vec"
    package = "sqlite-vec"

    def __init__(self, journal: str = "WAL", secure_delete: str = "OFF") -> None:
        self.journal, self.secure = journal, secure_delete

    @classmethod
    def missing(cls) -> str | None:
        if super().missing():
            return "sqlite-vec"
        if not hasattr(sqlite3.Connection, "enable_load_extension") and not importlib.util.find_spec("pysqlite3"):
            return "pysqlite3-binary"  # this Python's own SQLite cannot load extensions
        return None

    def start(self, sample: F32, metric: str) -> None:
        loads = hasattr(sqlite3.Connection, "enable_load_extension")
        driver: Any = sqlite3 if loads else importlib.import_module("pysqlite3")
        self.connection = driver.connect(self.folder / "db")
        self.connection.enable_load_extension(True)
        importlib.import_module("sqlite_vec").load(self.connection)
        self.connection.execute(f"PRAGMA journal_mode={self.journal}")
        self.connection.execute(f"PRAGMA secure_delete={self.secure}")
        column = f"embedding float[{sample.shape[1]}] distance_metric={'l2' if metric == 'l2' else 'cosine'}"
        self.connection.execute(f"CREATE VIRTUAL TABLE v USING vec0({column})")

    def insert(self, vectors: F32, ids: Ids) -> None:
        rows = zip(ids.tolist(), (vector.tobytes() for vector in vectors), strict=True)
        self.connection.executemany("INSERT INTO v(rowid, embedding) VALUES (?, ?)", rows)
        self.connection.commit()

    def delete(self, ids: Ids) -> None:
        self.connection.executemany("DELETE FROM v WHERE rowid = ?", ((id,) for id in ids.tolist()))
        self.connection.commit()

    def save(self, folder: Path) -> Path:
        """It is saved already: its files are in its own folder."""
        return self.folder

    def erasing(self, ids: Ids, folder: Path) -> Iterator[tuple[str, Path]]:
        settings = f"(journal {self.journal}, secure_delete {self.secure})"
        self.delete(ids)
        yield f"DELETE {settings}", self.folder
        self.connection.execute("VACUUM")
        yield f"DELETE, VACUUM {settings}", self.folder
        if self.journal == "WAL":
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            yield f"DELETE, VACUUM, checkpoint {settings}", self.folder

    def search_one(self, query: F32, k: int) -> Ids:
        asked = "SELECT rowid FROM v WHERE embedding MATCH ? AND k = ? ORDER BY distance"
        return np.array([row for (row,) in self.connection.execute(asked, (query.tobytes(), k))], dtype=np.int64)


class PlainSqlite(Peer):
    """A table of BLOBs in random order, under secure_delete=ON. It does not search."""

    name = "SQLite"
    module = "sqlite3"

    def start(self, sample: F32, metric: str) -> None:
        self.connection = sqlite3.connect(self.folder / "db", isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA secure_delete=ON")
        self.connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, note BLOB, vector BLOB)")

    def insert(self, vectors: F32, ids: Ids) -> None:
        rng = np.random.default_rng(2)
        self.keys = rng.permutation(len(vectors))
        self.connection.execute("BEGIN")
        for place, key in enumerate(self.keys.tolist()):
            note = bytes(int(rng.integers(0, 600)))
            self.connection.execute("INSERT INTO t VALUES (?, ?, ?)", (key, note, vectors[place].tobytes()))
        self.connection.execute("COMMIT")

    def delete(self, ids: Ids) -> None:
        self.connection.executemany("DELETE FROM t WHERE a = ?", ((int(self.keys[id]),) for id in ids))
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def erasing(self, ids: Ids, folder: Path) -> Iterator[tuple[str, Path]]:
        self.delete(ids)
        yield "DELETE, checkpoint (journal WAL, secure_delete ON)", self.folder

    def search_one(self, query: F32, k: int) -> Ids:
        raise NotImplementedError("a plain table is not searched")
