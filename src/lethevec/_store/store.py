"""`Store`: records that survive crashes and are forgotten for good.

SQLite is the system of record, and an index in memory answers the searches. A record has an id (int or str), a vector,
and may have a subject (the person or account it belongs to) and a payload (a JSON object).

Threads may share a store. One process writes; others may read, and see every change at their next call.

Here are the public calls. Each checks its arguments before anything changes and hands them to the part that does the
work: `reading`, `searching`, `changes`, `forgetting` and `erasing`, `ledger`, `checking`, `backups`.
"""

from __future__ import annotations

import os
import reprlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, overload

import numpy.typing as npt

from .._durable import as_path
from .._extras import need
from .._filters import parse
from .._forgetting.anchors import Anchor
from .._forgetting.elsewhere import read_elsewhere
from .._forgetting.keys import AuditKey
from .._forgetting.multiset import MultisetHash
from .._forgetting.receipts import Part, Receipt
from .._forgetting.trusted import ChainLike, KeyLike, ReceiptLike, read_chain, read_public_key, read_receipt
from .._forgetting.verify import Verification
from .._hashing.parameters import as_float, boolean, integer, real
from .._hits import Hits
from .._index import MAX_SETUP, Config, Tuning
from .._record import KEEP, Keep, Record
from .._shown import shown
from ..errors import (
    ErasureIncompleteError,
    FileError,
    FormatError,
    IdError,
    ParameterError,
    UnsupportedError,
)
from . import backups, checking, exporting
from .batch import Batch, make_batch
from .changes import Changes, Note, Update
from .codes import Codes
from .configuration import check_max_setup, draws_key, index_options, read_configuration
from .connection import translated
from .erasing import Claim, Eraser
from .fields import Fields
from .files import StoreFiles
from .forgetting import Forgetter, Preview, Request
from .ids import Id, check_id, check_ids, check_text, order_of
from .image import Image
from .importing import check_batch, read_source
from .ledger import Ledger, StoreLedger
from .lock import WriterLock
from .mirror import Mirror
from .opening import check_same, make_index, open_session, recover, refuse_collection
from .reading import Reader
from .reserve import Reserve
from .retention import Clock, Retention, check_clock, check_expires
from .rules import Rules
from .searching import Searcher
from .selecting import ALL, Expired, Selection, Selector
from .session import Session
from .soon import Soon
from .survey import Survey, Surveyor
from .vault import vault_path
from .vectors import VectorsInFile, check_vectors, vector_files

__all__ = ["Store", "open"]

_MOST_SECONDS = 1e6


