"""Snapshots of every format version are read and mean the same; the present version still writes the same bytes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import lethevec
from lethevec._index.snapshot import VERSION
from lethevec.reference.kept_form import rounded

GOLDEN = Path(__file__).parent.parent / "golden"
TOOL = Path(__file__).parent.parent.parent / "tools" / "make_index_golden.py"
FACTS = {
    (int(path.stem.removeprefix("index-v")), name): facts
    for path in sorted(GOLDEN.glob("index-v*.json"))
    for name, facts in json.loads(path.read_text()).items()
}


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("make_index_golden", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_golden_files_of_every_version():
    assert {version for version, _ in FACTS} == set(range(1, VERSION + 1))
    assert {name for version, name in FACTS if version == VERSION} >= {"vectors", "codes", "empty"}


@pytest.mark.parametrize(("version", "name"), FACTS)
def test_a_golden_file_is_read(isa, tool, version, name):
    facts = FACTS[version, name]
    index = lethevec.Index.load(GOLDEN / f"index-v{version}-{name}.snapshot")
    assert len(index) == facts["records"]
    x, ids = tool.records()
    if len(index):
        np.testing.assert_array_equal(index.ids(), np.sort(ids))
        if index.config.keep_vectors:
            form = index.config.keep_vectors
            kept = rounded(form, x[: tool.RECORDS]) if isinstance(form, str) else x[: tool.RECORDS]
            np.testing.assert_array_equal(index.vectors(ids), kept)
    hits = index.search(x[tool.RECORDS :], k=4)
    assert hits.ids.tolist() == facts["ids"]
    assert [[float(d).hex() for d in row] for row in hits.distances.tolist()] == facts["distances"]
    if version == VERSION:
        assert index.digest() == facts["digest"]


@pytest.mark.parametrize("name", [name for version, name in FACTS if version == VERSION])
def test_the_present_version_writes_the_same_bytes(isa, tool, tmp_path, name):
    data, facts = tool.make(name)
    assert data == (GOLDEN / f"index-v{VERSION}-{name}.snapshot").read_bytes()
    assert json.loads(json.dumps(facts)) == FACTS[VERSION, name]
    lethevec.Index.load(GOLDEN / f"index-v{VERSION}-{name}.snapshot").save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == data
