"""`Client`: the collections of a server, with the calls of `connect`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
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
from ..errors import ErasureIncompleteError, ServerError, UnknownIdError
from . import requests
from .requests import Request
from .sending import Reply, Waiting, http_library, pause, prepared, read_reply, settings

__all__ = ["Client", "RemoteCollection"]

T = TypeVar("T")
_PAGE = 1000  # records that an iteration asks for at a time


class Client:
    """The collections of a server (`lethevec serve`), with the calls of `connect`, so a program moves by one line.

    `key` is a key of the server, `timeout` how many seconds a request may take, and `retries` how often one is sent
    again when the server is busy or a connection was lost; every request is safe to send again. `verify` is what httpx
    takes: True, or a context of `ssl`. Threads may share a client.
    """

    def __init__(
        self, url: str, key: str | None = None, *, timeout: float = 30.0, retries: int = 3, verify: Any = True
    ) -> None:
        """Nothing is sent yet."""
        self._http = http_library()
        self._client = self._http.Client(**settings(url, key, timeout, verify))
        self._timeout = timeout
        self._retries = retries
        self.url = url

    def _send(self, request: Request[T]) -> T:
        """Send, and again if that is of use; wait for an erasure that is not complete."""
        result = read_reply(request, self._reply(request))
        if not isinstance(result, Waiting):
            return result
        return self._wait(request, result)

    def _reply(self, request: Request[Any]) -> Reply:
        attempt = 0
        while True:
            reply: Reply | None = None
            failure: Exception | None = None
            try:
                response = self._client.request(**prepared(request))
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
            time.sleep(seconds)

    def _wait(self, request: Request[T], waiting: Waiting) -> T:
        end = time.monotonic() + self._timeout
        while time.monotonic() < end:
            time.sleep(0.2)
            done = read_reply(requests.erasure(waiting.ask), self._reply(requests.erasure(waiting.ask)))
            if not isinstance(done, Waiting):
                chain = {receipt.sequence: receipt for receipt in self.receipts()}
                return request.read({"receipt": chain[done[-1]].fields if done else None, "records": 0})
            waiting = done
        raise ErasureIncompleteError(
            "the records are in no answer any more, but the erasure is not complete; it completes by itself",
            waiting.pending,
        )

    def collection(
        self, name: str, dim: int | None = None, metric: str | None = None, **options: Any
    ) -> RemoteCollection:
        """Open a collection, or make it: then `dim` is needed, and `metric` is cosine unless given."""
        if dim is None:
            facts = self._send(requests.describe(name))
        else:
            facts = self._send(requests.make(name, {"dim": dim, "metric": metric, **options}))
        return RemoteCollection(self, name, facts["dim"], facts["metric"])

    def collections(self) -> list[str]:
        """The names of the collections that the key may see."""
        return self._send(requests.collections())

    def drop(self, name: str) -> Receipt:
        """Erase a collection with everything in it."""
        return self._send(requests.drop(name))

    def rename(self, old: str, new: str) -> None:
        """Give a collection another name."""
        self._send(requests.rename(old, new))

    def forget(
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
            return self._send(requests.would_forget_everywhere(subject))
        return self._send(requests.forget_everywhere(subject, block, ignore_unknown, elsewhere))

    def access(self, subject: str) -> Access:
        """Everything that is held of a person: records in every collection, receipts, holds, and blocks."""
        return self._send(requests.access(subject))

    def expire(self, *, skip_held: bool = False) -> Receipt | None:
        """Erase what is due; the receipt if anything was. The server does it by itself as well."""
        return self._send(requests.expire(skip_held))

    def hold(self, subject: str, reason: str) -> Receipt:
        """Keep a person's records from being erased."""
        return self._send(requests.fence("hold", subject, reason))

    def lift(self, hold: str | Receipt, reason: str = "no longer needed") -> Receipt:
        """End a legal hold, by its id or the receipt that set it."""
        return self._send(requests.lift(hold, reason))

    def holds(self, subject: str | None = None) -> list[Hold]:
        """The legal holds in force, of one person or all."""
        return self._send(requests.holds(subject))

    def block(self, subject: str, reason: str) -> Receipt:
        """Refuse to write for a person, until `unblock`."""
        return self._send(requests.fence("block", subject, reason))

    def unblock(self, subject: str, reason: str = "no longer needed") -> Receipt:
        """Allow to write for a person again."""
        return self._send(requests.fence("unblock", subject, reason))

    def receipts(self, *, all_kinds: bool = False) -> list[Receipt]:
        """The receipts of erasures, oldest first; with `all_kinds` the whole chain."""
        chain: list[Receipt] = []
        after: int | None = None
        while True:
            page, after = self._send(requests.receipts(after))
            chain += page
            if after is None:
                return [receipt for receipt in chain if all_kinds or receipt.erases]

    def verify(self, receipt: Receipt | str, *, ids: Any = None, subject: str | None = None) -> Verification:
        """Check a receipt against the collections as they are now."""
        return self._send(requests.verify(receipt, ids, subject))

    def public_key(self) -> bytes:
        """The public key in force, 32 bytes."""
        return self._send(requests.public_key())

    def cluster_status(self) -> dict[str, Any] | None:
        """Shards, members and their states, and erasures that wait, if the server is in front of a cluster."""
        return self._send(requests.cluster_status())

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Client:
        """Return itself; the connections are closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        """Where."""
        return f"<Client {self.url}>"


class RemoteCollection:
    """A collection of a server; made by `Client.collection`."""

    def __init__(self, client: Client, name: str, dim: int, metric: str) -> None:
        """What the server said about it."""
        self._client = client
        self.name = name
        self.dim = dim
        self.metric = metric

    def add(
        self,
        vectors: npt.ArrayLike | None,
        ids: Any,
        *,
        subjects: Any = None,
        payloads: Any = None,
        expires: Any = KEEP,
    ) -> None:
        """Add records. Ids that are there already are refused, and then nothing is added."""
        self._client._send(requests.put(self.name, "add", vectors, ids, subjects, payloads, expires))

    def upsert(
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
        return self._client._send(
            requests.put(self.name, "upsert", vectors, ids, subjects, payloads, expires, erase_old)
        )

    def load(self, source: Any, *, key: str | None = None) -> int:
        """Add many records, batch by batch; the number of records. Each batch is added or refused as a whole.

        `source` is what the `load` of a store takes: a file, an Arrow table, a frame, or batches. It is read here, and
        its records are sent.
        """
        total = 0
        for batch in map(check_batch, read_source(source, key, time.time, _PAGE)[0]):
            self.add(**batch)
            total += len(batch["ids"])
        return total

    def update(
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
        return self._client._send(
            requests.update(self.name, ids, vectors, subjects, payloads, expires, merge, erase_old)
        )

    def get(
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
            return self._client._send(requests.get(self.name, ids, where, subject, limit, after))
        return list(self._pages(where, subject, after))

    def _pages(self, where: Any, subject: str | None, after: Any) -> Iterator[Record]:
        while True:
            page = self._client._send(requests.get(self.name, None, where, subject, _PAGE, after))
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].id

    def ids(self, where: Mapping[str, Any] | None = None, *, subject: str | None = None) -> list[int | str]:
        """The ids of all records, or of those that are chosen, ascending."""
        found: list[int | str] = []
        after: Any = None
        while True:
            page, after = self._client._send(requests.ids(self.name, where, subject, after))
            found += page
            if after is None:
                return found

    def count(self, where: Mapping[str, Any] | None = None, *, subject: str | None = None) -> int:
        """How many records there are, or how many are chosen."""
        return self._client._send(requests.count(self.name, where, subject))

    def sample(
        self,
        count: int = 1000,
        *,
        where: Mapping[str, Any] | None = None,
        subject: str | None = None,
        seed: int = 0,
    ) -> list[Record]:
        """Up to `count` records picked by a hash of their ids, ascending by id."""
        return self._client._send(requests.sample(self.name, count, where, subject, seed))

    def subjects(self, *, prefix: str = "", after: str | None = None, limit: int | None = None) -> dict[str, int]:
        """Subjects with the number of their records, by code point; those that begin with `prefix`, or a page."""
        if limit is not None:
            return self._client._send(requests.subjects(self.name, prefix, after, limit))
        found: dict[str, int] = {}
        while True:
            page = self._client._send(requests.subjects(self.name, prefix, after, _PAGE))
            found |= page
            if len(page) < _PAGE:
                return found
            after = next(reversed(page))

    def search(
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
        return self._client._send(requests.search(self.name, queries, k, where, subject, radius, effort))

    def forget(
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
            return self._client._send(requests.would_forget(self.name, ids, subject, where, ignore_unknown))
        return self._client._send(requests.forget(self.name, ids, subject, where, ignore_unknown, elsewhere))

    def export(self, *, where: Mapping[str, Any] | None = None, subject: str | None = None) -> list[dict[str, Any]]:
        """Whole records as dictionaries."""
        return self._client._send(requests.export(self.name, where, subject))

    def verify(self, receipt: Receipt | str, *, ids: Any = None, subject: str | None = None) -> Verification:
        """Check a receipt against the server's collections as they are now."""
        return self._client.verify(receipt, ids=ids, subject=subject)

    def public_key(self) -> bytes:
        """The server's public key in force, 32 bytes."""
        return self._client.public_key()

    def close(self) -> None:
        """Nothing is open for one collection; `Client.close` closes the connections."""

    def digest(self) -> str:
        """The digest of configuration and records."""
        return self._client._send(requests.digest(self.name))

    def __len__(self) -> int:
        """The number of records."""
        return int(self._client._send(requests.describe(self.name))["records"])

    def __contains__(self, id: object) -> bool:
        """Whether there is a record with this id."""
        try:
            return bool(self._client._send(requests.get(self.name, [id], None, None, None, None)))
        except UnknownIdError:
            return False

    def __iter__(self) -> Iterator[Record]:
        """Every record, ascending by id, read in pages: what changes meanwhile may or may not be seen."""
        return self._pages(None, None, None)

    def __repr__(self) -> str:
        """Which, and where."""
        return f"<RemoteCollection {self.name!r} at {self._client.url}: dim={self.dim}, metric={self.metric!r}>"
