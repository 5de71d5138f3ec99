"""Folders of collections in a folder of their own, and a look at every byte in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lethevec
from lethevec import Database

pytest.importorskip("cryptography")

from ..store.conftest import find_leftovers

DIM = 8
PEOPLE = ("ann-the-first-of-all", "bob-the-second-of-all", "cem-the-third-of-all")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "people"


@pytest.fixture
def connect(folder: Path) -> Iterator[Callable[..., Database]]:
    """Opens the folder and closes it in the end."""
    opened: list[Database] = []

    def connect(**options: Any) -> Database:
        opened.append(lethevec.connect(folder, **options))
        return opened[-1]

    yield connect
    for db in reversed(opened):
        db.close()


@pytest.fixture
def vectors() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(40, DIM)).astype(np.float32)


def ids_of(name: str, count: int) -> list[str]:
    return [f"record-{i}-of-{name}" for i in range(count)]


@pytest.fixture
def filled(connect, vectors) -> Database:
    """Three collections of forty records of three people; every third is one person's."""
    db = connect()
    for place, name in enumerate(("photos", "notes", "voices")):
        collection = db.collection(name, dim=DIM, metric="l2", encrypt=name == "voices" or None)
        collection.add(
            vectors + place,
            ids=ids_of(name, len(vectors)),
            subjects=[PEOPLE[i % 3] for i in range(len(vectors))],
            payloads=[{"note": f"payload {i} of {name}"} for i in range(len(vectors))],
        )
    return db


@pytest.fixture
def residue(folder: Path, vectors) -> Callable[..., list[str]]:
    """What is left of a person in the files of the whole folder."""

    def residue(person: int, where: Path | None = None) -> list[str]:
        mine = range(person, len(vectors), 3)
        names = ("photos", "notes", "voices")
        return find_leftovers(
            where or folder,
            vectors=[vectors[i] + place for i in mine for place in range(3)],
            ids=[ids_of(name, len(vectors))[i] for i in mine for name in names],
            texts=[PEOPLE[person], *(f"payload {i} of {name}" for i in mine for name in names)],
        )

    return residue
