"""A small store whose configuration asks for gigabytes is refused before they are taken; the limit can be raised."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

import lethevec
from lethevec.errors import FormatError, LethevecError, ParameterError

COSTLY = {
    "a matrix of 8 GB": {"family": "simhash", "dim": 65_536, "bits": 32_768, "params": {}},
    "a matrix of 0.5 GB": {"family": "simhash", "dim": 16_384, "bits": 8_192, "params": {}},
    "rotations of 16 GB": {"family": "superbit", "dim": 65_536, "bits": 65_536, "params": {"rotation": "svd"}},
    "rotations of a minute": {"family": "superbit", "dim": 11_585, "bits": 11_585, "params": {"rotation": "svd"}},
    "tables of 32 million buckets": {
        "dim": 64,
        "bits": 128,
        "source": {"expected": 100_000, "key_bits": 20, "name": "tables", "probes": 112, "tables": 32},
    },
}
DIM = 32
MANY_BUCKETS = lethevec.Tables(tables=8, key_bits=20, probes=1, expected=1000)
LEGITIMATE = {"dim": DIM, "metric": "l2", "index": {"bits": 64, "source": MANY_BUCKETS}}
LOW = 0  # a limit that this is above, and that an ordinary store is not

OPEN = """
import resource, sys
import lethevec
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (256 << 20), now + (256 << 20)))
what, path = sys.argv[1:]
try:
    if what == "folder":
        with lethevec.connect(path, read_only=True) as db:
            db.collection("one")
    else:
        lethevec.open(path, read_only=what == "reader")
except lethevec.errors.FormatError as error:
    assert "max_setup=" in str(error) or "expected a table of at most" in str(error), error
    sys.exit(7)
