"""One change at a time, and only in the process that made the index."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import ForkError

#: How often this process was forked from one that ran this. A number is compared in no time, and asking the system who
#: we are takes as long as a forget.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class ChangeLock:
    """Held by whoever changes an index, also where a change is several native calls."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process, self._forks = os.getpid(), _forks

    def __enter__(self) -> None:
        # Before the lock: a thread of the parent may have held it when the process was forked.
        if self._inherited():
            raise ForkError(
                f"expected a change in process {self._process}, which made this index, got one in process "
                f"{os.getpid()}, which was forked from it; copy() gives the child an index of its own"
            )
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """For reading in several native calls: no change comes between them. In a forked child, none can."""
        if self._inherited():
            yield
            return
        with self._lock:
            yield

    def _inherited(self) -> bool:
        return _forks != self._forks
