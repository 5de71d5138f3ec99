"""The ledger of a collection: its own waiting erasures, and the chain and keys of its folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from .._forgetting.receipts import Receipt
from .._store.chain import Chain, WithChain
from .._store.session import Session
from ..errors import FileError, FormatError, UnsupportedError
from .requests import Request, Requests

__all__ = ["CollectionLedger"]

_HEAD = ("asked_at", "asked", "audit_key")
_PART = ("records", "erased", "digest", "version")


class CollectionLedger(WithChain):
    """What a store asks of its ledger, for a store that is one of many."""

    def __init__(self, session: Session, collection: str, chain: Chain, requests: Requests) -> None:
        """Of an open collection."""
        super().__init__(chain)
        self.collection: str | None = collection
        self._id = collection
        self._session = session
        self._requests = requests
        self._together: Request | None = None  # the request of the whole folder that this collection takes part in
        self._own: list[Request] = []  # requests of this collection alone that were begun in this process
        session.participants.append(self)

    @contextmanager
    def taking_part(self, request: Request) -> Iterator[None]:
        """What is forgotten inside the block belongs to a request of the whole folder."""
        with self._session.guard:
            self._together = request
            try:
                yield
            finally:
                self._together = None

    def note_erasure(self, draft: Mapping[str, Any], kind: str = "erasure") -> int:
        """Put a waiting erasure down, inside the transaction that deletes the records; its number."""
        request = self._together
        if request is None:
            # Before the note: a request that no collection knows is dropped, a note without its request is not signed.
            head = {name: draft[name] for name in _HEAD}
            request = self._requests.begin(kind, head, [self._id], alone=True)
            self._own.append(request)
        kept = {"request": request.id, **{name: draft[name] for name in _PART}}
        cursor = self._session.connection.execute("INSERT INTO erasures (draft) VALUES (?)", (json.dumps(kept),))
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def mark(self) -> int:
        """How many requests of its own were begun."""
        return len(self._own)

    def undo(self, mark: int) -> None:
        """The notes of those that were begun since did not come to be."""
        while len(self._own) > mark:
            request = self._own.pop()
            try:
                self._requests.drop(request)
            except FileError:  # whoever finishes what waits looks for its note, finds none and drops it
                request.begun = False
                raise

    def notes(self) -> dict[int, dict[str, Any]]:
        """All notes of erasures by number, signed or not."""
        rows = self._session.connection.execute("SELECT number, draft FROM erasures ORDER BY number").fetchall()
        try:
            found = {number: json.loads(draft) for number, draft in rows}
            if all(isinstance(draft["request"], str) for draft in found.values()):
                return found
            raise TypeError("a request that is no text")
        except (ValueError, TypeError, KeyError) as error:
            raise FormatError(
                f"{self._session.path}: expected notes of erasures, got something else ({error})"
            ) from None

    def waiting(self) -> dict[int, dict[str, Any]]:
        """The erasures that this collection has not finished, by number."""
        return {
            number: draft
            for number, draft in self.notes().items()
            if self._requests.is_open(draft["request"]) and not self._requests.has_part(draft["request"], self._id)
        }

    def waiting_count(self) -> int:
        """How many erasures wait."""
        return len(self.waiting())

    def sign(self, residue: Mapping[int, Mapping[str, Any]], issued: dict[int, Receipt]) -> None:
        """Hand in the parts of the waiting erasures; `issued` is given the receipts of those that are complete by
        that."""
        for number, draft in self.waiting().items():
            part = {**{name: draft[name] for name in _PART}, "residue": dict(residue[number])}
            receipt = self._requests.hand_in(draft["request"], self._id, part)
            if receipt is not None:
                issued[number] = receipt
        with suppress(FileError):  # it is signed; the next one to look takes the notes off
            self.tidy()

    def tidy(self) -> None:
        """Take off the notes of what is signed."""
        with self._session.guard:  # numbers come back: between reading and deleting, one could be another erasure's
            done = [n for n, draft in self.notes().items() if not self._requests.is_open(draft["request"])]
            if not done:
                return
            with self._session.transaction():
                for number in done:
                    self._session.connection.execute("DELETE FROM erasures WHERE number = ?", (number,))
                self._session.tables.unlist_keys()
            self._own = [request for request in self._own if self._requests.is_open(request.id)]

    def rotate(self, reason: str, *, keep_audit_keys: bool) -> Receipt:
        """A collection has no keys of its own."""
        raise UnsupportedError("rotate_keys: expected the folder, whose keys these are, got one of its collections")
