"""Copies of a whole folder, and how an old one comes back without bringing back the people who were forgotten since.

A backup has the collections as `Store.backup` writes them, and a catalog with their names, the holds and blocks of that
time, and the place in the chain up to which it goes. It has no keys and no receipts, and cannot be opened: `restore` is
given the chain as it is today and the keys, erases what the chain says was erased since, and only then is there a
folder to open. Both are built under another name; one that dies in the middle leaves nothing that could be opened, and
what it leaves is removed (see `_store/copying.py`).

A chain only has tags, so a few things cannot be told from it: a collection that was renamed since has its old name, a
hold that was set since has no reason in words, and a record that was replaced with `erase_old` since is erased, because
the copy has its old content.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .._durable import open_regular, sync_folder
from .._forgetting.keys import AuditKey, KeyRing
from .._forgetting.receipts import Receipt
from .._forgetting.verify import verify_chain
from .._record import Record
from .._store.chain import current_key
from .._store.copying import building
from .._store.ids import Id
from ..errors import FileError, IncompleteWriteError, KeysError, ReceiptError
from .catalog import Catalog

if TYPE_CHECKING:
    from .._store import Store
    from .database import Database

__all__ = ["Erased", "check_chain", "copy_backup", "finish", "is_half_restored", "origin_of", "prepare", "write_backup"]

_SET_SINCE = "set after the backup was made; its entry in the chain is "


def write_backup(db: Database, catalog: Catalog, last: Receipt, path: Path) -> None:
    """Write the copy under another name, and rename it when it is complete. An existing one is refused."""
    if os.path.lexists(path):
        raise FileError(f"{path}: expected a new folder for the backup, got one that is there already")
    try:
        with building(catalog.path, path, folder=True) as place:
            place.mkdir(mode=0o700)
            # The place in the chain comes first: what is erased while the copy is written counts as erased since.
            copy = Catalog(place, read_only=False, timeout=1.0)
            try:
                with copy.transaction():
                    copy.write("INSERT INTO origin VALUES (?, ?)", last.sequence, last.hash())
                    for table in ("collections", "holds", "blocks"):
                        for row in catalog.rows(f"SELECT * FROM {table}" + (" WHERE ready" if table[0] == "c" else "")):
                            copy.write(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", *row)
                for entry in catalog.entries():
                    db.collection(entry.name).backup(copy.path_of(entry.id))
            finally:
                copy.close()
            for leftover in (copy.files.lock, copy.files.wal, copy.files.wal.with_name(copy.path.name + "-shm")):
                leftover.unlink(missing_ok=True)
            os.rename(place, path)
            sync_folder(path.absolute().parent)
    except OSError as error:
        raise IncompleteWriteError(f"{path}: the backup could not be written: {error}") from error


def copy_backup(source: Path, place: Path) -> None:
    """Copy the files of a backup into a new folder, for the owner to write, whatever the backup's own modes are."""
    with os.scandir(source) as content:
        entries = sorted(content, key=lambda one: one.name)
    for one in entries:
        if not one.is_file(follow_symlinks=False):
            raise FileError(
                f"{source}: expected a backup, which has regular files alone, got one with {one.name!r:.80}"
            )
    for one in entries:
        with (
            os.fdopen(open_regular(Path(one.path), os.O_RDONLY), "rb") as old,
            os.fdopen(os.open(place / one.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new,
        ):
            shutil.copyfileobj(old, new, 1 << 20)


def origin_of(catalog: Catalog) -> tuple[int, str] | None:
    """If the folder is a backup: the place and hash of the receipt up to which it goes."""
    rows = catalog.rows("SELECT sequence, hash FROM origin")
    return (int(rows[0][0]), str(rows[0][1])) if rows else None


def check_chain(chain: Sequence[Receipt], keys: KeyRing, origin: tuple[int, str]) -> None:
    """Refuse a chain that is not whole, not that of the keys, or does not go on from where the backup was made."""
    report = verify_chain(chain)
    if not report:
        raise ReceiptError(f"receipts: expected the whole chain, got one that breaks: {report['signature'].detail}")
    if keys.store != chain[0]["store"] or keys.signing_id != current_key(chain):
        raise KeysError(
            f"keys: expected those of the chain (store {chain[0]['store']}, key {current_key(chain)}), got those of "
            f"store {keys.store} with key {keys.signing_id}"
        )
    sequence, hash = origin
    if sequence >= len(chain):
        raise ReceiptError(
            f"receipts: expected the chain as it is today, got one that ends with receipt {len(chain) - 1}, before the "
            f"backup was made (receipt {sequence})"
        )
    if chain[sequence].hash() != hash:
        raise ReceiptError("receipts: expected the chain of the folder that was backed up, got another")


def prepare(catalog: Catalog, chain: Sequence[Receipt], origin: tuple[int, str]) -> None:
    """Make a copied catalog that of a folder again: with the chain, and holds and blocks as the chain leaves them.

    It stays a backup, which cannot be opened, until `finish`.
    """
    with catalog.transaction():
        for receipt in chain:
            sql = "INSERT INTO receipts (sequence, receipt) VALUES (?, ?)"
            catalog.write(sql, receipt.sequence, receipt.to_json())
        for receipt in chain[origin[0] + 1 :]:
            _replay(catalog, receipt)


def finish(catalog: Catalog) -> None:
    """What was erased since the backup was made is gone: now it is a folder that can be opened."""
    catalog.write("DELETE FROM origin")


def is_half_restored(catalog: Catalog) -> bool:
    """Whether a backup was on the way to becoming a folder when its restore died: a backup has no receipts."""
    return bool(catalog.rows("SELECT 1 FROM receipts LIMIT 1"))


def _replay(catalog: Catalog, receipt: Receipt) -> None:
    fields = receipt.fields
    kind, since = receipt.kind, fields["issued_at"]
    if kind == "hold":
        what = f"{_SET_SINCE}{receipt.sequence}"
        values = (fields["hold"], fields["audit_key"], fields["subject"], what, since)
        catalog.write("INSERT INTO holds VALUES (NULL, ?, ?, ?, ?, ?)", *values)
    elif kind == "lift":
        catalog.write("DELETE FROM holds WHERE hold = ?", fields["hold"])
    elif kind == "unblock":
        sql = "DELETE FROM blocks WHERE audit_key = ? AND subject = ?"
        catalog.write(sql, fields["audit_key"], fields["subject"])
    elif kind == "block" or (receipt.erases and fields["asked"].get("block")):
        subject = fields["subject"] if kind == "block" else fields["asked"]["subject"]
        catalog.write("INSERT OR IGNORE INTO blocks VALUES (?, ?, ?)", fields["audit_key"], subject, since)


class Erased:
    """What the entries of a chain from some place on say was erased, by collection: ids and subjects as tags."""

    def __init__(self, entries: Sequence[Receipt], keys: KeyRing) -> None:
        """Look through the entries."""
        self._keys = keys
        self._ids: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))  # collection, key: tags
        self._subjects: dict[str, set[str]] = defaultdict(set)  # key: tags, of subjects who were erased everywhere
        self._here: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))  # the same by collection
        self.dropped: set[str] = set()
        for receipt in entries:
            if not receipt.erases:
                continue
            audit = receipt["audit_key"]
            if audit not in keys.audit_keys:
                raise KeysError(f"keys: expected audit key {audit}, with which receipt {receipt.sequence} was made")
            asked = receipt["asked"]
            if asked.get("everywhere"):
                self._subjects[audit].add(asked["subject"])
            for part in receipt.parts():
                if part.collection is None:
                    raise ReceiptError(
                        f"receipts: expected those of a folder, got number {receipt.sequence} of a store"
                    )
                if asked["by"] == "subject":
                    self._here[part.collection][audit].add(asked["subject"])
                if receipt.kind == "drop":
                    self.dropped.add(part.collection)
                self._ids[part.collection][audit].update(part.erased)

    def ids_in(self, collection: str, store: Store) -> list[Id]:
        """The records of a collection that were erased since."""
        ids, here = self._ids.get(collection, {}), self._here.get(collection, {})
        wanted = [
            (self._keys.audit_keys[key], ids.get(key, set()), here.get(key, set()) | self._subjects.get(key, set()))
            for key in {*ids, *here, *self._subjects}
        ]
        return [record.id for record in store if any(_is_erased(record, *tags) for tags in wanted)]


def _is_erased(record: Record, audit: AuditKey, ids: set[str], subjects: set[str]) -> bool:
    if ids and audit.tag_id(record.id) in ids:
        return True
    return bool(subjects) and record.subject is not None and audit.tag_subject(record.subject) in subjects
