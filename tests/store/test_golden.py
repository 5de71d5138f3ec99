"""Stores of every kind that were written when their format was made open, answer and verify for ever."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from lethevec._store import open as open_store
from lethevec._store.schema import VERSION

from .golden.make import KINDS, vectors

FOLDERS = {kind: Path(__file__).parent / "golden" / f"v{VERSION}-{kind}" for kind in KINDS}


def number(data: bytes, start: int, end: int) -> int:
    return int.from_bytes(data[start:end], "big")


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_store_has_that_version_and_page_size(tmp_path: Path, kind: str):
    options, page_size = KINDS[kind]
    with open_store(tmp_path / "new", metric="l2", **{"dim": 8, **options}):
        pass
    for path in (tmp_path / "new", FOLDERS[kind] / "golden.lethe"):
        data = path.read_bytes()
        assert (number(data, 60, 64), number(data, 16, 18)) == (VERSION, page_size)


@pytest.mark.parametrize("kind", ["codes", "sealed-codes"])
def test_kept_codes_are_those_that_this_version_makes(tmp_path: Path, kind: str):
    folder = tmp_path / "copy"
    shutil.copytree(FOLDERS[kind], folder)
    with open_store(folder / "golden.lethe", read_only=True) as db:
        found = list(db._session.tables.read_from(0, 100))
        codes = db._codes.of([record.slot for record in found])
        assert None not in codes
        made = np.array([np.frombuffer(record.vector, dtype="<f4") for record in found])
        assert db._codes.keeper.differing(made, np.array([record.number for record in found]), codes) == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("read_only", [True, False])
def test_opens_answers_and_verifies(tmp_path: Path, kind: str, read_only: bool):
    folder = tmp_path / "copy"
    shutil.copytree(FOLDERS[kind], folder)
    expected = json.loads((folder / "expected.json").read_text())
    with open_store(folder / "golden.lethe", read_only=read_only) as db:
        assert db.digest() == expected["digest"]
        assert [record.id for record in db] == expected["ids"]
        assert db.search(vectors(db.dim), k=3).ids.tolist() == expected["nearest"]
        assert [receipt.to_json() for receipt in db.receipts()] == expected["receipts"]
        for receipt in expected["receipts"]:
            report = db.verify(receipt)
            assert report, str(report)
            assert report["absent"].passed
            assert report["digest"].passed
        if not read_only:
            assert db.verify(db.forget([1]))
