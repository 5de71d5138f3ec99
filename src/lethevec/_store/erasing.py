"""The second half of a forget: from "committed" to "no byte is left", and only then the receipt.

The records are already deleted and committed when this begins, and their erasures are written down as waiting. Here
the log is emptied, the pages scrubbed, the files searched, and the receipts signed. It can stop at any point and be
taken up again, by a later call or by the next process: what is left to do is read from the table `erasures` and from
the pages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._forgetting.receipts import Receipt
from .._forgetting.residue import (
    Finding,
    Needle,
    Paged,
    Report,
    Source,
    id_needles,
    search,
    text_needles,
    vector_needles,
)
from .._forgetting.small_arrays import wipe_small_arrays
from .._waiting import waiting as waiting_line
from ..errors import ErasureIncompleteError, FileError
from .batch import Stored
from .checkpoint import BusyError
from .codes import Codes, code_columns
from .connection import let_go_of_values, translated
from .copying import remove_unfinished
from .files import FileSource, RawFile
from .image import Image, image_columns
from .ledger import Ledger
from .pages import owner
from .session import Session
from .tables import RecordTables
from .vectors import VectorsInFile

__all__ = ["SAMPLE", "Claim", "Eraser", "Traces"]

_SHORT = 0.02  # seconds for which other threads wait while we wait for somebody who is in the way
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1  # seconds in which they come in
SAMPLE = 100  # records of one forget whose bytes are searched for; of more, these, evenly spread


@dataclass
class Traces:
    """What a forgotten record could leave behind, kept in memory until its erasure is complete."""

    needles: dict[bytes, Needle] = field(default_factory=dict)  # each once, by its bytes
    sampled: int = 0
    most: int = SAMPLE  # records

    def take(
        self,
        records: Iterable[Stored],
        every: int,
        tables: RecordTables,
        codes: Codes,
        vectors: VectorsInFile | None,
    ) -> None:
        """Note the bytes of every so many of these records."""
        for place, record in enumerate(records):
            if place % every == 0 and self.sampled < self.most:
                self.sampled += 1
                if record.vector is not None:
                    self._note(vector_needles(np.frombuffer(record.vector, dtype="<f4"), own_only=True))
                    self._note(vectors.traces(record.vector) if vectors is not None else [])
                self._note(id_needles(record.id, own_only=True))
                if record.subject is not None:
                    self._note(text_needles(record.subject, "subject"))
                if record.payload is not None:
                    self._note(text_needles(record.payload, "payload"))
                self._note(tables.traces(record))
                self._note(codes.traces(record))

    def take_image(self, image: Image) -> None:
        """Note the bytes of an image that is about to go."""
        self._note(image.traces())

    def _note(self, needles: list[Needle]) -> None:
        for needle in needles:
            # Long texts have much in common with those of others, and every such window has to be explained. Of long
            # vectors, 128 windows are enough: what could be left of one is a good part of it.
            step = max(8, len(needle.data) // (32 if needle.text else 128))
            self.needles.setdefault(needle.data, replace(needle, step=step))


def sample_step(records: int, sample: int = SAMPLE) -> int:
    """Of how many records one is searched for."""
    return max(1, -(-records // sample))


class _Pages:
    """Some pages of the database as a source: many in one block, with zeros between them so that none run together."""

    name = "pages of the database that were rewritten"
    SPACE = 32

    def __init__(self, raw: RawFile, page_size: int, numbers: Iterable[int]) -> None:
        self._raw = raw
        self._page_size = page_size
        self._numbers = sorted(numbers)

    @property
    def length(self) -> int:
        """How many bytes there are, the zeros between the pages included."""
        return len(self._numbers) * (self._page_size + self.SPACE)

    def blocks(self, size: int) -> Iterator[tuple[int, bytes]]:
        """The pages, in order; `at` says where an offset among them is in the file."""
        together = max(1, size // self._page_size)
        for start in range(0, len(self._numbers), together):
            part = self._numbers[start : start + together]
            pages = [self._raw.read((number - 1) * self._page_size, self._page_size) for number in part]
            data = b"".join(page.ljust(self._page_size + self.SPACE, b"\0") for page in pages)
            yield start * (self._page_size + self.SPACE), data

    def at(self, offset: int) -> int:
        """The offset in the file."""
        place, inside = divmod(offset, self._page_size + self.SPACE)
        return (self._numbers[place] - 1) * self._page_size + inside


class Claim:
    """Who waits for the receipt of one erasure, whichever thread completes it."""

    receipt: Receipt | None = None


class Eraser:
    """Completes the waiting erasures of a store."""

    def __init__(self, session: Session, ledger: Ledger) -> None:
        """Nothing waits in memory yet; the tables may know more."""
        self._session = session
        self._ledger = ledger
        self._traces: dict[int, Traces] = {}
        self._whole_files: set[int] = set()
        self._claims: dict[int, Claim] = {}
        self._runs = 0  # of the checkpointer, when the first of what waits was put down
        self._waiting = 0  # threads that wait for somebody who is in the way
        self._tried = True  # whether something waits that was tried before, perhaps by an earlier process
        self._nothing_at = -1  # the version of the store at which nothing waited
        session.participants.append(self)

    def remember(self, number: int, traces: Traces, *, whole_files: bool) -> None:
        """Keep what an erasure is to be searched for; `whole_files`: in every byte, not only in rewritten pages."""
        if not self._traces:
            self._runs = self._session.checkpointer.runs
        self._traces[number] = traces
        if whole_files:
            self._whole_files.add(number)

    def mark(self) -> frozenset[int]:
        """Which erasures are known."""
        return frozenset(self._traces)

    def undo(self, mark: Any) -> None:
        """Those that were noted since did not come to be."""
        for number in self._traces.keys() - mark:
            self._drop(number)

    def _drop(self, number: int) -> None:
        self._traces.pop(number, None)
        self._whole_files.discard(number)

    def claim(self, number: int) -> Claim:
        """Keep the receipt of an erasure that waits for the caller, whoever completes it."""
        return self._claims.setdefault(number, Claim())

    def claim_waiting(self) -> list[Claim]:
        """The same for every erasure that waits. The caller holds the guard."""
        return [self.claim(number) for number in self._ledger.waiting()]

    def complete(self, timeout: float, claims: Sequence[Claim] = ()) -> dict[int, Receipt]:
        """Finish every waiting erasure and sign for it, or say what is in the way; nothing to do is fine.

        While somebody is in the way, other threads use the store: it is tried again and again for so many seconds. One
        of them may complete what the caller has claimed, and then there is nothing left to do.
        """
        session = self._session
        end = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        with self._patient() if timeout else nullcontext():
            while True:
                with session.guard, translated(session.path):
                    if claims and all(claim.receipt is not None for claim in claims):
                        return {}
                    if session.closed and claims:
                        raise ErasureIncompleteError(
                            f"{session.path}: the records are deleted, and the store was closed before the erasure was "
                            "complete; it completes at the next open, and no receipt was issued",
                            len(claims),
                        )
                    session.require_open()
                    waiting = self._ledger.waiting_count()
                    if not waiting:
                        self._tried = False
                        self._nothing_at = session.state.version
                        return {}
                    left = end - time.monotonic()
                    try:
                        return self._complete(min(max(0.0, left), _SHORT), first=pause == _FIRST_PAUSE)
                    except (BusyError, FileError, OSError) as error:
                        if claims and all(claim.receipt is not None for claim in claims):
                            return {}  # these are signed; it failed at somebody else's
                        if left <= 0 or not isinstance(error, BusyError):
                            raise ErasureIncompleteError(
                                f"{session.path}: the records are deleted and no search finds them, but the erasure is "
                                f"not complete ({error}); {waiting} erasures wait; they complete at the next call or "
                                "open that finds the way free, and no receipt was issued",
                                waiting,
                            ) from error
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    @contextmanager
    def _patient(self) -> Iterator[None]:
        """While a thread waits for somebody who is in the way, searches on others leave the rest to it."""
        with self._session.guard:
            self._waiting += 1
        try:
            with waiting_line("emptying the log, or waiting for those who read it"):
                yield
        finally:
            with self._session.guard:
                self._waiting -= 1

    def _complete(self, timeout: float, *, first: bool) -> dict[int, Receipt]:
        session = self._session
        if first:
            # Its pages may be in the file by now, and the log no longer name them: then look at all.
            session.checkpointer.everything |= self._tried
            self._tried = True
        # So they may if another thread has emptied the log, as `verify` does, since the records were deleted.
        session.checkpointer.everything |= session.checkpointer.runs != self._runs
        session.tables.destroy_keys()
        remove_unfinished(session.path)
        scrubbed = session.checkpointer.run(timeout)
        numbers = list(self._ledger.waiting())
        residue = {number: self._search(number, scrubbed.pages, scrubbed.cleaned) for number in numbers}
        issued: dict[int, Receipt] = {}
        try:
            self._ledger.sign(residue, issued)
        finally:
            for number, receipt in issued.items():
                self._drop(number)
                if number in self._claims:
                    self._claims.pop(number).receipt = receipt
        # A collection that has handed in its part of a receipt has nothing more to search for, whoever signs.
        for number in numbers:
            self._drop(number)
            self._claims.pop(number, None)
        self._runs = session.checkpointer.runs
        if session.vectors is not None:
            session.vectors.signed()
        let_go_of_values(session.connection)
        wipe_small_arrays()
        self._tried = False
        return issued

    def try_complete(self, *, last: bool = False) -> None:
        """Finish what waits if that is possible without waiting. Every search asks: an erasure makes a new version.

        A thread that waits for somebody does it by itself; `last`: it will have no store any more.
        """
        session = self._session
        if session.in_transaction or session.state.version == self._nothing_at or (self._waiting and not last):
            return
        with suppress(ErasureIncompleteError):
            self.complete(0.0)

    def _search(self, number: int, pages: frozenset[int] | None, cleaned: int) -> dict[str, Any]:
        """Look for one erasure's records; `ErasureIncompleteError` if something is there."""
        session = self._session
        traces = self._traces.get(number, Traces())
        whole = pages is None or number in self._whole_files
        report = self._look(None if whole else pages, traces)
        if not report.clean:
            # Not expected: look at every page, not only at those that the log named, and search again.
            session.checkpointer.everything = True
            session.checkpointer.run(session.timeout)
            report = self._look(None, traces)
        if not report.clean:
            raise ErasureIncompleteError(_describe(session.path, report), self._ledger.waiting_count())
        looked = session.raw.size // session.page_size if pages is None else len(pages)
        return {**report.to_dict(), "records": traces.sampled, "pages": looked, "pages_cleaned": cleaned}

    def _look(self, pages: frozenset[int] | None, traces: Traces) -> Report:
        session = self._session
        if pages is None:
            return search(sources(session), traces.needles.values(), living(session))
        # Of the vault, which is long, the parts that were rewritten; of a file of vectors likewise.
        passed_over = {session.path, *session.tables.files()}
        others: list[Source] = [FileSource(path) for path in session.searchable() if path not in passed_over]
        others += session.tables.rewritten()
        if session.vectors is not None:
            others += session.vectors.sources(rewritten=True)
        some = _Pages(session.raw, session.page_size, pages)
        judge = living(session)

        def explained(finding: Finding) -> bool:
            in_file = finding.source == some.name
            return judge(
                replace(finding, source=session.path.name, offset=some.at(finding.offset)) if in_file else finding
            )

        paged = Paged(some, session.page_size + some.SPACE, session.page_size)
        return search([paged, *others], traces.needles.values(), explained)


