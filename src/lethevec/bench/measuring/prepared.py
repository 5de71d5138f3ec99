"""Data sets made ready once, on disk, for all processes of a run: vectors, queries, and the true distances.

A set is kept in a folder of the cache whose name says what it was made from, so a later run (and each competitor's
process) reads it and computes nothing. A folder is written under another name and renamed when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..peers.peer import F32
from . import data as sets
from .data import Data, Queries

VERSION = 2  # of what is in a folder


@dataclass(frozen=True)
class Prepared:
    """A data set and the folder that it can be read from."""

    data: Data
    folder: Path
    key: str  # the same for the same data, queries and truth


def nothing() -> Prepared:
    """For experiments that need no data set."""
    empty = np.zeros((0, 1), dtype=np.float32)
    return Prepared(Data("", "l2", empty, empty, np.zeros((0, 10))), Path(), "")


def prepare(names: Sequence[str], cache: Path, *, queries: int = 1000, limit: int | None = None) -> list[Prepared]:
    """The sets named (see `data.files`), cut to the first `limit` vectors, with their truth, from the cache."""
    found = []
    for path in sets.files(names):
        key = _key(path, queries, limit)
        folder = cache / f"{'words' if path is None else path.stem}-{key}"
        if not (folder / "meta.json").exists():
            write(cut(sets.load(path, queries), limit), folder)
        found.append(Prepared(read(folder), folder, key))
    return found


def _key(path: Path | None, queries: int, limit: int | None) -> str:
    made_from: list[object] = [VERSION, queries, limit]
    if path is not None and path.exists():
        made_from += [str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns]
    return hashlib.blake2b(repr(made_from).encode(), digest_size=6).hexdigest()


def cut(data: Data, limit: int | None) -> Data:
    """The first `limit` vectors, with their own truth."""
    if limit is None or limit >= len(data.train):
        return data
    others = None if data.tuning is None else data.tuning.vectors
    return sets.with_truth(data.name, data.metric, np.ascontiguousarray(data.train[:limit]), data.test, others)


def first(given: Prepared, records: int, note: Callable[[str], None]) -> Prepared:
    """The first records of a set, with their truth, from the cache; the whole set when it has no more, or for 0."""
    if records <= 0 or records >= len(given.data.train):
        return given
    folder = given.folder.with_name(f"{given.folder.name}-first{records}")
    if not (folder / "meta.json").exists():
        note(f"{given.data.name}: true neighbours among the first {records:,}")
        write(cut(given.data, records), folder)
    return Prepared(read(folder), folder, f"{given.key}-{records}")


def pairs(given: Prepared, note: Callable[[str], None]) -> Prepared:
    """The set with each vector beside another one of it: as many vectors of twice the dimension. Directions stand side
    by side under cosine, so that both count the same."""
    folder = given.folder.with_name(f"{given.folder.name}-pairs")
    data = given.data
    if not (folder / "meta.json").exists():
        note(f"{data.name}: vectors in pairs, and their true neighbours")

        def paired(some: F32, seed: int) -> F32:
            if data.metric == "cosine":
                some = some / np.linalg.norm(some, axis=1, keepdims=True)
            return np.hstack([some, some[np.random.default_rng(seed).permutation(len(some))]])

        others = None if data.tuning is None else paired(data.tuning.vectors, 3)
        made = sets.with_truth(
            f"{data.name} in pairs", data.metric, paired(data.train, 1), paired(data.test, 2), others
        )
        write(made, folder)
    return Prepared(read(folder), folder, f"{given.key}-pairs")


def write(data: Data, folder: Path) -> None:
    """Write a set so that `read` gives it back."""
    part = folder.with_name(f"{folder.name}.part{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    arrays: dict[str, npt.NDArray[Any]] = {"train": data.train, "test": data.test, "nearest": data.nearest}
    if data.tuning is not None:
        arrays |= {"tuning": data.tuning.vectors, "tuning_nearest": data.tuning.nearest}
    for name, array in arrays.items():
        np.save(part / f"{name}.npy", array)
    (part / "meta.json").write_text(json.dumps({"name": data.name, "metric": data.metric}))
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def read(folder: Path) -> Data:
    """A set as it was written; the vectors are mapped, and read when they are used."""
    meta = json.loads((folder / "meta.json").read_text())
    train = np.load(folder / "train.npy", mmap_mode="r")
    tuning = None
    if (folder / "tuning.npy").exists():
        tuning = Queries(np.load(folder / "tuning.npy"), np.load(folder / "tuning_nearest.npy"))
    test, nearest = np.load(folder / "test.npy"), np.load(folder / "nearest.npy")
    return Data(meta["name"], meta["metric"], train, test, nearest, tuning)


def kept(path: Path, compute: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """An array from the cache; computed and written where it is not there yet."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".part.npy")
        np.save(half, compute())
        half.rename(path)
    return np.asarray(np.load(path))
