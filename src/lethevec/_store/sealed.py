"""Records sealed at rest, each under a key of its own in the vault: a record without its key is not there.

The table `sealed` holds the sealed record (id, vector, subject and payload together), and nothing else in the database
tells of it. `records` is a table in memory, filled at open with what filters and lookups need: it never reaches a file
(`temp_store=MEMORY`).

A forget deletes the row and writes the number of its key into `shredding`, in one transaction; then the key is
overwritten in the vault; then, with the receipt, the number leaves `shredding`. A crash between two steps is taken up
where it was. The keys of new records are in the vault, and synced, before the records are committed; a crash in between
leaves a key that opens nothing.

The digest's state is sealed as well, under a key that every forget replaces: in an old copy it would let one who has
the other records test guesses about the one that is gone. Where the state cannot be read, it is counted again from the
records.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .._forgetting.multiset import MultisetHash
from .._forgetting.records import decode_record
from .._forgetting.residue import Needle, Source
from ..errors import FileError, FormatError, KeysError
from .batch import Stored
from .ids import number_of
from .image import has_image
from .lookup import in_parts, marks
from .records_table import create_records, record_indexes
from .sealing import CODE, IMAGE, OVERHEAD, is_sealed, key_number, seal, unseal
from .tables import BUCKET, KEPT, LARGEST, Read, note_removals, require_ascending
from .vault import STATES, Vault, VaultBlocks

__all__ = ["SealedTables"]

_FROM = "FROM temp.records AS r JOIN main.sealed AS v ON v.slot = r.slot"


class SealedTables:
    """The tables of a sealed store and its vault; closes the vault."""

    sealed = True
    main_table = "main.sealed"
    living: tuple[tuple[str, str, str], ...] = (("main.sealed", "slot", "record"), *KEPT)

    def __init__(self, connection: sqlite3.Connection, path: Path, vault: Vault, vault_id: str) -> None:
        """With the vault of this id. The table in memory is empty until `read_new` has read the records."""
        if vault_id != vault.id:
            raise KeysError(f"{vault.path}: expected vault {vault_id}, with which the store was made, got {vault.id}")
        self.connection = connection
        self.path = path
        self.vault = vault
        self.has_image = has_image(connection)
        self._unreadable: list[int] = []
        connection.execute(create_records(temporary=True))

    def insert(self, records: Sequence[Stored]) -> None:
        """Seal records into their slots: under new keys, or under those that replaced records had."""
        new = iter(self.vault.put(sum(record.key is None for record in records)))
        keys = [next(new) if record.key is None else record.key for record in records]
        sealed = [
            (record.slot, seal(key, self._known(secret), record.encoding()))
            for record, key, secret in zip(records, keys, self.vault.get(keys), strict=True)
        ]
        self.connection.executemany("INSERT INTO main.sealed (slot, record) VALUES (?, ?)", sealed)
        self._remember(records)

    def delete(self, slots: Sequence[int], version: int) -> None:
        """Delete the records of these slots, and note for readers in which buckets they were."""
        note_removals(self.connection, slots, version)
        self.drop_image()
        for table in ("temp.records", "main.sealed"):
            self.connection.executemany(f"DELETE FROM {table} WHERE slot = ?", ((slot,) for slot in slots))

    def read_new(self, after: int, limit: int) -> Read | None:
        """Open up to `limit` records above a slot, and put what filters need into the table in memory."""
        sql = "SELECT slot, record FROM main.sealed WHERE slot > ? ORDER BY slot LIMIT ?"
        found = self.connection.execute(sql, (after, limit)).fetchall()
        if not found:
            return None
        require_ascending([slot for slot, _ in found], after + 1)
        records = self._stored(found)
        read = {record.slot for record in records}
        for slot, sealed in found:
            if slot not in read:
                self._unreadable.append(slot)
                # The vault may be older than the store: a number that is taken must not be given to another key.
                self.vault.next = max(self.vault.next, key_number(sealed) + 1)
        self._remember(records)
        return Read(
            found[-1][0], [r.slot for r in records], [r.number for r in records], [r.vector or b"" for r in records]
        )

    def newer(self, slot: int) -> bool:
        """Whether there is a record above this slot."""
        sql = "SELECT 1 FROM main.sealed WHERE slot > ? LIMIT 1"
        return self.connection.execute(sql, (slot,)).fetchone() is not None

    def read_slots(self, slots: Sequence[int]) -> Iterator[Stored]:
        """The records of these slots, by ascending slot within each part."""
        for part in in_parts(sorted(slots)):
            sql = f"SELECT slot, record FROM main.sealed WHERE slot IN ({marks(part)}) ORDER BY slot"
            yield from self._stored(self.connection.execute(sql, part).fetchall())

    def read_from(self, number: int, limit: int) -> list[Stored]:
        """Up to `limit` records with numbers from this one on, by ascending number."""
        if number > LARGEST:  # one more than that of the last record
            return []
        sql = f"SELECT v.slot, v.record {_FROM} WHERE r.number >= ? ORDER BY r.number LIMIT ?"
        found = self._stored(self.connection.execute(sql, (number, limit)).fetchall())
        require_ascending([record.number for record in found], number)
        return found

    def slots_in(self, bucket: int) -> list[int]:
        """The slots of a bucket that have a record, ascending."""
        sql = "SELECT slot FROM main.sealed WHERE slot >= ? AND slot < ? ORDER BY slot"
        return [slot for (slot,) in self.connection.execute(sql, (bucket * BUCKET, (bucket + 1) * BUCKET))]

    def drop(self, slots: Sequence[int]) -> None:
        """Take records that are gone out of the table in memory."""
        self.connection.executemany("DELETE FROM temp.records WHERE slot = ?", ((slot,) for slot in slots))

    def loaded(self) -> None:
        """Make the indexes, if they are not there yet."""
        for statement in record_indexes("temp"):
            self.connection.execute(statement)

    def lost(self) -> list[int]:
        """Those of the unreadable slots that are still there: others were forgotten while we read."""
        self._unreadable = [
            slot
            for part in in_parts(self._unreadable)
            for (slot,) in self.connection.execute(f"SELECT slot FROM main.sealed WHERE slot IN ({marks(part)})", part)
        ]
        return list(self._unreadable)

    def keep_digest(self, digest: MultisetHash, *, renew: bool) -> bytes:
        """The state, sealed; with `renew` under a new key, and the old one is noted for destruction."""
        (kept,) = self.connection.execute("SELECT digest FROM store WHERE one = 1").fetchone()
        number = key_number(kept) % STATES if kept else 0
        key = self.vault.get([number])[0]
        if key is None or renew or self.read_digest(kept) is None:
            # The other place. An erasure that waits may have it down for destruction, which writing over it is.
            self._note([number])
            number = (number + 1) % STATES
            self.connection.execute("DELETE FROM shredding WHERE number = ?", (number,))
            key = self.vault.renew(number)
        return seal(number, key, digest.to_bytes())

    def read_digest(self, kept: bytes) -> bytes | None:
        """The state; None in a backup, which has none, and in an old copy, whose key is gone."""
        if not kept:
            return None
        key = self.vault.get([key_number(kept)])[0]
        if key is None:
            return None
        try:
            return unseal(kept, key)
        except FormatError:
            return None  # sealed with an earlier key of that place

    def shred(self, records: Sequence[Stored]) -> None:
        """Note the keys of these records for destruction."""
        self._note([record.key for record in records if record.key is not None])

    def destroy_keys(self) -> None:
        """Overwrite every noted key in the vault, and see that it is gone."""
        self.vault.destroy(self._noted())

    def unlist_keys(self) -> None:
        """The noted keys are destroyed: empty the list."""
        self.connection.execute("DELETE FROM shredding")

    def mark(self) -> int:
        """Which keys are older than the transaction."""
        return self.vault.next

    def before_commit(self) -> None:
        """No record is committed before its key is on the disk."""
        self.vault.sync()

    def undo(self, mark: Any) -> None:
        """Destroy the keys of records that did not come to be."""
        self.vault.destroy(range(mark, self.vault.next))

    def wrap(self, slots: Sequence[int], codes: Sequence[bytes]) -> list[bytes]:
        """Seal each code under the key of its record."""
        numbers: dict[int, int] = {}
        for part in in_parts(slots):
            sql = f"SELECT slot, substr(record, 1, {OVERHEAD}) FROM main.sealed WHERE slot IN ({marks(part)})"
            numbers.update((slot, key_number(head)) for slot, head in self.connection.execute(sql, part))
        wanted = [numbers[slot] for slot in slots]
        keys = self.vault.get(wanted)
        return [
            seal(number, self._known(key), code, CODE) for number, key, code in zip(wanted, keys, codes, strict=True)
        ]

    def unwrap(self, found: Sequence[tuple[int, bytes]]) -> dict[int, bytes]:
        """Open the codes; those that cannot be opened are left out."""
        whole = [(slot, sealed) for slot, sealed in found if is_sealed(sealed)]
        keys = self.vault.get([key_number(sealed) for _, sealed in whole])
        codes: dict[int, bytes] = {}
        for (slot, sealed), key in zip(whole, keys, strict=True):
            with suppress(FormatError):
                if key is not None:
                    codes[slot] = unseal(sealed, key, CODE)
        return codes

    def wrap_image(self, image: bytes) -> bytes:
        """Seal it under a key of its own."""
        (number,) = self.vault.put(1)
        return seal(number, self._known(self.vault.get([number])[0]), image, IMAGE)

    def unwrap_image(self, kept: bytes) -> bytes | None:
        """Open it; None where its key is gone, or it is not what was sealed."""
        key = self.vault.get([key_number(kept)])[0] if is_sealed(kept) else None
        if key is None:
            return None
        try:
            return unseal(kept, key, IMAGE)
        except FormatError:
            return None

    def drop_image(self) -> None:
        """Delete it, and note its key for destruction: that reaches copies of the file as well."""
        if not self.has_image:
            return
        sql = f"SELECT substr(data, 1, {OVERHEAD}) FROM main.image WHERE part = 0"
        heads = [head for (head,) in self.connection.execute(sql) if type(head) is bytes and is_sealed(head)]
        self._note([key_number(head) for head in heads])
        self.connection.execute("DELETE FROM main.image")

    def traces(self, record: Stored) -> list[Needle]:
        """The sealed record and its key."""
        assert record.key is not None
        assert record.sealed is not None
        secret = self.vault.get([record.key])[0]
        return [Needle("sealed record", record.sealed), *([] if secret is None else [Needle("record key", secret)])]

    def files(self) -> list[Path]:
        """The vault."""
        return [self.vault.path]

    def rewritten(self) -> list[Source]:
        """The blocks of the vault in which keys were destroyed: the file is too long to be read at every forget."""
        return [VaultBlocks(self.vault, self._noted())]

    def copy_to(self, target: sqlite3.Connection, part: int) -> Iterator[int]:
        """Copy the sealed records as they are, by ascending number of their keys, part by part; how many each time."""
        # A sealed record begins with the number, big-endian.
        sql = "SELECT slot FROM main.sealed ORDER BY substr(record, 1, 8)"
        slots = [slot for (slot,) in self.connection.execute(sql)]
        for start in range(0, len(slots), part):
            wanted = slots[start : start + part]
            found: dict[int, bytes] = {}
            for some in in_parts(wanted):
                found.update(
                    self.connection.execute(f"SELECT slot, record FROM main.sealed WHERE slot IN ({marks(some)})", some)
                )
            if len(found) < len(wanted):
                raise FormatError(
                    f"{self.path}: expected every record by its slot, got some that are not there: damaged"
                )
            target.executemany(
                "INSERT INTO main.sealed (slot, record) VALUES (?, ?)",
                ((start + place + 1, found[slot]) for place, slot in enumerate(wanted)),
            )
            yield len(wanted)

    def close(self) -> None:
        """Close the vault."""
        self.vault.close()

    def _known(self, key: bytes | None) -> bytes:
        if key is None:
            raise FileError(f"{self.vault.path}: expected a key that was just written or read, got none")
        return key

    def _noted(self) -> list[int]:
        return [number for (number,) in self.connection.execute("SELECT number FROM shredding")]

    def _note(self, numbers: Sequence[int]) -> None:
        self.connection.executemany("REPLACE INTO shredding VALUES (?)", ((number,) for number in numbers))

    def _remember(self, records: Sequence[Stored]) -> None:
        # A replaced record may still be there under its old slot: the new one takes its place.
        self.connection.executemany(
            "REPLACE INTO temp.records (slot, number, name, subject, payload, expires) VALUES (?, ?, ?, ?, ?, ?)",
            (record.columns() for record in records),
        )

    def _stored(self, found: list[Any]) -> list[Stored]:
        """Open sealed records; those whose keys are gone are left out."""
        if any(type(slot) is not int or type(sealed) is not bytes for slot, sealed in found):
            raise FormatError("records: expected integers and bytes in their columns, got others: damaged")
        keys = [key_number(sealed) for _, sealed in found]
        records = []
        for (slot, sealed), key, secret in zip(found, keys, self.vault.get(keys), strict=True):
            if secret is not None:
                id, vector, subject, payload, expires = decode_record(unseal(sealed, secret))
                name = id if isinstance(id, str) else None
                records.append(Stored(slot, number_of(id), name, subject, payload, vector, key, sealed, expires))
        return records
