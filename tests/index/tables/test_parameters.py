"""Arguments, defaults, snapshots and `tune` of an index with tables."""

import json

import numpy as np
import pytest

from lethevec import Index, Scan, Tables
from lethevec._index.config import parse_config
from lethevec._index.sources import default_key_bits, default_probes
from lethevec.errors import FormatError, ParameterError


def chosen(**given):
    return Index(64, source=Tables(**given)).config.source


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tables": 0}, r"tables: expected an integer from 1 to 256, got 0"),
        ({"tables": 257}, r"tables: expected an integer from 1 to 256, got 257"),
        ({"tables": True}, r"tables: expected an integer"),
        ({"key_bits": 0}, r"key_bits: expected an integer from 1 to 20, got 0"),
        ({"key_bits": 21}, r"key_bits: expected an integer from 1 to 20, got 21"),
        ({"key_bits": 9, "dim": 8}, r"key_bits: expected an integer from 1 to 8, got 9"),
        ({"key_bits": 8.0}, r"key_bits: expected an integer"),
        ({"key_bits": 20, "tables": 33}, r"tables: expected at most 32 with key_bits=20, got 33"),
        ({"probes": 0}, r"probes: expected an integer from 1 to \d+, got 0"),
        ({"probes": "many"}, r"probes: expected an integer"),
        ({"expected": 0}, r"expected: expected an integer from 1 to \d+, got 0"),
        ({"expected": None}, r"expected: expected an integer from 1 to \d+, got None"),
        (
            {"keep_vectors": False, "family": "simhash", "bits": 128},
            r"keep_vectors=False: .* got simhash with 128 bits",
        ),
        ({"keep_vectors": False, "family": "superbit", "bits": 100}, r"multiple of dim=64; got superbit with 100 bits"),
    ],
)
def test_bad_parameters_are_refused(arguments, message):
    given = {name: arguments[name] for name in ("tables", "key_bits", "probes", "expected") if name in arguments}
    others = {name: value for name, value in arguments.items() if name not in given}
    with pytest.raises(ParameterError, match=message):
        Index(**{"dim": 64, "source": Tables(**given), **others})


@pytest.mark.parametrize("source", ["buckets", "Tables", "", None, 3, Tables, {"name": "tables"}, ["scan"]], ids=str)
def test_what_is_no_source_is_refused(source):
    names = "'auto', 'scan', 'tables', 'pivots', 'graph'"
    with pytest.raises(ParameterError, match=f"source: expected one of {names}, or an obj"):
        Index(8, source=source)


def test_a_name_is_an_object_with_defaults():
    assert Index(64, source="tables").config == Index(64, source=Tables()).config
    assert Index(64, source="scan").config.source == Scan()
    assert Tables(tables=np.int16(3)) == Tables(tables=3)
    assert type(Tables(tables=np.int16(3)).tables) is int
    assert hash(Tables(tables=3)) == hash(Tables(tables=np.int64(3)))


def test_defaults_follow_the_number_of_records_expected():
    assert chosen() == chosen(expected=100_000)
    assert chosen(expected=10**6).key_bits > chosen(expected=10**4).key_bits
    assert chosen(expected=10**6).probes > chosen(expected=10**4).probes
    given = {"expected": 10**6, "key_bits": 9, "tables": 3, "probes": 17}
    assert chosen(**given) == Tables(**given)
    for expected in (1, 10, 10**4, 10**9, 1 << 32):
        for dim in (1, 3, 100):
            assert 1 <= default_key_bits(expected, dim) <= min(dim, 20)
            assert default_probes(expected, default_key_bits(expected, dim)) >= 1
            Index(dim, source=Tables(expected=expected))


