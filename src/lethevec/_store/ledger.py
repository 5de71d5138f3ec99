"""The two tables that speak of the past without holding it: waiting erasures, and receipts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .._forgetting.keys import KeyRing, key_id
from .._forgetting.receipts import GENESIS_PREVIOUS, Receipt
from ..errors import FormatError, KeysError, ReceiptError
from .connection import translated
from .session import Session

__all__ = ["Ledger"]


class Ledger:
    """Receipts and waiting erasures of one open store. Writers have keys; readers may have them."""

    def __init__(self, session: Session, keys_path: Path) -> None:
        """Bring keys and chain together; a store without a chain gets new keys and its genesis."""
        self._session = session
        self._keys_path = keys_path
        self._keys: KeyRing | None = None
        if not session.read_only:
            self._keys = self._load_or_create()

    @property
    def keys(self) -> KeyRing:
        """The keys; a reader reads them when they are first asked for."""
        if self._keys is None:
            ring = KeyRing.load(self._keys_path)
            self._check_owner(ring, self.chain())
            self._keys = ring
        return self._keys

    def key_file(self) -> KeyRing | None:
        """The key file as it is now, whether it agrees with the chain or not; None if there is none."""
        return KeyRing.load(self._keys_path) if self._keys_path.exists() else None

    def _load_or_create(self) -> KeyRing:
        chain = self.chain()
        if not chain:
            # A new store, or a backup that is opened for the first time. A key file that waits there is taken: the
            # creation may have died between the two, and a restored backup may be given its old keys.
            ring = KeyRing.load(self._keys_path) if self._keys_path.exists() else KeyRing.create()
            ring.save(self._keys_path)
            with self._session.transaction():
                body = {"public_key": _base64(ring.public)}
                _insert(
                    self._session.connection, Receipt.issue(ring, "genesis", 0, GENESIS_PREVIOUS, _software(), body)
                )
            return ring
        ring = KeyRing.load(self._keys_path)
        self._check_owner(ring, chain)
        current = current_key(chain)
        if ring.successor is not None:
            # A rotation that died: it counts if, and only if, the chain has it.
            ring = ring.successor if ring.successor.signing_id == current else ring
            ring.successor = None
            ring.save(self._keys_path)
        if ring.signing_id != current:
            raise KeysError(f"{self._keys_path}: expected signing key {current}, got {ring.signing_id}")
        return ring

    def _check_owner(self, ring: KeyRing, chain: Sequence[Receipt]) -> None:
        if chain and ring.store != chain[0]["store"]:
            raise KeysError(
                f"{self._keys_path}: expected the keys of store {chain[0]['store']}, got those of {ring.store}"
            )

    def chain(self) -> list[Receipt]:
        """Every receipt from the genesis on."""
        with self._session.guard, translated(self._session.path):
            rows = self._session.connection.execute("SELECT receipt FROM receipts ORDER BY sequence").fetchall()
        try:
            return [Receipt.from_json(text) for (text,) in rows]
        except (ReceiptError, TypeError) as error:
            raise FormatError(
                f"{self._session.path}: expected receipts in their table, got something else ({error})"
            ) from None

    def _last(self) -> Receipt:
        sql = "SELECT receipt FROM receipts ORDER BY sequence DESC LIMIT 1"
        return Receipt.from_json(self._session.connection.execute(sql).fetchone()[0])

    def note_erasure(self, draft: Mapping[str, Any]) -> int:
        """Put a waiting erasure down, inside the transaction that deletes the records; its number."""
        cursor = self._session.connection.execute("INSERT INTO erasures (draft) VALUES (?)", (json.dumps(draft),))
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def waiting(self) -> dict[int, dict[str, Any]]:
        """The waiting erasures by number."""
        rows = self._session.connection.execute("SELECT number, draft FROM erasures ORDER BY number").fetchall()
        try:
            return {number: json.loads(draft) for number, draft in rows}
        except (ValueError, TypeError) as error:
            raise FormatError(
                f"{self._session.path}: expected drafts of receipts, got something else ({error})"
            ) from None

    def waiting_count(self) -> int:
        """How many erasures wait."""
        return int(self._session.connection.execute("SELECT count(*) FROM erasures").fetchone()[0])

    def sign(self, residue: Mapping[int, Mapping[str, Any]]) -> dict[int, Receipt]:
        """Sign receipts for the waiting erasures, and take them off the list, in one transaction; by number."""
        issued = {}
        connection = self._session.connection
        with self._session.transaction():
            last = self._last()
            for number, draft in self.waiting().items():
                body = {**draft, "residue": dict(residue[number])}
                last = Receipt.issue(self.keys, "erasure", last.sequence + 1, last.hash(), _software(), body)
                _insert(connection, last)
                connection.execute("DELETE FROM erasures WHERE number = ?", (number,))
                issued[number] = last
            self._session.tables.unlist_keys()
        return issued

    def rotate(self, reason: str, *, keep_audit_keys: bool) -> Receipt:
        """Put new keys into use. The file holds both until the chain has the change, so that a crash loses neither."""
        old = self.keys
        new = old.rotated(keep_audit_keys=keep_audit_keys)
        old.successor = new
        old.save(self._keys_path)
        try:
            with self._session.transaction():
                last = self._last()
                body = {"public_key": _base64(new.public), "reason": reason}
                receipt = Receipt.issue(old, "rotation", last.sequence + 1, last.hash(), _software(), body)
                _insert(self._session.connection, receipt)
        finally:
            old.successor = None
        new.save(self._keys_path)
        self._keys = new
        return receipt


def current_key(chain: Sequence[Receipt]) -> str:
    """The id of the signing key in force at the end of a chain."""
    publics = [public for public in (receipt.public_key for receipt in chain) if public is not None]
    if not publics:
        raise FormatError("receipts: expected a genesis, got none")
    return key_id(publics[-1])


def _insert(connection: sqlite3.Connection, receipt: Receipt) -> None:
    connection.execute("INSERT INTO receipts VALUES (?, ?)", (receipt.sequence, receipt.to_json()))


@cache
def _software() -> dict[str, str]:
    try:
        own = version("lethevec")
    except PackageNotFoundError:  # run from a source tree
        own = "unknown"
    return {"lethevec": own, "sqlite": sqlite3.sqlite_version}


def _base64(value: bytes) -> str:
    import base64

    return base64.b64encode(value).decode()
