"""What a store says about itself, tuning on a store, and a forgotten id that living texts happen to spell."""

from __future__ import annotations

import numpy as np
import pytest

import lethevec
from lethevec._store import sqlite_facts
from lethevec.errors import FileError, ParameterError


def test_config_is_what_was_chosen(make):
    db = make(index={"family": "usr", "bits": 32, "seed": 5})
    config = db.config
    assert (config.dim, config.metric, config.family, config.bits, config.seed) == (8, "l2", "usr", 32, 5)
    assert config == lethevec.Index(8, "l2", family="usr", bits=32, seed=5).config


def test_files_are_those_on_disk(make, vectors, tmp_path):
    db = make()
    db.add(vectors, ids=range(40))
    files = db.files()
    assert {"people.lethe", "people.lethe-wal", "people.lethe-keys", "people.lethe-lock"} <= set(files)
    assert all((tmp_path / name).stat().st_size == size for name, size in files.items())


def test_tune_finds_what_the_index_finds(make, vectors):
    db = make()
    db.add(vectors, ids=range(40))
    index = lethevec.Index(dim=8, metric="l2")
    index.add(vectors, ids=range(40))
    queries = np.random.default_rng(6).normal(size=(20, 8))
    assert db.tune(queries, 0.9, 5) == index.tune(queries, 0.9, 5)
    assert db.tune(queries, 1.0, 5).recall == 1.0
    with pytest.raises(ParameterError, match="target_recall"):
        db.tune(queries, 1.5)
    db.close()
    with pytest.raises(FileError, match="closed"):
        db.tune(queries)


def test_sqlite_facts_say_what_is_wrong(tmp_path):
    good = sqlite_facts(tmp_path)
    assert (good.problem, good.secure_delete, good.journal_mode) == (None, "on", "wal")
    assert list(tmp_path.iterdir()) == []
    bad = sqlite_facts(tmp_path / "missing")
    assert bad.problem is not None
    assert "missing" in bad.problem


def test_living_texts_side_by_side_are_no_residue(make, vectors):
    """The id "deliberate" and the subject "david" lie side by side in a cell, and spell "liberated"."""
    db = make()
    ids = ["liberated", "deliberate", "other"]
    db.add(vectors[:3], ids=ids, subjects=["anna", "david", None], payloads=[None, {"a": 1}, {"liberat": 1}])
    receipt = db.forget("liberated", search_all=True)
    assert receipt["residue"]["found"] == 0
    assert db.verify(receipt, ids=["liberated"])


def test_a_forgotten_id_in_a_free_place_is_residue(make, vectors, tmp_path):
    """The other side: the same bytes where no living row has them are found."""
    db = make()
    db.add(vectors[:2], ids=["liberated", "kept"])
    receipt = db.forget("liberated")
    (tmp_path / "people.lethe-journal").write_bytes(b"....liberated....")
    assert db.verify(receipt, ids=["liberated"])["residue"].passed is False


def test_what_is_too_plain_to_search_for_was_not_checked(make, vectors):
    """A short id matches by accident, so nothing is known about it: that must not read as passed."""
    db = make()
    db.add(vectors[:2], ids=["piano", "violoncello"])
    receipt = db.forget(["piano", "violoncello"])
    assert db.verify(receipt, ids=["piano"])["residue"].passed is None
    assert db.verify(receipt, ids=["piano"])
    assert db.verify(receipt, ids=["piano", "violoncello"])["residue"].passed is True
