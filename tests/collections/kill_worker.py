"""Forgets a person in all collections of a folder, drops one, or backs the folder up, and dies at a given step on the
way. See test_kills and test_killed_backups.

A step is a moment before or after something reaches a file: a commit, a checkpoint, a scrubbed page, a sync, a removed
file. Dying is `os._exit`, which runs nothing more of Python or SQLite; what was written before it stays, as with a
kill -9.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

steps = 0
_lock = threading.Lock()


def count(deadly: int) -> None:
    """One step more; the deadly one is the last."""
    global steps
    with _lock:
        steps += 1
        if steps == deadly:
            os._exit(9)


def around(function: Callable[..., Any], deadly: int) -> Callable[..., Any]:
    """The function with a step before it and one after it."""

    def counted(*arguments: Any, **options: Any) -> Any:
        count(deadly)
        result = function(*arguments, **options)
        count(deadly)
        return result

    return counted


def install(deadly: int) -> None:
    """Count from here on."""
    from lethevec._store import files

    class Counting(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            counts = sql in ("COMMIT", "PRAGMA wal_checkpoint(TRUNCATE)")
            if counts:
                count(deadly)
            cursor = super().execute(sql, *parameters)
            if counts:
                count(deadly)
            return cursor

    connect = sqlite3.connect
    sqlite3.connect = lambda *given, **options: connect(*given, **options, factory=Counting)  # type: ignore[assignment]
    files.RawFile.write = around(files.RawFile.write, deadly)  # type: ignore[method-assign]
    files.RawFile.sync = around(files.RawFile.sync, deadly)  # type: ignore[method-assign]
    Path.unlink = around(Path.unlink, deadly)  # type: ignore[method-assign]


def main(folder: str, deadly: int, what: str, whom: str) -> None:
    """Open the folder as it is, then count, then do it."""
    import lethevec

    install(deadly)
    if what == "backup":
        os.rename = around(os.rename, deadly)
        os.replace = around(os.replace, deadly)
    with lethevec.connect(folder, read_only=what == "backup") as db:
        for name in db.collections():
            db.collection(name)
        global steps
        with _lock:
            steps = 0  # what opening did does not count
        if what == "forget":
            db.forget(subject=whom)
        elif what == "backup":
            db.backup(whom)
        else:
            db.drop(whom)
        sys.stdout.write(f"{steps}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
