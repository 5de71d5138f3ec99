"""Fixtures of the store's tests: stores in a folder of their own, and two independent looks at raw files.

`leftovers` searches every file in the folder for given records in all encodings. `unaccounted` walks a database by the
description of its format and says which bytes are neither zero nor part of anything that lives: it shares no code with
the scrubber that it checks.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lethevec._forgetting.residue import MemorySource, id_needles, search, text_needles, vector_needles
from lethevec._store import Store
from lethevec._store import open as open_store

pytest.importorskip("cryptography")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A module that says `BOTH_LAYOUTS = True` has its tests run with stores in the clear and with sealed ones."""
    if "layout" in metafunc.fixturenames and getattr(metafunc.module, "BOTH_LAYOUTS", False):
        metafunc.parametrize("layout", ["plain", "sealed"], indirect=True)


@pytest.fixture
def layout(request: pytest.FixtureRequest) -> str:
    """What kind of stores `make` makes: "plain" unless told, or "sealed"."""
    return getattr(request, "param", "plain")


@pytest.fixture
def make(tmp_path: Path, layout: str) -> Iterator[Callable[..., Store]]:
    """Opens stores in tmp_path and closes them in the end."""
    opened: list[Store] = []

    def make(name: str = "people.lethe", dim: int | None = 8, metric: str | None = "l2", **options: Any) -> Store:
        if layout == "sealed" and not (tmp_path / name).exists():
            options.setdefault("encrypt", True)
        store = open_store(tmp_path / name, dim, metric, **options)
        opened.append(store)
        return store

    yield make
    for store in reversed(opened):
        store.close()


@pytest.fixture
def vectors() -> np.ndarray:
    """Forty random vectors of eight numbers."""
    return np.random.default_rng(5).normal(size=(40, 8)).astype(np.float32)


@pytest.fixture
def leftovers() -> Callable[..., list[str]]:
    """What is found of vectors, ids and texts in all files of a folder: "file: label"."""
    return find_leftovers


def find_leftovers(folder: Path, *, vectors: Any = (), ids: Any = (), texts: Any = ()) -> list[str]:
    needles = [n for vector in vectors for n in vector_needles(np.asarray(vector, np.float32))]
    needles += [n for id in ids for n in id_needles(id)]
    needles += [n for text in texts for n in text_needles(text, "text")]
    sources = [MemorySource(path.name, read_through(path)) for path in sorted(folder.rglob("*")) if path.is_file()]
    return [f"{f.source}: {f.label} at {f.offset}" for f in search(sources, needles).findings]


def read_through(path: Path) -> bytes:
    """The bytes of a file that a store may have open: a plain open and close would drop SQLite's locks."""
    from lethevec._store.files import FileSource

    if path.name.endswith("-shm"):
        return b""
    return b"".join(block for _, block in FileSource(path).blocks(1 << 20))


@pytest.fixture
def unaccounted() -> Callable[[Path], dict[str, int]]:
    """Bytes of a database that are not zero and belong to nothing, by kind."""
    return account


def account(path: Path) -> dict[str, int]:
    data = read_through(path)
    size = int.from_bytes(data[16:18], "big")
    size = 65536 if size == 1 else size
    pages = {number: data[(number - 1) * size : number * size] for number in range(1, len(data) // size + 1)}
    found: Counter[str] = Counter()
    seen: set[int] = set()
    trunk = int.from_bytes(data[32:36], "big")
    while trunk:
        seen.add(trunk)
        following, leaves = struct.unpack_from(">II", pages[trunk])
        for leaf in struct.unpack_from(f">{leaves}I", pages[trunk], 8):
            seen.add(leaf)
            found["free page"] += any(pages[leaf])
        trunk = following
    for number, page in pages.items():
        kind = page[100 if number == 1 else 0]
        if kind in (2, 5, 10, 13):
            seen.add(number)
            _account_page(page, number, kind, pages, seen, found)
    assert seen == set(pages), "every page is a b-tree, overflow or free page"
    return {kind: count for kind, count in found.items() if count}


def _account_page(page: bytes, number: int, kind: int, pages: dict, seen: set, found: Counter) -> None:
    size = len(page)
    start = 100 if number == 1 else 0
    free, cells, content, _ = struct.unpack_from(">HHHB", page, start + 1)
    pointers = start + (12 if kind in (2, 5) else 8)
    used = bytearray(size)
    used[: pointers + 2 * cells] = b"\1" * (pointers + 2 * cells)
    for (at,) in struct.iter_unpack(">H", page[pointers : pointers + 2 * cells]):
        end = _cell_end(page, at, kind, pages, seen, found)
        used[at:end] = b"\1" * (end - at)
    while free:
        following, length = struct.unpack_from(">HH", page, free)
        used[free : free + 4] = b"\1" * 4
        found["free block"] += any(page[free + 4 : free + length])
        free = following
    gap = range(pointers + 2 * cells, content or 65536)
    for place in range(size):
        if page[place] and not used[place]:
            found["gap" if place in gap else "fragment"] += 1


def _cell_end(page: bytes, at: int, kind: int, pages: dict, seen: set, found: Counter) -> int:
    size = len(page)
    if kind == 5:
        return _varint(page, at + 4)[1]
    begin = at
    at += 4 if kind == 2 else 0
    length, at = _varint(page, at)
    if kind == 13:
        _, at = _varint(page, at)
    most = size - 35 if kind == 13 else (size - 12) * 64 // 255 - 23
    least = (size - 12) * 32 // 255 - 23
    if length <= most:
        return max(at + length, begin + 4)
    local = least + (length - least) % (size - 4)
    local = local if local <= most else least
    following = int.from_bytes(page[at + local : at + local + 4], "big")
    rest = length - local
    while rest > 0:
        seen.add(following)
        overflow = pages[following]
        here = min(rest, size - 4)
        found["overflow tail"] += any(overflow[4 + here :])
        rest -= here
        following = int.from_bytes(overflow[:4], "big")
    return at + local + 4


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(9):
        byte = data[at + place]
        if place == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            return value, at + place + 1
    raise AssertionError