class Store:
    """An open store; made by `open`.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> db = open(folder.name + "/people.lethe", dim=3, metric="l2")
    >>> db.add([[0, 0, 1], [0, 2, 0]], ids=["a", "b"], subjects=["alice", "bob"], payloads=[{"year": 1990}, None])
    >>> [hit.id for hit in db.search([0, 0, 0], k=2)[0]]
    ['a', 'b']
    >>> receipt = db.forget(subject="alice")
    >>> [hit.id for hit in db.search([0, 0, 0], k=2)[0]]
    ['b']
    >>> bool(db.verify(receipt))
    True
    >>> db.close(); folder.cleanup()
    """

    def __init__(
        self,
        session: Session,
        lock: WriterLock | None,
        ledger: Callable[[Session], Ledger],
        rules: Rules,
        *,
        drop_unreadable: bool = False,
        clock: Clock = time.time,
        retention: timedelta | None = None,
        filters: Sequence[str] | None = None,
        vectors_in_file: bool = False,
    ) -> None:
        """Finish what an earlier process left, then load the index."""
        self._session = session
        self._lock = lock
        config = read_configuration(session.state.configuration, session.path)
        self._config = config.with_key(None) if draws_key(config) else config
        self._ledger = ledger(session)
        self._eraser = Eraser(session, self._ledger)
        self._reserve = Reserve(session.files.reserve, session.page_size)
        if not session.read_only:
            recover(session, self._eraser)
            self._reserve.ensure()
        index = make_index(session, vector_files(session, vectors_in_file))
        if vectors_in_file:
            session.vectors = VectorsInFile(index)
        self._codes = Codes(session, index)
        self._retention = Retention(session, clock)
        self.retention = retention  #: how long records are kept unless they say otherwise; None: for ever
        self._image = Image(session, index)
        self._mirror = Mirror(
            session, index, self._codes, self._image, self._retention, drop_unreadable=drop_unreadable
        )
        self._fields = Fields(session, self._mirror, filters)
        self._selector = Selector(session, self._fields, self._retention)
        self._reader = Reader(session, self._mirror, self._selector)
        self._surveyor = Surveyor(session, self._mirror, self._selector, self._retention, self._reader)
        self._searcher = Searcher(session, self._mirror, self._selector, self._reader)
        self._changes = Changes(session, self._mirror, self._codes, rules, self._retention)
        self._forgetter = Forgetter(
            session, self._changes, self._codes, self._image, self._selector, self._ledger, self._eraser, self._reserve
        )
        self._soon = Soon(session)
        self._mirror.load()

    # --- What it is --------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The database file."""
        return self._session.path

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return self._config.dim

    @property
    def metric(self) -> str:
        """The metric: "cosine", "l2" or "ip"."""
        return self._config.metric

    @property
    def config(self) -> Config:
        """Everything that was chosen when the store was made, defaults filled in.

        A key that the store has drawn is not part of it.
        """
        return self._config

    @property
    def read_only(self) -> bool:
        """Whether this is a reader."""
        return self._session.read_only

    @property
    def encrypted(self) -> bool:
        """Whether its records are sealed, each under a key of its own."""
        return self._session.tables.sealed

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._session.closed

    def files(self) -> dict[str, int]:
        """Every file that belongs to the store and could hold a record, by name, with its size in bytes."""
        return {path.name: path.stat().st_size for path in self._session.files.searchable()}

    def stats(self) -> dict[str, int | float]:
        """Counts, and bytes by part: those of the index in memory (see `Index.stats`), and `bytes_files` on disk."""
        with self._session.guard:
            self._mirror.refresh()
            index = self._mirror.index.stats()
            return {**index, "records": self._session.state.digest.count, "bytes_files": sum(self.files().values())}

    def __repr__(self) -> str:
        """Where, how many, which kind."""
        state = "closed" if self._session.closed else f"{self._session.state.digest.count} records"
        return f"<Store {self.path}: {state}, dim={self.dim}, metric={self.metric!r}>"

    def __len__(self) -> int:
        """The number of records."""
        return self._reader.count(Selection())

    def digest(self) -> str:
        """The digest of configuration and records: the same for every history that ends in the same records."""
        with self._session.guard:
            self._mirror.refresh()
            return self._session.state.digest.digest()

    def digest_sum(self) -> MultisetHash:
        """The sum that the digest is made of, as a copy. Sums of stores with different records add up (`merge`): the
        digest of all of them is that of one store with the same configuration that holds their records.
        """
        with self._session.guard:
            self._mirror.refresh()
            return self._session.state.digest.copy()

    def check_same(
        self, dim: int | None, metric: str | None, index: dict[str, Any] | None, encrypt: bool | None
    ) -> None:
        """Refuse other settings than those that the store was made with; None is any."""
        check_same(self._session, dim, metric, index, encrypt)

    # --- Looking at records ------------------------------------------------------------------------------------------

    def __contains__(self, id: object) -> bool:
        """Whether there is a record with this id."""
        try:
            ids, _ = check_ids([id])
        except IdError:
            return False
        return self._reader.contains(ids[0])

    def __iter__(self) -> Iterator[Record]:
        """Every record in the order of ids, read in parts: what changes meanwhile may or may not be seen."""
        return self._walk()

    def _walk(self, where: Mapping[str, Any] | None = None, subject: str | None = None) -> Iterator[Record]:
        """The same of those that `where` and `subject` allow."""
        return self._reader.walk(Selection(where, subject))

    def count(self, where: Mapping[str, Any] | None = None, *, subject: str | None = None) -> int:
        """The number of records, or of those of a subject and those that `where` allows (see the page on filters).

        >>> with _example() as db:
        ...     db.count(), db.count({"year": {"$gte": 1995}}), db.count(subject="alice")
        (3, 2, 2)
        """
        return self._reader.count(Selection(where, subject))

    def ids(self, where: Mapping[str, Any] | None = None, *, subject: str | None = None) -> list[Id]:
        """All ids, or those of a subject's records and those that `where` allows, in their order: integers by value,
        then strings by code point.

        >>> with _example() as db:
        ...     db.ids(), db.ids({"year": {"$gte": 1995}})
        ([7, 'a', 'b'], ['a', 'b'])
        """
        return self._reader.ids(Selection(where, subject))

    def get(
        self,
        ids: Any = None,
        *,
        where: Mapping[str, Any] | None = None,
        subject: str | None = None,
        limit: int | None = None,
        after: Id | None = None,
    ) -> list[Record]:
        """Records by their ids, in the order asked for; or those that `where` and `subject` allow, ascending by id.

        An unknown id is refused. `limit` is how many records to return at most, and `after` the id that they come
        after, which need not be there: give the last id of a page to get the next one. The order is that of `ids`.

        >>> with _example() as db:
        ...     page = db.get(subject="alice", limit=1)
        ...     following = db.get(subject="alice", limit=1, after=page[-1].id)
        ...     page[0].id, following[0].id
        (7, 'a')
        """
        most = ALL if limit is None else integer("limit", limit, 0, ALL)
        begin = None if after is None else check_id(after, "after")
        selection = Selection(where, subject)
        if ids is None:
            return self._reader.page(selection, begin, most)
        if not selection.everything or limit is not None or after is not None:
            raise ParameterError("get: expected ids alone, or where, subject, limit and after, got both")
        return self._reader.get(check_ids(ids)[0])

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        where: Mapping[str, Any] | None = None,
        subject: str | None = None,
    ) -> int:
        """Write records to a file, which appears as a whole or not at all; return how many there are.

        The suffix says what it is: .jsonl, .csv, .parquet and .arrow hold all of a record, .npz too, and .npy and
        .fvecs its vector alone. An export is a copy: what is forgotten later stays in it.

        >>> with _example() as db:
        ...     count = db.export(db.path.with_name("alice.jsonl"), subject="alice")
        ...     print(count, db.path.with_name("alice.jsonl").read_text().splitlines()[0])
        2 {"id": 7, "subject": "alice", "payload": {"year": 1990}, "vector": [0, 1]}
        """
        target = as_path(path)
        if target.suffix.lower() not in exporting.SUFFIXES[:-1]:
            wanted = " ".join(exporting.SUFFIXES[:-1])
            raise FormatError(f"{target}: expected a file name that ends in {wanted}, got {target.suffix!r}")
        if target.exists() and any(target.samefile(self.path.with_name(name)) for name in self.files()):
            raise FileError(f"{target}: expected a file to write to, got one of the store itself")
        return exporting.write_records(target, target.suffix.lower(), self, where, subject)

    def to_arrow(self, *, where: Mapping[str, Any] | None = None, subject: str | None = None) -> Any:
        """The records as an Arrow table: id, subject, payload (as JSON), expires and vector. It needs pyarrow."""
        return exporting.arrow_table(self, where, subject)

    def to_pandas(self, *, where: Mapping[str, Any] | None = None, subject: str | None = None) -> Any:
        """The same as a pandas frame."""
        need("pandas", "frames", "to_pandas")
        return self.to_arrow(where=where, subject=subject).to_pandas()

    def to_polars(self, *, where: Mapping[str, Any] | None = None, subject: str | None = None) -> Any:
        """The same as a Polars frame."""
        return need("polars", "frames", "to_polars").from_arrow(self.to_arrow(where=where, subject=subject))

    def subjects(self, *, prefix: str = "", after: str | None = None, limit: int | None = None) -> dict[str, int]:
        """Every subject with the number of its records, by code point; or those that begin with `prefix`.

        `limit` is how many to return at most, and `after` the subject that they come after: pages, as with `get`.

        >>> with _example() as db:
        ...     db.subjects(), db.subjects(prefix="b"), db.subjects(limit=1, after="alice")
        ({'alice': 2, 'bob': 1}, {'bob': 1}, {'bob': 1})
        """
        begin = "" if isinstance(prefix, str) and not prefix else check_text(prefix, "prefix")
        past = None if after is None else check_text(after, "after")
        return self._reader.subjects(begin, past, ALL if limit is None else integer("limit", limit, 0, ALL))

    def sample(
        self,
        count: int = 1000,
        *,
        where: Mapping[str, Any] | None = None,
        subject: str | None = None,
        seed: int = 0,
    ) -> list[Record]:
        """Up to `count` records picked by a hash of their ids, ascending by id: for a look at what is there.

        The same records and seed give the same sample, whatever happened before; a larger one holds a smaller one.

        >>> with _example() as db:
        ...     len(db.sample(2)), [record.id for record in db.sample(2, subject="alice")]
        (2, [7, 'a'])
        """
        most = integer("count", count, 0, ALL)
        return self._surveyor.sample(Selection(where, subject), most, integer("seed", seed, 0, (1 << 63) - 1))

    def due_parts(self) -> tuple[int | None, dict[int, list[tuple[int, int]]]]:
        """For a member of a cluster: when the last record is due, and how many in each part for every step that a
        survey of all members may choose (see `Surveyor`)."""
        return self._surveyor.due_parts()

    def survey(self) -> Survey:
        """Counts without records: subjects, what has no subject, vector or expiry, and when records become due.

        >>> with _example() as db:
        ...     survey = db.survey()
        ...     survey.records, survey.subjects, survey.without_expiry
        (3, 2, 3)
        """
        return self._surveyor.survey()

    # --- Search ------------------------------------------------------------------------------------------------------

    def search(
        self,
        queries: npt.ArrayLike,
        k: int = 10,
        *,
        where: Mapping[str, Any] | None = None,
        subject: str | None = None,
        radius: float | None = None,
        effort: float = 1.0,
        threads: int | None = 1,
    ) -> Hits:
        """The k nearest records to each query, among those that `subject` and `where` allow.

        With `radius`, only those at most so far away. Records without a vector are never found.

        >>> with _example() as db:
        ...     [[hit.id for hit in hits] for hits in db.search([[0, 0], [9, 9]], k=2, where={"year": {"$lt": 1999}})]
        [[7, 'a'], ['a', 7]]
        """
        index = self._mirror.index
        return self._searcher.run(
            lambda allow: index.search(queries, k, effort=effort, threads=threads, allow=allow),
            Selection(where, subject),
            self._catch_up,
            None if radius is None else real("radius", radius),
        )

    def search_radius(
        self,
        queries: npt.ArrayLike,
        radius: float,
        *,
        where: Mapping[str, Any] | None = None,
        subject: str | None = None,
    ) -> Hits:
        """All records within `radius` of each query, among those that `where` and `subject` allow."""
        index = self._mirror.index
        return self._searcher.run(
            lambda allow: index.search_radius(queries, radius, allow=allow), Selection(where, subject), self._catch_up
        )

    def tune(
        self, queries: npt.ArrayLike, target_recall: float = 0.95, k: int = 10, *, threads: int | None = None
    ) -> Tuning:
        """The least effort whose recall on these queries reaches the target (see `Index.tune`); changes nothing."""
        self._catch_up()
        return self._mirror.index.tune(queries, target_recall, k, threads=threads)

    def _catch_up(self) -> None:
        """Before each call: see what others did, and finish what waits if the way is free."""
        with self._session.guard:
            self._mirror.refresh()
            if not self._session.read_only:
                self._eraser.try_complete()

    # --- Changing records --------------------------------------------------------------------------------------------

    def add(
        self,
        vectors: npt.ArrayLike | None,
        ids: Any,
        *,
        subjects: Any = None,
        payloads: Any = None,
        expires: Any = KEEP,
    ) -> None:
        """Add records in one transaction. Ids that are there already are refused, and then nothing is added.

        A record may have no vector: `vectors` is then None, or a list with None in its place. `get` finds it, and no
        search does. `subjects` is a string for all records or a list, `payloads` a list of dicts; None is "none".
        `expires` is the time from which records are in no answer: a datetime with a time zone, a date, a timedelta from
        now, or a list with one of these or None for each; unless given, `retention` says it (see `expire`).

        >>> with _example() as db:
        ...     db.add(None, ids=["note"], payloads=[{"text": "call back"}])
        ...     db.get("note")[0].vector, len(db.search([0, 0], k=9)[0])
        (None, 3)
        """
        batch = self._checked(vectors, ids, subjects, payloads, self._times(expires))
        with self._session.guard:
            self._catch_up()
            self._changes.add([batch])
            self._after_change()

    def upsert(
        self,
        vectors: npt.ArrayLike | None,
        ids: Any,
        *,
        subjects: Any = None,
        payloads: Any = None,
        expires: Any = KEEP,
        erase_old: bool = False,
        timeout: float | None = None,
    ) -> Receipt | None:
        """Add records, or put them in the place of those with the same ids, in one transaction.

        Of a record that is replaced nothing stays: what is not given is gone. `update` replaces parts, and says what
        `erase_old` does.

        >>> with _example() as db:
        ...     db.upsert([[5, 5], [6, 6]], ids=["a", "new"], payloads=[{"year": 2026}, None])
        ...     db.ids(), db.get("a")[0].subject
        ([7, 'a', 'b', 'new'], None)
        """
        boolean("erase_old", erase_old)
        seconds = self._seconds(timeout)
        batch = self._checked(vectors, ids, subjects, payloads, self._times(expires))
        return self._rectify(lambda note: self._changes.upsert(batch, note), len(batch), erase_old, seconds)

    def load(self, source: Any, *, key: str | None = None, total: int | None = None) -> int:
        """Add many records in one transaction and bounded memory, with a progress line; the number of records.

        `source` is a file, whose suffix says what it is (.jsonl .csv .parquet .arrow .npz .npy .fvecs .hdf5 and their
        like; what `export` writes comes back as it was), an Arrow table, a pandas or Polars frame, or an iterable of
        batches: mappings with the arguments of `add`, `vectors`, `ids`, and perhaps `subjects`, `payloads` and
        `expires`.

        Files and frames have a column of vectors, which `key` names unless it is called `vector` or `embedding`, and
        may have columns `id`, `subject`, `payload` and `expires`. Where a table or frame has no column `payload`, its
        other columns become fields of payloads. Records without ids get numbers from 0 on; those that have expired are
        left out. `total` is how many records there will be, for the progress line.

        >>> with _example() as db:
        ...     count = db.export(db.path.with_name("people.jsonl"))
        ...     with open(db.path.with_name("copy.lethe"), dim=2, metric="l2") as other:
        ...         other.load(db.path.with_name("people.jsonl")), other.digest() == db.digest()
        (3, True)
        """
        if total is not None:
            integer("total", total, 0, ALL)
        given, known = read_source(source, key, lambda: self._retention.now() / 1000)
        with self._session.guard:
            self._catch_up()
            added = self._changes.add(map(self._batch, given), known if total is None else total)
            self._after_change()
        return added

    def _batch(self, given: Any) -> Batch:
        batch = check_batch(given)
        subjects, payloads, times = batch.get("subjects"), batch.get("payloads"), batch.get("expires", KEEP)
        return self._checked(batch["vectors"], batch["ids"], subjects, payloads, self._times(times))

    def _checked(self, *given: Any) -> Batch:
        return make_batch(self.dim, self.metric, *given, keep_vectors=self._mirror.index.config.keep_vectors)

    def _times(self, expires: Any) -> Callable[[int], list[int | None]]:
        """When so many new records expire, checked."""
        given = self.retention if isinstance(expires, Keep) else expires
        return lambda n: check_expires(given, n, self._retention.now())

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
        timeout: float | None = None,
    ) -> Receipt | None:
        """Replace parts of records in one transaction. What is not given stays; None removes a part.

        What was replaced may stay in the log until the next erasure, until the store is closed, or for a minute at the
        latest (longer only while another program reads an older state). With `erase_old` it is erased like what
        `forget` forgets, and the receipt says so.

        With `merge`, fields of a new payload take the places of those of the same name, and the others stay. It looks
        at the top level alone: a field that holds an object is replaced as a whole.

        >>> with _example() as db:
        ...     db.update(ids=["a"], payloads=[{"read": True}], merge=True)
        ...     db.get("a")[0].payload
        {'read': True, 'year': 1995}
        """
        boolean("erase_old", erase_old)
        seconds = self._seconds(timeout)
        times = None if isinstance(expires, Keep) else self._times(expires)
        keep = self._mirror.index.config.keep_vectors
        update = Update(self.dim, self.metric, ids, vectors, subjects, payloads, times, merge=merge, keep_vectors=keep)
        return self._rectify(lambda note: self._changes.update(update, note), len(update.ids), erase_old, seconds)

    def _rectify(
        self, change: Callable[[Note | None], None], records: int, erase_old: bool, timeout: float
    ) -> Receipt | None:
        with self._session.guard:
            self._catch_up()
            if not erase_old:
                change(None)
                self._soon.note()
                self._after_change()
                return None
            started = self._forgetter.start_rectifying(change, records, timeout)
        return self._finished(started, timeout)

    def _finished(self, started: Receipt | Claim, timeout: float) -> Receipt:
        """The second half of an erasure, in which other threads come in while somebody is in the way."""
        with translated(self.path):
            receipt = self._forgetter.finish(started, timeout)
        self._settle()
        return receipt

    def _settle(self) -> None:
        """What may wait, after an erasure: another thread may have closed the store meanwhile."""
        with self._session.guard, translated(self.path):
            if not self._session.closed:
                self._after_change()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Several calls as one: when the block ends, all of their changes are committed, and after an error none is.

        Calls inside see the changes so far; other processes, and other threads of this one, see them when they are
        committed. Other threads' calls wait until then. A call that fails inside changes nothing by itself, and one may
        go on after it.

        A forget inside returns a receipt that is signed when the block has ended; until then, what it says cannot be
        read. If the erasure cannot be completed then, `ErasureIncompleteError` says so: the changes are committed, and
        the erasure completes later. There is no transaction inside a transaction, and no `verify`, `backup`,
        `rotate_keys`, `complete_erasures` or `close`.

        >>> with _example() as db:
        ...     with db.transaction():
        ...         db.upsert([[1, 1]], ids=["c"])
        ...         receipt = db.forget(subject="alice")
        ...     db.ids(), receipt.records
        (['b', 'c'], 2)
        """
        with self._session.guard:
            self._session.require_writer()
            self._session.require_no_transaction("transaction")
            self._catch_up()
            with self._session.transaction():
                yield
            promised = self._forgetter.take_promises()
        self._forgetter.keep(promised)
        self._settle()

    def _after_change(self) -> None:
        """What may wait until a change is committed: a long log is emptied, and codes that it cost are made."""
        self._fields.catch_up()
        self._session.empty_long_log()
        self._codes.fill()

    @overload
    def forget(
        self,
        ids: Any = None,
        *,
        subject: str | None = None,
        where: Mapping[str, Any] | None = None,
        dry_run: Literal[False] = False,
        ignore_unknown: bool = False,
        search_all: bool = False,
        elsewhere: Mapping[str, int | None] | None = None,
        timeout: float | None = None,
    ) -> Receipt: ...

    @overload
    def forget(
        self,
        ids: Any = None,
        *,
        subject: str | None = None,
        where: Mapping[str, Any] | None = None,
        dry_run: Literal[True],
        ignore_unknown: bool = False,
        search_all: bool = False,
        elsewhere: Mapping[str, int | None] | None = None,
        timeout: float | None = None,
    ) -> Preview: ...

    def forget(
        self,
        ids: Any = None,
        *,
        subject: str | None = None,
        where: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        ignore_unknown: bool = False,
        search_all: bool = False,
        elsewhere: Mapping[str, int | None] | None = None,
        timeout: float | None = None,
    ) -> Receipt | Preview:
        """Forget records: by id, all of a subject's, or those that `where` allows (of a subject, if both are given).

        When this returns, no file of the store holds a byte of them. The receipt is signed once that is so. If it
        cannot be made so within `timeout` seconds (a reader holds an old snapshot, a file cannot be written),
        `ErasureIncompleteError` says it: no search finds the records any more, the erasure is on record, and it
        completes by itself later. If not even that can be recorded (the disk is full and the reserve too small),
        `IncompleteWriteError` says it, and nothing has changed.

        `dry_run` changes nothing and says what would be forgotten. `search_all` searches every byte of every file for
        residue, instead of the pages that were rewritten. Unknown ids, or an unknown subject, are refused unless
        `ignore_unknown`; the receipt then counts what there was. No ids, or a condition that allows nothing, is no
        error: the receipt is about no records.

        `elsewhere` is what you erased outside the store, for the receipt to state: how many entries in each place, or
        None for a place where you erased nothing. The store has not looked there.

        >>> with _example() as db:
        ...     db.forget(where={"year": {"$lt": 1999}}, dry_run=True).ids
        ...     db.forget(where={"year": {"$lt": 1999}}).records
        [7, 'a']
        2
        """
        if ids is not None and (subject is not None or where is not None):
            raise ParameterError("forget: expected either ids or subject and where, got both")
        if ids is None and subject is None and where is None:
            raise ParameterError("forget: expected ids, subject or where, got neither")
        request = Request(
            None if ids is None else check_ids(ids)[0],
            Selection(where, subject),
            subject if where is None else None,
            ignore_unknown=boolean("ignore_unknown", ignore_unknown),
            search_all=boolean("search_all", search_all),
            elsewhere=read_elsewhere(elsewhere),
        )
        seconds = self._seconds(timeout)
        boolean("dry_run", dry_run)
        with self._session.guard, translated(self.path):
            self._catch_up()
            if dry_run:
                return self._forgetter.preview(request)
            started = self._forgetter.start(request, seconds)
        return self._finished(started, seconds)

    def held_of(self, subject: str) -> list[Record]:
        """Every record of a subject in the order of ids, with those that have expired and are still in the files."""
        selection = Selection(subject=subject)
        with self._session.guard, translated(self.path):
            self._mirror.refresh()
            found = [stored.record() for stored in self._session.tables.read_slots(self._selector.slots(selection))]
        return sorted(found, key=lambda record: order_of(record.id))

    def held_count(self, subject: str) -> int:
        """How many records a subject has, with those that have expired and are still in the files."""
        sql = "SELECT count(*) FROM records WHERE subject IS NOT NULL AND subject = ?"
        with self._session.guard, translated(self.path):
            self._mirror.refresh()
            return int(self._session.connection.execute(sql, (subject,)).fetchone()[0])

    def held_ids(self) -> list[Id]:
        """All ids, with those of records that have expired and are still in the files; in no order."""
        with self._session.guard, translated(self.path):
            self._mirror.refresh()
            found = self._session.connection.execute("SELECT ifnull(name, number) FROM records").fetchall()
        return [id for (id,) in found]

    def held_subjects(self) -> list[str]:
        """All subjects, with those of records that have expired and are still in the files; in no order."""
        sql = "SELECT DISTINCT subject FROM records WHERE subject IS NOT NULL"
        with self._session.guard, translated(self.path):
            self._mirror.refresh()
            return [subject for (subject,) in self._session.connection.execute(sql).fetchall()]

    def begin_forget(self, request: Request) -> None:
        """The first half of a forget, for a folder: delete and note. `complete_erasures` is the second."""
        with self._session.guard:
            self._catch_up()
            self._forgetter.begin(request)

    def expire(self, *, timeout: float | None = None) -> Receipt | None:
        """Erase the records whose time has come, and sign for it; None if there are none.

        They are in no answer from their time on; this takes their bytes out of the files. Run it now and then.

        >>> from datetime import timedelta
        >>> with _example() as db:
        ...     db.add([[5, 5]], ids=["brief"], expires=timedelta(days=30))
        ...     db.get("brief")[0].expires > db.get("brief")[0].expires - timedelta(days=1), db.expire()
        (True, None)
        """
        seconds = self._seconds(timeout)
        with self._session.guard:
            self._session.require_writer()
            self._session.require_no_transaction("expire")
            self._catch_up()
            if not self._retention.expired:
                return None
            started = self._forgetter.start(self.due(), seconds)
        return self._finished(started, seconds)

    def due(self, without: Callable[[str], bool] | None = None) -> Request:
        """What `expire` would forget; subjects for which `without` is true keep their records."""
        now = self._retention.now()
        held: list[str] = []
        if without is not None:
            sql = "SELECT DISTINCT subject FROM records WHERE expires IS NOT NULL AND expires <= ?"
            with self._session.guard, translated(self.path):
                found = self._session.connection.execute(sql, (now,)).fetchall()
            held = [subject for (subject,) in found if subject is not None and without(subject)]
        selection = Expired(now, held)
        return Request(None, selection, None, ignore_unknown=True, search_all=False, kind="expiry", by="expiry")

    def selects(self, request: Request) -> bool:
        """Whether a request would forget something."""
        with self._session.guard, translated(self.path):
            return bool(self._selector.slots(request.selection))

    def expired(self) -> int:
        """How many records have expired and are still in the files."""
        with self._session.guard, translated(self.path):
            self._mirror.refresh()
            return self._retention.expired

    def _seconds(self, timeout: float | None) -> float:
        return self._session.timeout if timeout is None else check_seconds(timeout)

    # --- Erasures and receipts ---------------------------------------------------------------------------------------

    def complete_erasures(self, *, timeout: float | None = None) -> list[Receipt]:
        """Finish the erasures that wait; their receipts. `ErasureIncompleteError` says what is in the way."""
        seconds = self._seconds(timeout)
        with self._session.guard:
            self._session.require_writer()
            self._session.require_no_transaction("complete_erasures")
            with translated(self.path):
                claims = self._eraser.claim_waiting()  # another thread may complete what waits now
        issued = self._eraser.complete(seconds, claims)
        with self._session.guard:
            if not self._session.closed:
                self._reserve.ensure()
        self._settle()
        found = [*issued.values(), *(claim.receipt for claim in claims if claim.receipt is not None)]
        return [receipt for _, receipt in sorted({one.sequence: one for one in found}.items())]

    def pending_erasures(self) -> int:
        """How many erasures wait for a reader, or for space, to complete."""
        with self._session.guard, translated(self.path):
            self._session.require_open()
            return self._ledger.waiting_count()

    def receipts(self, *, all_kinds: bool = False) -> list[Receipt]:
        """The receipts of erasures, oldest first; with `all_kinds` the whole chain, genesis and rotations included."""
        boolean("all_kinds", all_kinds)
        with self._session.guard, translated(self.path):
            self._session.require_open()
            chain = self._ledger.chain()
        if all_kinds:
            return chain
        return [r for r in chain if any(part.collection == self._ledger.collection for part in r.parts())]

    def anchor(self) -> Anchor:
        """The place and hash of the newest receipt. Publish it, and a chain that is cut or replaced later shows."""
        return Anchor.of(self.receipts(all_kinds=True)[-1])

    def public_key(self) -> bytes:
        """The public key in force, 32 bytes: give it to whoever is to check receipts."""
        return self._ledger.keys.public

    def rotate_keys(self, reason: str = "routine", *, keep_audit_keys: bool = True) -> Receipt:
        """Put new keys into use; the chain notes it. Without the old audit keys old tags match nothing any more."""
        check_text(reason, "reason")
        boolean("keep_audit_keys", keep_audit_keys)
        with self._session.guard:
            self._session.require_writer()
            self._session.require_no_transaction("rotate_keys")
            if not keep_audit_keys and self._ledger.waiting_count():
                raise ErasureIncompleteError("rotate_keys: expected no waiting erasures when audit keys are given up")
            return self._ledger.rotate(reason, keep_audit_keys=keep_audit_keys)

    def verify(
        self,
        receipt: ReceiptLike,
        *,
        ids: Any = None,
        subject: str | None = None,
        vectors: npt.ArrayLike | None = None,
        key: KeyLike | None = None,
        anchor: Anchor | str | None = None,
    ) -> Verification:
        """Check a receipt against the store as it is now: signature, chain, records absent, digest, unused bytes.

        With the forgotten ids, subject or vectors in hand, also that the receipt is about them, and that no file of
        the store holds them in any encoding that `residue` knows. `key` is the public key that you trust, `anchor` what
        was published of the chain: without both, only the store and its own key file vouch for it.
        """
        given = read_receipt(receipt)
        trusted = None if key is None else read_public_key(key)
        line = anchor if anchor is None or isinstance(anchor, Anchor) else Anchor.parse(anchor)
        wanted = [] if ids is None else check_ids(ids)[0]
        if subject is not None:
            check_text(subject, "subject")
        about = checking.About(wanted, subject, vectors, self.dim)
        report = Verification()
        with self._session.guard, translated(self.path):
            self._session.require_no_transaction("verify")
            self._catch_up()
            audit = checking.check_receipt(report, self._ledger, given, trusted, line)
            if audit is not None and (wanted or subject is not None):
                checking.check_about(report, given, audit, wanted, subject)
            for part in given.parts():
                if part.collection == self._ledger.collection:
                    checking.check_part(report, self._session, self._codes, given, part, audit, about)
        return report

    def check_part(
        self, report: Verification, receipt: Receipt, part: Part, audit: AuditKey | None, about: checking.About
    ) -> None:
        """For a folder: what can be seen here of what one part of a receipt says."""
        with self._session.guard, translated(self.path):
            self._catch_up()
            checking.check_part(report, self._session, self._codes, receipt, part, audit, about)

    # --- Copies ------------------------------------------------------------------------------------------------------

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a compact copy of configuration and records, the same bytes for the same records whatever the history.

        It holds neither receipts nor keys, and no record that was forgotten before. Records that are forgotten later
        stay in it: see `reapply`, and the guarantee in the docs for how old copies are to be treated. The backup of a
        sealed store holds sealed records, and those that are forgotten later cannot be read from then on.
        """
        with self._session.guard, translated(self.path):
            self._session.require_no_transaction("backup")
            self._mirror.refresh()
            backups.write_backup(self._session, as_path(path))

    def reapply(self, receipts: ChainLike) -> Receipt | None:
        """After a restore: forget again what these receipts erased, as far as it is back."""
        given = read_chain(receipts)
        with self._session.guard:
            self._session.require_writer()
            again = backups.matching_ids(self, self._ledger.keys, given)
        # Without the guard: another thread may have forgotten some of them meanwhile.
        return self.forget(again, ignore_unknown=True) if again else None

    # --- The end -----------------------------------------------------------------------------------------------------

    def write_image(self) -> bool:
        """Write down what of the index takes long to make, so that the next open is fast; whether there is something.

        `close` does so by itself where it is worth it. It is for those who may be killed: whatever forgets or replaces
        a record erases the image first, and without one the next open makes everything again.

        >>> with _example() as db:
        ...     db.write_image()  # few records are found without any structure
        False
        """
        with self._session.guard, translated(self.path):
            self._session.require_writer()
            self._session.require_no_transaction("write_image")
            return self._image.write(self._mirror.index)

    def close(self) -> None:
        """Finish what can be finished, and close. Safe to call twice. In a forked child there is nothing to do."""
        if self._session.guard.inherited:
            return
        with self._session.guard:
            self._session.require_no_transaction("close")
            self._soon.cancel()
            try:
                if not self._session.closed and not self._session.read_only:
                    self._image.write_if_worth(self._mirror.index)
                    self._eraser.try_complete(last=True)
                    self._reserve.release()
            finally:
                try:
                    if self._session.vectors is not None:
                        self._mirror.index._records.empty()
                    self._session.close()
                finally:
                    if self._lock is not None:
                        self._lock.release()

    def __enter__(self) -> Store:
        """Return itself; the store is closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """`copy.copy`, `copy.deepcopy` and `pickle` end here: two objects on one connection would harm the file."""
        raise UnsupportedError(
            "an open store cannot be copied or pickled: backup(path) writes a copy of it; elsewhere, open it again by "
            "its path with lethevec.open(path, read_only=True), or a collection with "
            "lethevec.connect(folder, read_only=True)"
        )


@contextmanager
def _example() -> Iterator[Store]:
    """Three records in a folder that goes away, for the examples."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, open(folder + "/people.lethe", dim=2, metric="l2") as db:
        payloads = [{"year": 1990}, {"year": 1995}, {"year": 2001}]
        db.add([[0, 1], [0, 2], [0, 9]], ids=[7, "a", "b"], subjects=["alice", "alice", "bob"], payloads=payloads)
        yield db


