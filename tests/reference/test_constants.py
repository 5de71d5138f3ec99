"""The numbers of the spec are those of the native core, each under its name there, in its one home."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import lethevec
from lethevec.reference import constants

NATIVE = Path(__file__).parents[2] / "native"
INDEX = Path(lethevec.__file__).parent / "_index"

pytestmark = pytest.mark.skipif(not NATIVE.is_dir(), reason="needs the sources of the core")

# Where the core has the same number under the same name.
SAME_NAME = {
    "digest.cpp": ["RECORD_PERSON"],
    "digest.h": ["VECTOR_TAG", "CODE_TAG"],
    "hashing/encoder.h": ["FIRST_STAGE_BITS"],
    "kernels/frame_view.h": ["FIRST_ROUNDS"],
    "kernels/kernels.h": ["CHUNK_WEIGHT", "FIRST_WEIGHT", "TAIL_WEIGHT", "SCALE_STEP"],
    "kernels/usr.cpp": ["TANH_LIMIT"],
    "rows/vector_form.cpp": ["INT8_LARGEST", "INT8_SCALE_CUT"],
    "search/direct.h": ["DIRECT_ROWS", "DIRECT_ROWS_PER_K", "DIRECT_ROWS_ONE_IN"],
    "sources/elsewhere.h": ["ALLOWED_EFFORT", "ALLOWED_NEARBY", "ALLOWED_NEARBY_ERRORS"],
    "sources/scan/plan.h": [
        "ALLOWED_SCAN_EFFORT",
        *("SCAN_ROWS", "SCAN_ROWS_PER_K", "SCAN_MISSED", "SCAN_MISSED_MOST", "SURE_EFFORT"),
        *("ONE_STAGE_SHARE", "ONE_STAGE_PER_K", "ONE_STAGE"),
        *("SURVIVORS_SHARE", "SURVIVORS_PER_K", "SURVIVORS"),
    ],
    "sources/scan/limits.cpp": ["NORMAL_TAIL", "ERROR_STEP", "LEAST_ERRORS"],
    "sources/tables/tables.h": ["LOOKED_BITS", "CENTRED_FROM", "ROWS_PER_PROBE"],
    "sources/tables/query.h": ["TABLE_WEIGHT"],
    "sources/tables/candidates.cpp": [
        *("BUCKETS_PER_PROBE", "REFERENCE_EFFORT", "PASS_SHARE", "PASS_PER_K"),
        *("TABLE_REFERENCE_ONE_IN", "TABLE_REFERENCE_PER_K", "TABLE_REFERENCE"),
        *("FILTER_PER_K", "FILTER", "FAR_BEYOND"),
    ],
    "sources/pivots/refined.cpp": ["SAMPLE_TAG"],
    "sources/pivots/pivots.cpp": ["RECORDS_PER_SQUARE", "LEAST_CELL"],
    "sources/pivots/means.cpp": [
        *("UNIT_BITS", "MOST_UNITS", "MEAN_WEIGHT", "QUERY_WEIGHT", "VARIANCE_SHARE", "LN2", "BEYOND_MEAN"),
    ],
    "sources/pivots/plan.h": [
        *("ALLOWED_ERRORS", "ALLOWED_CELLS"),
        *("LEAST_CELLS", "LEAST_CELLS_PER_ROOT", "MOST_CELLS_PER_ROOT"),
        *("FIRST_ROWS", "FIRST_ROWS_PER_K", "FIRST_ROWS_ONE_IN"),
        *("LIMIT_ROWS", "LIMIT_ROWS_PER_K", "FEW_ROWS", "FEW_ROWS_PER_K"),
    ],
    "sources/pivots/candidates.cpp": ["FALLOFF", "FIRST_ERRORS", "SECOND_ERRORS", "CELLS_WITHIN", "CELL_ERRORS"],
    "sources/graph/data.h": ["DEGREE"],
    "sources/graph/plan.h": ["GRAPH_STARTS", "GRAPH_POOL", "GRAPH_POOL_PER_K", "DISTANCES_PER_VERTEX"],
}
# Where the core has it under another name or in another form: the file, the name there, and what the core's number is
# of the spec's.
OTHER_NAME = {
    "TANH_P": ("kernels/usr.cpp", ["P0", "P1", "P2", "P3"], list),
    "TANH_Q": ("kernels/usr.cpp", ["Q0", "Q1", "Q2", "Q3"], list),
    "LANES_FLOAT32": ("kernels/refine.cpp", "SUMS", int),
    "INT8_LEAST_SCALE": ("rows/vector_form.cpp", "INT8_LEAST_SCALE", lambda x: int(np.float32(x).view(np.uint32))),
    "CHUNK_BITS": ("kernels/kernels.h", "CHUNK_BYTES", lambda bits: bits // 8),
    "SAMPLE_RATE": ("sources/pivots/refined.cpp", "SHARE", lambda rate: (1 << 64) // rate),
    "ORIGIN_MEMBERS": ("sources/pivots/origins.h", "MEMBERS", int),
    "GRAPH_ENTRIES": ("sources/graph/data.h", "GRAPH_ENTRY_BITS", lambda entries: entries.bit_length() - 1),
    "DIGEST_LANES": ("digest.h", "LANES", int),
}
# What the core has no number for, and why.
NO_TWIN = {
    "LANES_FLOAT64": "the kernels are written out for eight sums; they are compared bit by bit",
    "STREAM_SIGNS": "the spec makes the random numbers, and the core is given them",
    "STREAM_DENSE": "likewise",
    "STREAM_GAUSSIAN": "likewise",
    "STREAM_TABLES": "likewise",
    "STREAM_PIVOTS": "likewise",
    "TANH_ERROR": "a bound that tests check, and nobody computes with",
    "NORM_FRACTION_BITS": "the index imports it",
    "GAIN_STEPS_PER_OCTAVE": "the index imports it",
    "GAIN_LOWEST_STEP": "the index imports it",
    "PLANES_IN_CELLS": "the index imports it",
    "DIGEST_PERSON": "the spec's function makes the digest of a state",
}
HOMES = {name: (path, name, None) for path, names in SAME_NAME.items() for name in names} | OTHER_NAME
WORDS = {"UINT8_MAX": "255", "UINT16_MAX": "65535", "uint64_t{1}": "1", "BLOCK": "32"}


def native_file(path: str) -> str:
    """A file of the core; it may have moved, but there is one of its name alone."""
    direct = NATIVE / path
    found = [direct] if direct.exists() else sorted(NATIVE.rglob(Path(path).name))
    assert len(found) == 1, f"{path}: expected one file of this name in the core, got {found}"
    return found[0].read_text()


def native_number(text: str, name: str) -> object:
    """A number, or numbers in braces, or a text in quotation marks."""
    found = re.findall(rf"(?:constexpr [\w:]+ |, ){name}(?:\[\])? = (\{{[^}}]+\}}|[^;,]+)[;,]", text)
    assert len(found) == 1, f"{name}: expected one definition, got {found}"
    expression = found[0]
    if expression[0] in "'\"":
        return expression[1:-1].encode()
    for word, value in WORDS.items():
        expression = expression.replace(word, value)
    expression = re.sub(r"\b(0x[0-9A-Fa-f.]+p[-+]?\d+)f?", lambda number: repr(float.fromhex(number[1])), expression)
    expression = re.sub(r"\b(0x[0-9A-Fa-f]+?)(?:u?ll|u)\b", r"\1", expression)
    expression = re.sub(r"(?<=[0-9.])f\b", "", expression).replace("{", "[").replace("}", "]")
    return eval(expression, {"__builtins__": {}})  # of our own sources


@pytest.mark.parametrize("name", HOMES)
def test_core_and_spec_have_one_number(name):
    path, native_name, derived = HOMES[name]
    spec = getattr(constants, name)
    expected = list(spec) if isinstance(spec, tuple) else spec if derived is None else derived(spec)
    text = native_file(path)
    names = native_name if isinstance(native_name, list) else [native_name]
    numbers = [native_number(text, each) for each in names]
    found = numbers if isinstance(native_name, list) else numbers[0]
    if isinstance(expected, bytes):
        assert found == expected
    else:
        assert found == pytest.approx(expected, rel=1e-7, abs=0)


def test_no_number_of_the_spec_is_left_out():
    """A new one is compared with the core's, or NO_TWIN says why there is none."""
    listed = [name for names in SAME_NAME.values() for name in names] + list(OTHER_NAME) + list(NO_TWIN)
    assert sorted(listed) == sorted(name for name in vars(constants) if name.isupper())


@pytest.mark.parametrize("name", [name for name, why in NO_TWIN.items() if "imports" in why])
def test_what_the_index_has_too_it_imports(name):
    """So it cannot be another number; a copy of its own would be found here."""
    users = [path.read_text() for path in INDEX.rglob("*.py")]
    assert any(re.search(rf"^from \.\.reference\.constants import .*\b{name}\b", text, re.M) for text in users)


def test_a_number_that_the_core_changes_is_noticed():
    assert native_number("constexpr double FIRST = 8.0, SECOND = 5.0;", "SECOND") == 5.0
    assert native_number("constexpr double TAIL[] = {0.5,\n  0.25};", "TAIL") == [0.5, 0.25]
    assert native_number('constexpr char PERSON[] = "text", OTHER[] = "more";', "PERSON") == b"text"
    assert native_number("constexpr uint8_t TAG = 'v', MORE = 'c';", "MORE") == b"c"
    assert native_number("constexpr float P0 = 0x1.8p-1f;", "P0") == 0.75
    assert native_number("constexpr uint64_t SHARE = uint64_t{1} << 60;", "SHARE") == 1 << 60
