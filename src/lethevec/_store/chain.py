"""The chain of receipts in its table, and the keys that sign it: of one store, or of a folder of collections."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from .._forgetting.keys import KeyRing, key_id
from .._forgetting.receipts import GENESIS_PREVIOUS, Receipt
from ..errors import FormatError, IncompleteWriteError, KeysError, ReceiptError
from .connection import translated
from .forking import ProcessLock

__all__ = ["Chain", "Database", "WithChain", "current_key"]


class Database(Protocol):
    """Whose table `receipts` it is: a store's session, or the catalog of a folder."""

    @property
    def path(self) -> Path:
        """The database file."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether this is a reader."""
        ...

    @property
    def guard(self) -> ProcessLock:
        """Who holds it uses the connection."""
        ...

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection to the file."""
        ...

    def transaction(self) -> AbstractContextManager[Any]:
        """A write transaction: committed at the end of the block, or rolled back as a whole."""
        ...


class Chain:
    """The receipts of an open database. Writers have keys; readers may have them."""

    def __init__(self, database: Database, keys_path: Path) -> None:
        """Bring keys and chain together; a database without a chain gets new keys and its genesis."""
        self._database = database
        self._keys_path = keys_path
        self._keys: KeyRing | None = None
        if not database.read_only:
            self._keys = self._load_or_create()

    @property
    def keys(self) -> KeyRing:
        """The keys; a reader reads them when they are first asked for."""
        if self._keys is None:
            ring = KeyRing.load(self._keys_path)
            self._check_owner(ring, self.receipts())
            self._keys = ring
        return self._keys

    def key_file(self) -> KeyRing | None:
        """The key file as it is now, whether it agrees with the chain or not; None if there is none."""
        return KeyRing.load(self._keys_path) if self._keys_path.exists() else None

    def _load_or_create(self) -> KeyRing:
        if self._keys_path.is_symlink():  # new keys would take its place, and the old ones stay where it leads to
            raise KeysError(
                f"{self._keys_path}: expected a regular file to write with, got a symbolic link; keys= says where the "
                "keys are"
            )
        chain = self.receipts()
        if not chain:
            # A new store, or a backup that is opened for the first time. A key file that waits there is taken: the
            # creation may have died between the two, and a restored backup may be given its old keys.
            ring = KeyRing.load(self._keys_path) if self._keys_path.exists() else KeyRing.create()
            ring.save(self._keys_path)
            with self._database.transaction():
                body = {"public_key": _base64(ring.public)}
                self.insert(Receipt.issue(ring, "genesis", 0, GENESIS_PREVIOUS, _software(), body))
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

    def receipts(self) -> list[Receipt]:
        """Every receipt from the genesis on."""
        return self._read("SELECT receipt FROM receipts ORDER BY sequence")

    def page(self, after: int, limit: int) -> list[Receipt]:
        """Up to `limit` receipts that follow a place in the chain, oldest first."""
        sql = "SELECT receipt FROM receipts WHERE sequence > ? ORDER BY sequence LIMIT ?"
        return self._read(sql, after, limit)

    def page_back(self, before: int, limit: int) -> list[Receipt]:
        """Up to `limit` receipts that precede a place in the chain, newest first."""
        sql = "SELECT receipt FROM receipts WHERE sequence < ? ORDER BY sequence DESC LIMIT ?"
        return self._read(sql, before, limit)

    def introducing(self, sequence: int) -> Receipt | None:
        """The genesis or rotation whose key was in force when the entry of this number was signed."""
        sql = (
            "SELECT receipt FROM receipts WHERE sequence < ? AND instr(receipt, '\"public_key\":') "
            "ORDER BY sequence DESC LIMIT 1"
        )
        found = self._read(sql, max(1, sequence))  # a genesis is signed with the key that it introduces
        return found[0] if found else None

    def holding(self, tags: Sequence[str]) -> list[Receipt]:
        """The receipts in which one of these tags stands, oldest first; the others are not even read."""
        if not tags:
            return []
        conditions = " OR ".join(["instr(receipt, ?)"] * len(tags))
        return self._read(f"SELECT receipt FROM receipts WHERE {conditions} ORDER BY sequence", *tags)

    def _read(self, sql: str, *parameters: int | str) -> list[Receipt]:
        database = self._database
        with database.guard, translated(database.path):
            rows = database.connection.execute(sql, parameters).fetchall()
        try:
            return [Receipt.from_json(text) for (text,) in rows]
        except (ReceiptError, TypeError) as error:
            raise FormatError(
                f"{database.path}: expected receipts in their table, got something else ({error})"
            ) from None

    def last(self) -> Receipt:
        """The newest receipt."""
        sql = "SELECT receipt FROM receipts ORDER BY sequence DESC LIMIT 1"
        return Receipt.from_json(self._database.connection.execute(sql).fetchone()[0])

    def append(self, kind: str, body: Mapping[str, Any]) -> Receipt:
        """Sign an entry and put it at the end, inside the caller's transaction."""
        last = self.last()
        receipt = Receipt.issue(self.keys, kind, last.sequence + 1, last.hash(), _software(), body)
        self.insert(receipt)
        return receipt

    def insert(self, receipt: Receipt) -> None:
        """Put a signed receipt down, inside the caller's transaction."""
        self._database.connection.execute(
            "INSERT INTO receipts (sequence, receipt) VALUES (?, ?)", (receipt.sequence, receipt.to_json())
        )

    def rotate(self, reason: str, *, keep_audit_keys: bool) -> Receipt:
        """Put new keys into use. The file holds both until the chain has the change, so that a crash loses neither."""
        old = self.keys
        new = old.rotated(keep_audit_keys=keep_audit_keys)
        old.successor = new
        old.save(self._keys_path)
        try:
            with self._database.transaction():
                receipt = self.append("rotation", {"public_key": _base64(new.public), "reason": reason})
        finally:
            old.successor = None
        self._keys = new  # from here on nothing that the old key signs is valid
        try:
            new.save(self._keys_path)
        except IncompleteWriteError as error:
            raise IncompleteWriteError(
                f"{error}; the new keys are in use and the chain has the change, but the file holds the old ones as "
                "well; the next writer that opens it takes them out"
            ) from error
        return receipt


class WithChain:
    """What is asked of receipts and keys, answered by the chain: of a store, or of its folder."""

    def __init__(self, chain: Chain) -> None:
        """By this chain."""
        self._chain = chain

    @property
    def keys(self) -> KeyRing:
        """The keys; a reader reads them when they are first asked for."""
        return self._chain.keys

    def key_file(self) -> KeyRing | None:
        """The key file as it is now, whether it agrees with the chain or not; None if there is none."""
        return self._chain.key_file()

    def chain(self) -> list[Receipt]:
        """Every receipt from the genesis on."""
        return self._chain.receipts()


def current_key(chain: Sequence[Receipt]) -> str:
    """The id of the signing key in force at the end of a chain."""
    publics = [public for public in (receipt.public_key for receipt in chain) if public is not None]
    if not publics:
        raise FormatError("receipts: expected a genesis, got none")
    return key_id(publics[-1])


@cache
def _software() -> dict[str, str]:
    try:
        own = version("lethevec")
    except PackageNotFoundError:  # run from a source tree
        own = "unknown"
    return {"lethevec": own, "sqlite": sqlite3.sqlite_version}


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
