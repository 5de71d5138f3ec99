"""`AsyncClient`: the same as `Client`, for programs that wait for many things at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, TypeVar

import numpy.typing as npt

from .._collections import Access, Hold
from .._forgetting.receipts import Receipt
from .._forgetting.verify import Verification
from .._hashing.parameters import boolean
from .._hits import Hits
from .._record import KEEP, Record
from .._store.importing import check_batch, read_source
from ..errors import ErasureIncompleteError, ServerError
from . import requests
from .requests import Request
from .sending import Reply, Waiting, http_library, pause, prepared, read_reply, settings

__all__ = ["AsyncClient", "AsyncCollection"]

T = TypeVar("T")
_PAGE = 1000


class AsyncClient:
    """The collections of a server, for `async` programs: every call of `Client`, to be awaited."""

    def __init__(
        self, url: str, key: str | None = None, *, timeout: float = 30.0, retries: int = 3, verify: Any = True
    ) -> None:
        """Nothing is sent yet."""
        self._http = http_library()
        self._client = self._http.AsyncClient(**settings(url, key, timeout, verify))
        self._timeout = timeout
        self._retries = retries
        self.url = url

    async def _send(self, request: Request[T]) -> T:
        result = read_reply(request, await self._reply(request))
        if not isinstance(result, Waiting):
            return result
        return await self._wait(request, result)

    async def _reply(self, request: Request[Any]) -> Reply:
        attempt = 0
        while True:
            reply: Reply | None = None
            failure: Exception | None = None
            try:
                response = await self._client.request(**prepared(request))
                reply = Reply(response.status_code, response.headers, response.content)
            except self._http.TransportError as error:
                failure = error
            seconds = pause(attempt, self._retries, reply)
            if seconds is None:
                if reply is not None:
                    return reply
                raise ServerError(
                    f"{self.url}: expected an answer, got {type(failure).__name__}: {failure}"
                ) from failure
            attempt += 1
            await asyncio.sleep(seconds)

    async def _wait(self, request: Request[T], waiting: Waiting) -> T:
        end = time.monotonic() + self._timeout
        while time.monotonic() < end:
            await asyncio.sleep(0.2)
            done = read_reply(requests.erasure(waiting.ask), await self._reply(requests.erasure(waiting.ask)))
            if not isinstance(done, Waiting):
                chain = {receipt.sequence: receipt for receipt in await self.receipts()}
                return request.read({"receipt": chain[done[-1]].fields if done else None, "records": 0})
            waiting = done
        raise ErasureIncompleteError(
            "the records are in no answer any more, but the erasure is not complete; it completes by itself",
            waiting.pending,
        )

    async def collection(
        self, name: str, dim: int | None = None, metric: str | None = None, **options: Any
    ) -> AsyncCollection:
        """Open a collection, or make it: then `dim` is needed, and `metric` is cosine unless given."""
        if dim is None:
            facts = await self._send(requests.describe(name))
        else:
            facts = await self._send(requests.make(name, {"dim": dim, "metric": metric, **options}))
        return AsyncCollection(self, name, facts["dim"], facts["metric"])

    async def collections(self) -> list[str]:
        """The names of the collections that the key may see."""
        return await self._send(requests.collections())

    async def drop(self, name: str) -> Receipt:
        """Erase a collection with everything in it."""
        return await self._send(requests.drop(name))

    async def rename(self, old: str, new: str) -> None:
        """Give a collection another name."""
        await self._send(requests.rename(old, new))

    async def forget(
        self,
        *,
        subject: str,
        block: bool = False,
        ignore_unknown: bool = False,
        elsewhere: Mapping[str, int | None] | None = None,
        dry_run: bool = False,
    ) -> Any:
        """Forget a person in every collection, with one receipt; with `dry_run` the number of records that would go."""
        if boolean("dry_run", dry_run):
            return await self._send(requests.would_forget_everywhere(subject))
        return await self._send(requests.forget_everywhere(subject, block, ignore_unknown, elsewhere))

    async def access(self, subject: str) -> Access:
        """Everything that is held of a person: records in every collection, receipts, holds, and blocks."""
        return await self._send(requests.access(subject))

    async def expire(self, *, skip_held: bool = False) -> Receipt | None:
        """Erase what is due; the receipt if anything was. The server does it by itself as well."""
        return await self._send(requests.expire(skip_held))

    async def hold(self, subject: str, reason: str) -> Receipt:
        """Keep a person's records from being erased."""
        return await self._send(requests.fence("hold", subject, reason))

    async def lift(self, hold: str | Receipt, reason: str = "no longer needed") -> Receipt:
        """End a legal hold, by its id or the receipt that set it."""
        return await self._send(requests.lift(hold, reason))

    async def holds(self, subject: str | None = None) -> list[Hold]:
        """The legal holds in force, of one person or all."""
        return await self._send(requests.holds(subject))

    async def block(self, subject: str, reason: str) -> Receipt:
        """Refuse to write for a person, until `unblock`."""
        return await self._send(requests.fence("block", subject, reason))

    async def unblock(self, subject: str, reason: str = "no longer needed") -> Receipt:
        """Allow to write for a person again."""
        return await self._send(requests.fence("unblock", subject, reason))

    async def receipts(self, *, all_kinds: bool = False) -> list[Receipt]:
        """The receipts of erasures, oldest first; with `all_kinds` the whole chain."""
        chain: list[Receipt] = []
        after: int | None = None
        while True:
            page, after = await self._send(requests.receipts(after))
            chain += page
            if after is None:
                return [receipt for receipt in chain if all_kinds or receipt.erases]

    async def verify(self, receipt: Receipt | str, *, ids: Any = None, subject: str | None = None) -> Verification:
        """Check a receipt against the collections as they are now."""
        return await self._send(requests.verify(receipt, ids, subject))

    async def public_key(self) -> bytes:
        """The public key in force, 32 bytes."""
        return await self._send(requests.public_key())

    async def cluster_status(self) -> dict[str, Any] | None:
        """Shards, members and their states, and erasures that wait, if the server is in front of a cluster."""
        return await self._send(requests.cluster_status())

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def __aenter__(self) -> AsyncClient:
        """Return itself; the connections are closed at the end of the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    def __repr__(self) -> str:
        """Where."""
        return f"<AsyncClient {self.url}>"


class AsyncCollection:
    """A collection of a server; made by `AsyncClient.collection`."""

    def __init__(self, client: AsyncClient, name: str, dim: int, metric: str) -> None:
        """What the server said about it."""
        self._client = client
        self.name = name
        self.dim = dim
        self.metric = metric

    async def add(
        self,
        vectors: npt.ArrayLike | None,
        ids: Any,
        *,
        subjects: Any = None,
        payloads: Any = None,
        expires: Any = KEEP,
    ) -> None:
        """Add records. Ids that are there already are refused, and then nothing is added."""
        await self._client._send(requests.put(self.name, "add", vectors, ids, subjects, payloads, expires))

    async def upsert(
        self,
        vectors: npt.ArrayLike | None,
        ids: Any,
        *,
        subjects: Any = None,
        payloads: Any = None,
        expires: Any = KEEP,
        erase_old: bool = False,
    ) -> Receipt | None:
        """Add records, or replace those that are there; with `erase_old` what is replaced is erased, with a receipt."""
        return await self._client._send(
            requests.put(self.name, "upsert", vectors, ids, subjects, payloads, expires, erase_old)
        )

    async def load(self, source: Any, *, key: str | None = None) -> int:
        """Add many records, batch by batch; the number of records. Each batch is added or refused as a whole.

        `source` is what the `load` of a store takes: a file, an Arrow table, a frame, or batches. It is read here, and
        its records are sent.
        """
        total = 0
        for batch in map(check_batch, read_source(source, key, time.time, _PAGE)[0]):
            await self.add(**batch)
            total += len(batch["ids"])
        return total

    async def update(
        self,
        vectors: Any = KEEP,
        ids: Any = None,
        *,
        subjects: Any = KEEP,
        payloads: Any = KEEP,
        expires: Any = KEEP,
        merge: bool = False,
        erase_old: bool = False,
    ) -> Receipt | None:
        """Replace parts of records. What is not given stays; None takes a subject or payload away."""
        return await self._client._send(
            requests.update(self.name, ids, vectors, subjects, payloads, expires, merge, erase_old)
        )

    async def get(
        self,
        ids: Any = None,
        *,
        where: Mapping[str, Any] | None = None,
        subject: str | None = None,
        limit: int | None = None,
        after: Any = None,
    ) -> list[Record]:
        """Records by ids, or those that are chosen, ascending by id; all of them unless there is a limit."""
        if ids is not None or limit is not None:
            return await self._client._send(requests.get(self.name, ids, where, subject, limit, after))
        return [record async for record in self._pages(where, subject, after)]

    async def _pages(self, where: Any, subject: str | None, after: Any) -> AsyncIterator[Record]:
        while True:
            page = await self._client._send(requests.get(self.name, None, where, subject, _PAGE, after))
            for record in page:
                yield record
            if len(page) < _PAGE:
                return
            after = page[-1].id

    async def ids(self, where: Mapping[str, Any] | None = None, *, subject: str | None = None) -> list[int | str]:
        """The ids of all records, or of those that are chosen, ascending."""
        found: list[int | str] = []
        after: Any = None
        while True:
            page, after = await self._client._send(requests.ids(self.name, where, subject, after))
            found += page
            if after is None:
                return found

    async def count(self, where: Mapping[str, Any] | None = None, *, subject: str | None = None) -> int:
        """How many records there are, or how many are chosen."""
        return await self._client._send(requests.count(self.name, where, subject))

    async def sample(
        self,
        count: int = 1000,
        *,
        where: Mapping[str, Any] | None = None,
        subject: str | None = None,
        seed: int = 0,
    ) -> list[Record]:
        """Up to `count` records picked by a hash of their ids, ascending by id."""
        return await self._client._send(requests.sample(self.name, count, where, subject, seed))

    async def subjects(self, *, prefix: str = "", after: str | None = None, limit: int | None = None) -> dict[str, int]:
        """Subjects with the number of their records, by code point; those that begin with `prefix`, or a page."""
        if limit is not None:
            return await self._client._send(requests.subjects(self.name, prefix, after, limit))
        found: dict[str, int] = {}
        while True:
            page = await self._client._send(requests.subjects(self.name, prefix, after, _PAGE))
            found |= page
            if len(page) < _PAGE:
                return found
            after = next(reversed(page))

    async def search(
        self,
        queries: npt.ArrayLike,
        k: int = 10,
        *,
        where: Mapping[str, Any] | None = None,
        subject: str | None = None,
        radius: float | None = None,
        effort: float = 1.0,
    ) -> Hits:
        """The k nearest records to each query, among those that are chosen."""
        return await self._client._send(requests.search(self.name, queries, k, where, subject, radius, effort))

    async def forget(
        self,
        ids: Any = None,
        *,
        subject: str | None = None,
        where: Mapping[str, Any] | None = None,
        ignore_unknown: bool = False,
        elsewhere: Mapping[str, int | None] | None = None,
        dry_run: bool = False,
    ) -> Any:
        """Forget records by ids, subject or filter, with one receipt; with `dry_run` say what would go."""
        if boolean("dry_run", dry_run):
            return await self._client._send(requests.would_forget(self.name, ids, subject, where, ignore_unknown))
        return await self._client._send(requests.forget(self.name, ids, subject, where, ignore_unknown, elsewhere))

    async def export(
        self, *, where: Mapping[str, Any] | None = None, subject: str | None = None
    ) -> list[dict[str, Any]]:
        """Whole records as dictionaries."""
        return await self._client._send(requests.export(self.name, where, subject))

    async def verify(self, receipt: Receipt | str, *, ids: Any = None, subject: str | None = None) -> Verification:
        """Check a receipt against the server's collections as they are now."""
        return await self._client.verify(receipt, ids=ids, subject=subject)

    async def public_key(self) -> bytes:
        """The server's public key in force, 32 bytes."""
        return await self._client.public_key()

    async def close(self) -> None:
        """Nothing is open for one collection; `Client.close` closes the connections."""

    async def digest(self) -> str:
        """The digest of configuration and records."""
        return await self._client._send(requests.digest(self.name))

    def __aiter__(self) -> AsyncIterator[Record]:
        """Every record, ascending by id, read in pages: what changes meanwhile may or may not be seen."""
        return self._pages(None, None, None)

    def __repr__(self) -> str:
        """Which, and where."""
        return f"<AsyncCollection {self.name!r} at {self._client.url}: dim={self.dim}, metric={self.metric!r}>"