def check_seconds(timeout: object) -> float:
    """How long to wait, checked."""
    seconds = as_float(timeout)
    if isinstance(timeout, bool) or not 0 <= seconds < _MOST_SECONDS:
        raise ParameterError(f"timeout: expected seconds from 0 to {_MOST_SECONDS:g}, got {shown(timeout)}")
    return seconds


def check_filters(filters: object) -> list[str] | None:
    """The fields that are kept in memory for filters, checked; None is all."""
    if isinstance(filters, bool):
        return None if filters else []
    if isinstance(filters, str) or not isinstance(filters, Sequence) or not all(isinstance(f, str) for f in filters):
        raise ParameterError(
            f"filters: expected True, False or a list of fields, got {shown(filters, form=reprlib.repr)}"
        )
    for field in filters:
        parse({field: None})
    return list(filters)


def open_store(
    path: Path,
    dim: int | None,
    metric: str | None,
    *,
    read_only: bool,
    timeout: float,
    index: dict[str, Any] | None,
    encrypt: bool | None,
    vault: Path,
    ledger: Callable[[Session], Ledger],
    rules: Rules,
    drop_unreadable: bool = False,
    clock: Clock = time.time,
    retention: timedelta | None = None,
    filters: Sequence[str] | None = None,
    vectors_in_file: bool = False,
    max_setup: int = MAX_SETUP,
) -> Store:
    """Open or create a store; everything was checked. `ledger` says who signs its receipts, `rules` what is refused."""
    session, lock = open_session(
        path,
        dim,
        metric,
        index,
        read_only=read_only,
        timeout=timeout,
        vault=vault,
        encrypt=encrypt,
        max_setup=max_setup,
    )
    try:
        with translated(session.path):
            return Store(
                session,
                lock,
                ledger,
                rules,
                drop_unreadable=drop_unreadable,
                clock=clock,
                retention=retention,
                filters=filters,
                vectors_in_file=vectors_in_file,
            )
    except BaseException:
        session.close()
        if lock is not None:
            lock.release()
        raise