def sources(session: Session) -> list[Source]:
    """Every file that could hold a record or its key, to be searched."""
    files = [FileSource(path) for path in session.searchable()]
    paged: list[Source] = [
        Paged(f, session.page_size, session.page_size) if f.path == session.path else f for f in files
    ]
    return paged if session.vectors is None else [*paged, *session.vectors.sources(rewritten=False)]


def living(session: Session) -> Callable[[Finding], bool]:
    """A judge of findings: whether a living row, or the schema, has the same bytes.

    First the row in whose cell it was found, which is nearly always the one; only then all of them. The last overflow
    page of a value goes on with zeros, and what the value spells together with them is its own as well: pieces of
    vectors with many zeros would else be found where there is nothing of them.
    """
    size = session.page_size
    columns = (*code_columns(session.connection), *image_columns(session.connection), *session.tables.living)

    def explained(finding: Finding) -> bool:
        if finding.source == session.path.name:
            if _is_living_id(session, finding.data):
                return True
            number, offset = divmod(finding.offset, size)
            slot = owner(session.raw.read(number * size, size), number + 1, offset)
            if slot is not None and any(
                _holds(session, f"{table} WHERE {key} = {slot:d} AND", column, finding.data)
                for table, key, column in columns
                if key
            ):
                return True
        if session.vectors is not None and session.vectors.explains(finding, session):
            return True
        return any(
            _holds(session, f"{table} WHERE", column, finding.data, with_zeros=True) for table, _, column in columns
        )

    return explained


def _is_living_id(session: Session, data: bytes) -> bool:
    """Whether this is an integer id, as SQLite writes it, that came back before its erasure was complete."""
    if session.tables.sealed or len(data) not in (6, 8):
        return False
    sql = "SELECT 1 FROM records WHERE number = ? AND name IS NULL"
    return session.connection.execute(sql, (int.from_bytes(data, "big", signed=True),)).fetchone() is not None


def _holds(session: Session, where: str, column: str, data: bytes, *, with_zeros: bool = False) -> bool:
    """Whether a living row has these bytes; `with_zeros`: or would have them if its value went on with zeros."""
    zeros = len(data) - len(data.rstrip(b"\0")) if with_zeros else 0
    value = f"{column} || x'{bytes(zeros).hex()}'" if zeros else column
    sql = f"SELECT 1 FROM {where} instr(CAST({value} AS BLOB), ?) LIMIT 1"
    return session.connection.execute(sql, (data,)).fetchone() is not None


def _describe(path: object, report: Report) -> str:
    first = report.findings[0]
    return (
        f"{path}: expected no trace of the forgotten records, got {len(report.findings)} "
        f"(the first: {first.label} in {first.source} at byte {first.offset}); no receipt was issued"
    )
