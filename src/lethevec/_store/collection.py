"""`Store`: records that survive crashes and are forgotten for good.

SQLite is the system of record, and an index in memory answers the searches. A record has an id (int or str), a vector,
and may have a subject (the person or account it belongs to) and a payload (a JSON object).

Threads may share a store. One process writes; others may read, and see every change at their next call.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._forgetting.anchors import Anchor
from .._forgetting.keys import AuditKey
from .._forgetting.receipts import Receipt, now
from .._forgetting.trusted import ChainLike, KeyLike, ReceiptLike, read_chain, read_public_key, read_receipt
from .._forgetting.verify import Verification
from .._progress import Progress
from ..errors import ErasureIncompleteError, IncompleteWriteError, InputError, ParameterError, UnknownIdError
from . import backups, checking, rows
from .connection import translated
from .engine import IndexFactory
from .erasing import Traces, sample_step
from .files import StoreFiles
from .ids import Id, check_ids, check_text
from .schema import StoreRow
from .session import open_session
from .vault import vault_path
from .writing import WritingStore

__all__ = ["Store", "open"]

_PART = 2000  # records held at once by a forget


class Store(WritingStore):
    """An open store; made by `open`.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> db = open(folder.name + "/people.lethe", dim=3, metric="l2")
    >>> db.add([[0, 0, 1], [0, 2, 0]], ids=["a", "b"], subjects=["alice", "bob"], payloads=[{"year": 1990}, None])
    >>> db.search([0, 0, 0], k=2).ids
    array([['a', 'b']], dtype=object)
    >>> receipt = db.forget(subject="alice")
    >>> db.search([0, 0, 0], k=2).ids
    array([['b', None]], dtype=object)
    >>> bool(db.verify(receipt))
    True
    >>> db.close(); folder.cleanup()
    """

    def forget(
        self,
        ids: Any = None,
        *,
        subject: str | None = None,
        ignore_unknown: bool = False,
        search_all: bool = False,
        timeout: float | None = None,
    ) -> Receipt:
        """Forget records, by id or all of a subject's. When this returns, no file of the store holds a byte of them.

        The receipt is signed once that is so. If it cannot be made so within `timeout` seconds (a reader holds an old
        snapshot, a file cannot be written), `ErasureIncompleteError` says it: no search finds the records any more,
        the erasure is on record, and it completes by itself later. If not even that can be recorded (the disk is full
        and the reserve too small), `IncompleteWriteError` says it, and nothing has changed. `search_all` searches
        every byte of every file for residue, instead of the pages that were rewritten. Unknown ids, or an unknown
        subject, are refused unless `ignore_unknown`; the receipt then counts what there was.
        """
        if (ids is None) == (subject is None):
            raise ParameterError(
                "forget: expected either ids or subject, got " + ("neither" if ids is None else "both")
            )
        if subject is not None:
            check_text(subject, "subject")
        checked = [] if ids is None else check_ids(ids)[0]
        session = self._session
        with session.guard:
            self._settle()
            try:
                number, traces = self._forget(checked, subject, ignore_unknown)
            except IncompleteWriteError:
                if not self._reserve.release():
                    raise
                number, traces = self._forget(checked, subject, ignore_unknown)
            self._eraser.remember(number, traces, whole_files=search_all)
            try:
                receipt = self._eraser.complete(session.timeout if timeout is None else timeout)[number]
            finally:
                self._reserve.ensure()
            self._fill_codes()
            return receipt

    def _forget(self, ids: list[Id], subject: str | None, ignore_unknown: bool) -> tuple[int, Traces]:
        """The first half: delete, commit, and put the erasure down as waiting; its number."""
        session = self._session
        audit = self._ledger.keys.audit
        row = replace(session.row, digest=session.row.digest.copy(), version=session.row.version + 1)
        traces = Traces()
        gone: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        try:
            with session.transaction():
                slots, missing = self._to_forget(ids, subject, ignore_unknown)
                tags, gone = self._delete(slots, row, traces, audit)
                if self._keeper is not None and len(gone) and self._keeper.moves(gone):
                    session.tables.codes.clear()
                session.write_row(row, renew=True)
                draft = {
                    "asked_at": now(),
                    "asked": {
                        "by": "ids" if subject is None else "subject",
                        "subject": None if subject is None else audit.tag_subject(subject),
                        "missing": sorted(audit.tag_id(id) for id in missing),
                    },
                    "audit_key": audit.id,
                    "records": len(tags),
                    "erased": sorted(tags),
                    "digest": {
                        "before": audit.tag_digest(session.row.digest.digest()),
                        "after": audit.tag_digest(row.digest.digest()),
                    },
                    "version": row.version,
                }
                number = self._ledger.note_erasure(draft)
        finally:
            if session.committed:  # perhaps with an interrupt just after
                session.row = row
                if len(gone):
                    self._mirror.engine.forget(gone)
        return number, traces

    def _to_forget(self, ids: list[Id], subject: str | None, ignore_unknown: bool) -> tuple[list[int], list[Id]]:
        connection = self._session.connection
        if subject is not None:
            sql = "SELECT slot FROM records WHERE subject = ? ORDER BY slot"
            slots = [slot for (slot,) in connection.execute(sql, (subject,)).fetchall()]
            if not slots and not ignore_unknown:
                raise UnknownIdError(f"subject: expected one that has records, got {subject!r}, which has none")
            return slots, []
        if ignore_unknown:
            found = rows.locate(connection, ids)
            missing = [id for id, slot in zip(ids, found, strict=True) if slot is None]
            return [slot for slot in found if slot is not None], missing
        return self._known_slots(ids), []

    def _delete(
        self, slots: list[int], row: StoreRow, traces: Traces, audit: AuditKey
    ) -> tuple[list[str], npt.NDArray[np.int64]]:
        """Delete in parts, so that memory stays bounded; the tags of the ids, and the rows for the index."""
        tables = self._session.tables
        step = sample_step(len(slots))
        tags: list[str] = []
        numbers: list[int] = []
        with Progress(len(slots), "forgetting", unit="records") as progress:
            for start in range(0, len(slots), _PART):
                part = slots[start : start + _PART]
                stored = list(tables.read_slots(part))
                row.digest.remove(record.encoding() for record in stored)
                traces.take(stored, step, tables)
                tags += [audit.tag_id(record.id) for record in stored]
                numbers += [record.row for record in stored]
                tables.shred(stored)
                tables.delete(part, row.version)
                progress.advance(len(part))
        return tags, np.array(numbers, dtype=np.int64)

    def complete_erasures(self, *, timeout: float | None = None) -> list[Receipt]:
        """Finish the erasures that wait, or say with `ErasureIncompleteError` what is in the way; their receipts."""
        with self._session.guard:
            self._session.require_writer()
            return list(self._eraser.complete(self._session.timeout if timeout is None else timeout).values())

    def pending_erasures(self) -> int:
        """How many erasures wait for a reader, or for space, to complete."""
        with self._session.guard, translated(self.path):
            self._session.require_open()
            return self._ledger.waiting_count()

    def receipts(self, *, all_kinds: bool = False) -> list[Receipt]:
        """The receipts of erasures, oldest first; with `all_kinds` the whole chain, genesis and rotations included."""
        with self._session.guard, translated(self.path):
            self._session.require_open()
            chain = self._ledger.chain()
        return [receipt for receipt in chain if all_kinds or receipt.erases]

    def anchor(self) -> Anchor:
        """The place and hash of the newest receipt. Publish it, and a chain that is cut or replaced later shows."""
        return Anchor.of(self.receipts(all_kinds=True)[-1])

    def public_key(self) -> bytes:
        """The public key in force, 32 bytes: give it to whoever is to check receipts."""
        return self._ledger.keys.public

    def rotate_keys(self, reason: str = "routine", *, keep_audit_keys: bool = True) -> Receipt:
        """Put new keys into use; the chain notes it. Give up the old audit keys, and old tags mean nothing more."""
        with self._session.guard:
            self._session.require_writer()
            if not keep_audit_keys and not self._eraser_is_idle():
                raise ErasureIncompleteError("rotate_keys: expected no waiting erasures when audit keys are given up")
            return self._ledger.rotate(check_text(reason, "reason"), keep_audit_keys=keep_audit_keys)

    def _eraser_is_idle(self) -> bool:
        return self._ledger.waiting_count() == 0

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
        with self._session.guard, translated(self.path):
            self._settle()
            return checking.verify_live(
                self._session,
                self._ledger,
                given,
                wanted,
                subject,
                vectors,
                self.dim,
                self._keeper,
                key=trusted,
                anchor=line,
            )

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a compact copy of configuration and records, the same bytes for the same records whatever the history.

        It holds neither receipts nor keys, and no record that was forgotten before. Records that are forgotten later
        stay in it: see `reapply`, and the guarantee in the docs for how old copies are to be treated. The backup of a
        sealed store holds sealed records, and those that are forgotten later cannot be read from then on.
        """
        with self._session.guard, translated(self.path):
            self._refresh()
            backups.write_backup(self._session, Path(path))

    def reapply(self, receipts: ChainLike) -> Receipt | None:
        """After a restore: forget again what these receipts erased, as far as it is back."""
        given = read_chain(receipts)
        with self._session.guard:
            self._session.require_writer()
            again = backups.matching_ids(self, self._ledger.keys, given)
            return self.forget(again) if again else None


