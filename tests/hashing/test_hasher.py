"""The object that `lethevec.hasher` gives: equality, repr, shapes, and that other threads run while it works."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest

import lethevec
from lethevec import reference
from lethevec._hashing import FAMILIES
from lethevec._native import core

SAMPLES = {
    "simhash": "hasher('simhash', dim=6, bits=12, seed=3)",
    "superbit": "hasher('superbit', dim=6, bits=12, seed=3, rotation='hadamard')",
    "usr": "hasher('usr', dim=6, bits=12, seed=3, gain=1.7320508075688772, rotation='hadamard', steps=17)",
    "progressive": "hasher('progressive', dim=6, bits=12, seed=3, rotation='hadamard', sweeps=0)",
    "faiss-lsh": "hasher('faiss-lsh', dim=6, bits=12, seed=3, rotation='hadamard')",
}


def test_every_family_is_sampled():
    assert set(SAMPLES) == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_repr_makes_the_same_hasher(family):
    h = lethevec.hasher(family, dim=6, bits=12, seed=3)
    assert repr(h) == SAMPLES[family]
    assert eval(repr(h), {"hasher": lethevec.hasher}) == h


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_hashers(family):
    a, b = (lethevec.hasher(family, dim=6, bits=12, seed=3) for _ in range(2))
    assert a is not b
    assert a == b
    assert hash(a) == hash(b)
    assert len({a, b}) == 1
    x = np.arange(12.0).reshape(2, 6)
    np.testing.assert_array_equal(a.codes(x), b.codes(x))
    assert a == b  # also once one of them has drawn its tables


def test_bits_and_expansion_say_the_same():
    assert lethevec.hasher("usr", dim=6, bits=12) == lethevec.hasher("usr", dim=6, expansion=2)


@pytest.mark.parametrize(
    "change",
    [
        {"family": "superbit"},
        {"dim": 4},
        {"bits": 24},
        {"seed": 1},
        {"steps": 16},
        {"gain": 2.0},
        {"rotation": "svd"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_different_hashers(change):
    base = {"family": "usr", "dim": 6, "bits": 12, "seed": 0}
    a = lethevec.hasher(**base)
    changed = base | change
    b = lethevec.hasher(**changed)
    assert a != b


def test_a_hasher_equals_no_other_thing():
    h = lethevec.hasher("usr", dim=6, bits=12)
    assert h != "usr"
    assert h != repr(h)
    assert h is not None


def test_parameters_are_a_copy():
    h = lethevec.hasher("usr", dim=6, bits=12)
    h.parameters["steps"] = 1
    assert h.parameters["steps"] == 17


@pytest.mark.parametrize("name", ["dim", "bits", "seed", "code_bytes", "parameters"])
def test_attributes_cannot_be_set(name):
    with pytest.raises(AttributeError):
        setattr(lethevec.hasher("usr", dim=6, bits=12), name, 1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("bits", [6, 12, 18])
def test_shapes(family, bits):
    h = lethevec.hasher(family, dim=6, bits=bits)
    x = np.random.default_rng(0).normal(size=(5, 6))
    assert (h.dim, h.bits, h.code_bytes) == (6, bits, (bits + 7) // 8)
    assert h.values(x).shape == (5, bits)
    assert h.codes(x).shape == (5, h.code_bytes)
    assert h.values(x[0]).shape == (1, bits)
    assert h.codes(x[0]).shape == (1, h.code_bytes)
    assert (h.values(x).dtype, h.codes(x).dtype) == (np.float32, np.uint8)


def test_faiss_lsh_is_the_family_that_the_rule_names():
    x = np.random.default_rng(0).normal(size=(5, 6))
    for bits, family in ((5, "simhash"), (6, "superbit"), (13, "superbit")):
        ours, other = (lethevec.hasher(name, dim=6, bits=bits, seed=2) for name in ("faiss-lsh", family))
        np.testing.assert_array_equal(ours.values(x), other.values(x))
        assert ours != other
        assert isinstance(ours, type(other))


def test_simhash_matrix():
    h = lethevec.hasher("simhash", dim=6, bits=10, seed=4)
    x = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32)
    np.testing.assert_allclose(h.values(x), x @ h.matrix, atol=1e-5)


def test_hasher_is_abstract():
    with pytest.raises(TypeError):
        lethevec.Hasher(4, 8, 0)


@pytest.fixture
def progress_during():
    """How often another thread ran while a call did: 0, for certain, if the call keeps the GIL.

    With an endless switch interval a thread gives the GIL away only where it asks to: the counter in each sleep(0), and
    the caller inside the call, if there.
    """
    ticks, stop, interval = [0], threading.Event(), sys.getswitchinterval()

    def count():
        while not stop.is_set():
            ticks[0] += 1
            time.sleep(0)

    def measure(call):
        for _ in range(200):  # the other thread may be slow to wake; a call that releases needs only one success
            before = ticks[0]
            call()
            if ticks[0] > before:
                return ticks[0] - before
        return 0

    sys.setswitchinterval(1000)
    counter = threading.Thread(target=count)
    counter.start()
    try:
        yield measure
    finally:
        stop.set()
        counter.join()
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("family", ["simhash", "superbit", "usr", "progressive"])
def test_other_threads_run_during_encode(progress_during, family):
    h = lethevec.hasher(family, dim=256, bits=1024, seed=1)
    x = np.random.default_rng(0).normal(size=(500, 256)).astype(np.float32)
    codes = h.codes(x)
    # Past the checks of `codes`, in which NumPy releases the GIL by itself.
    assert progress_during(lambda: h._encode(x, None, codes, 1)) > 0


def test_other_threads_run_during_reconstruct(progress_during):
    frame = core.Frame.hadamard(reference.make_frame(256, 4, 1, "hadamard").sign)
    codes = np.zeros((500, 128), dtype=np.uint8)
    x, weights = np.empty((500, 256), dtype=np.float32), np.ones(4, dtype=np.float32)
    assert progress_during(lambda: core.decode(frame, weights, 1.0, codes, x, 1)) > 0


def test_the_measurement_sees_a_call_that_keeps_the_gil(progress_during):
    haystack = bytes(1_000_000)
    assert progress_during(lambda: haystack.count(b"x")) == 0
