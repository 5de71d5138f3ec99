"""Waiting erasures, and who signs for them: the store itself, or the folder that it belongs to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from .._forgetting.keys import KeyRing
from .._forgetting.receipts import Receipt
from ..errors import FormatError
from .chain import Chain, WithChain
from .session import Session

__all__ = ["Ledger", "StoreLedger"]


class Ledger(Protocol):
    """Receipts and waiting erasures of one open store."""

    #: Which part of a receipt is about this store: None for a store of its own, else its id in the folder.
    collection: str | None

    @property
    def keys(self) -> KeyRing:
        """The keys; a reader reads them when they are first asked for."""
        ...

    def key_file(self) -> KeyRing | None:
        """The key file as it is now, whether it agrees with the chain or not; None if there is none."""
        ...

    def chain(self) -> list[Receipt]:
        """Every receipt from the genesis on."""
        ...

    def note_erasure(self, draft: Mapping[str, Any], kind: str = "erasure") -> int:
        """Put a waiting erasure down, inside the transaction that deletes the records; its number."""
        ...

    def waiting(self) -> dict[int, dict[str, Any]]:
        """The waiting erasures by number."""
        ...

    def waiting_count(self) -> int:
        """How many erasures wait."""
        ...

    def sign(self, residue: Mapping[int, Mapping[str, Any]], issued: dict[int, Receipt]) -> None:
        """The store is clean: say so for each waiting erasure, and take it off the list.

        `issued` is given the receipts by number, also of those that were signed before one that could not be. One that
        waits for other stores has no receipt yet.
        """
        ...

    def rotate(self, reason: str, *, keep_audit_keys: bool) -> Receipt:
        """Put new keys into use."""
        ...


class StoreLedger(WithChain):
    """The ledger of a store of its own: chain and keys are its own too."""

    collection: str | None = None

    def __init__(self, session: Session, keys_path: Path) -> None:
        """Bring keys and chain together; a store without a chain gets new keys and its genesis."""
        self._session = session
        super().__init__(Chain(session, keys_path))

    def note_erasure(self, draft: Mapping[str, Any], kind: str = "erasure") -> int:
        """Put a waiting erasure down, inside the transaction that deletes the records; its number."""
        kept = json.dumps({"kind": kind, "body": draft})
        cursor = self._session.connection.execute("INSERT INTO erasures (draft) VALUES (?)", (kept,))
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def waiting(self) -> dict[int, dict[str, Any]]:
        """The waiting erasures by number."""
        rows = self._session.connection.execute("SELECT number, draft FROM erasures ORDER BY number").fetchall()
        try:
            drafts = {number: json.loads(draft) for number, draft in rows}
            for draft in drafts.values():
                if type(draft["kind"]) is not str or type(draft["body"]) is not dict:
                    raise TypeError("not a kind and a body")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise FormatError(
                f"{self._session.path}: expected drafts of receipts, got something else ({error})"
            ) from None
        return drafts

    def waiting_count(self) -> int:
        """How many erasures wait."""
        return int(self._session.connection.execute("SELECT count(*) FROM erasures").fetchone()[0])

    def sign(self, residue: Mapping[int, Mapping[str, Any]], issued: dict[int, Receipt]) -> None:
        """Sign receipts for the waiting erasures, and take them off the list, in one transaction."""
        signed = {}
        with self._session.transaction():
            for number, draft in self.waiting().items():
                body = {**draft["body"], "residue": dict(residue[number])}
                signed[number] = self._chain.append(draft["kind"], body)
                self._session.connection.execute("DELETE FROM erasures WHERE number = ?", (number,))
            self._session.tables.unlist_keys()
        issued.update(signed)

    def rotate(self, reason: str, *, keep_audit_keys: bool) -> Receipt:
        """Put new keys into use."""
        return self._chain.rotate(reason, keep_audit_keys=keep_audit_keys)
