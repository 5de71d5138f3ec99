"""A catalog that somebody else has written to: an error of ours, or answers; never a file outside the folder.

LETHEVEC_FUZZ=20 tries 20 times as many.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import lethevec
from lethevec.errors import FormatError, LethevecError

TIMES = int(os.environ.get("LETHEVEC_FUZZ", "1"))
CATALOG = "lethevec.catalog"
VALUES = [
    None,
    -1,
    0,
    2**62,
    1.5,
    float("inf"),
    1e300,
    8.64e13,
    "",
    "x",
    "x" * 400,
    "../x",
    "9" * 400,
    b"\xff",
    "{}",
    "[" * 9,
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("catalog") / "people"
    with lethevec.connect(folder) as db:
        notes = db.collection("notes", dim=2, metric="l2")
        notes.add([[1, 2], [3, 4]], ids=[1, "x"], subjects=["ann", "bob"])
        db.collection("sealed", dim=2, encrypt=True).add([[1, 2]], ids=[1], subjects=["ann"])
        db.hold("bob", "a case")
        db.block("carl", "asked")
        db.forget(subject="ann")
        notes.add([[5, 6]], ids=[3], subjects=["dan"])
    return folder


def use(folder: Path, *, read_only: bool) -> None:
    """Whatever reads the catalog; and, of a writer, what changes it."""
    with lethevec.connect(folder, read_only=read_only) as db:
        for name in db.collections():
            db.collection(name).search([1, 2], k=2)
        assert isinstance(db.subjects(), dict)
        assert db.holds() is not None
        assert db.is_blocked("carl") is not None
        db.verify_chain()
        for receipt in db.receipts(all_kinds=True):
            db.verify(receipt)
        db.access("bob")
        if not read_only:
            db.forget(subject="dan")
            db.complete_erasures()
            db.rename(db.collections()[0], "other")
            db.drop("other")
            db.hold("eve", "another case")


def change(folder: Path, sql: str, *values: Any) -> None:
    with closing(sqlite3.connect(folder / CATALOG)) as connection:
        connection.execute(sql, values)
        connection.commit()


@pytest.mark.parametrize("read_only", [True, False], ids=["reader", "writer"])
def test_no_value_in_a_row_escapes(whole, tmp_path, read_only):
    with closing(sqlite3.connect(whole / CATALOG)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = [(table, row[1]) for table in tables for row in connection.execute(f"PRAGMA table_info({table})")]
    draw = random.Random(3 + read_only)
    for number in range(25 * TIMES):
        folder = tmp_path / "people"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        # Every second time a collection's own row: most depends on those.
        table, column = draw.choice(columns if number % 2 else [one for one in columns if one[0] == "collections"])
        with suppress(sqlite3.Error):
            change(folder, f"UPDATE OR IGNORE {table} SET {column} = ?", draw.choice(VALUES))
        with suppress(LethevecError):
            use(folder, read_only=read_only)


@pytest.mark.parametrize("ready", [0, 1])
@pytest.mark.parametrize("id", ["x/../../elsewhere", "x/../notes", "f" * 400, "", 5, b"ab", "F" * 32])
def test_an_id_that_leads_elsewhere_is_no_path(whole, tmp_path, id, ready):
    folder = tmp_path / "people"
    shutil.copytree(whole, folder)
    (folder / "c-x").mkdir()
    with lethevec.open(tmp_path / "elsewhere.lethe", dim=2) as db:
        db.add([[1, 2]], ids=[1], subjects=["dan"])
    before = (tmp_path / "elsewhere.lethe").read_bytes()
    change(folder, "INSERT INTO collections VALUES (?, 'other', NULL, ?)", id, ready)

    def open_and_forget() -> None:
        with lethevec.connect(folder) as db:
            db.forget(subject="dan")

    with pytest.raises(FormatError, match="expected ids of collections"):
        open_and_forget()
    assert (tmp_path / "elsewhere.lethe").read_bytes() == before
