"""The numbers of the spec are those of the native core, each under its name there, in its one home."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lethevec.reference import constants

NATIVE = Path(__file__).parents[2] / "native"

pytestmark = pytest.mark.skipif(not NATIVE.is_dir(), reason="needs the sources of the core")

# What the spec calls it: the file, the name there, and what the core's number is of the spec's.
HOMES = {
    "FIRST_ROUNDS": ("kernels/frame_view.h", "FIRST_ROUNDS", None),
    "TANH_LIMIT": ("kernels/usr.cpp", "LIMIT", None),
    "INT8_LARGEST": ("rows/vector_form.cpp", "MOST", None),
    "INT8_SCALE_CUT": ("rows/vector_form.cpp", "CUT", None),
    "CHUNK_WEIGHT": ("kernels/kernels.h", "CHUNK_WEIGHT", None),
    "CHUNK_BITS": ("kernels/kernels.h", "CHUNK_BYTES", lambda spec: spec // 8),
    "FIRST_WEIGHT": ("kernels/kernels.h", "ALL_WEIGHT", None),
    "TAIL_WEIGHT": ("kernels/kernels.h", "TAIL_WEIGHT", None),
    "LOOKED_BITS": ("sources/tables/tables.h", "LOOKED_BITS", None),
    "CENTRED_FROM": ("sources/tables/tables.h", "CENTRED_FROM", None),
    "ROWS_PER_PROBE": ("sources/tables/tables.h", "ROWS_PER_PROBE", None),
    "BUCKETS_PER_PROBE": ("sources/tables/candidates.cpp", "BUCKETS_PER_PROBE", None),
    "REFERENCE_EFFORT": ("sources/tables/candidates.cpp", "REFERENCE", None),
    "FAR_BEYOND": ("sources/tables/candidates.cpp", "FAR_BEYOND", None),
    "SAMPLE_TAG": ("sources/pivots/refined.cpp", "OTHER_KEY", None),
    "SAMPLE_RATE": ("sources/pivots/refined.cpp", "SHARE", lambda spec: (1 << 64) // spec),
    "LEAST_CELL": ("sources/pivots/pivots.cpp", "LEAST_CELL", None),
    "RECORDS_PER_SQUARE": ("sources/pivots/pivots.cpp", "RECORDS_PER_SQUARE", None),
    "ORIGIN_MEMBERS": ("sources/pivots/origins.h", "MEMBERS", None),
    "ROUNDING": ("sources/pivots/candidates.cpp", "ROUNDING", None),
    "VARIANCE_SHARE": ("sources/pivots/means.cpp", "VARIANCE_SHARE", None),
    "BEYOND_MEAN": ("sources/pivots/means.cpp", "BEYOND_MEAN", None),
    "LN2": ("sources/pivots/means.cpp", "LN2", None),
    "DIGEST_LANES": ("digest.h", "LANES", None),
}
WORDS = {"UINT8_MAX": "255", "UINT16_MAX": "65535", "uint64_t{1}": "1"}


def native_file(path: str) -> str:
    """A file of the core; it may have moved, but there is one of its name alone."""
    direct = NATIVE / path
    found = [direct] if direct.exists() else sorted(NATIVE.rglob(Path(path).name))
    assert len(found) == 1, f"{path}: expected one file of this name in the core, got {found}"
    return found[0].read_text()


def native_number(text: str, name: str) -> float:
    found = re.findall(rf"(?:constexpr [\w:]+ |, ){name} = ([^;,]+)[;,]", text)
    assert len(found) == 1, f"{name}: expected one definition, got {found}"
    expression = found[0]
    for word, value in WORDS.items():
        expression = expression.replace(word, value)
    if "0x" in expression and "p" in expression:
        return float.fromhex(expression.rstrip("f"))
    expression = re.sub(r"\b(0x[0-9A-Fa-f]+?)(?:u?ll|u)\b", r"\1", expression)
    return eval(re.sub(r"(?<=[0-9.])f\b", "", expression), {"__builtins__": {}})  # of our own sources


@pytest.mark.parametrize("name", HOMES)
def test_core_and_spec_have_one_number(name):
    path, native_name, derived = HOMES[name]
    spec = getattr(constants, name)
    expected = spec if derived is None else derived(spec)
    assert native_number(native_file(path), native_name) == pytest.approx(expected, rel=1e-7, abs=0)


@pytest.mark.parametrize(("letter", "name"), [("P", "TANH_P"), ("Q", "TANH_Q")])
def test_the_coefficients_of_the_quotient(letter, name):
    text = native_file("kernels/usr.cpp")
    assert [native_number(text, f"{letter}{place}") for place in range(4)] == list(getattr(constants, name))
