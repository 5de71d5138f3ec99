"""What an update has replaced is gone from the files within a minute, if nothing takes it out earlier.

`secure_delete` overwrites the old record in its page, but the log still has the page as it was. The next erasure, a
long log and `close` empty it. If none of them comes, this does, `WITHIN` seconds after the change; with somebody in the
way, it tries again as much later.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from ..errors import LethevecError
from .checkpoint import BusyError
from .session import Session

__all__ = ["Soon"]

WITHIN = 60.0  # seconds


class Soon:
    """Empties the log of an open store a while after something was replaced."""

    def __init__(self, session: Session) -> None:
        """Nothing is to be done yet."""
        self._session = session
        self._timer: threading.Timer | None = None

    def note(self) -> None:
        """Something was replaced. The caller holds the guard."""
        if self._timer is None:
            self._timer = threading.Timer(WITHIN, self._run)
            self._timer.daemon = True
            self._timer.start()

    def cancel(self) -> None:
        """The store closes, and empties the log itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        with suppress(LethevecError, OSError), self._session.guard:
            self._timer = None
            if self._session.closed:
                return
            try:
                if self._session.in_transaction:
                    raise BusyError("a transaction is under way")
                self._session.checkpointer.run(0.0)
            except BusyError:
                self.note()
