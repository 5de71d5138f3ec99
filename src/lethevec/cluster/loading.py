"""Bulk load of Parquet and Arrow files through Ray Data: many readers at once, and no record in Ray's object store.

What Ray Data passes around is which piece of which file is next (a row group of Parquet, a record batch of Arrow), and
how many records it had. Whoever gets a piece reads it, seals it for the members of its shards and sends it to them. So
files must be readable at the same path on every node.

Each piece that is in all live members is noted in the registry. A load that was cut off goes on from there when it is
called again with the same files. Pieces are written with `upsert`: one that was half done is simply done again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._store.batch import make_batch
from ..errors import (
    BlockedError,
    FileError,
    FormatError,
    HoldError,
    InputError,
    LethevecError,
    MissingDependencyError,
    UnavailableError,
)
from . import rights
from .calling import Caller, RefusalError, UnreachableError
from .catching_up import compare_replicas
from .collection import batch_message
from .database import ClusterDatabase
from .driver import Driver
from .engine import ENVIRONMENT, ray_module, ray_transport
from .sealing import Secret

__all__ = ["load_files"]

_ROUNDS = 4  # times that a piece is tried
_PART = 5000  # records in one message


def load_files(
    db: ClusterDatabase,
    collection: str,
    files: Iterable[str | os.PathLike[str]],
    *,
    id: str = "id",
    vector: str = "vector",
    subject: str | None = None,
    payload: str | None = None,
    readers: int = 2,
) -> int:
    """Load files into a collection that is there, by `readers` at once; how many records were loaded by this call.

    `id`, `vector`, `subject` and `payload` are the names of columns: ids are integers or texts, vectors lists of
    numbers, payloads structs or JSON. Other writes wait until it is done; searches go on.
    """
    driver = db.driver
    driver.require_writer()
    db.collection(collection)  # it must be there
    columns = {"id": id, "vector": vector, "subject": subject, "payload": payload}
    pieces = [piece for path in files for piece in pieces_of(Path(path).absolute())]
    entry = driver.epoch.find(collection)
    assert entry is not None
    named = json.dumps([[str(path), size, number] for path, size, number in pieces] + [entry.id])
    mark = "load-" + hashlib.blake2b(named.encode(), digest_size=12).hexdigest()
    total = 0
    with driver.writing(driver.epoch.shards()):
        driver.settle(driver.epoch.shards())
        done = set(driver.registry("mark", {"name": mark})["value"] or [])
        for _ in range(_ROUNDS):
            left = [place for place in range(len(pieces)) if place not in done]
            if not left:
                break
            driver.refresh()
            for place, count, problem in _run(db, [(n, *pieces[n]) for n in left], entry.id, columns, readers):
                if problem:
                    kind, message = problem
                    if kind == "input":
                        raise InputError(f"{pieces[place][0]}: {message}")
                    continue  # a member went away meanwhile: once more, without it
                done.add(place)
                total += count
                driver.registry("mark", {"name": mark, "value": sorted(done)})
            _set_silent_away(driver)
        compare_replicas(driver)
        if len(done) < len(pieces):
            raise UnavailableError(
                f"load: expected every piece to reach all live members, got {len(pieces) - len(done)} of {len(pieces)} "
                "that did not; called again, it goes on with these"
            )
        driver.registry("mark", {"name": mark, "value": None})
    return total


def _set_silent_away(driver: Driver) -> None:
    """After a round: a member that does not answer is taken out, so that the next round does without it."""
    silent = []
    for member in driver.epoch.in_state("live"):
        try:
            driver.caller.call(member.name, "epoch", {"epoch": driver.epoch.to_dict()}, timeout=5.0)
        except (UnreachableError, RefusalError, LethevecError):
            silent.append(member.name)
    driver.set_away(silent)


def pieces_of(path: Path) -> Iterator[tuple[str, int, int]]:
    """The pieces of a file: its path, its size (so that a changed file is another load) and their numbers."""
    suffix = path.suffix.lower()
    try:
        size = path.stat().st_size
        if suffix == ".parquet":
            count = _arrow("parquet").ParquetFile(path).num_row_groups
        elif suffix in (".arrow", ".feather"):
            with _arrow("ipc").open_file(str(path)) as file:
                count = file.num_record_batches
        else:
            raise FormatError(f"{path}: expected a file name that ends in .parquet, .arrow or .feather, got {suffix!r}")
    except (OSError, ValueError) as error:
        if isinstance(error, LethevecError):
            raise
        raise FileError(f"{path}: expected a Parquet or Arrow file that can be read, got: {error}") from None
    for number in range(count):
        yield str(path), size, number


def _run(
    db: ClusterDatabase,
    pieces: list[tuple[int, str, int, int]],
    collection: str,
    columns: Mapping[str, Any],
    readers: int,
) -> Iterator[tuple[int, int, list[str] | None]]:
    """Hand pieces to readers; the place, the number of records, and what went wrong, of each as it comes."""
    ray_module()
    try:
        import ray.data
    except ImportError as error:
        raise MissingDependencyError(f"a bulk load needs Ray Data ({error}): pip install 'ray[data]'") from None
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    place = db.place
    rows = [{"place": at, "path": path, "number": number} for at, path, _, number in pieces]
    readings = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        Reading,
        batch_size=1,
        concurrency=max(1, readers),
        fn_constructor_args=(place["cluster"], place["secret"], collection, dict(columns)),
        num_cpus=0.5,
        runtime_env={"env_vars": ENVIRONMENT},
    )
    for row in readings.iter_rows():
        yield int(row["place"]), int(row["records"]), json.loads(row["problem"])


class Reading:
    """One reader, in a process that Ray Data runs. It writes in the term of the driver that waits for it."""

    def __init__(self, cluster: str, secret: str, collection: str, columns: dict[str, Any]) -> None:
        """Join the cluster."""
        self._caller = Caller(ray_transport(cluster), cluster, Secret.load(Path(secret)))
        self._driver = Driver(self._caller, _NoLauncher(), read_only=True)
        self._collection = collection
        self._columns = columns

    def __call__(self, batch: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Load pieces. Errors are told in words that hold nothing of a record."""
        counts, problems = [], []
        for path, number in zip(batch["path"], batch["number"], strict=True):
            problem: list[str] | None = None
            count = 0
            try:
                count = self._load(str(path), int(number))
            except (InputError, FormatError, BlockedError, HoldError, ValueError, TypeError, OverflowError) as error:
                problem = ["input", f"{type(error).__name__} in piece {number}"]
            except (LethevecError, UnreachableError, RefusalError, OSError) as error:
                problem = ["other", type(error).__name__]
            counts.append(count)
            problems.append(json.dumps(problem))
        self._caller.forget_keys()
        return {"place": batch["place"], "records": np.array(counts), "problem": np.array(problems)}

    def _load(self, path: str, number: int) -> int:
        driver = self._driver
        driver.refresh()
        driver.term = driver.epoch.term
        entry = driver.epoch.collections[self._collection]
        table = read_piece(path, number)
        arguments = columns_of(table, self._columns)
        count = len(arguments["ids"])
        for begin in range(0, count, _PART):
            part = {name: None if v is None else v[begin : begin + _PART] for name, v in arguments.items()}
            expires = None if entry.expires is None else int((time.time() + entry.expires) * 1000)

            def times(n: int, at: int | None = expires) -> list[int | None]:
                return [at] * n

            keep = entry.keep_vectors
            batch = make_batch(entry.dim, entry.metric or "cosine", **part, expires=times, keep_vectors=keep)
            rights.may_write(driver, batch.subjects)
            rights.may_change(driver, entry.id, batch.ids)
            by_shard: dict[int, list[int]] = {}
            for at, one in enumerate(batch.ids):
                by_shard.setdefault(driver.shard_of(one), []).append(at)
            parts = {}
            for shard, places in by_shard.items():
                message = batch_message(batch, places, {"collection": entry.id})
                parts.update({member.name: message for member in driver.epoch.of_shard(shard, "live")})
            for outcome in driver.send("upsert", parts).values():
                if isinstance(outcome, Exception):
                    raise outcome
        return count


