"""What `lethevec.hasher` accepts; every refusal names the parameter, its range and what came."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import lethevec
from lethevec._hashing import FAMILIES, ROTATIONS
from lethevec.errors import LethevecError, ParameterError


def refuse(*fragments, family="superbit", **arguments):
    arguments = {"dim": 8, "bits": 16} | arguments
    with pytest.raises(ParameterError) as caught:
        lethevec.hasher(family, **{k: v for k, v in arguments.items() if v is not Ellipsis})
    for fragment in fragments:
        assert fragment in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, LethevecError)


@pytest.mark.parametrize("family", ["simHash", "", "lsh", None, 3, b"usr"])
def test_family(family):
    refuse("family: expected one of", *map(repr, FAMILIES), f"got {family!r}", family=family)


@pytest.mark.parametrize("dim", [0, -1, 65_537, 1.5, 8.0, "8", None, True, math.nan, [8]])
def test_dim(dim):
    refuse("dim: expected an integer from 1 to 65536", f"got {dim!r}", dim=dim)


@pytest.mark.parametrize("bits", [0, -8, (1 << 20) + 1, 16.0, "16", True])
def test_bits(bits):
    refuse("bits: expected an integer from 1 to 1048576", f"got {bits!r}", bits=bits)


@pytest.mark.parametrize("expansion", [0, -1, 131_073, 2.0, "2", True])
def test_expansion(expansion):
    refuse("expansion: expected an integer from 1 to 131072", f"got {expansion!r}", bits=..., expansion=expansion)


@pytest.mark.parametrize("given", [{"bits": None}, {"bits": 16, "expansion": 2}])
def test_either_bits_or_expansion(given):
    refuse("expected either bits or expansion", **given)


@pytest.mark.parametrize("seed", [-1, 1 << 64, 0.0, "0", None, True])
def test_seed(seed):
    refuse("seed: expected an integer from 0 to 18446744073709551615", f"got {seed!r}", seed=seed)


@pytest.mark.parametrize("rotation", ["dense", "SVD", None, 1])
@pytest.mark.parametrize("family", ["superbit", "usr", "progressive", "faiss-lsh"])
def test_rotation(family, rotation):
    refuse("rotation: expected one of", *map(repr, ROTATIONS), f"got {rotation!r}", family=family, rotation=rotation)


@pytest.mark.parametrize("steps", [0, -1, 10_001, 17.0, "17", None, True])
def test_steps(steps):
    refuse("steps: expected an integer from 1 to 10000", f"got {steps!r}", family="usr", steps=steps)


@pytest.mark.parametrize("sweeps", [-1, 1001, 1.0, "1", None, False])
def test_sweeps(sweeps):
    refuse("sweeps: expected an integer from 0 to 1000", f"got {sweeps!r}", family="progressive", sweeps=sweeps)


@pytest.mark.parametrize("value", [0, 0.0, -1.0, 9e-19, 1.1e18, 10**19, math.inf, math.nan, "1", None, True, 1j])
@pytest.mark.parametrize("name", ["gain", "mean_norm"])
def test_gain(name, value):
    refuse(f"{name}: expected a number from 1e-18 to 1e+18", f"got {value!r}", family="usr", **{name: value})


def test_gain_or_mean_norm():
    refuse("expected gain or mean_norm, got both", family="usr", gain=1.0, mean_norm=1.0)


@pytest.mark.parametrize(
    ("bits", "advice"), [(1, "such as 8 or 16"), (15, "such as 8 or 16"), (17, "such as 16 or 24")]
)
@pytest.mark.parametrize("family", ["usr", "progressive"])
def test_whole_blocks(family, bits, advice):
    refuse("bits:", "a multiple of dim=8", advice, f"got {bits}", family=family, bits=bits)


@pytest.mark.parametrize(
    ("family", "foreign"),
    [
        ("simhash", "rotation"),
        ("simhash", "steps"),
        ("superbit", "steps"),
        ("superbit", "gain"),
        ("usr", "sweeps"),
        ("progressive", "gain"),
        ("progressive", "steps"),
        ("faiss-lsh", "sweeps"),
        ("usr", "colour"),
    ],
)
def test_parameters_of_other_families(family, foreign):
    value = "hadamard" if foreign == "rotation" else 1
    refuse(f"{family}: unexpected parameter {foreign}", family=family, **{foreign: value})


def test_faiss_rule_below_dim_has_no_rotation():
    """It is simHash there."""
    refuse("unexpected parameter rotation", family="faiss-lsh", bits=4, rotation="hadamard")


@pytest.mark.parametrize(
    ("family", "bits", "params"),
    [
        ("simhash", 65_535, {}),
        ("faiss-lsh", 65_535, {}),  # simHash there, with its matrix
        ("superbit", 65_536, {"rotation": "svd"}),
        ("usr", 65_536, {"rotation": "gram-schmidt"}),
    ],
)
def test_tables_that_take_gigabytes(family, bits, params):
    refuse("expected a table of at most", family=family, dim=65_536, bits=bits, **params)


@pytest.mark.parametrize("threads", [0, -1, 1025, 2.0, "2", True])
@pytest.mark.parametrize("entry", ["values", "codes", "reconstruct"])
def test_threads(entry, threads):
    h = lethevec.hasher("usr", dim=4, bits=8)
    argument = np.zeros((1, 1), dtype=np.uint8) if entry == "reconstruct" else np.ones((1, 4))
    with pytest.raises(ParameterError, match=re.escape("threads: expected an integer from 1 to 1024")) as caught:
        getattr(h, entry)(argument, threads=threads)
    assert repr(threads) in str(caught.value)


def test_numpy_integers_are_integers():
    a = lethevec.hasher("usr", dim=np.int64(4), bits=np.uint16(8), seed=np.uint64(7), steps=np.int8(3))
    assert a == lethevec.hasher("usr", dim=4, bits=8, seed=7, steps=3)
    assert type(a.dim) is int
    assert type(a.seed) is int


def test_numpy_floats_are_numbers():
    assert lethevec.hasher("usr", dim=4, bits=8, gain=np.float32(0.5)).gain == 0.5


@pytest.mark.parametrize("gain", [1e-18, 1, 1e18])
def test_the_ends_of_the_gain(gain):
    """Nothing overflows, even where the vectors are as large as they may be."""
    h = lethevec.hasher("usr", dim=4, bits=8, gain=gain)
    x = np.array([[1e18, 0, 0, 0], [1e-45, 0, 0, 0], [5e17, -5e17, 5e17, -5e17]], dtype=np.float32)
    assert h.gain == gain
    assert np.isfinite(h.values(x)).all()


def test_the_ends_of_the_ranges():
    assert lethevec.hasher("superbit", dim=1, bits=1, seed=(1 << 64) - 1).codes([[2.0]]).shape == (1, 1)
    assert lethevec.hasher("superbit", dim=65_536, bits=8).codes(np.ones(65_536)).shape == (1, 1)
    assert lethevec.hasher("simhash", dim=1, bits=1 << 20).codes([[1.0]]).shape == (1, 1 << 17)


def test_defaults():
    h = lethevec.hasher("usr", dim=100, expansion=4)
    assert h.parameters == {"gain": 10.0, "rotation": "hadamard", "steps": 17}
    assert (h.bits, h.seed, h.code_bytes) == (400, 0, 50)
    assert lethevec.hasher("progressive", dim=4, bits=8).parameters == {"rotation": "hadamard", "sweeps": 0}
    assert lethevec.hasher("usr", dim=100, expansion=4, mean_norm=2.0).gain == 5.0


def test_arguments_are_by_name():
    with pytest.raises(TypeError):
        lethevec.hasher("usr", 4, 8)
