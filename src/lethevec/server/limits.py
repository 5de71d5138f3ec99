"""Limits that keep a busy server within its memory: requests at a time, bytes at a time, requests a second.

What does not fit waits a little, and is then refused with a number of seconds after which to come back.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from .problems import Problem

__all__ = ["Budget", "Rates"]


class Budget:
    """So much of something may be in use at a time. Who asks for more waits in line, for at most `wait` seconds."""

    def __init__(self, total: int, wait: float, what: str) -> None:
        """`what` is for the message: "requests", "bytes of requests"."""
        self._total = total
        self._wait = wait
        self._what = what
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.used = 0

    def try_take(self, amount: int) -> bool:
        """Take without waiting, if nobody waits and there is enough."""
        if self._line or self.used + amount > self._total:
            return False
        self.used += amount
        return True

    @property
    def full(self) -> bool:
        """Whether somebody who asks now has to wait."""
        return bool(self._line) or self.used >= self._total

    async def take(self, amount: int) -> None:
        """Take, or wait for it, or refuse."""
        if self.try_take(amount):
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((amount, place))
        try:
            await asyncio.wait_for(place, self._wait)
        except (asyncio.TimeoutError, asyncio.CancelledError) as error:
            if place.done() and not place.cancelled():
                self.give(amount)  # it came just then
            else:
                self._line = deque(one for one in self._line if one[1] is not place)
                self._serve()
            if isinstance(error, asyncio.CancelledError):
                raise
            raise Problem(
                503, "busy", f"{self._what}: expected room within {self._wait:g} s, got none", retry_after=1
            ) from None

    def give(self, amount: int) -> None:
        """Give back what was taken."""
        self.used -= amount
        self._serve()

    def _serve(self) -> None:
        while self._line and self.used + self._line[0][0] <= self._total:
            amount, place = self._line.popleft()
            if not place.done():
                self.used += amount
                place.set_result(None)


class Rates:
    """How often each key may call: `rate` requests a second, `burst` of them at once."""

    def __init__(self, rate: float, burst: int) -> None:
        """A rate of 0 is no limit."""
        self._rate = rate
        self._burst = float(burst)
        self._left: dict[str, tuple[float, float]] = {}

    def check(self, key: str) -> None:
        """Count a request, or refuse it."""
        if not self._rate:
            return
        now = time.monotonic()
        left, then = self._left.get(key, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        if left < 1.0:
            self._left[key] = (left, now)
            raise Problem(
                429,
                "too_many_requests",
                f"expected at most {self._rate:g} requests a second for this key, got more",
                retry_after=max(1, round((1.0 - left) / self._rate + 0.5)),
            )
        if len(self._left) > 10_000:  # keys are few; addresses of callers without a key may be many
            self._left.clear()
        self._left[key] = (left - 1.0, now)

    def give_back(self, key: str) -> None:
        """The request that was counted last will be counted again."""
        if self._rate and key in self._left:
            left, then = self._left[key]
            self._left[key] = (left + 1.0, then)
