"""The small forms: what they keep of a vector, and that to round twice is to round once. The core's are the same."""

from __future__ import annotations

import numpy as np
import pytest

from lethevec import reference
from lethevec._native import core
from lethevec.reference.kept_form import int8_scales, packed, rounded

FORMS = ("float16", "int8")
TINY = [0.0, -0.0, 1e-45, 2.0**-149, 2.0**-126, 2.0**-127, 3e-8, 2.0**-24, 2.0**-25, 1.5 * 2.0**-24, 2.0**-14, 6.1e-5]


def rows(kind: str, d: int):
    rng = np.random.default_rng([len(kind), d])
    x = rng.normal(size=(200, d))
    if kind == "wide":
        x = x * np.exp(rng.normal(size=(200, d)) * 4)
    elif kind == "scales":
        x = x * 10.0 ** rng.uniform(-44, 30, size=(200, 1))
    elif kind == "tiny":
        x = rng.choice(np.array(TINY), size=(200, d)) * rng.choice([1, -1], size=(200, d))
    elif kind == "ties":
        x = np.round(x * 8) / 16 * rng.choice(2.0 ** np.arange(-20, 12), size=(200, 1))
    elif kind == "edge":
        x = rng.choice(np.float32([65504, 65519.996, 65520, 65536, 1e9, 2047.5, 2049, -65504]), size=(200, d))
    return x.astype(np.float32)


KINDS = ("normal", "wide", "scales", "tiny", "ties", "edge")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 3, 8, 17, 100])
def test_the_core_rounds_as_the_spec_says(form, kind, d, monkeypatch):
    x = rows(kind, d)
    expected = rounded(form, x)
    before = core.active_isa()
    try:
        for isa in core.supported_isas():
            core.use_isa(isa)
            made = np.full_like(x, 9)
            core.round_vectors(x, form, made, 2)
            assert made.tobytes() == expected.tobytes(), isa
            finite = np.ascontiguousarray(expected[np.isfinite(expected).all(axis=1)])
            if not len(finite):
                continue
            width = 2 * d if form == "float16" else 4 + d
            kept = np.empty((len(finite), width), dtype=np.uint8)
            core.pack_vectors(finite, form, kept)
            assert kept.tobytes() == packed(form, finite)
            back = np.full_like(finite, 9)
            core.unpack_vectors(kept, form, back)
            assert back.tobytes() == finite.tobytes()
    finally:
        core.use_isa(before)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_rounded_vector_stays_as_it_is(form, kind):
    once = rounded(form, rows(kind, 12))
    once = once[np.isfinite(once).all(axis=1)]
    assert rounded(form, once).tobytes() == once.tobytes()


def test_float16_is_the_nearest_half():
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    every = every[np.isfinite(every)].astype(np.float32)[:, None]
    assert rounded("float16", every).tobytes() == every.tobytes()
    made = np.empty_like(every)
    core.round_vectors(every, "float16", made, 1)
    assert made.tobytes() == every.tobytes()


def test_int8_is_off_by_half_a_step_at_most():
    x = rows("wide", 30)
    scales = int8_scales(x)
    step = np.abs(x).max(axis=1, keepdims=True) / 127
    assert (scales >= step * (1 - 1e-7)).all()
    assert (scales <= step * (1 + 2.0**-14)).all()
    assert (np.abs(rounded("int8", x) - x) <= scales * 0.5000001).all()
    assert (np.abs(rounded("int8", x) / scales) <= 127).all()


def test_a_spec_that_rounds_after_coding_would_differ():
    """The record is the rounded vector: its code and norm are those of an index that was given the rounded one."""
    x = rows("normal", 24)
    given, again = (reference.Index({**reference.index.EXAMPLE, "dim": 24, "bits": 48, **keep}) for keep in ({}, {}))
    small = reference.Index({**reference.index.EXAMPLE, "dim": 24, "bits": 48, "keep_vectors": "int8"})
    small.add(x, range(200))
    given.add(x, range(200))
    again.add(rounded("int8", x), range(200))
    codes = [index.state.records.codes.tobytes() for index in (small, again, given)]
    assert codes[0] == codes[1] != codes[2]
