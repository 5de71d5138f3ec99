"""The first half of a forget: delete, commit, and put the erasure down as waiting. `erasing` has the second."""

from __future__ import annotations

from collections.abc import Sequence

from .._forgetting.receipts import Receipt, now
from ..errors import IncompleteWriteError, UnknownIdError
from .batch import Stored
from .changes import Changes
from .codes import Codes
from .erasing import Eraser, Traces, sample_step
from .ids import Id
from .ledger import Ledger
from .lookup import known_slots, locate
from .reserve import Reserve
from .selecting import Selection, Selector
from .session import Session

__all__ = ["Forgetter", "Request"]


class Request:
    """What is to be forgotten, checked: some ids, or what a selection lets through."""

    def __init__(
        self,
        ids: list[Id] | None,
        selection: Selection,
        subject: str | None,
        *,
        ignore_unknown: bool,
        search_all: bool,
        tagged: bool = True,
    ) -> None:
        """The arguments of `forget`. Without `tagged` the receipt only counts the records: all of them go."""
        self.ids = ids
        self.selection = selection
        self.subject = subject
        self.ignore_unknown = ignore_unknown
        self.search_all = search_all
        self.tagged = tagged


class Forgetter:
    """Forgets records, and signs for it once no byte of them is left."""

    def __init__(
        self,
        session: Session,
        changes: Changes,
        codes: Codes,
        selector: Selector,
        ledger: Ledger,
        eraser: Eraser,
        reserve: Reserve,
    ) -> None:
        """Of an open store."""
        self._session = session
        self._changes = changes
        self._codes = codes
        self._selector = selector
        self._ledger = ledger
        self._eraser = eraser
        self._reserve = reserve

    def forget(self, request: Request, timeout: float) -> Receipt:
        """Both halves."""
        number = self.begin(request)
        try:
            return self._eraser.complete(timeout)[number]
        finally:
            self._reserve.ensure()

    def begin(self, request: Request) -> int:
        """The first half; the number of the erasure. On a full disk, the space that is kept back is given up for it."""
        try:
            return self._delete(request)
        except IncompleteWriteError:
            if not self._reserve.release():
                raise
            return self._delete(request)

    def _delete(self, request: Request) -> int:
        """Delete the records in one transaction; the number of the erasure, which waits."""
        session = self._session
        audit = self._ledger.keys.audit
        traces = Traces()
        tags: list[str] = []
        count = 0
        with session.transaction():
            slots, missing = self._wanted(request)
            step = sample_step(len(slots))
            before = session.state.digest.digest()

            def note(records: Sequence[Stored]) -> None:
                nonlocal count
                count += len(records)
                traces.take(records, step, session.tables, self._codes)
                if request.tagged:
                    tags.extend(audit.tag_id(record.id) for record in records)

            self._changes.delete(slots, note)
            state = session.state
            subject = request.subject
            draft = {
                "asked_at": now(),
                "asked": {
                    "by": "ids" if subject is None else "subject",
                    "subject": None if subject is None else audit.tag_subject(subject),
                    "missing": sorted(audit.tag_id(id) for id in missing),
                },
                "audit_key": audit.id,
                "records": count,
                "erased": sorted(tags),
                "digest": {"before": audit.tag_digest(before), "after": audit.tag_digest(state.digest.digest())},
                "version": state.version,
            }
            number = self._ledger.note_erasure(draft)
            self._eraser.remember(number, traces, whole_files=request.search_all)
        return number

    def _wanted(self, request: Request) -> tuple[list[int], list[Id]]:
        """The slots of the records, and the ids that are not there."""
        connection = self._session.connection
        if request.ids is None:
            slots: list[int] = self._selector.slots(request.selection).tolist()
            if not slots and not request.ignore_unknown:
                raise UnknownIdError(f"subject: expected one that has records, got {request.subject!r}, which has none")
            return slots, []
        if not request.ignore_unknown:
            return known_slots(connection, request.ids), []
        found = locate(connection, request.ids)
        missing = [id for id, slot in zip(request.ids, found, strict=True) if slot is None]
        return [slot for slot in found if slot is not None], missing
