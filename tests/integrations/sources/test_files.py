"""hnswlib and Faiss: files."""

from __future__ import annotations

import numpy as np
import pytest

from lethevec import moving
from lethevec.errors import FileError, FormatError, ParameterError, UnsupportedError

from .conftest import DELETED, DIM, LIVING, VECTORS, N, check_vectors


@pytest.fixture
def hnswlib_file(tmp_path):
    hnswlib = pytest.importorskip("hnswlib", reason="hnswlib is not installed: make test-sources")

    def make(space: str):
        index = hnswlib.Index(space=space, dim=DIM)
        index.init_index(max_elements=N + 10)
        index.add_items(VECTORS, np.arange(N) + 1000)
        for place in DELETED:
            index.mark_deleted(place + 1000)
        index.save_index(str(tmp_path / "index.bin"))
        return tmp_path / "index.bin"

    return make


@pytest.mark.parametrize(("space", "metric"), [("l2", "l2"), ("ip", "ip"), ("cosine", "cosine")])
def test_hnswlib(hnswlib_file, copied, space, metric):
    moved, residue, records, source = copied("hnswlib", hnswlib_file(space), metric=metric)
    check_vectors(records, lambda place: place + 1000, scaled=space == "cosine")
    assert (moved.records, moved.left_out, moved.compared) == (len(LIVING), 0, 117)
    assert bool(source.remarks) == (space == "cosine")
    assert residue.records == len(DELETED)
    assert residue.bytes == len(DELETED) * DIM * 4
    assert residue.places == {"index.bin": residue.bytes}
    assert "only marks" in residue.remark


def test_hnswlib_without_deletions(tmp_path, copied):
    hnswlib = pytest.importorskip("hnswlib", reason="hnswlib is not installed: make test-sources")
    index = hnswlib.Index(space="l2", dim=DIM)
    index.init_index(max_elements=N)
    index.add_items(VECTORS[:5], range(5))
    index.save_index(str(tmp_path / "index.bin"))
    moved, residue, _, _ = copied("hnswlib", tmp_path / "index.bin", metric="l2")
    assert (moved.records, residue.records, residue.bytes) == (5, 0, 0)


def test_hnswlib_with_equal_vectors(tmp_path, copied, monkeypatch):
    """A vector that was deleted many times counts as often, and is looked for once."""
    from lethevec.moving import _left_behind

    asked = []
    search = _left_behind.search
    monkeypatch.setattr(_left_behind, "search", lambda files, needles: asked.append(needles) or search(files, needles))
    hnswlib = pytest.importorskip("hnswlib", reason="hnswlib is not installed: make test-sources")
    index = hnswlib.Index(space="l2", dim=DIM)
    index.init_index(max_elements=N)
    index.add_items(np.repeat(VECTORS[:4], 100, axis=0), range(400))
    for label in range(399):
        index.mark_deleted(label)
    index.save_index(str(tmp_path / "index.bin"))
    _, residue, _, _ = copied("hnswlib", tmp_path / "index.bin", metric="l2")
    assert (residue.records, residue.bytes) == (399, 399 * DIM * 4)
    assert residue.places == {"index.bin": residue.bytes}
    assert [len({needle.data for needle in needles}) for needles in asked] == [len(asked[0])] == [4]


def test_files_of_hnswlib_are_not_trusted(hnswlib_file, tmp_path):
    whole = hnswlib_file("l2").read_bytes()
    rng = np.random.default_rng(0)
    path = tmp_path / "damaged.bin"
    with pytest.raises(ParameterError, match="metric"):
        moving.open_source("hnswlib", str(hnswlib_file("l2")))
    for size in (0, 40, 95, 96, 5000):
        path.write_bytes(whole[:size])
        with pytest.raises(FormatError):
            list(moving.open_source("hnswlib", str(path), metric="l2").batches(100))
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(48)] = rng.integers(256)
        path.write_bytes(bytes(damaged))
        try:
            list(moving.open_source("hnswlib", str(path), metric="l2").batches(100))
        except FormatError:
            continue


def faiss_indexes():
    faiss = pytest.importorskip("faiss", reason="Faiss is not installed: make test-sources")
    exact = {
        "flat": faiss.IndexFlatL2(DIM),
        "ip": faiss.IndexFlatIP(DIM),
        "hnsw": faiss.IndexHNSWFlat(DIM, 8),
        "ivf": faiss.index_factory(DIM, "IVF4,Flat"),
        "sq8": faiss.index_factory(DIM, "SQ8"),
        "refined": faiss.index_factory(DIM, "IVF4,SQ8,RFlat"),
        "nsg": faiss.index_factory(DIM, "NSG8"),
    }
    for index in exact.values():
        index.train(VECTORS)
    return faiss, exact


