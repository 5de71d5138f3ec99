"""Data sets made ready once, on disk, for all processes of a run: vectors, queries, and the true distances.

A set is kept in a folder of the cache whose name says what it was made from, so a later run (and each competitor's
process) reads it and computes nothing. A folder is written under another name and renamed when it is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import datasets
from . import harness
from .harness import Data

VERSION = 1  # of what is in a folder


@dataclass(frozen=True)
class Prepared:
    """A data set and the folder that it can be read from."""

    data: Data
    folder: Path
    key: str  # the same for the same data, queries and truth


def prepare(names: Sequence[str], cache: Path, *, queries: int = 1000, limit: int | None = None) -> list[Prepared]:
    """The sets named (see `harness.load_data`), cut to the first `limit` vectors, with their truth, from the cache."""
    sets = []
    for name in _files(names):
        key = _key(name, queries, limit)
        stem = "words" if name is None else name.stem
        folder = cache / f"{stem}-{key}"
        if not (folder / "meta.json").exists():
            loaded = harness.load_data([] if name is None else [str(name)], queries)[0]
            write(cut(loaded, limit), folder)
        sets.append(Prepared(read(folder), folder, key))
    return sets


def _files(names: Sequence[str]) -> list[Path | None]:
    """The files meant: those in a folder, downloads by name; None stands for the bundled words."""
    given = list(names) or [path for path in [os.environ.get("LETHEVEC_DATA", "")] if path]
    found: list[Path | None] = []
    for name in given:
        path = Path(name).expanduser()
        if path.is_dir():
            found += sorted(path.glob("*.hdf5"))
        else:
            found.append(datasets.download(name) if name in datasets.NAMES and not path.exists() else path)
    return found or [None]


def _key(path: Path | None, queries: int, limit: int | None) -> str:
    made_from: list[object] = [VERSION, queries, limit]
    if path is not None and path.exists():
        made_from += [str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns]
    return hashlib.blake2b(repr(made_from).encode(), digest_size=6).hexdigest()


def cut(data: Data, limit: int | None) -> Data:
    """The first `limit` vectors, with their own truth."""
    if limit is None or limit >= len(data.train):
        return data
    return harness.with_truth(data.name, data.metric, np.ascontiguousarray(data.train[:limit]), data.test)


def write(data: Data, folder: Path) -> None:
    """Write a set so that `read` gives it back."""
    part = folder.with_name(f"{folder.name}.part{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for name in ("train", "test", "nearest"):
        np.save(part / f"{name}.npy", getattr(data, name))
    (part / "meta.json").write_text(json.dumps({"name": data.name, "metric": data.metric}))
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def read(folder: Path) -> Data:
    """A set as it was written; the vectors are mapped, and read when they are used."""
    meta = json.loads((folder / "meta.json").read_text())
    train = np.load(folder / "train.npy", mmap_mode="r")
    return Data(meta["name"], meta["metric"], train, np.load(folder / "test.npy"), np.load(folder / "nearest.npy"))
