"""Copies while they are written: noted beside the store, so that what a killed one leaves is removed.

A backup or an export is built under another name and renamed when it is whole. One that is killed on the way leaves a
file with records in it, in whatever folder it was to go to. So that name has a token in it, and a note beside the
store, `people.lethe-copy-TOKEN`, says where the file is. Whoever copies holds a lock on the note; a note that nobody
holds is of a copy that died. A writer removes the file and its note when it opens the store, and before it signs a
receipt. The copy of a folder of collections is a folder, and its note is beside the catalog.

Only what has the token of its note in its name is removed. A reader that may not write to the folder of the store
cannot leave a note.

What is being restored has no store yet beside which it could be noted: it is built in a folder beside its place, whose
name has a token too, and the next restore to the same place removes it (`restoring`).
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .._durable import open_regular, sync_folder
from ..errors import FileError, IncompleteWriteError

__all__ = ["building", "remove_unfinished", "restoring"]

_NOTE = re.compile(r"-copy-([0-9a-f]{16})")
_RESTORING = re.compile(r"\.[0-9a-f]{16}\.restoring")
_MAX_PATH = 1 << 16


@contextmanager
def building(database: Path, path: Path, *, folder: bool = False) -> Iterator[Path]:
    """The name under which to write a copy of a store that is to be `path`. Rename it; if not, it is removed.

    The copy of a `folder` is one, which is not made here.
    """
    token = secrets.token_hex(8)
    place = path.absolute().with_name(f"{path.name}.{token}.new")
    note = database.with_name(f"{database.name}-copy-{token}")
    lock = _make_note(note, place)
    try:
        yield place
    finally:
        try:
            _take_away(place, folder=folder)
            if lock is not None:
                note.unlink(missing_ok=True)
        finally:
            if lock is not None:
                os.close(lock)


def _make_note(note: Path, place: Path) -> int | None:
    """Write the note and hold its lock; None where this process may not write to the folder."""
    unnamed = note.with_name(note.name + ".new")  # until it is locked and complete
    try:
        lock = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if os.access(note.parent, os.W_OK):
            raise IncompleteWriteError(f"{note}: a copy could not be noted: {error}") from error
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, os.fsencode(place))
        os.fsync(lock)
        os.replace(unnamed, note)
        sync_folder(note.parent)
    except BaseException as error:
        with suppress(OSError):
            unnamed.unlink(missing_ok=True)
            note.unlink(missing_ok=True)
        os.close(lock)
        if isinstance(error, OSError):
            raise IncompleteWriteError(f"{note}: a copy could not be noted: {error}") from error
        raise
    return lock


def _take_away(place: Path, *, folder: bool) -> None:
    """Remove a copy, if it is there."""
    if not folder:
        place.unlink(missing_ok=True)
    elif os.path.lexists(place):
        shutil.rmtree(place)  # which refuses what is no folder, and follows no link


@contextmanager
def restoring(target: Path) -> Iterator[Path]:
    """A new folder beside `target`, for its owner's eyes only, in which to build it; it is removed in the end.

    Before that, what restores to the same target have left that died. Who builds holds a lock on the folder.
    """
    target = target.absolute()
    for name in sorted(os.listdir(target.parent)):
        if name.startswith(target.name) and _RESTORING.fullmatch(name[len(target.name) :]):
            _remove_restoring(target.with_name(name))
    place = target.with_name(f"{target.name}.{secrets.token_hex(8)}.restoring")
    place.mkdir(mode=0o700)
    lock = None
    try:
        lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _remove_restoring(place: Path) -> None:
    """Remove a folder of `restoring`, unless somebody builds in it."""
    try:
        lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # it is gone, or none of ours
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place)
    except BlockingIOError:
        return
    finally:
        os.close(lock)


def remove_unfinished(database: Path, *, folders: bool = False) -> int:
    """Remove what copies of this store have left that died; how many. `FileError` if one cannot be removed.

    `folders`: it is the catalog of a folder, whose copies are folders.
    """
    removed = 0
    for name in sorted(os.listdir(database.parent)):
        found = _NOTE.fullmatch(name[len(database.name) :]) if name.startswith(database.name) else None
        if found:
            removed += _remove(database.with_name(name), found[1], folder=folders)
    return removed


def _remove(note: Path, token: str, *, folder: bool) -> bool:
    """Remove what one note names, and the note; not if somebody is still copying, or has just finished."""
    try:
        lock = open_regular(note, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise FileError(f"{note}: the note of a copy could not be read: {error}") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        place = Path(os.fsdecode(os.read(lock, _MAX_PATH)))
        removed = False
        if place.name.endswith(f".{token}.new"):
            try:
                removed = os.path.lexists(place)
                if removed:
                    _take_away(place, folder=folder)
                    sync_folder(place.parent)
            except (OSError, ValueError) as error:
                raise FileError(
                    f"{place}: a copy that was not finished could not be removed: {error}; remove it, and {note}"
                ) from error
        note.unlink(missing_ok=True)
        return removed
    finally:
        os.close(lock)
