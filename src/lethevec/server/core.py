"""What the requests of one process share: collections, keys, limits, logs; and the work between requests.

SQLite and the index block, so calls that may take long run in threads. A search of few queries takes less time than
handing it to a thread, so it runs at once, unless a write to the same collection is going on and would make it wait, or
searches of that collection were found to take long.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import lethevec
from lethevec.errors import ErasureIncompleteError, LethevecError

from .audit import AuditLog, Signer
from .bodies import clear_stack
from .calls import LATE, Answer, Call
from .connections import Guard
from .keys import Door, KeyFile
from .limits import Budget, Rates
from .logs import Logs
from .metrics import Metrics
from .problems import Problem
from .processes import Control, Forwarder
from .repeats import Repeats
from .sessions import Sessions
from .settings import Settings
from .telemetry import Telemetry
from .wiping import wipe_receive_buffer

__all__ = ["Core"]

T = TypeVar("T")
_BEAT = 0.5  # seconds between two rounds of the work that nobody waits for
_READERS = 8  # threads for reads that take long
_LONG = 0.005  # seconds of CPU for which a read may hold up the others
_LET_BE = 20  # times as long as a read has held them up, reads of its collection go to threads


def _connect(settings: Settings, *, read_only: bool) -> Any:
    """The collections: of a folder, or of a cluster, which has the same calls."""
    if settings.cluster is None:
        return lethevec.connect(settings.folder, read_only=read_only, max_setup=settings.max_setup)
    from lethevec import cluster

    return cluster.connect(settings.cluster, folder=settings.folder, name=settings.cluster_name, read_only=read_only)


class Core:
    """One process of the server. `role` is "writer" or "reader-1", ..."""

    def __init__(
        self,
        settings: Settings,
        role: str = "writer",
        together: Path | None = None,
    ) -> None:
        """Open everything. `together` is the folder where processes meet; readers forward what they may not do."""
        state = settings.state_folder
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.settings = settings
        self.role = role
        self.writes = role == "writer"
        self.control = None if together is None else Control(together, role)
        self.forward = None if together is None or self.writes else Forwarder(together)
        self.logs = Logs(settings.log, role)
        self.door = Door(KeyFile(state))
        settings.check_reach(has_keys=self.door.closed)
        self.db = _connect(settings, read_only=not self.writes)
        self.cluster = None if isinstance(self.db, lethevec.Database) else self.db
        self.signer = Signer.open(state)
        self.audit = AuditLog(state, role, self.signer)
        self._counting = threading.Lock()
        self._counted = self.last_receipt() if self.writes else 0  # the last receipt whose records metrics count
        self._news = False  # whether there may be a later one
        self.repeats = Repeats(state) if self.writes else None
        self.sessions = Sessions(self)
        self.metrics = Metrics(role)
        self.telemetry = Telemetry() if settings.telemetry else None
        # Callers reach one of the readers, which count for themselves, or the writer if it is alone.
        rate = 0.0 if together is not None and self.writes else settings.rate / max(1, settings.workers)
        self.rates = Rates(rate, max(1, settings.burst // max(1, settings.workers)))
        self.requests = Budget(settings.max_in_flight, settings.max_wait, "requests")
        self.bodies = Budget(settings.max_bodies, settings.max_wait, "bytes of requests")
        self.guard = Guard(settings.timeout, settings.max_connections)
        self.reading: dict[asyncio.Task[Any], float] = {}  # requests whose body is awaited, and since when
        self.stopping = False
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="read")
        self._writers = ThreadPoolExecutor(4, thread_name_prefix="write")
        self._handles: dict[str, Any] = {}  # the catalog is a file; asking it takes longer than a small search
        self._writing: Counter[str | None] = Counter()
        self._slow: dict[str | None, float] = {}  # collections whose reads take long, and until when they go to threads
        self._watched: set[str | None] = set()  # collections of which a read took long, if not in CPU
        self._erasing = threading.RLock()
        self._expired_at = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    def collection(self, call: Call) -> Any:
        """The collection that a request names."""
        assert call.collection is not None
        known = self._handles.get(call.collection)
        if known is not None and not known.closed:
            return known
        try:
            self._handles[call.collection] = self.db.collection(call.collection)
            return self._handles[call.collection]
        except LethevecError:
            if call.collection in self.db.collections():
                raise
            raise Problem(404, "collection", "expected a collection that is there") from None

    async def read(self, collection: str | None, function: Callable[[], T], *, short: bool = False) -> T:
        """Do something that changes nothing; `short`: at once, if that holds up nobody."""
        if short and self.can_at_once(collection):
            return self.at_once(collection, function)
        future = asyncio.get_running_loop().run_in_executor(self._readers, function)
        try:
            return await asyncio.wait_for(future, self.settings.timeout)
        except asyncio.TimeoutError:
            raise Problem(504, "slow", "expected an answer in time; ask for less") from None

    def writing(self, collection: str | None) -> bool:
        """Whether a write is going on that a read would have to wait for."""
        writing = self._writing
        return bool(writing) and bool(writing.get(collection) or writing.get(None))

    def can_at_once(self, collection: str | None) -> bool:
        """Whether a short read may be done without a thread: it need not wait, and the others need not wait long."""
        if self.writing(collection):
            return False
        slow = self._slow
        return not slow or slow.get(collection, 0.0) < time.monotonic()

    def at_once(self, collection: str | None, function: Callable[[], T]) -> T:
        """Do a short read without a thread. If it has taken long, the next ones will go to threads for a while.

        Long in CPU: on a busy machine a read may wait for its turn, and a thread would wait as well. To ask for the CPU
        costs more than the time of day, so it is asked for once a read of this collection has taken long by the clock.
        """
        if collection in self._watched:
            begin = time.thread_time()
            done = function()
            taken = time.thread_time() - begin
            if taken > _LONG:
                self._slow[collection] = time.monotonic() + taken * _LET_BE
            else:
                self._watched.discard(collection)
            return done
        begin = time.perf_counter()
        done = function()
        if time.perf_counter() - begin > _LONG:
            self._watched.add(collection)
        return done

    async def write(self, collection: str | None, function: Callable[[], T]) -> T:
        """Do something that changes records. It is never abandoned: the answer says what has happened."""
        self._writing[collection] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._writers, function)
        finally:
            self._writing[collection] -= 1
            if not self._writing[collection]:
                del self._writing[collection]

    async def erase(self, collection: str | None, function: Callable[[], T]) -> T:
        """A write that ends in a receipt. One at a time: erasures share the chain, and may finish each other."""

        def alone() -> T:
            with self._erasing:
                return function()

        try:
            return await self.write(collection, alone)
        finally:
            self._news = True

    def incomplete(self, call: Call, error: ErasureIncompleteError) -> Answer:
        """202: no answer has the records any more, but bytes of them are in a file. `Location` says where to ask."""
        last = self.last_receipt()
        where = f"/v1/erasures/{last}"
        call.facts["pending"] = error.pending
        content = {"status": "waiting", "pending": error.pending, "ask": where}
        return Answer(content, 202, headers=((b"location", where.encode()), (b"retry-after", b"1")))

    def last_receipt(self) -> int:
        """The number of the newest receipt."""
        newest = self.db.chain(before=1 << 62, limit=1)
        return newest[0].sequence if newest else 0

    async def take_up(self) -> None:
        """Readers: see what the writer has done, and drop what was forgotten from memory."""
        await wipe_receive_buffer()
        clear_stack()
        await asyncio.get_running_loop().run_in_executor(self._readers, self._refresh)

    def changed(self) -> None:
        """Collections were dropped or have other names: look again."""
        self._handles = {}
        self._watched = set()
        now = time.monotonic()
        self._slow = {name: until for name, until in self._slow.items() if until > now}

    def _refresh(self) -> None:
        """Take up what the writer has done in every collection. It fails if one cannot be taken up: a reader that
        answered for it might return what was forgotten."""
        self.changed()
        for name in self.db.collections():
            self._take_up_one(name)

    def _take_up_one(self, name: str) -> None:
        try:
            len(self.db.collection(name))
        except LethevecError:
            if name in self.db.collections():
                raise  # it was not dropped meanwhile

    def own_metrics(self) -> bytes:
        """The metrics of this process."""
        self.metrics.in_flight.set(self.requests.used)
        self.metrics.body_bytes.set(self.bodies.used)
        records = {}
        more = b""
        if self.writes and self.cluster is not None:
            with suppress(LethevecError):  # the registry is away: what this process knows is shown
                more = self.cluster.metrics().encode()
        if self.writes:
            pending = self.db.pending_erasures()
            self.metrics.pending.set(pending)
            with suppress(LethevecError):
                self._count_erased(waiting=pending > 0)
            for name in self.db.collections():
                with suppress(LethevecError):
                    records[name] = len(self.db.collection(name))
        return self.metrics.text(records, self.guard.refused) + more

    def _count_erased(self, *, waiting: bool) -> None:
        """Count what was erased since the start by its receipts: an erasure that waited ends while nobody asks."""
        with self._counting:
            if not self._news:
                return
            self._news = waiting  # first: one that ends meanwhile is counted the next time at the latest
            while receipts := self.db.chain(after=self._counted, limit=100):
                for receipt in receipts:
                    if receipt.erases:
                        self.metrics.erased.inc(receipt["records"])
                        if receipt["asked"]["by"] == "expiry":
                            self.metrics.expired.inc(receipt["records"])
                    self._counted = receipt.sequence

    async def erased(self) -> None:
        """After an erasure, before its answer: no other process holds the records any more."""
        await wipe_receive_buffer()
        clear_stack()
        if self.control is not None and self.writes:
            await self.control.tell_readers()

    async def start(self) -> None:
        """Begin the work between requests."""
        if self.control is not None:
            await self.control.start(self)
        self._task = asyncio.get_running_loop().create_task(self._beat())

    async def stop(self) -> None:
        """End it, and close everything."""
        self.stopping = True
        if self.control is not None:
            await self.control.stop()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._readers.shutdown(wait=True)
        self._writers.shutdown(wait=True)
        try:
            self.db.close()
            self.audit.close()
        except LethevecError as error:  # a full disk
            self.logs.failure(error, "at the end")
        if self.repeats is not None:
            self.repeats.close()
        self.sessions.close()
        self.logs.flush()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT)
            self.logs.flush()
            late = time.monotonic() - self.settings.timeout
            for task in [task for task, since in self.reading.items() if since < late]:
                task.cancel(LATE)
            try:
                await asyncio.get_running_loop().run_in_executor(self._readers, self._round)
            except LethevecError as error:
                self.logs.failure(error, "between requests")

    def _round(self) -> None:
        """Seal the audit log; readers take up (and wipe) what was forgotten; the writer finishes what waits,
        and erases what is due."""
        try:
            self.audit.flush()
        finally:  # what was forgotten goes, whether the log can be written or not
            if not self.writes:
                self._refresh()
            else:
                with self._erasing:
                    self._finish()

    def _finish(self) -> None:
        if self.db.pending_erasures():
            self._news = True
            with suppress(ErasureIncompleteError):
                self.db.complete_erasures(timeout=0.0)
        every = self.settings.expire_every
        if every and time.monotonic() - self._expired_at > every:
            self._expired_at = time.monotonic()
            receipt = self.db.expire(skip_held=True)
            if receipt is not None:
                self._news = True
                facts = {"receipt": receipt.sequence, "records": receipt["records"]}
                self.audit.note("none", "expire", None, 200, facts)
                self.audit.flush(sync=True)
