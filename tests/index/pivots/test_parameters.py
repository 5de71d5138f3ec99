"""Arguments, defaults and snapshots of an index with pivots."""

import json

import numpy as np
import pytest

from lethevec import Auto, Index, Pivots, Scan, reference
from lethevec._index.config import parse_config
from lethevec.errors import FormatError, LethevecError, ParameterError


def made(*, seed=0, **given):
    return Index(16, source=Pivots(**given), seed=seed)


def chosen(**given):
    return made(**given).config.source


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cell_size", [1, 0, -8, 2**63, 8.0, "8", True, [8]]),
        ("probes", [-1, 0, 2**63, 1.5, "many", True]),
        ("refine", [0, 1, 2, 0.5, "yes", None, np.True_]),
        ("key", [b"", bytes(15), bytes(17), "0" * 31, "AB" * 16, "0" * 16, 5, bytearray(16), list(range(16))]),
    ],
)
def test_bad_values_are_refused(name, values):
    for value in values:
        with pytest.raises(ParameterError, match=rf"{name}: expected .*, got ") as raised:
            made(**{name: value})
        assert "key" not in name or bytes(15).hex() not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"family": "usr", "bits": 32}, ["pivots", "progressive", "usr"]),
        ({"family": "superbit", "bits": 32}, ["pivots", "progressive", "superbit"]),
        ({"family": "simhash", "bits": 32}, ["pivots", "progressive", "simhash"]),
        ({"ranking": "hamming"}, ["pivots", "asymmetric", "hamming"]),
        ({"keep_vectors": False}, ["pivots", "keep_vectors"]),
    ],
)
def test_combinations_that_cannot_be_are_refused(arguments, words):
    with pytest.raises(ParameterError, match="expected") as raised:
        Index(16, source=Pivots(), **arguments)
    for word in words:
        assert word in str(raised.value)


@pytest.mark.parametrize("given", [{"pivots_from": 0}, {"graph_from": 2.5}, {"pivots_from": True}], ids=str)
def test_bad_values_of_auto_are_refused(given):
    with pytest.raises(ParameterError, match="_from: expected an integer"):
        Auto(**given)


@pytest.mark.parametrize("pivots", [None, "pivots", Pivots, Auto(), {"cell_size": 8}], ids=str)
def test_what_auto_takes_over_to_are_pivots(pivots):
    with pytest.raises(ParameterError, match=r"pivots: expected an object of lethevec\.Pivots"):
        Auto(pivots=pivots)


def test_auto_is_a_scan_where_pivots_do_not_fit():
    for other in ({"family": "usr", "bits": 32}, {"ranking": "hamming"}, {"keep_vectors": False}):
        assert Index(16, source=Auto(pivots_from=5), **other).config.source == Scan()
        assert Index(16, source="auto", **other).config.source == Scan()
    assert Index(16).config.source == Index(16, source=Auto()).config.source
    assert Index(16).config.source.pivots == chosen()


def test_defaults():
    usual = chosen()
    assert usual.refine is False
    assert usual.cell_size is None  # follows the number of records
    assert usual.probes is None  # follows the number of cells
    assert bytes.fromhex(usual.key) == b"".join(word.to_bytes(8, "little") for word in reference.default_pivot_key(0))
    assert chosen(seed=1).key != usual.key
    given = Pivots(cell_size=33, probes=17, refine=True, key=bytes(range(16)))
    assert given.key == bytes(range(16)).hex()
    assert Index(16, source=given).config.source == given
    assert chosen(cell_size=np.int64(9), probes=np.int32(3)) == chosen(cell_size=9, probes=3)


def test_the_configuration_is_kept_whole():
    config = made(cell_size=9, refine=True, key=bytes(range(16))).config
    assert parse_config(config.canonical()) == config
    digests = {
        made(**other).digest() for other in ({}, {"cell_size": 9}, {"refine": True}, {"key": bytes(16)}, {"probes": 9})
    }
    assert len(digests) == 5


@pytest.mark.parametrize(
    "change",
    [
        {"cell_size": 1},
        {"cell_size": "8"},
        {"key": "00" * 15},
        {"key": "0g" * 16},
        {"key": "AB" * 16},
        {"key": 7},
        {"key": None},
        {"probes": -1},
        {"probes": 0},
        {"refine": 2},
        {"refine": 0},
        {"tables": 4},
        {"other": 1},
    ],
    ids=str,
)
def test_a_configuration_that_cannot_be_is_refused(change):
    fields = json.loads(made().config.canonical())
    fields["source"] |= change
    with pytest.raises(FormatError, match="expected the configuration of an index"):
        parse_config(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"source": {"name": "tables"}},
        {"source": {"name": "auto"}},
        {"source": {"name": "pivots"}},
        {"ranking": "hamming"},
        {"keep_vectors": False},
    ],
)
def test_a_source_and_its_parameters_belong_together(change):
    fields = json.loads(made().config.canonical())
    fields.update(change)
    with pytest.raises(FormatError, match="expected the configuration of an index"):
        parse_config(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode())


def test_refused_input_changes_nothing(tools):
    x = tools.clustered(1, 200, 16)
    index = tools.build(x, range(200), metric="cosine")

    def look():
        return index.digest(), index.stats(), tools.native_state(index)

    before = look()
    for call in (
        lambda: index.add(x[:3], ids=[500, 501, 7]),
        lambda: index.add(x[:3], ids=[500, 501, 501]),
        lambda: index.add(np.zeros((1, 16)), ids=[500]),
        lambda: index.add(np.full((1, 16), np.nan), ids=[500]),
        lambda: index.update(x[:2], ids=[3, 500]),
        lambda: index.update(np.vstack([x[:1], np.zeros((1, 16))]), ids=[3, 4]),
        lambda: index.forget([3, 500]),
        lambda: index.forget([3, 3]),
        lambda: index.search(x[:1], 0),
        lambda: index.search(x[:1], effort=0),
    ):
        with pytest.raises(LethevecError):
            call()
        assert look() == before


@pytest.mark.parametrize(
    "arguments", [{}, {"metric": "l2", "refine": True}, {"metric": "ip", "key": bytes(range(16))}], ids=str
)
def test_a_snapshot_brings_the_cells_back(tmp_path, tools, arguments):
    x, queries = tools.clustered(2, 1500, 40), tools.clustered(3, 8, 40)
    index = tools.build(x, np.arange(1500)[::-1], **arguments)
    index.forget(range(0, 1500, 3))
    index.save(tmp_path / "one")
    loaded = Index.load(tmp_path / "one")
    assert loaded.config == index.config
    assert loaded.digest() == index.digest()
    assert loaded.stats() == index.stats()
    tools.assert_same_state(tools.native_state(loaded), tools.native_state(index))
    np.testing.assert_array_equal(loaded.search(queries).ids, index.search(queries).ids)
    loaded.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_stats_add_up(tools):
    index = tools.build(tools.clustered(4, 700, 16), range(700))
    stats = index.stats()
    parts = [
        value
        for name, value in stats.items()
        if name.startswith("bytes_") and name not in ("bytes_total", "bytes_per_record")
    ]
    assert stats["bytes_total"] == sum(parts)
    # Vector, id, two planes, the first of them once more to be scanned, four numbers, and the place in its cell.
    assert stats["bytes_total"] >= 700 * (4 * 16 + 8 + 4 + 2 + 16 + 8)
    assert stats["bytes_per_record"] == stats["bytes_total"] / 700
