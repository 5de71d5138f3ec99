"""Vectors kept as float16 and int8: rounded once, when they come in; from then on the rounded one is the record.

That such an index equals the spec over any history is in `tests/properties`; that nothing of a forgotten record is left
in memory is in `test_process_memory.py`, `test_whole_memory.py` and here.
"""

from __future__ import annotations

import numpy as np
import pytest

import lethevec
from lethevec._native import core
from lethevec.errors import FormatError, ParameterError, VectorError
from lethevec.reference.kept_form import packed, rounded

FORMS = ("float16", "int8")
DIM = 24
SOURCES = {
    "scan": "scan",
    "tables": lethevec.Tables(key_bits=4),
    "pivots": lethevec.Pivots(cell_size=8),
    "refined": lethevec.Pivots(cell_size=8, refine=True),
    "graph": lethevec.Graph(),
    "auto": lethevec.Auto(pivots_from=150),
}


def data(n=300, dim=DIM, seed=5):
    return np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_it_answers_as_an_index_of_the_rounded_vectors(form, source, metric):
    if source == "graph" and metric == "ip":
        pytest.skip("no graph has it")
    x, ids = data(), np.arange(300)
    small = lethevec.Index(DIM, metric, source=SOURCES[source], keep_vectors=form)
    plain = lethevec.Index(DIM, metric, source=SOURCES[source])
    small.add(x, ids=ids)
    plain.add(rounded(form, x), ids=ids)
    for one in (small, plain):
        one.forget(ids[::7])
        one.update(rounded(form, x[1:30:7] * 3), ids=ids[1:30:7])
    stay = small.ids()
    assert small.vectors(stay).tobytes() == plain.vectors(stay).tobytes()
    for effort in (0.3, 1.0, np.inf):
        mine, other = (one.search(x[:20], 5, effort=effort) for one in (small, plain))
        np.testing.assert_array_equal(mine.ids, other.ids)
        assert mine.distances.tobytes() == other.distances.tobytes()
    # With no limit to the effort it is the exact ranking of what is kept.
    kept = small.vectors(stay).astype(np.float64)
    q = x[3].astype(np.float64)
    far = {
        "cosine": 1 - kept @ q / np.linalg.norm(kept, axis=1) / np.linalg.norm(q),
        "l2": np.linalg.norm(kept - q, axis=1),
        "ip": -(kept @ q),
    }[metric]
    found = small.search(x[3], 10, effort=np.inf)
    np.testing.assert_allclose(found.distances[0], np.sort(far)[:10], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_kept_is_what_stats_say(form):
    index = lethevec.Index(DIM, keep_vectors=form)
    index.add(data(), ids=range(300))
    each = {"float16": 2 * DIM, "int8": 4 + DIM}[form]
    assert index.stats()["bytes_vectors"] == 300 * each
    memory = core.testing.raw_memory(index._native)
    vector = data()[:1]
    assert packed(form, rounded(form, vector)) in memory
    assert rounded(form, vector)[0, :4].tobytes() not in memory
    index.forget([0])
    assert packed(form, rounded(form, vector)) not in core.testing.raw_memory(index._native)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_a_snapshot_has_the_small_form_and_the_same_bytes(form, metric, tmp_path):
    x = data()
    one, other = (lethevec.Index(DIM, metric, keep_vectors=form) for _ in range(2))
    one.add(x, ids=range(300))
    other.add(one.vectors(range(299, -1, -1)), ids=range(299, -1, -1))  # what it gives back is what it would keep
    one.save(tmp_path / "one")
    other.save(tmp_path / "other")
    written = (tmp_path / "one").read_bytes()
    assert written == (tmp_path / "other").read_bytes()
    assert packed(form, rounded(form, x)) in written
    assert len(written) < 300 * (8 + 4 * DIM)
    again = lethevec.Index.load(tmp_path / "one")
    assert again.config == one.config
    assert again.digest() == one.digest() == one.copy().digest()
    assert again.stats() == one.stats()


def test_a_snapshot_that_save_would_write_otherwise_is_refused(tmp_path):
    """An int8 vector with a scale twice as large and numbers half as large stands for the same vector."""
    import hashlib

    x = np.float32([[2, 4, -254]])
    index = lethevec.Index(3, "l2", keep_vectors="int8")
    index.add(x, ids=[1])
    index.save(tmp_path / "s")
    content = (tmp_path / "s").read_bytes()
    own = packed("int8", x)
    assert content.count(own) == 1
    for other in (
        np.float32([4]).tobytes() + np.int8([0, 1, -64]).tobytes(),
        np.float32([np.nan]).tobytes() + own[4:],
        np.float32([2]).tobytes() + np.int8([1, 2, -128]).tobytes(),
        np.float32([-2]).tobytes() + own[4:],
    ):
        changed = content.replace(own, other)[:-32]
        (tmp_path / "t").write_bytes(changed + hashlib.blake2b(changed, digest_size=32).digest())
        with pytest.raises(FormatError):
            lethevec.Index.load(tmp_path / "t")


@pytest.mark.parametrize("call", ["add", "update"])
def test_what_float16_cannot_hold_is_refused(call):
    index = lethevec.Index(3, "l2", keep_vectors="float16")
    index.add([[1, 2, 3]], ids=[1])
    before = index.digest()
    ids = [1, 2][call == "add" :][:1]
    with pytest.raises(VectorError, match=r"float16.*65504.*row 0, column 1: 70000"):
        getattr(index, call)([[1, 70000, 3]], ids=ids)
    assert index.digest() == before


def test_a_direction_that_rounding_takes_is_refused():
    index = lethevec.Index(3, "cosine", keep_vectors="float16")
    with pytest.raises(VectorError, match=r"float16.*row 1"):
        index.add([[1, 2, 3], [1e-9, 1e-9, 0]], ids=[1, 2])
    assert len(index) == 0
    lengths = lethevec.Index(3, "l2", keep_vectors="float16")  # where zero is a vector
    lengths.add([[1e-9, 1e-9, 0]], ids=[2])
    assert not lengths.vectors([2]).any()


@pytest.mark.parametrize("given", ["float32", "int4", 8, None, b"int8"])
def test_other_forms_are_refused(given):
    with pytest.raises(ParameterError, match=r"keep_vectors: expected True, False or one of 'float16', 'int8', got"):
        lethevec.Index(3, keep_vectors=given)


@pytest.mark.parametrize("form", FORMS)
def test_usr_codes_follow_the_norms_of_rounded_vectors(form):
    x = data()
    small, plain = (
        lethevec.Index(DIM, "l2", family="usr", bits=48, steps=2, **keep) for keep in ({"keep_vectors": form}, {})
    )
    for scale in (1, 30):  # the second makes all codes again
        ids = np.arange(300) + 1000 * scale
        small.add(x * scale, ids=ids)
        plain.add(rounded(form, x * np.float32(scale)), ids=ids)
    a, b = small.search(x, 3, effort=0.3), plain.search(x, 3, effort=0.3)
    np.testing.assert_array_equal(a.ids, b.ids)
    assert small.stats()["mean_norm"] == plain.stats()["mean_norm"]
