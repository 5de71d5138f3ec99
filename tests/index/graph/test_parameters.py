"""Arguments, defaults, statistics and snapshots of an index with a graph."""

import json

import numpy as np
import pytest

from lethevec import Graph, Index, reference
from lethevec._index.config import parse_config
from lethevec.errors import FormatError, ParameterError


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cell_size", [1, 0, -8, 2**63, 8.0, "8", True, None]),
        ("cells", [0, -1, 2000, 1.5, "many", True, None]),
        ("pool", [0, -1, 5000, 1.5, "many", True, None]),
        ("key", [b"", bytes(15), bytes(17), "0" * 31, "AB" * 16, 5, bytearray(16), list(range(16))]),
    ],
)
def test_bad_values_are_refused(name, values):
    for value in values:
        with pytest.raises(ParameterError, match=rf"{name}: expected .*, got "):
            Graph(**{name: value})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"family": "usr", "bits": 32}, ["graph", "progressive", "usr"]),
        ({"ranking": "hamming"}, ["graph", "asymmetric", "hamming"]),
        ({"keep_vectors": False}, ["graph", "keep_vectors"]),
        ({"metric": "ip"}, ["graph", "cosine", "l2", "ip"]),
    ],
)
def test_combinations_that_cannot_be_are_refused(arguments, words):
    with pytest.raises(ParameterError, match="expected") as raised:
        Index(16, source="graph", **arguments)
    for word in words:
        assert word in str(raised.value)


def test_the_configuration_is_complete_and_canonical():
    config = Index(16, source="graph", seed=3).config
    key = np.array(reference.default_pivot_key(3), dtype="<u8").tobytes().hex()
    assert json.loads(config.canonical())["source"] == {
        "name": "graph",
        "cell_size": 32,
        "cells": 32,
        "pool": 128,
        "key": key,
    }
    assert parse_config(config.canonical()) == config
    with pytest.raises(FormatError):
        parse_config(config.canonical().replace(b'"pool":128', b'"pool":0'))


def test_a_snapshot_gives_the_same_graph(tools, tmp_path):
    x = tools.clustered(1, 150, 12)
    index = tools.build(x, np.arange(150), key=bytes(range(16)))
    index.forget(np.arange(0, 150, 7))
    index.save(tmp_path / "saved")
    other = tools.build(x[::-1].copy(), np.arange(150)[::-1].copy(), key=bytes(range(16)))
    for id in range(0, 150, 7):
        other.forget(id)
    other.save(tmp_path / "other")
    assert (tmp_path / "saved").read_bytes() == (tmp_path / "other").read_bytes()
    loaded = Index.load(tmp_path / "saved")
    assert loaded.config == index.config
    assert loaded.digest() == index.digest() == other.digest()
    assert loaded.stats() == index.stats() == other.stats()
    tools.assert_same_state(tools.native_state(loaded), tools.native_state(index))


def test_statistics(tools):
    x = tools.clustered(1, 200, 12)
    x[50:60] = x[0]
    index = tools.build(x, np.arange(200), metric="l2")
    stats, state = index.stats(), tools.native_state(index)
    assert stats["vertices"] == len(state) == 190
    assert stats["edges"] == sum(len(parts[4]) for parts in state.values())
    assert stats["bytes_graph"] > 190 * 12 * 4
    assert stats["bytes_total"] >= stats["bytes_graph"] + stats["bytes_vectors"]
    scanned = Index(12, source="scan")
    assert scanned.stats()["bytes_graph"] == scanned.stats()["vertices"] == 0
