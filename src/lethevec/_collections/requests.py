"""Erasures of a folder: one request, a part from each collection concerned, one receipt with one signature.

1. The request is written into the catalog (`intents`): from here on it is completed, whatever happens.
2. Each collection deletes its records and notes the request in its own table `erasures`, in one transaction.
3. Each collection empties its log, scrubs its pages and searches its files, and hands in its part of the receipt.
4. When all parts are in, the receipt is signed and the request leaves the catalog, in one transaction.
5. Each collection takes its note off. One that is found later, of a request that is signed, is taken off then.

What a crash leaves is read from the two tables: a request without a receipt goes on at step 2 or 3, and a collection
that already has the note does not delete again.

Locks: a collection's guard comes before the one here, and here nobody waits for a collection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._forgetting.receipts import ERASURES, Receipt
from .._store.chain import Chain
from .._store.copying import remove_unfinished
from ..errors import FormatError
from .catalog import Catalog, Intent

__all__ = ["Request", "Requests"]


@dataclass
class Request:
    """An erasure under way. `head` is what its receipt says beside its parts."""

    id: str
    kind: str
    head: dict[str, Any]
    expected: set[str] | None = None  # the collections that are to hand in a part; None until that is known
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    begun: bool = False  # whether every collection has its note, so that nothing more is to be looked for

    def draft(self) -> str:
        """As the catalog keeps it."""
        expected = None if self.expected is None else sorted(self.expected)
        return json.dumps({"head": self.head, "expected": expected, "begun": self.begun})


class Requests:
    """The requests of an open folder, and who signs for them."""

    def __init__(self, catalog: Catalog, chain: Chain) -> None:
        """Take up what an earlier process has left."""
        self._catalog = catalog
        self._chain = chain
        self._open: dict[str, Request] = {}
        #: What is to be done in the transaction that signs, by the kind of the request.
        self.effects: dict[str, Callable[[Request], None]] = {}
        for intent in catalog.intents():
            self._open[intent.request] = _read(catalog, intent)

    def waiting(self) -> list[Request]:
        """Those that have no receipt yet, oldest first as far as their times tell."""
        with self._catalog.guard:
            return sorted(self._open.values(), key=lambda request: (request.head["asked_at"], request.id))

    def begin(
        self,
        kind: str,
        head: Mapping[str, Any],
        expected: Iterable[str] | None,
        *,
        alone: bool = False,
        also: Callable[[], None] | None = None,
    ) -> Request:
        """Put a new request down, and do what is `also` to be done with it, or neither.

        `alone`: of one collection, whose note follows under the lock that it holds.

        To this process such a request is begun at once: another thread that finishes what waits must wait for that
        lock, and not take the request for one that a dead process has left. A later process has to look for the note.
        """
        request = Request(self._catalog.new_id(), kind, dict(head), None if expected is None else set(expected))
        with self._catalog.guard:
            with self._catalog.transaction():
                if also is not None:
                    also()
                self._catalog.write("INSERT INTO intents VALUES (?, ?, ?)", request.id, kind, request.draft())
            request.begun = alone
            self._open[request.id] = request
        return request

    def set_expected(self, request: Request, expected: Iterable[str], *, keep: bool = False) -> None:
        """Every collection concerned has its note by now; `keep` writes that down for a process that comes later."""
        with self._catalog.guard:
            request.expected, request.begun = set(expected), True
            if keep:
                with self._catalog.transaction():
                    sql = "UPDATE intents SET draft = ? WHERE request = ?"
                    self._catalog.write(sql, request.draft(), request.id)

    def drop(self, request: Request, also: Callable[[], None] | None = None) -> None:
        """Nothing came of it: no collection has deleted anything. What is `also` to be done is done with it."""
        with self._catalog.guard:
            with self._catalog.transaction():
                self._catalog.write("DELETE FROM intents WHERE request = ?", request.id)
                if also is not None:
                    also()
            self._open.pop(request.id, None)

    def is_open(self, id: str) -> bool:
        """Whether a request waits for its receipt. If not, it is signed, or was dropped."""
        with self._catalog.guard:
            return id in self._open

    def has_part(self, id: str, collection: str) -> bool:
        """Whether this collection has handed in its part, and waits for others."""
        with self._catalog.guard:
            return id in self._open and collection in self._open[id].parts

    def hand_in(self, id: str, collection: str, part: Mapping[str, Any]) -> Receipt | None:
        """Take one part; the receipt if it was the last."""
        with self._catalog.guard:
            request = self._open.get(id)
            if request is None:
                return None
            request.parts[collection] = dict(part)
            try:
                return self.try_sign(request)
            except BaseException:
                del request.parts[collection]  # it is handed in again when this can be signed
                raise

    def try_sign(self, request: Request) -> Receipt | None:
        """Sign if all parts are in. What killed backups have left goes first; `FileError` if it cannot."""
        with self._catalog.guard:
            if request.id not in self._open or request.expected is None or not request.begun:
                return None
            if set(request.parts) != request.expected:
                return None
            remove_unfinished(self._catalog.path, folders=True)
            parts = [{"collection": id, **request.parts[id]} for id in sorted(request.parts)]
            body = {**request.head, "records": sum(part["records"] for part in parts), "collections": parts}
            with self._catalog.transaction():
                receipt = self._chain.append(request.kind, body)
                self._catalog.write("UPDATE receipts SET request = ? WHERE sequence = ?", request.id, receipt.sequence)
                self._catalog.write("DELETE FROM intents WHERE request = ?", request.id)
                if request.kind in self.effects:
                    self.effects[request.kind](request)
            del self._open[request.id]
            return receipt

    def receipt_of(self, id: str) -> Receipt | None:
        """The receipt of a request, once it is signed."""
        rows = self._catalog.rows("SELECT receipt FROM receipts WHERE request = ?", id)
        return Receipt.from_json(rows[0][0]) if rows else None


def _read(catalog: Catalog, intent: Intent) -> Request:
    try:
        kept = json.loads(intent.draft)
        expected = None if kept["expected"] is None else {str(id) for id in kept["expected"]}
        head = kept["head"]
        if intent.kind not in ERASURES or not {"asked_at", "asked", "audit_key"} <= head.keys():
            raise ValueError(f"a request of kind {intent.kind!r:.40}")
        return Request(intent.request, intent.kind, head, expected, {}, kept["begun"] is True)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(f"{catalog.path}: expected requests in their table, got something else ({error})") from None