def test_the_configuration_is_kept_whole():
    config = Index(8, source=Tables(tables=3)).config
    assert json.loads(config.canonical())["source"] == {
        "name": "tables",
        "tables": 3,
        "key_bits": 7,
        "probes": 112,
        "expected": 100_000,
    }
    assert parse_config(config.canonical()) == config
    assert Index(8, source=Tables(tables=4)).digest() != Index(8, source=Tables(tables=3)).digest()


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"name": "tables"},
        {"name": "tables", "tables": 3},
        {"name": "tables", "expected": 1, "key_bits": 99, "probes": 1, "tables": 3},
        {"name": "tables", "expected": 1, "key_bits": 4, "probes": 1, "tables": 3, "x": 1},
        {"name": "tables", "expected": 1, "key_bits": 4, "probes": 1, "tables": {"name": "scan"}},
        {"name": "scan", "tables": 3},
        {"name": ["tables"]},
        [["name", "tables"]],
        "tables",
        "scan",
        None,
    ],
)
def test_a_configuration_that_cannot_be_is_refused(change):
    fields = json.loads(Index(8, source=Tables(tables=3)).config.canonical())
    fields["source"] = change
    with pytest.raises(FormatError, match="expected the configuration of an index"):
        parse_config(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())


@pytest.mark.parametrize("arguments", [{}, {"metric": "l2"}, {"keep_vectors": False}], ids=str)
def test_a_snapshot_brings_the_tables_back(tmp_path, make_clustered, contents_of, arguments):
    x, queries = make_clustered(1, 1500, 40), make_clustered(2, 8, 40)
    index = Index(40, source=Tables(tables=3, key_bits=7, probes=30), **arguments)
    index.add(x, ids=np.arange(1500)[::-1])
    index.forget(range(0, 1500, 3))
    index.save(tmp_path / "one")
    loaded = Index.load(tmp_path / "one")
    assert loaded.config == index.config
    assert loaded.digest() == index.digest()
    assert loaded.stats() == index.stats()
    for t in range(3):
        assert contents_of(loaded, t) == contents_of(index, t)
    np.testing.assert_array_equal(loaded.search(queries).ids, index.search(queries).ids)
    loaded.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        {"source": "scan"},
        {"source": Tables(probes=50, key_bits=9)},
        {"keep_vectors": False, "source": Tables(probes=50)},
    ],
    ids=str,
)
def test_tune_finds_the_least_effort(make_clustered, arguments):
    x, queries = make_clustered(3, 6000, 40), make_clustered(4, 60, 40)
    index = Index(40, **arguments)
    index.add(x, ids=range(6000))
    before = index.digest(), index.stats()
    tuned = index.tune(queries, target_recall=0.9, k=5)
    assert (index.digest(), index.stats()) == before
    assert tuned.k == 5
    best = index.search(queries, 5, effort=1e18).ids

    def recall(effort):
        found = index.search(queries, 5, effort=effort).ids
        return np.mean([np.isin(a, b).mean() for a, b in zip(found, best, strict=True)])

    assert tuned.recall >= 0.9
    assert recall(tuned.effort) == pytest.approx(tuned.recall, abs=0.01)
    lower = tuned.effort / 2 ** (1 / 8)
    assert recall(lower) < 0.9 or tuned.effort == 2.0**-10
    everything = index.tune(queries, target_recall=1.0, k=5)
    assert everything.recall == 1.0
    assert everything.effort >= tuned.effort
    assert everything.candidates >= tuned.candidates


@pytest.mark.parametrize("target", [0, -1, 1.01, float("nan"), True, "0.9", None])
def test_a_target_that_cannot_be_is_refused(target):
    with pytest.raises(ParameterError, match="target_recall: expected a number above 0 and up to 1"):
        Index(4).tune([[1, 2, 3, 4]], target_recall=target)


def test_tuning_an_empty_index():
    assert Index(4, source="tables").tune([[1, 2, 3, 4]]).recall == 1.0


def test_stats_count_buckets_and_their_bytes():
    index = Index(8, source=Tables(tables=2, key_bits=4, expected=100))
    index.add(np.eye(8), ids=range(8))
    stats = index.stats()
    assert stats["buckets_possible"] == 32
    assert 2 <= stats["buckets_used"] <= 16
    assert stats["bytes_tables"] == 8 * 32 + (32 + 140) * stats["buckets_used"] + 4 * 2 * 8
    assert stats["bytes_total"] == sum(stats[f"bytes_{part}"] for part in ("vectors", "codes", "ids", "tables"))
    assert Index(8).stats()["bytes_tables"] == 0