def open(
    path: str | os.PathLike[str],
    dim: int | None = None,
    metric: str | None = None,
    *,
    read_only: bool = False,
    keys: str | os.PathLike[str] | None = None,
    timeout: float = 5.0,
    index: dict[str, Any] | None = None,
    optimize: str | None = None,
    encrypt: bool | None = None,
    drop_unreadable: bool = False,
    clock: Clock = time.time,
    filters: bool | Sequence[str] = True,
    vectors: str = "memory",
    max_setup: int = MAX_SETUP,
) -> Store:
    """Open the store at `path`, or create it: then `dim` is needed, and `metric` ("cosine", "l2", "ip") is cosine
    unless given.

    `keys` is where the key file is kept (beside the store unless given); `timeout` is how many seconds to wait for
    other processes; `index` holds further options of the index, for a new store, and `optimize` is one of them: what
    it is to make fast or small, "updates", "search" or "memory" (see `lethevec.Auto`).

    `encrypt=True` makes a new store whose records are sealed, each under a key of its own in a vault beside the key
    file. A forget then destroys the key as well, which reaches copies and backups that were made before. To open such a
    copy, `drop_unreadable=True` leaves out (and, unless `read_only`, removes) the records whose keys are gone.

    `clock` gives the seconds since 1970, for records that expire; tests set their own.

    `filters` says which fields of payloads are kept in memory to make `where` fast, from the first filter on: all of
    them (True), none (False), or these. Every filter gives the same answer whichever it is.

    `vectors="file"` keeps the vectors of the index in a file beside the store, as long as it is open, for more of them
    than memory holds (see `Index`). It is for writers, and for stores that are not encrypted.
    `max_setup` is how many numbers the settings of a store that is there may ask for (rotations, matrices, tables),
    beside 64 for each byte of its files: a small file could otherwise ask for gigabytes. The error says how many it
    needs. A store that you make has to keep to it too, so that it opens again. One that is there, and whose settings
    you give again, may ask for any.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with open(folder.name + "/people.lethe", dim=2, metric="l2") as db:
    ...     db.add([[0, 1], [2, 0]], ids=["a", "b"])
    >>> with open(folder.name + "/people.lethe", read_only=True) as db:  # it knows what it is
    ...     len(db), db.dim, db.metric
    (2, 2, 'l2')
    >>> folder.cleanup()
    """
    seconds = check_seconds(timeout)
    index = index_options(index, optimize)
    if encrypt is not None and not isinstance(encrypt, bool):
        raise ParameterError(f"encrypt: expected True, False or None, got {shown(encrypt)}")
    boolean("read_only", read_only)
    boolean("drop_unreadable", drop_unreadable)
    in_file = check_vectors(vectors, read_only=read_only)
    if in_file and encrypt:
        raise UnsupportedError("vectors: expected 'memory' with encrypt=True: a file would have them in the clear")
    place = as_path(path)
    keys_path = StoreFiles(place).keys if keys is None else as_path(keys, "keys")
    refuse_collection(place)
    return open_store(
        place,
        dim,
        metric,
        read_only=read_only,
        timeout=seconds,
        index=index,
        encrypt=encrypt,
        vault=vault_path(keys_path),
        ledger=lambda session: StoreLedger(session, keys_path),
        rules=Rules(),
        clock=check_clock(clock),
        filters=check_filters(filters),
        max_setup=check_max_setup(max_setup),
        drop_unreadable=drop_unreadable,
        vectors_in_file=in_file,
    )
