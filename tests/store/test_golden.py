"""Stores written by earlier versions open, answer and verify for ever."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from lethevec._store import open as open_store

from .golden.make import VERSIONS, vectors

FOLDERS = sorted(path for path in (Path(__file__).parent / "golden").iterdir() if path.name.startswith("v"))


def test_there_is_one_for_each_version():
    from lethevec._store.schema import VERSION

    assert [path.name for path in FOLDERS] == [f"v{version}" for version in range(1, VERSION + 1)]
    assert list(VERSIONS) == list(range(1, VERSION + 1))


@pytest.mark.parametrize("golden", FOLDERS, ids=lambda path: path.name)
def test_a_new_store_is_of_that_version(tmp_path: Path, golden: Path):
    version = int(golden.name[1:])
    with open_store(tmp_path / "new", 8, "l2", **VERSIONS[version]):
        pass
    for path in (tmp_path / "new", golden / "golden.lethe"):
        assert int.from_bytes(path.read_bytes()[60:64], "big") == version


@pytest.mark.parametrize("golden", FOLDERS[2:], ids=lambda path: path.name)
def test_kept_codes_are_those_that_this_version_makes(tmp_path: Path, golden: Path):
    folder = tmp_path / "copy"
    shutil.copytree(golden, folder)
    with open_store(folder / "golden.lethe", read_only=True) as db:
        found = list(db._session.tables.read_from_row(0, 100))
        codes = db._session.tables.codes.of([record.slot for record in found])
        assert None not in codes
        made = np.array([np.frombuffer(record.vector, dtype="<f4") for record in found])
        assert db._keeper.differing(made, np.array([record.row for record in found]), codes) == 0


@pytest.mark.parametrize("golden", FOLDERS, ids=lambda path: path.name)
@pytest.mark.parametrize("read_only", [True, False])
def test_opens_answers_and_verifies(tmp_path: Path, golden: Path, read_only: bool):
    folder = tmp_path / "copy"
    shutil.copytree(golden, folder)
    expected = json.loads((golden / "expected.json").read_text())
    with open_store(folder / "golden.lethe", read_only=read_only) as db:
        assert db.digest() == expected["digest"]
        assert [record.id for record in db] == expected["ids"]
        assert db.search(vectors(), k=3).ids.tolist() == expected["nearest"]
        assert [receipt.to_json() for receipt in db.receipts()] == expected["receipts"]
        for receipt in expected["receipts"]:
            report = db.verify(receipt)
            assert report, str(report)
            assert report["absent"].passed
            assert report["digest"].passed
        if not read_only:
            assert db.verify(db.forget([1]))