class _NoLauncher:
    """A reader of files starts nothing."""

    def disks(self) -> list[str]:
        """None that it knows of."""
        return []

    def start_registry(self) -> None:
        """It runs."""

    def start_member(self, entry: Any) -> None:
        """Not here."""

    def stop_member(self, name: str) -> None:
        """Not here."""


def read_piece(path: str, number: int) -> Any:
    """One piece of a file, as an Arrow table."""
    try:
        if path.lower().endswith(".parquet"):
            with closing(_arrow("parquet").ParquetFile(path)) as file:
                table = file.read_row_group(number)
        else:
            with _arrow("ipc").open_file(path) as file:
                table = _arrow("").Table.from_batches([file.get_batch(number)])
        table.validate(full=True)  # Arrow follows the offsets of a file blindly unless it is told not to
    except _arrow("").ArrowException as error:
        raise FormatError(f"{path}: expected an undamaged file, got one that cannot be read: {error}") from None
    return table


def columns_of(table: Any, columns: Mapping[str, str | None]) -> dict[str, Any]:
    """The arguments of a batch from the columns of a table."""
    for name in columns.values():
        if name is not None and name not in table.column_names:
            raise InputError(f"columns: expected {name!r} in the file, got {', '.join(table.column_names)[:200]}")
    vectors = table[columns["vector"]].combine_chunks()
    payloads = None if columns["payload"] is None else table[columns["payload"]].to_pylist()
    if payloads is not None:
        payloads = [json.loads(value) if isinstance(value, str) else value for value in payloads]
    return {
        "vectors": _rows_of(getattr(vectors, "storage", vectors)),
        "ids": table[columns["id"]].to_pylist(),
        "subjects": None if columns["subject"] is None else table[columns["subject"]].to_pylist(),
        "payloads": payloads,
    }


def _rows_of(column: Any) -> Any:
    """A column of vectors as one array; as lists where lengths differ or something is missing, for the check to see."""
    if hasattr(column, "flatten") and len(column) and not column.null_count:
        lengths = _arrow("compute").list_value_length(column).to_numpy(zero_copy_only=False)
        flat = column.flatten()
        if (lengths == lengths[0]).all() and not flat.null_count:
            return flat.to_numpy(zero_copy_only=False).reshape(len(lengths), -1).astype(np.float32)
    return column.to_pylist()


def _arrow(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"pyarrow.{module}" if module else "pyarrow")
    except ImportError:
        raise MissingDependencyError("this needs the package 'pyarrow': pip install 'lethevec[datasets]'") from None
