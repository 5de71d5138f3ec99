"""The first half of a forget: delete, commit, and put the erasure down as waiting. `erasing` has the second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from .._forgetting.receipts import Receipt, now
from ..errors import ErasureIncompleteError, IncompleteWriteError, UnknownIdError
from .batch import Stored
from .changes import Changes, Note
from .codes import Codes
from .erasing import SAMPLE, Claim, Eraser, Traces, sample_step
from .ids import Id, order_of
from .image import Image
from .ledger import Ledger
from .lookup import ids_in, known_slots, locate
from .reserve import Reserve
from .selecting import Selection, Selector
from .session import Session

__all__ = ["Forgetter", "Preview", "PromisedReceipt", "Request"]


@dataclass(frozen=True)
class Request:
    """What is to be forgotten, checked: some ids, or what a selection lets through."""

    ids: list[Id] | None
    selection: Selection
    subject: str | None  # if all of its records are meant
    ignore_unknown: bool
    search_all: bool
    tagged: bool = True  # without, the receipt only counts the records: all of them go
    kind: str = "erasure"
    sample: int = SAMPLE  # records whose bytes are searched for
    by: str | None = None  # why, if that is neither ids, a subject nor a condition
    elsewhere: list[dict[str, Any]] | None = None  # what the caller says of copies outside the store


@dataclass(frozen=True)
class Preview:
    """What a forget would forget: `ids` in their order, how many `records` they are, and ids that are not there."""

    records: int
    ids: list[Id]
    missing: list[Id]


class PromisedReceipt(Receipt):
    """The receipt of a forget in a transaction that is under way. Until it is signed, every question is refused."""

    def __init__(self) -> None:
        """Not signed yet."""

    def __getattr__(self, name: str) -> NoReturn:
        """Only fields that are not there yet come here."""
        if name == "_fields":
            raise ErasureIncompleteError(
                "receipt: expected one that is signed, got that of a forget in a transaction: it is signed when the "
                "transaction has been committed and no byte of the records is left"
            )
        raise AttributeError(name)

    def sign(self, receipt: Receipt) -> None:
        """Be this receipt from now on."""
        self._fields = receipt._fields

    def __repr__(self) -> str:
        """As that of any receipt, once it is signed."""
        return super().__repr__() if "_fields" in self.__dict__ else "<Receipt that is not signed yet>"


class Forgetter:
    """Forgets records, and signs for it once no byte of them is left."""

    def __init__(
        self,
        session: Session,
        changes: Changes,
        codes: Codes,
        image: Image,
        selector: Selector,
        ledger: Ledger,
        eraser: Eraser,
        reserve: Reserve,
    ) -> None:
        """Of an open store."""
        self._session = session
        self._changes = changes
        self._codes = codes
        self._image = image
        self._selector = selector
        self._ledger = ledger
        self._eraser = eraser
        self._reserve = reserve
        self._promised: dict[int, tuple[PromisedReceipt, float]] = {}  # by erasure, in the transaction under way
        session.participants.append(self)

    def preview(self, request: Request) -> Preview:
        """What would be forgotten."""
        slots, missing = self._wanted(request)
        return Preview(len(slots), sorted(ids_in(self._session.connection, slots), key=order_of), missing)

    def start(self, request: Request, timeout: float) -> Receipt | Claim:
        """The first half, for `finish` to do the other without the guard.

        In a transaction the receipt is promised, and `take_promises` says what is left to do when it is committed.
        """
        return self._started(self.begin(request), timeout)

    def _started(self, number: int, timeout: float) -> Receipt | Claim:
        if self._session.in_transaction:
            self._promised[number] = PromisedReceipt(), timeout
            return self._promised[number][0]
        return self._eraser.claim(number)

    def finish(self, started: Receipt | Claim, timeout: float) -> Receipt:
        """The second half: other threads use the store while somebody is in the way."""
        if isinstance(started, Receipt):
            return started
        try:
            self._eraser.complete(timeout, [started])
        finally:
            with self._session.guard:
                if not self._session.closed:
                    self._reserve.ensure()
        return _signed(started)

    def begin(self, request: Request) -> int:
        """The first half; the number of the erasure.

        On a full disk, the space that is kept back is given up for it, except in a transaction of several calls.
        """
        try:
            return self._delete(request)
        except IncompleteWriteError:
            if self._session.in_transaction or not self._reserve.release():
                raise
            return self._delete(request)

    def take_promises(self) -> list[tuple[PromisedReceipt, Claim, float]]:
        """A transaction was committed, and the guard is still held: what `keep` is to do."""
        promised, self._promised = self._promised, {}
        return [(receipt, self._eraser.claim(number), timeout) for number, (receipt, timeout) in promised.items()]

    def keep(self, promised: Sequence[tuple[PromisedReceipt, Claim, float]]) -> None:
        """Complete the erasures of a transaction's forgets, and sign."""
        if promised:
            self._eraser.complete(max(timeout for *_, timeout in promised), [claim for _, claim, _ in promised])
            for receipt, claim, _ in promised:
                receipt.sign(_signed(claim))

    def mark(self) -> frozenset[int]:
        """Which receipts are promised. An interrupt just after a commit may have left some; the chain has them."""
        if not self._session.in_transaction:
            self._promised = {}
        return frozenset(self._promised)

    def undo(self, mark: Any) -> None:
        """The forgets since did not happen."""
        for number in self._promised.keys() - mark:
            del self._promised[number]

    def start_rectifying(self, change: Callable[[Note], None], records: int, timeout: float) -> Receipt | Claim:
        """Replace records; `finish` signs once no byte of what they were is left. `change` tells what it replaces."""
        asked: dict[str, Any] = {"by": "update", "subject": None, "missing": []}
        number = self._erase(change, records, asked, "rectification", tagged=True, search_all=False)
        return self._started(number, timeout)

    def _delete(self, request: Request) -> int:
        """Delete the records in one transaction; the number of the erasure, which waits."""
        audit, subject = self._ledger.keys.audit, request.subject
        with self._session.transaction():
            slots, missing = self._wanted(request)
            asked: dict[str, Any] = {
                "by": request.by or _reason(request),
                "subject": None if subject is None else audit.tag_subject(subject),
                "missing": sorted(audit.tag_id(id) for id in missing),
            }
            if request.elsewhere:
                asked["elsewhere"] = request.elsewhere
            return self._erase(
                lambda note: self._changes.delete(slots, note),
                len(slots),
                asked,
                request.kind,
                tagged=request.tagged,
                search_all=request.search_all,
                sample=request.sample,
            )

    def _erase(
        self,
        work: Callable[[Note], None],
        records: int,
        asked: dict[str, Any],
        kind: str,
        *,
        tagged: bool,
        search_all: bool,
        sample: int = SAMPLE,
    ) -> int:
        """Do it in one transaction, and put the erasure down as waiting; its number. `work` tells what goes."""
        session = self._session
        audit = self._ledger.keys.audit
        traces = Traces(most=sample)
        tags: list[str] = []
        count = 0
        step = sample_step(records, sample)
        with session.transaction():
            before = session.state.digest.digest()
            traces.take_image(self._image)

            def note(records: Sequence[Stored]) -> None:
                nonlocal count
                count += len(records)
                traces.take(records, step, session.tables, self._codes, session.vectors)
                if tagged:
                    tags.extend(audit.tag_id(record.id) for record in records)

            work(note)
            state = session.state
            draft = {
                "asked_at": now(),
                "asked": asked,
                "audit_key": audit.id,
                "records": count,
                "erased": sorted(tags),
                "digest": {"before": audit.tag_digest(before), "after": audit.tag_digest(state.digest.digest())},
                "version": state.version,
            }
            number = self._ledger.note_erasure(draft, kind)
            self._eraser.remember(number, traces, whole_files=search_all)
        return number

    def _wanted(self, request: Request) -> tuple[list[int], list[Id]]:
        """The slots of the records, and the ids that are not there."""
        connection = self._session.connection
        if request.ids is None:
            slots = self._selector.slots(request.selection)
            if request.subject is not None and not slots and not request.ignore_unknown:
                raise UnknownIdError(f"subject: expected one that has records, got {request.subject!r}, which has none")
            return slots, []
        if not request.ignore_unknown:
            return known_slots(connection, request.ids, "records"), []
        found = locate(connection, request.ids, "records")
        missing = [id for id, slot in zip(request.ids, found, strict=True) if slot is None]
        return [slot for slot in found if slot is not None], missing


def _signed(claim: Claim) -> Receipt:
    if claim.receipt is None:
        raise ErasureIncompleteError("expected a receipt for every erasure that is complete, got none for this one")
    return claim.receipt


def _reason(request: Request) -> str:
    if request.ids is not None:
        return "ids"
    return "where" if request.subject is None else "subject"
