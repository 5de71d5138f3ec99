"""A progress line for long work, without dependencies.

It writes to stderr, only when that is a terminal, and only once the work has lasted more than a second; quick work and
redirected output stay silent. The line is wiped when the work ends, well or badly. A stream that fails silences the bar
and never the work.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

__all__ = ["Progress"]

DELAY = 1.0  # seconds of silence before the first line
INTERVAL = 0.1  # seconds between two lines
_BAR = 20


class Progress:
    """Report work on `total` things (None when the number is unknown); `unit="bytes"` is shown in kB, MB and GB.

    >>> with Progress(3, "hashing", unit="vectors") as progress:
    ...     for _ in range(3):
    ...         progress.advance(1)
    >>> progress.done
    3
    """

    def __init__(
        self,
        total: int | None,
        label: str,
        unit: str = "items",
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the clock. `stream` (default: stderr as it is now) and `clock` are for tests and other terminals."""
        self.total = total
        self.label = label
        self.unit = unit
        self.done = 0
        self._clock = clock
        self._stream = sys.stderr if stream is None else stream
        self._live = is_terminal(self._stream)
        self._start = clock() if self._live else 0.0
        self._next = self._start + DELAY
        self._drawn = 0  # columns that the last line took

    def __enter__(self) -> Progress:
        """Return itself; the line is wiped at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wipe the line, and let any error pass."""
        self.close()

    def advance(self, n: int = 1) -> None:
        """Count `n` more. An addition when nobody watches, one look at the clock otherwise."""
        self.done += n
        if self._live:
            now = self._clock()
            if now > self._next:
                self._next = now + INTERVAL
                self._draw(now - self._start)

    def close(self) -> None:
        """Wipe the line; later calls of `advance` only count."""
        if self._drawn:
            self._write("\r" + " " * self._drawn + "\r")
            self._drawn = 0
        self._live = False

    def _draw(self, seconds: float) -> None:
        import shutil  # not with the package, whose import it would slow down

        columns = shutil.get_terminal_size().columns - 1  # a full line would wrap and could not be wiped
        line = self._line(seconds)[: max(columns, 1)]
        padded = line.ljust(self._drawn)
        self._drawn = len(line)
        self._write("\r" + padded)

    def _line(self, seconds: float) -> str:
        rate = self.done / seconds
        speed = f"{_count(rate, self.unit)}/s"
        if not self.total:
            return f"{self.label}  {_count(self.done, self.unit)}  {speed}"
        share = min(self.done / self.total, 1.0)
        filled = int(share * _BAR)
        bar = "#" * filled + "-" * (_BAR - filled)
        left = _duration((self.total - self.done) / rate) if rate > 0 else "unknown"
        counts = f"{_amount(self.done, self.unit)} of {_count(self.total, self.unit)}"
        return f"{self.label}  {int(share * 100):3d} % [{bar}]  {counts}  {speed}  ETA {left}"

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # a closed pipe or file: not the work's problem
            self._live = False
            self._drawn = 0


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person watches; nobody watches a stream that is missing or closed."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def _amount(number: float, unit: str) -> str:
    if unit != "bytes":
        return f"{number:,.0f}"
    for scale, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= scale:
            return f"{number / scale:.1f} {name}"
    return f"{number:.0f} B"


def _count(number: float, unit: str) -> str:
    return _amount(number, unit) if unit == "bytes" else f"{_amount(number, unit)} {unit}"


def _duration(seconds: float) -> str:
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"