"""


def forge(database, change):
    """Another configuration for an empty store."""
    connection = sqlite3.connect(database)
    (text,) = connection.execute("SELECT configuration FROM store").fetchone()
    config = {**json.loads(text), "source": {"name": "scan"}, **change}
    text = json.dumps(config, sort_keys=True, separators=(",", ":"))
    connection.execute("UPDATE store SET configuration = ?", (text,))
    connection.commit()
    connection.close()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="looks at /proc")
@pytest.mark.parametrize("what", ["reader", "writer", "folder"])
@pytest.mark.parametrize("case", COSTLY)
def test_what_asks_for_much_is_refused(tmp_path, case, what):
    path = tmp_path / "store"
    if what == "folder":
        with lethevec.connect(path) as db:
            database = db.collection("one", 8).path
    else:
        lethevec.open(path, 8).close()
        database = path
    forge(database, COSTLY[case])
    command = [sys.executable, "-c", OPEN, what, str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    )
    assert done.returncode == 7, done.stderr[-2000:]


def needed(refused) -> int:
    (number,) = map(int, re.findall(r"max_setup=(\d+) lets it pass", str(refused.value)))
    return number


def test_a_store_above_the_limit_can_be_opened(tmp_path):
    path = tmp_path / "people.lethe"
    with lethevec.open(path, **LEGITIMATE) as db:
        db.add(np.ones((2, DIM), dtype=np.float32), ids=[1, 2])
        digest = db.digest()
        db.backup(tmp_path / "copy.lethe")
    for read_only in (True, False):
        with pytest.raises(FormatError, match="max_setup") as refused:
            lethevec.open(path, read_only=read_only, max_setup=LOW)
        with lethevec.open(path, read_only=read_only, max_setup=needed(refused)) as db:
            assert db.digest() == digest
    with lethevec.open(path, **LEGITIMATE, max_setup=LOW) as db:  # and so has who gives the same settings again
        assert db.digest() == digest
    for other in ({"dim": DIM, "metric": "l2"}, {"index": LEGITIMATE["index"]}):
        with pytest.raises(LethevecError):
            lethevec.open(path, **other, max_setup=LOW)
    with pytest.raises(FormatError, match="max_setup"):
        lethevec.open(tmp_path / "copy.lethe", max_setup=LOW)
    with lethevec.open(tmp_path / "copy.lethe") as db:
        assert db.digest() == digest


def needed_to_make(refused) -> int:
    (number,) = map(int, re.findall(r"max_setup=(\d+) lets them pass", str(refused.value)))
    return number


BIG = {"dim": 2048, "index": {"family": "simhash", "bits": 16_384}}
GROWS = {"dim": 1, "index": {"family": "usr", "bits": 1024, "steps": 100}}  # ever less of it is allowed by its bytes


@pytest.mark.parametrize("settings", [BIG, GROWS], ids=["big", "grows"])
def test_what_could_not_be_opened_again_is_not_made(tmp_path, settings):
    """What was accepted opens again with the same limit, so that nobody finds out with records in it."""
    path = tmp_path / "people.lethe"
    with pytest.raises(ParameterError, match="max_setup=") as refused:
        lethevec.open(path, **settings)
    assert not path.exists()
    limit = needed_to_make(refused)
    with pytest.raises(ParameterError, match="max_setup="):
        lethevec.open(path, **settings, max_setup=limit - 1)
    lethevec.open(path, **settings, max_setup=limit).close()
    with lethevec.open(path, max_setup=limit) as db:
        assert len(db) == 0


def test_a_collection_that_asks_for_too_much_does_not_stand_in_the_way(tmp_path):
    """Otherwise nobody could be forgotten in the whole folder after the next open."""
    folder = tmp_path / "folder"
    with lethevec.connect(folder) as db:
        with pytest.raises(ParameterError, match="max_setup="):
            db.collection("big", **BIG)
        assert db.collections() == []
        db.collection("small", dim=2).add([[1, 2]], ids=[1], subjects="ann")
        with lethevec.connect(folder, read_only=True) as reader:
            assert len(reader.collection("small")) == 1
    with lethevec.connect(folder) as db:
        assert db.forget(subject="ann").records == 1
        db.backup(tmp_path / "backup")


def test_a_large_store_opens_with_the_limit_it_was_made_with():
    """The two ends of what it can grow to decide: all between them pass as well."""
    from lethevec._store import configuration

    for dim, options in ((1, {"bits": 230}), (40, {"bits": 9_000}), (1000, {"family": "simhash", "bits": 4_000})):
        config = configuration.new_configuration(dim, "l2", options)
        configuration.refuse_costly_creation(config, lethevec._index.MAX_SETUP)
        for size in (28 << 10, 1 << 20, 3 << 30, 1 << 40):
            configuration.refuse_costly_store(config, size, lethevec._index.MAX_SETUP, "path")


def test_so_can_a_folder_with_one(tmp_path):
    with lethevec.connect(tmp_path / "folder") as db:
        db.collection("one", **LEGITIMATE).add(np.ones((1, DIM)), ids=[1], subjects="ann")
        db.backup(tmp_path / "backup")
        chain = db.receipts(all_kinds=True)
    with lethevec.connect(tmp_path / "folder", max_setup=LOW) as db:
        with pytest.raises(FormatError, match="max_setup") as refused:
            db.collection("one")
        assert db.collections() == ["one"]
    keys = tmp_path / "folder" / "lethevec.catalog-keys"
    for limit, works in ((LOW, False), (needed(refused), True)):
        given = {"receipts": chain, "keys": keys, "max_setup": limit}
        if works:
            lethevec.restore(tmp_path / "backup", tmp_path / "again", **given)
        else:
            with pytest.raises(FormatError, match="max_setup"):
                lethevec.restore(tmp_path / "backup", tmp_path / "again", **given)
    with lethevec.connect(tmp_path / "again", keys=keys, max_setup=needed(refused)) as db:
        assert len(db.collection("one")) == 1
        assert db.forget(subject="ann").records == 1


def test_the_command_takes_the_limit(tmp_path):
    pytest.importorskip("click")
    from click.testing import CliRunner

    from lethevec.cli.app import cli

    path = tmp_path / "people.lethe"
    lethevec.open(path, **LEGITIMATE).close()
    refused = CliRunner().invoke(cli, ["info", str(path), "--max-setup", str(LOW)])
    assert refused.exit_code != 0
    assert "max_setup=" in refused.output
    done = CliRunner().invoke(cli, ["info", str(path), "--max-setup", str(1 << 40)])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("wrong", [-1, 1.5, None, "x", True])
def test_limits_that_are_none(tmp_path, wrong):
    with pytest.raises(ParameterError, match="max_setup"):
        lethevec.open(tmp_path / "people.lethe", dim=2, max_setup=wrong)
    with pytest.raises(ParameterError, match="max_setup"):
        lethevec.connect(tmp_path / "folder", max_setup=wrong)
    assert list(tmp_path.iterdir()) == []


def test_the_longest_codes_of_the_paper_are_not_refused(tmp_path):
    path = tmp_path / "people.lethe"
    x = np.random.default_rng(0).normal(size=(1500, 64)).astype(np.float32)
    with lethevec.open(path, 64, index={"family": "usr", "bits": 20 * 64, "steps": 17}) as db:
        db.add(x, ids=range(1500))
    with lethevec.open(path) as db:
        assert len(db) == 1500
