"""Pages that fit the records: what a store takes on disk, and that large pages forget like small ones."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from lethevec._store import open as open_store
from lethevec._store.page_size import SIZES, cost, page_size_for

DIMENSIONS = range(25, 4097)


@pytest.mark.parametrize("page", SIZES)
@pytest.mark.parametrize("blob", [100, 400, 2048, 4061, 4200, 8300, 16384])
def test_the_cost_is_what_sqlite_takes(page, blob):
    connection = sqlite3.connect(":memory:")
    connection.execute(f"PRAGMA page_size={page}")
    connection.execute("CREATE TABLE vectors (slot INTEGER PRIMARY KEY, vector BLOB NOT NULL)")
    first, n = 1 << 22, 16 * page // blob + 200  # slots that take as many bytes as are counted on
    rows = ((first + i, bytes([i % 251]) * blob) for i in range(n))
    connection.executemany("INSERT INTO vectors VALUES (?, ?)", rows)
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.close()
    expected = n * cost(blob, page) / page
    assert abs(pages - expected) <= 3 + 0.01 * expected  # interior pages, and a last one that is not full


@pytest.mark.parametrize("sealed", [False, True])
def test_every_dimension_is_stored_well(sealed):
    """The row of a vector takes 18 % more than its bytes at most, or 16 bytes where it is short."""
    rest = 36 + 200 if sealed else 0
    for dim in DIMENSIONS:
        row = 4 * dim + rest
        assert cost(row, page_size_for(dim, sealed=sealed)) <= max(1.18 * row, row + 16), dim


@pytest.mark.parametrize("dim", [25, 64, 100, 128, 256, 300, 512, 700, 1024, 1536, 2048, 4096])
def test_a_store_takes_a_quarter_more_than_vectors_and_payloads(dim, tmp_path):
    """In all, with payloads of 100 bytes: every table and index, without what an empty store takes."""
    path = tmp_path / "s.lethe"
    payload = {"text": "x" * 89}
    n = max(300, (3 << 20) // (4 * dim + 100))
    rng = np.random.default_rng(1)
    with open_store(path, dim, "l2") as db:
        page_size = db._session.page_size
        empty = db._session.connection.execute("PRAGMA page_count").fetchone()[0]
        db.add(rng.normal(size=(n, dim)).astype(np.float32), ids=range(n), payloads=[payload] * n)
    taken = path.stat().st_size - empty * page_size
    assert page_size == page_size_for(dim, sealed=False)
    assert taken <= 1.25 * n * (4 * dim + 100)


def large_pages() -> list[int]:
    """For each size of pages, a dimension that gets it."""
    found = {page_size_for(dim, sealed=False): dim for dim in reversed(DIMENSIONS)}
    assert set(found) == set(SIZES)
    return [found[size] for size in SIZES]


@pytest.mark.parametrize("encrypt", [False, True], ids=["plain", "sealed"])
@pytest.mark.parametrize("dim", large_pages())
def test_large_pages_forget_like_small_ones(dim, encrypt, tmp_path, leftovers, unaccounted):
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(60, dim)).astype(np.float32)
    names = [f"name-of-person-{i:02d}" for i in range(60)]
    notes = [f"confidential note {i:03d} " * (1 + i % 7 * 40) for i in range(60)]
    path = tmp_path / "s.lethe"
    with open_store(path, dim, "l2", encrypt=encrypt) as db:
        for start in range(0, 60, 20):
            part = slice(start, start + 20)
            db.add(vectors[part], ids=names[part], payloads=[{"note": note} for note in notes[part]])
            gone = list(range(start, start + 20, 3))
            receipt = db.forget([names[i] for i in gone])
            texts = [notes[i][:21] for i in gone]
            assert leftovers(tmp_path, vectors=vectors[gone], ids=[names[i] for i in gone], texts=texts) == []
            assert unaccounted(path) == {}
            assert db.verify(receipt)
        db.backup(tmp_path / "backup")
        digest = db.digest()
    with open_store(tmp_path / "backup", read_only=True, keys=tmp_path / "s.lethe-keys") as copy:
        assert copy.digest() == digest
        assert copy._session.page_size == page_size_for(dim, sealed=encrypt)