@pytest.mark.parametrize("kind", ["flat", "ip", "hnsw", "ivf", "sq8", "refined", "nsg"])
def test_faiss(tmp_path, copied, kind):
    faiss, indexes = faiss_indexes()
    index = indexes[kind]
    index.add(VECTORS)
    faiss.write_index(index, str(tmp_path / "index.faiss"))
    moved, residue, records, source = copied("faiss", tmp_path / "index.faiss")
    assert moved.records == N
    assert source.metric == ("ip" if kind == "ip" else "l2")
    got = np.stack([records[place].vector for place in range(N)])
    assert np.abs(got - VECTORS).max() < (0.05 if kind == "sq8" else 1e-12)
    assert bool(source.remarks) == (kind == "sq8")
    assert residue.records == 0


def test_faiss_with_ids_and_removals(tmp_path, copied):
    faiss, indexes = faiss_indexes()
    index = faiss.IndexIDMap2(indexes["flat"])
    index.add_with_ids(VECTORS, np.arange(N) + 50)
    index.remove_ids(np.array(DELETED) + 50)
    faiss.write_index(index, str(tmp_path / "index.faiss"))
    _, residue, records, _ = copied("faiss", tmp_path / "index.faiss")
    check_vectors(records, lambda place: place + 50)
    # What the remark says of Faiss is true.
    raw = (tmp_path / "index.faiss").read_bytes()
    assert VECTORS[LIVING[0]].tobytes() in raw
    assert not any(VECTORS[place].tobytes() in raw for place in DELETED)
    assert "closes the gaps" in residue.remark


@pytest.mark.parametrize("kind", ["IVF4,Flat", "IVF4,SQ8", "PCA24,IVF4,Flat"])
def test_faiss_whose_inverted_lists_have_ids(tmp_path, copied, kind):
    faiss, _ = faiss_indexes()
    index = faiss.index_factory(DIM, kind)
    index.train(VECTORS)
    index.add_with_ids(VECTORS, np.arange(N)[::-1] * 3)
    index.remove_ids(np.arange(N)[::-1][DELETED] * 3)
    faiss.write_index(index, str(tmp_path / "index.faiss"))
    moved, _, records, _ = copied("faiss", tmp_path / "index.faiss")
    assert moved.records == len(LIVING)
    assert set(records) == {(N - 1 - place) * 3 for place in LIVING}
    got = np.stack([records[(N - 1 - place) * 3].vector for place in LIVING])
    assert np.abs(got - VECTORS[LIVING]).max() < (0.05 if "SQ8" in kind else 1e-5)


def test_faiss_with_removals_and_no_ids(tmp_path, copied):
    faiss, indexes = faiss_indexes()
    indexes["ivf"].add(VECTORS)
    indexes["ivf"].remove_ids(np.array(DELETED))
    faiss.write_index(indexes["ivf"], str(tmp_path / "index.faiss"))
    _, _, records, _ = copied("faiss", tmp_path / "index.faiss")
    check_vectors(records, int)


def test_faiss_that_has_mixed_up_its_ids(tmp_path):
    """Faiss removes from the lists and not from the map above them: its own searches then give ids of others."""
    faiss, _ = faiss_indexes()
    index = faiss.index_factory(DIM, "IDMap,IVF4,Flat")
    index.train(VECTORS)
    index.add_with_ids(VECTORS, np.arange(N) + 50)
    index.remove_ids(np.array(DELETED) + 50)
    faiss.write_index(index, str(tmp_path / "index.faiss"))
    with pytest.raises(UnsupportedError, match="mixes up ids"):
        moving.open_source("faiss", str(tmp_path / "index.faiss"))


def test_faiss_that_cannot_be_read(tmp_path):
    faiss, _ = faiss_indexes()
    with pytest.raises(FileError, match="nothing there"):
        moving.open_source("faiss", str(tmp_path / "none"))
    (tmp_path / "bad").write_bytes(b"IxF2 and nothing else")
    with pytest.raises(FormatError, match="something else"):
        moving.open_source("faiss", str(tmp_path / "bad"))
    other = faiss.IndexFlat(DIM, faiss.METRIC_L1)
    other.add(VECTORS)
    faiss.write_index(other, str(tmp_path / "l1"))
    with pytest.raises(UnsupportedError, match="metric"):
        moving.open_source("faiss", str(tmp_path / "l1"))