def open(
    path: str | os.PathLike[str],
    dim: int | None = None,
    metric: str | None = None,
    *,
    read_only: bool = False,
    keys: str | os.PathLike[str] | None = None,
    timeout: float = 5.0,
    index: dict[str, Any] | None = None,
    encrypt: bool | None = None,
    drop_unreadable: bool = False,
) -> Store:
    """Open the store at `path`, or create it: then `dim` is needed, and `metric` ("cosine", "l2", "ip") is cosine
    unless given.

    `keys` is where the key file is kept (beside the store unless given); `timeout` is how many seconds to wait for
    other processes; `index` holds further options of the index, for a new store.

    `encrypt=True` makes a new store whose records are sealed, each under a key of its own in a vault beside the key
    file. A forget then destroys the key as well, which reaches copies and backups that were made before. To open such a
    copy, `drop_unreadable=True` leaves out (and, unless `read_only`, removes) the records whose keys are gone.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with open(folder.name + "/people.lethe", dim=2, metric="l2") as db:
    ...     db.add([[0, 1], [2, 0]], ids=["a", "b"])
    >>> with open(folder.name + "/people.lethe", read_only=True) as db:  # it knows what it is
    ...     len(db), db.dim, db.metric
    (2, 2, 'l2')
    >>> folder.cleanup()
    """
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 <= timeout < 1e6:
        raise ParameterError(f"timeout: expected seconds from 0 to 1e6, got {timeout!r}")
    if index is not None and not isinstance(index, dict):
        raise InputError(f"index: expected a dict of options, got {type(index).__name__}")
    if encrypt is not None and not isinstance(encrypt, bool):
        raise ParameterError(f"encrypt: expected True, False or None, got {encrypt!r}")
    factory = IndexFactory()
    keys_path = StoreFiles(Path(path)).keys if keys is None else Path(keys)
    session, lock = open_session(
        path,
        dim,
        metric,
        index,
        factory=factory,
        read_only=read_only,
        timeout=timeout,
        vault=vault_path(keys_path),
        encrypt=encrypt,
    )
    try:
        with translated(session.path):
            return Store(session, lock, factory, keys_path, drop_unreadable=drop_unreadable)
    except BaseException:
        session.close()
        if lock is not None:
            lock.release()
        raise
