"""The same calls for asyncio: each runs in a thread, so that the event loop goes on meanwhile.

    import lethevec.aio

    async with lethevec.aio.open("people.lethe", dim=3) as db:
        await db.upsert([[0, 0, 1]], ids=["a"], subjects=["ann"])
        hits = await db.search([0, 0, 1], k=1)
        receipt = await db.forget(subject="ann")

A store and a folder of collections may be shared by threads, so this adds nothing to them but threads. Searches release
Python's global lock and run side by side; changes take turns. A task that is cancelled does not wait any longer, but
what it began comes to its end: an erasure is never left half done.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Generic, NoReturn, TypeVar

import lethevec

__all__ = ["AsyncDatabase", "AsyncStore", "connect", "open"]

T = TypeVar("T")
Held = TypeVar("Held")

_PAGE = 256  # records that an iteration reads at once
#: What a call in another thread cannot do: a transaction belongs to the thread that began it.
_ONE_THREAD = {"transaction": "run(function) runs a function of the store in one thread, with a transaction inside"}


class _Async(Generic[Held]):
    """Every public call of the object inside, as a coroutine; properties are what they are."""

    def __init__(self, opening: Callable[[], Held]) -> None:
        self._opening = opening
        self._held: Held | None = None

    async def _opened(self) -> Held:
        if self._held is None:
            self._held = await asyncio.to_thread(self._opening)
        return self._held

    @property
    def sync(self) -> Held:
        """The object itself, for calls that are quick enough."""
        if self._held is None:
            raise lethevec.errors.ParameterError(
                "expected `async with` or `await` before this, got an object not opened"
            )
        return self._held

    async def run(self, function: Callable[[Held], T]) -> T:
        """Call a function with the object itself, in one thread: for several calls together, and for transactions."""
        held = await self._opened()
        return await asyncio.to_thread(function, held)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _ONE_THREAD:
            raise AttributeError(f"{name}: {_ONE_THREAD[name]}")
        kind = type(self)._kind()
        found = getattr(kind, name)  # an AttributeError that names the class, where there is none
        if isinstance(found, property):
            return getattr(self.sync, name)
        return functools.partial(self._call, name)

    @classmethod
    def _kind(cls) -> type[Any]:
        raise NotImplementedError

    async def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        held = await self._opened()
        return await asyncio.to_thread(getattr(held, name), *args, **kwargs)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise lethevec.errors.UnsupportedError(
            "what is open cannot be copied or pickled: await backup(path) writes a copy; elsewhere, open the path again"
        )

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(type(self)._kind()) if not name.startswith("_"))})


class AsyncStore(_Async["lethevec.Store"]):
    """A store whose calls are coroutines; made by `lethevec.aio.open`, or by `collection` of a folder.

    >>> import tempfile
    >>> async def example(path):
    ...     async with open(path, dim=2, metric="l2") as db:
    ...         await db.upsert([[0, 1], [2, 0]], ids=["a", "b"], subjects=["ann", "bob"])
    ...         receipt = await db.forget(subject="ann")
    ...         return receipt.records, await db.count(), [record.id async for record in db]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(example(folder + "/people.lethe"))
    (1, 1, ['b'])
    """

    @classmethod
    def _kind(cls) -> type[Any]:
        return lethevec.Store

    def __await__(self) -> Any:
        return self._entered().__await__()

    async def _entered(self) -> AsyncStore:
        await self._opened()
        return self

    async def __aenter__(self) -> AsyncStore:
        return await self._entered()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._call("close")

    async def __aiter__(self) -> AsyncIterator[lethevec.Record]:
        """All records, by pages."""
        after = None
        while page := await self._call("get", limit=_PAGE, after=after):
            for record in page:
                yield record
            after = page[-1].id


class AsyncDatabase(_Async["lethevec.Database"]):
    """A folder of collections whose calls are coroutines; made by `lethevec.aio.connect`."""

    @classmethod
    def _kind(cls) -> type[Any]:
        return lethevec.Database

    def __await__(self) -> Any:
        return self._entered().__await__()

    async def _entered(self) -> AsyncDatabase:
        await self._opened()
        return self

    async def __aenter__(self) -> AsyncDatabase:
        return await self._entered()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._call("close")

    async def collection(self, name: str, *args: Any, **kwargs: Any) -> AsyncStore:
        """A collection whose calls are coroutines."""
        store: lethevec.Store = await self._call("collection", name, *args, **kwargs)
        return await AsyncStore(lambda: store)


def open(path: Any, *args: Any, **kwargs: Any) -> AsyncStore:
    """As `lethevec.open`, to be awaited or used with `async with`."""
    return AsyncStore(lambda: lethevec.open(path, *args, **kwargs))


def connect(folder: Any, **kwargs: Any) -> AsyncDatabase:
    """As `lethevec.connect`, to be awaited or used with `async with`."""
    return AsyncDatabase(lambda: lethevec.connect(folder, **kwargs))
