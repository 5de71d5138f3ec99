"""`connect`: a folder of collections, with one key ring, one chain of receipts, and erasures that go through all.

A collection is a store like those that `open` gives; only its receipts are the folder's. It is opened when it is first
asked for, and stays open until the folder is closed.

Threads may share a folder and its collections. One process writes to a folder; others may read.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import numpy.typing as npt

from .._durable import as_path, sync_folder
from .._forgetting.anchors import Anchor
from .._forgetting.elsewhere import read_elsewhere
from .._forgetting.keys import KeyRing
from .._forgetting.receipts import Receipt, now
from .._forgetting.trusted import ChainLike, KeyLike, ReceiptLike, read_chain, read_public_key, read_receipt
from .._forgetting.verify import Verification
from .._hashing.parameters import boolean, integer
from .._index import MAX_SETUP
from .._record import KEEP, Keep
from .._shown import shown
from .._store import Store
from .._store.chain import Chain
from .._store.configuration import check_max_setup, index_options
from .._store.copying import remove_unfinished, restoring
from .._store.forking import ProcessLock
from .._store.ids import check_ids, check_text
from .._store.retention import Clock, check_clock, check_duration
from .._store.rules import Rules
from .._store.store import check_seconds
from ..errors import (
    ErasureIncompleteError,
    FileError,
    IncompleteWriteError,
    InputError,
    ParameterError,
    UnknownIdError,
    UnsupportedError,
)
from .access import Access, Held
from .catalog import Catalog, Entry
from .checking import Checker
from .erasing import FolderEraser
from .making import Maker
from .names import check_name
from .requests import Requests
from .restoring import (
    Erased,
    check_chain,
    copy_backup,
    finish,
    is_half_restored,
    origin_of,
    prepare,
    write_backup,
)
from .rights import Hold, Rights

__all__ = ["Database", "connect", "restore"]

_LAST = 1 << 62  # more entries than a chain can have


class Database:
    """An open folder of collections; made by `connect`.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> db = connect(folder.name + "/people")
    >>> photos = db.collection("photos", dim=3, metric="l2")
    >>> notes = db.collection("notes", dim=2, metric="l2")
    >>> photos.add([[0, 0, 1], [0, 2, 0]], ids=["a", "b"], subjects=["alice", "bob"])
    >>> notes.add([[0, 1]], ids=["n"], subjects=["alice"])
    >>> receipt = db.forget(subject="alice")
    >>> receipt.records, len(photos), len(notes)
    (2, 1, 0)
    >>> db.close(); folder.cleanup()
    """

    def __init__(
        self,
        folder: Path,
        *,
        read_only: bool,
        keys: Path | None,
        timeout: float,
        clock: Clock = time.time,
        restoring: bool = False,
        max_setup: int = MAX_SETUP,
    ) -> None:
        """Open the folder, and finish what an earlier process has left.

        `restoring`: it comes from a backup, and what was erased since is to go whatever holds say today.
        """
        self._guard = ProcessLock()
        self._timeout = timeout
        self._catalog = Catalog(folder, read_only=read_only, timeout=timeout)
        try:
            if origin_of(self._catalog) is not None and not restoring:
                raise FileError(
                    f"{folder}: expected a folder of collections, got a backup of one; lethevec.restore brings it back"
                )
            keys_path = self._catalog.files.keys if keys is None else keys
            self._chain = Chain(self._catalog, keys_path)
            self._requests = Requests(self._catalog, self._chain)
            self._rights = Rights(self._catalog, self._chain)
            rules = Rules() if restoring else Rules(self._rights.may_write, self._rights.may_change)
            self._maker = Maker(
                self._catalog,
                self._chain,
                self._requests,
                keys_path,
                timeout,
                rules,
                clock=clock,
                drop_unreadable=restoring,
                max_setup=max_setup,
            )
            self._eraser = FolderEraser(self._catalog, self._chain, self._requests, self._maker, self._rights)
            self._checker = Checker(self._catalog, self._chain, self._maker)
            if not read_only:
                with suppress(FileError):  # an erasure says so if it is in the way
                    remove_unfinished(self._catalog.path, folders=True)
                self._maker.remove_unready()
                self._eraser.resume()
        except BaseException:
            self._catalog.close()
            raise

    # --- What it is --------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The folder."""
        return self._catalog.folder

    @property
    def read_only(self) -> bool:
        """Whether this is a reader."""
        return self._catalog.read_only

    def __repr__(self) -> str:
        """Where, and how many collections."""
        state = "closed" if self._catalog.closed else f"{len(self._catalog.entries())} collections"
        return f"<Database {self.path}: {state}>"

    def digest(self) -> str:
        """The digest of all collections: the same for every history that ends in the same names and records."""
        with self._guard:
            total = hashlib.blake2b(digest_size=32, person=b"lethevec-folder1")
            for entry in self._catalog.entries():
                name = entry.name.encode()
                total.update(len(name).to_bytes(8, "little") + name + self._maker.open(entry).digest().encode())
            return total.hexdigest()

    # --- Collections -------------------------------------------------------------------------------------------------

    def collections(self) -> list[str]:
        """The names of all collections, by code point."""
        return [entry.name for entry in self._catalog.entries()]

    def __contains__(self, name: object) -> bool:
        """Whether there is a collection of that name."""
        try:
            check_name(name)
        except InputError:
            return False
        return self._catalog.find(str(name)) is not None

    def __iter__(self) -> Iterator[str]:
        """The names of all collections, by code point."""
        return iter(self.collections())

    def collection(
        self,
        name: str,
        dim: int | None = None,
        metric: str | None = None,
        *,
        index: dict[str, Any] | None = None,
        optimize: str | None = None,
        encrypt: bool | None = None,
        expires: timedelta | Keep | None = KEEP,
    ) -> Store:
        """The collection of that name; it is made if there is none and `dim` is given (see `lethevec.open`, also for
        `index`, `optimize` and `encrypt`).

        `expires` is how long its records are kept unless they say otherwise (None: for ever); given for a collection
        that is there, it holds for what is added from then on. The same object is given each time, until it is closed.
        """
        check_name(name)
        index = index_options(index, optimize)
        if encrypt is not None:
            boolean("encrypt", encrypt)
        retention = None if isinstance(expires, Keep) else check_duration(expires)
        with self._guard:
            entry = self._catalog.find(name)
            if entry is not None:
                store = self._maker.open(entry, dim, metric, index, encrypt)
                if not isinstance(expires, Keep) and retention != store.retention:
                    seconds = None if retention is None else retention.total_seconds()
                    self._catalog.write("UPDATE collections SET expires = ? WHERE id = ?", seconds, entry.id)
                    store.retention = retention
                return store
            if self.read_only or dim is None:
                known = ", ".join(self.collections()[:5]) or "none"
                what = "" if self.read_only else "; dim= makes a new one"
                raise UnknownIdError(f"name: expected one of the collections ({known}), got {shown(name)}{what}")
            return self._maker.make(name, dim, metric, index, encrypt, retention)

    def drop(self, name: str, *, timeout: float | None = None) -> Receipt:
        """Erase a collection with everything in it, and sign for it. It cannot be undone."""
        seconds = self._seconds(timeout)
        with self._guard:
            self._catalog.require_writer()
            return self._eraser.drop(self._entry(name), seconds)

    def rename(self, old: str, new: str) -> Receipt:
        """Give a collection another name; the chain notes it, without either name."""
        check_name(new, what="new")
        with self._guard:
            self._catalog.require_writer()
            entry = self._entry(old)
            if self._catalog.find(new) is not None:
                raise ParameterError(f"new: expected a name that is free, got {new!r}, which another collection has")
            audit = self._chain.keys.audit
            tags = {"old": audit.tag("name", old.encode()), "new": audit.tag("name", new.encode())}
            with self._catalog.transaction():
                self._catalog.write("UPDATE collections SET name = ? WHERE id = ?", new, entry.id)
                receipt = self._chain.append("rename", {"audit_key": audit.id, "collection": entry.id, **tags})
            self._catalog.scrub()
            return receipt

    def _entry(self, name: object) -> Entry:
        entry = self._catalog.find(check_name(name))
        if entry is None:
            raise UnknownIdError(f"name: expected one of the collections, got {shown(name)}, which is not there")
        return entry

    # --- People ------------------------------------------------------------------------------------------------------

    def subjects(self) -> dict[str, int]:
        """Every subject with the number of its records in all collections, by code point."""
        found: dict[str, int] = {}
        with self._guard:
            for store in self._maker.all():
                for subject, count in store.subjects().items():
                    found[subject] = found.get(subject, 0) + count
        return dict(sorted(found.items()))

    def access(self, subject: str) -> Access:
        """Everything that is held of a subject: records with vectors, payloads and expiry in every collection, expired
        ones that are still there included; the entries of the chain that are about them; holds; and whether they are
        blocked. `export` writes it for the person."""
        check_text(subject, "subject")
        with self._guard:
            self._catalog.require_open()
            found = {entry.name: self._maker.open(entry).held_of(subject) for entry in self._catalog.entries()}
            return Access(
                subject,
                now(),
                {name: records for name, records in found.items() if records},
                self._rights.entries_about(subject),
                self._rights.holds(subject),
                self._rights.blocked_since(subject),
            )

    def held(self, subject: str) -> Held:
        """How many records of a subject each collection holds, with the rest of what `access` says. It reads none."""
        check_text(subject, "subject")
        with self._guard:
            self._catalog.require_open()
            counts = {entry.name: self._maker.open(entry).held_count(subject) for entry in self._catalog.entries()}
            return Held(
                {name: count for name, count in counts.items() if count},
                self._rights.entries_about(subject),
                self._rights.holds(subject),
                self._rights.blocked_since(subject),
            )

    def forget(
        self,
        *,
        subject: str,
        block: bool = False,
        ignore_unknown: bool = False,
        search_all: bool = False,
        elsewhere: Mapping[str, int | None] | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Forget every record of a subject in all collections, with one receipt and one signature.

        With `block`, nothing may be written for the subject from then on, until `unblock`: a late write or an import of
        an old export is refused. What is kept for that is a tag, which does not name them.

        When this returns, no file of the folder holds a byte of them. If that cannot be within `timeout` seconds,
        `ErasureIncompleteError` says so: no search finds the records any more, and it completes by itself later. A
        process that dies in the middle leaves a request that the next `connect` completes.

        `elsewhere` is what you erased outside the folder, for the receipt to state; see `Store.forget`.
        """
        check_text(subject, "subject")
        boolean("block", block)
        boolean("ignore_unknown", ignore_unknown)
        boolean("search_all", search_all)
        places = read_elsewhere(elsewhere)
        seconds = self._seconds(timeout)
        with self._guard:
            self._catalog.require_writer()
            return self._eraser.forget(
                subject,
                seconds,
                block=block,
                ignore_unknown=ignore_unknown,
                search_all=search_all,
                elsewhere=places,
            )

    def expire(self, *, skip_held: bool = False, timeout: float | None = None) -> Receipt | None:
        """Erase the records of all collections whose time has come, with one receipt; None if there are none.

        They are in no answer from their time on; this takes their bytes out of the files. Run it now and then. Records
        under legal hold are not erased: `HoldError` names the hold, and nothing is erased. With `skip_held` the others
        are.
        """
        boolean("skip_held", skip_held)
        seconds = self._seconds(timeout)
        with self._guard:
            self._catalog.require_writer()
            held = (lambda subject: bool(self._rights.holds(subject))) if skip_held else None
            return self._eraser.expire(seconds, held)

    def expire_except(self, held: Callable[[str], bool], *, timeout: float | None = None) -> Receipt | None:
        """For a member of a cluster, which keeps no holds of its own: erase what is due but of subjects that are held;
        None if there is nothing."""
        seconds = self._seconds(timeout)
        with self._guard:
            self._catalog.require_writer()
            return self._eraser.expire(seconds, held)

    def hold(self, subject: str, reason: str) -> Receipt:
        """Set a legal hold: the records of this subject can be neither changed nor erased until `lift`.

        The entry is signed; `receipt["hold"]` is the id to lift it by. A subject without records is refused.
        """
        check_text(subject, "subject")
        check_text(reason, "reason")
        with self._guard:
            self._catalog.require_writer()
            if not any(store.count(subject=subject) for store in self._maker.all()):
                raise UnknownIdError(f"subject: expected one that has records, got {subject!r:.80}, which has none")
            return self._rights.hold(subject, reason)

    def lift(self, hold: str | Receipt, reason: str = "no longer needed") -> Receipt:
        """End a legal hold, by its id or the receipt that set it."""
        id = hold.fields.get("hold", "") if isinstance(hold, Receipt) else check_text(hold, "hold")
        check_text(reason, "reason")
        with self._guard:
            self._catalog.require_writer()
            return self._rights.lift(id, reason)

    def holds(self, subject: str | None = None, *, names: bool = True) -> list[Hold]:
        """The legal holds in force, oldest first; of one subject, or all.

        A hold is kept without the name of its subject, so naming all of them tries every subject that has records.
        `names=False` leaves that out.
        """
        if subject is not None:
            return self._rights.holds(check_text(subject, "subject"))
        boolean("names", names)
        with self._guard:
            return self._rights.all_holds(self.subjects() if names else ())

    def block(self, subject: str, reason: str) -> Receipt:
        """Refuse to write for a subject until `unblock`. Records that are there stay; `forget` has `block` too."""
        check_text(subject, "subject")
        check_text(reason, "reason")
        with self._guard:
            self._catalog.require_writer()
            return self._rights.block(subject, reason)

    def unblock(self, subject: str, reason: str = "no longer needed") -> Receipt:
        """Allow to write for a subject again."""
        check_text(subject, "subject")
        check_text(reason, "reason")
        with self._guard:
            self._catalog.require_writer()
            return self._rights.unblock(subject, reason)

    def is_blocked(self, subject: str) -> bool:
        """Whether nothing may be written for a subject."""
        return self._rights.blocked_since(check_text(subject, "subject")) is not None

    # --- Erasures and receipts ---------------------------------------------------------------------------------------

    def complete_erasures(self, *, timeout: float | None = None) -> list[Receipt]:
        """Finish the erasures that wait; their receipts. `ErasureIncompleteError` says what is in the way."""
        seconds = self._seconds(timeout)
        with self._guard:
            self._catalog.require_writer()
            return self._eraser.complete(seconds)

    def pending_erasures(self) -> int:
        """How many erasures wait for a reader, or for space, to complete."""
        return len(self._catalog.intents())

    def waiting_requests(self) -> dict[str, bool]:
        """For a member of a cluster: the erasures that wait, by id, and whether each has deleted all that it is to."""
        return {request.id: request.begun for request in self._requests.waiting()}

    def receipt_of_request(self, id: str) -> Receipt | None:
        """For a member of a cluster: the receipt of one of these, once it is signed."""
        self._catalog.require_open()
        return self._requests.receipt_of(id)

    def receipts(self, *, all_kinds: bool = False) -> list[Receipt]:
        """The receipts of erasures, oldest first; with `all_kinds` the whole chain."""
        boolean("all_kinds", all_kinds)
        self._catalog.require_open()
        return [receipt for receipt in self._chain.receipts() if all_kinds or receipt.erases]

    def chain(self, *, after: int = -1, before: int | None = None, limit: int = 1000) -> list[Receipt]:
        """A part of the chain: up to `limit` entries after one, oldest first; with `before`, before one, newest first.

        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with connect(folder.name + "/people") as db:
        ...     entry = db.block("ann", "asked to be left alone")
        ...     [receipt.kind for receipt in db.chain()], [receipt.kind for receipt in db.chain(before=2, limit=1)]
        (['genesis', 'block'], ['block'])
        >>> folder.cleanup()
        """
        after = integer("after", after, -1, _LAST)
        limit = integer("limit", limit, 0, _LAST)
        self._catalog.require_open()
        if before is not None:
            return self._chain.page_back(integer("before", before, 0, _LAST), limit)
        return self._chain.page(after, limit)

    def receipt_of(self, given: Mapping[str, Any] | str) -> Receipt:
        """A receipt of this kind of database, from its fields or its exact text; its form is checked."""
        return Receipt.from_json(given) if isinstance(given, str) else Receipt(given)

    def verify_chain(self, *, after: int = -1, limit: int = 1000) -> tuple[Verification, int | None]:
        """Check a part of the chain: up to `limit` entries after one that was checked before, from the genesis on.

        The second value is the `after` of the next part, or None at the end.
        """
        after = integer("after", after, -1, _LAST)
        limit = integer("limit", limit, 1, _LAST)
        self._catalog.require_open()
        return self._checker.walk(after, limit)

    def anchor(self) -> Anchor:
        """The place and hash of the newest receipt. Publish it, and a chain that is cut or replaced later shows."""
        return Anchor.of(self.receipts(all_kinds=True)[-1])

    def public_key(self) -> bytes:
        """The public key in force, 32 bytes: give it to whoever is to check receipts."""
        return self._chain.keys.public

    def verify(
        self,
        receipt: ReceiptLike,
        *,
        ids: Any = None,
        subject: str | None = None,
        vectors: npt.ArrayLike | None = None,
        key: KeyLike | None = None,
        anchor: Anchor | str | None = None,
        quick: bool = False,
    ) -> Verification:
        """Check a receipt against the folder as it is now: signature, chain, and each collection that it is about.

        With the forgotten ids, subject or vectors in hand, also that the receipt is about them, and that no file holds
        them. `key` is the public key that you trust, `anchor` what was published of the chain.

        That reads every record. With `quick` nothing but the signature, the place in the chain and the subject are
        checked, however many records there are.
        """
        given = read_receipt(receipt)
        if boolean("quick", quick):
            if ids is not None or vectors is not None or key is not None or anchor is not None:
                raise ParameterError("quick: expected no ids, vectors, key or anchor beside it, got one of them")
            if subject is not None:
                check_text(subject, "subject")
            self._catalog.require_open()
            return self._checker.verify_quickly(given, subject)
        trusted = None if key is None else read_public_key(key)
        line = anchor if anchor is None or isinstance(anchor, Anchor) else Anchor.parse(anchor)
        wanted = [] if ids is None else check_ids(ids)[0]
        if subject is not None:
            check_text(subject, "subject")
        with self._guard:
            self._catalog.require_open()
            return self._checker.verify(given, wanted, subject, vectors, trusted, line)

    def rotate_keys(self, reason: str = "routine", *, keep_audit_keys: bool = True) -> Receipt:
        """Put new keys into use; the chain notes it. Without the old audit keys old tags match nothing any more."""
        check_text(reason, "reason")
        boolean("keep_audit_keys", keep_audit_keys)
        with self._guard:
            self._catalog.require_writer()
            if not keep_audit_keys and self.pending_erasures():
                raise ErasureIncompleteError("rotate_keys: expected no waiting erasures when audit keys are given up")
            if not keep_audit_keys and self._rights.tags_in_use():
                raise UnsupportedError(
                    "rotate_keys: expected no holds and no blocks when audit keys are given up, got some: without "
                    "these keys nobody could tell whom they are about"
                )
            return self._chain.rotate(reason, keep_audit_keys=keep_audit_keys)

    # --- Copies ------------------------------------------------------------------------------------------------------

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of all collections to a new folder, from which `lethevec.restore` makes a folder again.

        It holds neither receipts nor keys, and cannot be opened by itself. Keep the chain apart from it
        (`receipts(all_kinds=True)`): with it, a restore erases again what was erased since.
        """
        place = as_path(path)
        with self._guard:
            self._catalog.require_open()
            write_backup(self, self._catalog, self._chain.receipts()[-1], place)

    def erase_again(self, erased: Erased) -> Receipt | None:
        """For `restore`: erase what a chain says was erased since the copy was made; the receipt, if there was any."""
        with self._guard:
            for entry in self._catalog.entries():
                if entry.id in erased.dropped:
                    self._eraser.drop(entry, self._timeout)
            ids = {entry.id: erased.ids_in(entry.id, self._maker.open(entry)) for entry in self._catalog.entries()}
            return self._eraser.forget_ids("receipts", ids, self._timeout) if any(ids.values()) else None

    # --- The end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Finish what can be finished, and close all collections. Safe to call twice, and in a forked child."""
        if self._guard.inherited:
            return
        with self._guard:
            if self._catalog.closed:
                return
            try:
                self._maker.close()
            finally:
                self._catalog.close()

    def __enter__(self) -> Database:
        """Return itself; the folder is closed at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """`copy.copy`, `copy.deepcopy` and `pickle` end here: two objects on one connection would harm the files."""
        raise UnsupportedError(
            "an open folder of collections cannot be copied or pickled: backup(path) writes a copy of it; elsewhere, "
            "open it again by its path with lethevec.connect(folder, read_only=True)"
        )

    def _seconds(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else check_seconds(timeout)


def connect(
    folder: str | os.PathLike[str],
    *,
    read_only: bool = False,
    keys: str | os.PathLike[str] | None = None,
    timeout: float = 5.0,
    clock: Clock = time.time,
    max_setup: int = MAX_SETUP,
) -> Database:
    """Open a folder of collections, or make it: the folder must be new, empty or one of ours.

    `keys` is where the key file is kept (in the folder unless given); `timeout` is how many seconds to wait for other
    processes; `clock` gives the seconds since 1970, for records that expire (tests set their own); `max_setup` limits
    what the settings of each collection may ask for (see `lethevec.open`, which is for a single store in a file).

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with connect(folder.name + "/people") as db:
    ...     db.collection("photos", dim=2).add([[0, 1], [2, 0]], ids=["a", "b"])
    >>> with connect(folder.name + "/people", read_only=True) as db:
    ...     db.collections(), len(db.collection("photos"))
    (['photos'], 2)
    >>> folder.cleanup()
    """
    place = as_path(folder, "folder", folder=True)
    boolean("read_only", read_only)
    return Database(
        place,
        read_only=read_only,
        keys=None if keys is None else as_path(keys, "keys"),
        timeout=check_seconds(timeout),
        clock=check_clock(clock),
        max_setup=check_max_setup(max_setup),
    )


def restore(
    backup: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    receipts: ChainLike,
    keys: str | os.PathLike[str],
    timeout: float = 5.0,
    max_setup: int = MAX_SETUP,
) -> Receipt | None:
    """Make a folder of collections again from what `Database.backup` wrote, without the people forgotten since.

    `receipts` is the whole chain as it is today, `keys` the key file of the folder, which stays where it is. What the
    chain says was erased since the backup was made is erased before there is anything that could be opened; the receipt
    for that, if there was something. Open the result with `connect(folder, keys=keys)`. `max_setup` is as in `connect`.

    One that is killed in the middle leaves a folder that cannot be opened, `folder` with a token and `.restoring` after
    its name; the next restore to the same place removes it.
    """
    source_path, target = as_path(backup, "backup", folder=True), as_path(folder, "folder")
    keys_path, seconds, limit = as_path(keys, "keys"), check_seconds(timeout), check_max_setup(max_setup)
    ring, chain = KeyRing.load(keys_path), read_chain(receipts)
    with closing(Catalog(source_path, read_only=True, timeout=seconds)) as source:
        origin, half_restored = origin_of(source), is_half_restored(source)
    if origin is None:
        raise FileError(f"{backup}: expected a backup of a folder, got a folder of collections")
    if half_restored:
        raise FileError(f"{backup}: expected a backup of a folder, got what a restore has left that did not end")
    check_chain(chain, ring, origin)
    erased = Erased(chain[origin[0] + 1 :], ring)
    if os.path.lexists(target):
        raise FileError(f"{target}: expected a new path for the restored folder, got one that is there already")
    try:
        with restoring(target) as place:
            copy_backup(source_path, place)
            with closing(Catalog(place, read_only=False, timeout=seconds)) as catalog:
                prepare(catalog, chain, origin)
            with Database(
                place, read_only=False, keys=keys_path, timeout=seconds, restoring=True, max_setup=limit
            ) as db:
                receipt = db.erase_again(erased)
            with closing(Catalog(place, read_only=False, timeout=seconds)) as catalog:
                finish(catalog)
            os.rename(place, target)
            sync_folder(target.absolute().parent)
    except OSError as error:
        raise IncompleteWriteError(f"{target}: the folder could not be restored: {error}") from error
    return receipt
