"""Codes that were written down once: the spec and every instruction set must reproduce them, now and later."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import lethevec
from lethevec import reference

GOLDEN = Path(__file__).parent.parent / "golden"
TOOL = Path(__file__).parent.parent.parent / "tools" / "make_golden.py"

with np.load(GOLDEN / "hashing-v1.npz") as archive:
    ARRAYS = dict(archive)
CASES = json.loads(str(ARRAYS["cases"]))


def hasher_of(case):
    return lethevec.hasher(case["family"], dim=case["dim"], bits=case["bits"], seed=case["seed"], **case["params"])


def expected(case, what):
    return ARRAYS[f"{case['name']}/{what}"]


def by_name(case):
    return case["name"]


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_native(isa, case):
    h, x = hasher_of(case), expected(case, "x")
    np.testing.assert_array_equal(h.codes(x), expected(case, "codes"))
    np.testing.assert_array_equal(h.values(x).view(np.uint32), expected(case, "values").view(np.uint32))
    if f"{case['name']}/back" in ARRAYS:
        back = h.reconstruct(expected(case, "codes"))
        np.testing.assert_array_equal(back.view(np.uint32), expected(case, "back").view(np.uint32))


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_spec(spec, case):
    h, x = hasher_of(case), expected(case, "x")
    values = np.ascontiguousarray(spec(h).values(x))
    np.testing.assert_array_equal(values.view(np.uint32), expected(case, "values").view(np.uint32))
    np.testing.assert_array_equal(reference.pack(values), expected(case, "codes"))


def test_the_file_covers_what_it_should():
    assert int(ARRAYS["version"]) == 1
    assert {case["family"] for case in CASES} == {"superbit", "usr", "progressive"}
    assert {1, 2, 3, 25, 96, 100, 127, 128, 129, 384, 784, 1536} <= {case["dim"] for case in CASES}
    assert all(case["params"]["rotation"] == "hadamard" for case in CASES)
    assert any(case["params"].get("sweeps") for case in CASES)
    # Codes that were all alike would prove nothing.
    ones = np.unpackbits(np.concatenate([expected(case, "codes")[0] for case in CASES])).mean()
    assert 0.4 < ones < 0.6


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("make_golden", TOOL)
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_golden"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["make_golden"]


def test_the_tool_gives_these_files(tool):
    """The .npz whole. Of the .bin what is the same everywhere: dense tables go through a linear-algebra library."""
    made = tool.cases()
    assert tool.same_npz((GOLDEN / "hashing-v1.npz").read_bytes(), tool.npz_bytes(made))
    stored = (GOLDEN / "hashing-v1.bin").read_bytes()
    for case in made:
        if case.portable:
            assert tool.bin_bytes([case])[len(tool.bin_bytes([])) :] in stored


def test_the_tool_does_not_overwrite(tool, tmp_path, capsys):
    assert tool.main(["--out", str(tmp_path)]) == 0
    assert tool.main(["--out", str(tmp_path)]) == 0
    assert "unchanged" in capsys.readouterr().out
    path = tmp_path / "hashing-v1.bin"
    path.write_bytes(path.read_bytes()[:-1])
    assert tool.main(["--out", str(tmp_path)]) == 1
    assert "--replace" in capsys.readouterr().err
    assert tool.main(["--out", str(tmp_path), "--replace"]) == 0
    assert tool.main(["--out", str(tmp_path)]) == 0
