"""The digest is the multiset hash of the records, tagged and encoded, under the configuration."""

from __future__ import annotations

import numpy as np
import pytest

import lethevec

DIM = 11
CONFIGURATIONS = {
    "vectors": {},
    "usr l2": {"metric": "l2", "family": "usr", "bits": 2 * DIM},
    "hamming": {"ranking": "hamming"},
    "codes": {"keep_vectors": False},
    "codes, cut": {"keep_vectors": False, "family": "superbit", "bits": 17},
    "hamming codes": {"keep_vectors": False, "ranking": "hamming", "family": "simhash", "bits": 70},
}


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("n", [0, 1, 2, 700])
def test_equals_the_spec(tools, isa, configuration, n):
    index = lethevec.Index(DIM, **CONFIGURATIONS[configuration])
    spec = tools.spec_of(index)
    if n:
        x, ids = tools.data(n, DIM)
        index.add(x, ids=ids)
        spec.add(x, ids)
    assert index.digest() == spec.digest()


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_order_batches_threads_and_isa_do_not_matter(tools, configuration):
    from lethevec._native import core

    x, ids = tools.data(1500, DIM)
    digests = set()
    before = core.active_isa()
    try:
        for number, isa in enumerate(core.supported_isas() * 2):
            core.use_isa(isa)
            index = lethevec.Index(DIM, **CONFIGURATIONS[configuration])
            order = np.random.default_rng(number).permutation(1500)
            for part in np.array_split(order, 1 + 3 * number):
                index.add(x[part], ids=ids[part], threads=1 + number)
            digests |= {index.digest(threads=threads) for threads in (1, 2, 5, None)}
    finally:
        core.use_isa(before)
    assert len(digests) == 1


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_any_change_of_a_record_shows(tools, configuration):
    x, ids = tools.data(30, DIM)

    def digest_of(x, ids):
        return tools.build({"dim": DIM, **CONFIGURATIONS[configuration]}, x, ids).digest()

    seen = {digest_of(x, ids), digest_of(x[1:], ids[1:]), lethevec.Index(DIM, **CONFIGURATIONS[configuration]).digest()}
    changed = x.copy()
    changed[4] = -changed[4]
    seen.add(digest_of(changed, ids))
    other = ids.copy()
    other[4] = 10**9
    seen.add(digest_of(x, other))
    swapped = ids.copy()
    swapped[[3, 5]] = swapped[[5, 3]]
    seen.add(digest_of(x, swapped))
    assert len(seen) == 6


def test_the_last_bit_of_a_vector_shows(tools):
    x, ids = tools.data(30, DIM)
    before = tools.build({"dim": DIM}, x, ids).digest()
    x[7, 3] = np.nextafter(x[7, 3], np.float32(9))
    assert tools.build({"dim": DIM}, x, ids).digest() != before
    x[8, 0] = 0.0
    zero = tools.build({"dim": DIM}, x, ids).digest()
    x[8, 0] = -0.0
    assert tools.build({"dim": DIM}, x, ids).digest() != zero


def test_any_change_of_the_configuration_shows(tools):
    x, ids = tools.data(30, DIM)
    changes = [
        {},
        {"metric": "l2"},
        {"metric": "ip"},
        {"seed": 1},
        {"bits": 3 * DIM},
        {"sweeps": 1},
        {"rotation": "svd"},
        {"ranking": "hamming"},
        {"keep_vectors": False},
        {"family": "usr", "bits": 2 * DIM},
        {"family": "usr", "bits": 2 * DIM, "steps": 3},
        {"family": "usr", "bits": 2 * DIM, "gain": 1.5},
        {"family": "usr", "bits": 2 * DIM, "mean_norm": 1.5},
        {"family": "superbit", "bits": 2 * DIM},
        {"family": "faiss-lsh", "bits": 2 * DIM},
        {"family": "simhash", "bits": 2 * DIM},
    ]
    for records in (0, 30):
        digests = set()
        for change in changes:
            index = lethevec.Index(DIM, **change)
            if records:
                index.add(x, ids=ids)
            digests.add(index.digest())
        assert len(digests) == len(changes)


def test_it_looks_like_a_digest(tools):
    x, ids = tools.data(30, DIM)
    digest = tools.build({"dim": DIM}, x, ids).digest()
    assert len(digest) == 64
    assert set(digest) <= set("0123456789abcdef")
