"""What a fork does to open stores. The child cannot use them: it has neither their locks nor the threads that use them.

SQLite keeps locks on files in the memory of the process, and a child inherits that memory without the locks. So in the
child every call on an inherited store is refused, and its connection is closed right after the fork, which leaves the
parent's locks alone: then the child can open the store again. Not where a transaction was under way, since to roll it
back would reach into memory that parent and child share; or where another thread did not finish what it was doing
within a few seconds. Such a store stays out of reach in that child, by its path too.
"""

from __future__ import annotations

import os
import time
import weakref
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Protocol

from ..errors import ForkError
from .files import forget_descriptors

__all__ = ["Forkable", "ProcessLock", "refuse_lost", "watch", "watch_lock"]

#: Seconds that a fork waits for calls on other threads.
PATIENCE = 5.0


class ProcessLock:
    """A reentrant lock that only the process that made it can take."""

    def __init__(self) -> None:
        """Free."""
        self._lock = RLock()
        self._process = os.getpid()

    @property
    def inherited(self) -> bool:
        """Whether another process made it, of which this one is a child."""
        return os.getpid() != self._process

    def acquire(self, timeout: float) -> bool:
        """Take it, if it is free within so many seconds."""
        return self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        """Give it back."""
        self._lock.release()

    def __enter__(self) -> None:
        # First: a thread of the parent may have held it when the process was forked.
        if os.getpid() != self._process:
            raise ForkError(
                f"expected a call in process {self._process}, which opened this store, got one in process "
                f"{os.getpid()}, which was forked from it; open the store again in this process"
            )
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Forkable(Protocol):
    """An open store, as far as a fork is concerned."""

    guard: ProcessLock
    path: Path

    @property
    def between_transactions(self) -> bool:
        """Whether its connection can be closed without undoing anything."""
        ...

    def let_go(self) -> None:
        """In a child: give up locks that it shares with its parent."""
        ...

    def drop(self) -> None:
        """In a child: close the connection."""
        ...


class Lock(Protocol):
    """A lock on an open file, which a child shares with its parent."""

    def drop(self) -> None:
        """In a child: close the file."""
        ...


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()
_open: weakref.WeakSet[Forkable] = weakref.WeakSet()
_held: list[Forkable] = []  # during a fork
_lost: dict[tuple[int, int], Forkable] = {}  # in a child, by device and number of the file


def watch(session: Forkable) -> None:
    """From now on forks concern this store too."""
    _open.add(session)


def watch_lock(lock: Lock) -> None:
    """From now on a child lets go of this lock, which would else be held for as long as the child lives."""
    _locks.add(lock)


def refuse_lost(path: Path) -> None:
    """Refuse to open a store that the parent was using at the fork."""
    with suppress(OSError):
        status = os.stat(path)
        if (status.st_dev, status.st_ino) in _lost:
            raise ForkError(
                f"{path}: expected a store that nobody was writing to when this process was forked, got one in the "
                "middle of a call; fork while no thread uses it, or start the process without fork"
            )


def _before() -> None:
    end = time.monotonic() + PATIENCE
    _held.extend(session for session in list(_open) if session.guard.acquire(max(0.0, end - time.monotonic())))


def _in_parent() -> None:
    while _held:
        _held.pop().guard.release()


def _in_child() -> None:
    forget_descriptors()
    for lock in list(_locks):
        lock.drop()
    _locks.clear()
    for session in list(_open):
        safe = session in _held and session.between_transactions
        session.let_go()
        if safe:
            session.drop()
        else:
            with suppress(OSError):
                status = os.stat(session.path)
                _lost[status.st_dev, status.st_ino] = session  # kept: to close it would be to use it
    _held.clear()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
