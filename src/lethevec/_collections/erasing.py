"""Erasures that concern a whole folder: a subject in all collections, a collection with all it holds; and what a crash
has left of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from .._forgetting.keys import AuditKey
from .._forgetting.receipts import Receipt, now
from .._store import Store
from .._store.chain import Chain
from .._store.erasing import SAMPLE
from .._store.forgetting import Request as StoreRequest
from .._store.ids import Id
from .._store.selecting import Selection
from ..errors import ErasureIncompleteError, FileError, IncompleteWriteError, LethevecError, UnknownIdError
from .catalog import Catalog, Entry
from .making import Maker
from .requests import Request, Requests
from .rights import Rights

__all__ = ["FolderEraser"]

T = TypeVar("T")
_LEAST = 5  # records of each collection that are searched for
_THREADS = 8  # collections that are worked on at once: most of the time goes by waiting for the disk


class FolderEraser:
    """Erases across the collections of an open folder. The caller holds the folder's guard."""

    def __init__(self, catalog: Catalog, chain: Chain, requests: Requests, maker: Maker, rights: Rights) -> None:
        """Of an open folder; `resume` takes up what an earlier process has left."""
        self._catalog = catalog
        self._chain = chain
        self._requests = requests
        self._maker = maker
        self._rights = rights
        requests.effects["drop"] = self._dropped

    # --- New ones ----------------------------------------------------------------------------------------------------

    def forget(
        self,
        subject: str,
        timeout: float,
        *,
        block: bool,
        ignore_unknown: bool,
        search_all: bool,
        elsewhere: list[dict[str, Any]] | None = None,
    ) -> Receipt:
        """Every record of a subject, with one receipt; `block` keeps them out from the moment of the request."""
        self._rights.may_change([subject])
        self._try_complete()
        entries = [entry for entry in self._catalog.entries() if self._maker.open(entry).held_of(subject)]
        if not entries and not ignore_unknown:
            raise UnknownIdError(f"subject: expected one that has records, got {subject!r}, which has none")
        audit = self._chain.keys.audit
        head = _head(audit, "subject", audit.tag_subject(subject))
        head["asked"]["everywhere"] = True
        if block:
            head["asked"]["block"] = True
        if elsewhere:
            head["asked"]["elsewhere"] = elsewhere
        new_block = False

        def note_block() -> None:
            nonlocal new_block
            new_block = block and self._rights.note_block(subject)

        def take_block_off() -> None:
            if new_block:
                self._rights.take_block_off(subject)

        request = self._put_down("erasure", head, None, also=note_block)
        # As many records are searched for as after any other forget: so many in all, spread over the collections.
        sample = max(_LEAST, SAMPLE // max(1, len(entries)))
        wanted = StoreRequest(
            None, Selection(subject=subject), subject, ignore_unknown=True, search_all=search_all, sample=sample
        )
        self._begin(request, entries, lambda id: wanted, take_block_off)
        return self._finish(request, timeout)

    def expire(self, timeout: float, held: Callable[[str], bool] | None) -> Receipt | None:
        """What is due in all collections, with one receipt; `held` says which subjects are left out."""
        self._try_complete()
        due = {entry: store for entry in self._catalog.entries() if (store := self._maker.open(entry)).expired()}
        if not due:
            return None
        wanted = {entry.id: store.due(held) for entry, store in due.items()}
        entries = [entry for entry, store in due.items() if store.selects(wanted[entry.id])]
        if not entries:
            return None
        head = _head(self._chain.keys.audit, "expiry", None)
        request = self._put_down("expiry", head, [entry.id for entry in entries])
        self._begin(request, entries, wanted.__getitem__)
        return self._finish(request, timeout)

    def forget_ids(self, by: str, ids: Mapping[str, list[Id]], timeout: float) -> Receipt:
        """Some records of some collections, with one receipt."""
        entries = [entry for entry in self._catalog.entries() if ids.get(entry.id)]
        request = self._put_down("erasure", _head(self._chain.keys.audit, by, None), [e.id for e in entries])
        wanted = {
            entry.id: StoreRequest(ids[entry.id], Selection(), None, ignore_unknown=True, search_all=False)
            for entry in entries
        }
        self._begin(request, entries, wanted.__getitem__)
        return self._finish(request, timeout)

    def drop(self, entry: Entry, timeout: float) -> Receipt:
        """A collection with everything in it."""
        self._try_complete()
        request = self._put_down("drop", _head(self._chain.keys.audit, "drop", None), [entry.id])
        self._begin(request, [entry], lambda id: _EVERYTHING)
        receipt = self._finish(request, timeout)
        self._maker.remove_unready()
        return receipt

    def _put_down(
        self,
        kind: str,
        head: dict[str, Any],
        expected: Iterable[str] | None,
        *,
        also: Callable[[], None] | None = None,
    ) -> Request:
        """A new request. On a full disk, the space that is kept back is given up for it."""
        try:
            return self._requests.begin(kind, head, expected, also=also)
        except IncompleteWriteError:
            if not self._catalog.reserve.release():
                raise
            return self._requests.begin(kind, head, expected, also=also)

    def _begin(
        self,
        request: Request,
        entries: Iterable[Entry],
        wanted: Callable[[str], StoreRequest],
        undo: Callable[[], None] | None = None,
    ) -> None:
        """The first half in each collection: delete and note. From the first note on it will be completed.

        If there is none, the request is dropped and what came with it undone.
        """
        begun: list[str] = []
        try:
            for entry in entries:
                store, ledger = self._maker.open(entry), self._maker.ledgers[entry.id]
                with ledger.taking_part(request):
                    store.begin_forget(wanted(entry.id))
                begun.append(entry.id)
        except LethevecError as error:
            if not begun:
                try:
                    self._requests.drop(request, undo)
                except FileError as other:
                    raise ErasureIncompleteError(
                        f"{self._catalog.folder}: the request is on record, and nothing is deleted yet ({error}; "
                        f"{other}); it goes on at the next call or open, and no receipt was issued",
                        len(self._requests.waiting()),
                    ) from error
                raise
            raise ErasureIncompleteError(
                f"{self._catalog.folder}: {len(begun)} collections have deleted their records, and then {error}; it "
                "goes on at the next call or open, and no receipt was issued",
                len(self._requests.waiting()),
            ) from error
        self._requests.set_expected(request, begun)

    def _finish(self, request: Request, timeout: float) -> Receipt:
        """The second half: each collection hands in its part, and the last signature is the receipt."""
        assert request.expected is not None
        stores = [self._maker.open(entry) for entry in self._catalog.entries() if entry.id in request.expected]
        try:
            _together(lambda store: store.complete_erasures(timeout=timeout), stores)
            receipt = self._requests.try_sign(request) or self._requests.receipt_of(request.id)
        except (ErasureIncompleteError, FileError) as error:
            with suppress(FileError):  # a later process then looks for the notes
                self._requests.set_expected(request, request.expected, keep=True)
            raise ErasureIncompleteError(str(error), len(self._requests.waiting())) from error
        finally:
            self._catalog.reserve.ensure()
        if receipt is None:
            raise ErasureIncompleteError(
                f"{self._catalog.folder}: expected every collection to finish, got some that did not; it goes on at "
                "the next call or open, and no receipt was issued",
                len(self._requests.waiting()),
            )
        self._tidy(request)
        return receipt

    def _tidy(self, request: Request) -> None:
        """Take the notes off, now that the receipt is signed. If that fails, the next one to look does it."""
        for id in request.expected or ():
            ledger = self._maker.ledgers.get(id)
            if ledger is not None:
                with suppress(FileError):
                    ledger.tidy()

    # --- Old ones ----------------------------------------------------------------------------------------------------

    def resume(self) -> None:
        """At open: go on with what an earlier process has left, and wait for nobody."""
        if self._requests.waiting():
            self._try_complete()

    def complete(self, timeout: float) -> list[Receipt]:
        """Finish every request that waits."""
        waiting = self._requests.waiting()
        for request in waiting:
            if not request.begun:
                try:
                    self._go_on(request)
                except FileError as error:
                    raise ErasureIncompleteError(str(error), len(self._requests.waiting())) from error
            # A collection finishes all that it has to finish at once, so the next request may be signed by now.
            if self._requests.is_open(request.id):
                self._finish(request, timeout)
        if waiting:
            self._maker.remove_unready()
        return [receipt for request in waiting if (receipt := self._requests.receipt_of(request.id)) is not None]

    def _try_complete(self) -> None:
        with suppress(ErasureIncompleteError):
            self.complete(0.0)

    def _go_on(self, request: Request) -> None:
        """A process died between the first note and the last: delete where that was not done."""
        entries = self._catalog.entries()
        if request.expected is not None:
            entries = [entry for entry in entries if entry.id in request.expected]
        begun = {entry.id for entry in entries if self._has_note(entry, request)}
        rest = [entry for entry in entries if entry.id not in begun]
        if request.kind == "drop" and rest:
            wanted = {entry.id: _EVERYTHING for entry in rest}
        elif request.head["asked"]["by"] == "subject" and request.expected is None:
            wanted = self._of_subject(request, rest)
        else:
            wanted = {}
        self._begin_more(request, [entry for entry in rest if entry.id in wanted], wanted)
        begun |= wanted.keys()
        if begun or request.expected is None:
            self._requests.set_expected(request, begun)
            self._requests.try_sign(request)
        else:
            self._requests.drop(request)  # it died before anything was deleted, and nobody was told that it was

    def _begin_more(self, request: Request, entries: list[Entry], wanted: dict[str, StoreRequest]) -> None:
        for entry in entries:
            store, ledger = self._maker.open(entry), self._maker.ledgers[entry.id]
            with ledger.taking_part(request):
                store.begin_forget(wanted[entry.id])

    def _has_note(self, entry: Entry, request: Request) -> bool:
        self._maker.open(entry)
        notes = self._maker.ledgers[entry.id].notes()
        return any(note["request"] == request.id for note in notes.values())

    def _of_subject(self, request: Request, entries: list[Entry]) -> dict[str, StoreRequest]:
        """Who it was is only known by a tag: look for the subject that has it."""
        audit = self._chain.keys.audit_keys[request.head["audit_key"]]
        tag = request.head["asked"]["subject"]
        found = {}
        for entry in entries:
            for subject in self._maker.open(entry).subjects():
                if audit.tag_subject(subject) == tag:
                    found[entry.id] = StoreRequest(
                        None, Selection(subject=subject), subject, ignore_unknown=True, search_all=False
                    )
        return found

    def _dropped(self, request: Request) -> None:
        """In the transaction that signs for a drop: the name goes, the files go next."""
        for id in request.expected or ():
            sql = "UPDATE collections SET ready = 0, name = '-' || id, expires = NULL WHERE id = ?"
            self._catalog.write(sql, id)


_EVERYTHING = StoreRequest(None, Selection(), None, ignore_unknown=True, search_all=False, tagged=False)


def _head(audit: AuditKey, by: str, subject: str | None) -> dict[str, Any]:
    return {"asked_at": now(), "asked": {"by": by, "subject": subject, "missing": []}, "audit_key": audit.id}


def _together(work: Callable[[Store], object], stores: list[Store]) -> None:
    """Do it for all stores at once; the first error is raised when all have ended."""
    if len(stores) < 2:
        for store in stores:
            work(store)
        return
    with ThreadPoolExecutor(min(_THREADS, len(stores))) as pool:
        futures = [pool.submit(work, store) for store in stores]
    for future in futures:
        future.result()
