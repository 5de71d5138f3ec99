"""How a path becomes an open store: created or checked, locked, and what a crash has left taken up."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from .._index import Config, Index
from .._index.vector_files import VectorFiles, remove_leftovers
from .._shown import shown
from ..errors import FileError, FormatError, IncompleteWriteError, InputError, ParameterError
from .checkpoint import BusyError
from .configuration import draws_key, new_configuration, read_configuration, refuse_costly_creation, refuse_costly_store
from .copying import remove_unfinished
from .erasing import Eraser
from .files import CATALOG, StoreFiles
from .forking import refuse_lost
from .lock import WriterLock
from .schema import new_database
from .session import Session
from .source_key import draw_key, put_key, read_key
from .vault import Vault

__all__ = ["check_same", "make_index", "open_session", "recover", "refuse_collection"]


def open_session(
    path: str | os.PathLike[str],
    dim: int | None,
    metric: str | None,
    options: dict[str, Any] | None,
    *,
    read_only: bool,
    timeout: float,
    vault: Path,
    encrypt: bool | None,
    max_setup: int,
) -> tuple[Session, WriterLock | None]:
    """Open or create the store at a path. A writer gets its lock; a reader creates nothing."""
    files = StoreFiles(Path(path))
    refuse_lost(files.database)
    files.refuse_special()
    if not read_only:
        if not files.database.parent.is_dir():
            raise FileError(f"{files.database.parent}: expected a folder to put the store in, got none")
        lock = WriterLock(files.lock)
    else:
        lock = None
    try:
        if not files.database.exists():
            if read_only:
                raise FileError(f"{files.database}: expected a store to read, got nothing there")
            config = new_configuration(dim, metric, options)
            refuse_costly_creation(config, max_setup)  # so that it opens again
            key = draw_key() if draws_key(config) else None
            made = Vault.create(vault) if encrypt else None
            new_database(files, config, made, key)
        session = Session(files, vault, read_only=read_only, timeout=timeout)
        try:
            _refuse_costly(session, {"dim": dim, "metric": metric, **(options or {})}, max_setup)
            check_same(session, dim, metric, options, encrypt)
        except BaseException:
            session.close()
            raise
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    return session, lock


def _refuse_costly(session: Session, asked: dict[str, Any], max_setup: int) -> None:
    """Refuse a configuration that asks for too much, unless the caller has given the same one."""
    config = read_configuration(session.state.configuration, session.path)
    size = session.raw.size + session.checkpointer.wal_size()
    try:
        refuse_costly_store(config, size, max_setup, session.path)
    except FormatError:
        if asked["dim"] != config.dim or not _makes(config, asked):
            raise


def check_same(
    session: Session, dim: int | None, metric: str | None, options: dict[str, Any] | None, encrypt: bool | None
) -> None:
    """What was asked for must be what the store is, or what makes such a store: "auto" may have become "scan"."""
    created = read_configuration(session.state.configuration, session.path)
    asked = {"dim": dim, "metric": metric, **(options or {})}
    asked = {name: value for name, value in asked.items() if value is not None}
    known = {one.name: getattr(created, one.name) for one in fields(created)} | dict(created.params)
    different = [name for name, value in asked.items() if name not in known or known[name] != value]
    if different and not _makes(created, asked):
        name = different[0]
        raise ParameterError(
            f"{session.path}: expected {name}={known.get(name)!r}, as the store was created, got {shown(asked[name])}"
        )
    if encrypt is not None and encrypt != session.tables.sealed:
        raise ParameterError(
            f"{session.path}: expected encrypt={session.tables.sealed}, as the store was created, got {encrypt}"
        )


def _makes(created: Config, asked: dict[str, Any]) -> bool:
    """Whether a new store that is asked for like this would have the same configuration."""
    given = {"dim": created.dim, "metric": created.metric, **asked}
    try:
        return new_configuration(given.pop("dim"), given.pop("metric"), given) == created
    except (InputError, TypeError):
        return False


def refuse_collection(path: Path) -> None:
    """A collection has its receipts in the catalog of its folder: by itself it would get keys of its own."""
    if re.fullmatch(r"c-[0-9a-f]{32}\.lethe", path.name) and (path.parent / CATALOG).exists():
        raise FileError(
            f"{path}: expected a store of its own, got a collection of {path.parent}; lethevec.connect opens it"
        )


def recover(session: Session, eraser: Eraser) -> None:
    """Do what a crash has left: vectors in a file, half a copy, an unscrubbed log, erasures without a receipt. It waits
    for nobody."""
    with suppress(OSError):  # one that is in the way of a new file, or of an erasure, is found there
        remove_leftovers(session.files.vectors)
    with suppress(FileError, OSError):  # an erasure says so if it is in the way
        remove_unfinished(session.path)
    eraser.try_complete()
    if session.checkpointer.everything:
        with suppress(BusyError):
            session.checkpointer.run(0.0)


def make_index(session: Session, files: VectorFiles | None) -> Index:
    """An empty index of the store's configuration, its vectors in memory or in files. A writer gives the store a key
    if one is due and it has none."""
    config = read_configuration(session.state.configuration, session.path)
    if not draws_key(config):
        return Index._of(config, files)
    key = read_key(session.connection, session.path)
    if key is None and session.read_only:
        return Index._of(config, files)
    if key is not None:
        return Index._of(config.with_key(key), files)
    key = draw_key()
    index = Index._of(config.with_key(key), files)  # before anything is written: it may refuse
    try:
        with session.transaction():
            put_key(session.connection, key)
    except IncompleteWriteError:
        return Index._of(config, files)  # a full disk must not stand in the way of a forget: the next open draws
    return index
