"""Sealed stores: nothing in the clear in any file, and a forget that reaches copies made before it."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3

import numpy as np
import pytest

from lethevec._forgetting.residue import MemorySource, Needle, search
from lethevec._store import open as open_store
from lethevec._store.checkpoint import Checkpointer
from lethevec._store.ids import number_of
from lethevec._store.ledger import StoreLedger
from lethevec._store.sealing import key_number, seal, unseal
from lethevec._store.vault import Vault
from lethevec.errors import (
    ErasureIncompleteError,
    FileError,
    FormatError,
    IdError,
    KeysError,
    ParameterError,
    StoreLockedError,
)

from .conftest import read_through

IDS = [f"record-of-somebody-{i:04d}" for i in range(40)]
SUBJECTS = [f"subject-number-{i % 4:03d}@example.org" for i in range(40)]
PAYLOADS = [{"note": f"a private remark about number {i:04d}"} for i in range(40)]


@pytest.fixture
def layout():
    return "sealed"


@pytest.fixture
def filled(make, vectors):
    db = make()
    db.add(vectors, ids=IDS, subjects=SUBJECTS, payloads=PAYLOADS)
    return db


@pytest.fixture
def keys(tmp_path):
    return tmp_path / "people.lethe-keys"


def living_keys(keys):
    """The keys in the vault that are not destroyed, by number."""
    vault = Vault(keys.with_name(keys.name + "-vault"), writable=False)
    found = dict(enumerate(vault.get(range(vault.next))))
    vault.close()
    return {number: key for number, key in found.items() if key is not None}


def rows_of(path):
    """What a database holds of records and of the digest, as it lies there."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    sealed = [vector for (vector,) in connection.execute("SELECT record FROM sealed ORDER BY slot")]
    (state,) = connection.execute("SELECT digest FROM store").fetchone()
    connection.close()
    return sealed, state


def copy_files(db, folder):
    """What a file-level copy of the store's folder would have, without the vault."""
    folder.mkdir()
    for path in db._session.files.searchable():
        (folder / path.name).write_bytes(read_through(path))
    return folder / db.path.name


class TestAtRest:
    def test_nothing_is_in_the_clear(self, filled, vectors, tmp_path, leftovers):
        filled.add(vectors[:3] + 1, ids=[2**61 + 12345, 2**60 + 54321, 10**15 + 7])
        filled.backup(tmp_path / "backup")
        sought = [*IDS, *(number_of(id) for id in IDS), 2**61 + 12345, 2**60 + 54321, 10**15 + 7]
        texts = [*SUBJECTS, *(payload["note"] for payload in PAYLOADS)]
        for _ in range(2):
            assert leftovers(tmp_path, vectors=[*vectors, *(vectors[:3] + 1)], ids=sought, texts=texts) == []
            filled.close()

    def test_a_plain_store_would_be_found_out(self, make, vectors, tmp_path, leftovers):
        db = make(encrypt=False)
        db.add(vectors, ids=IDS, subjects=SUBJECTS)
        assert not db.encrypted
        assert leftovers(tmp_path, vectors=vectors[:1])
        assert leftovers(tmp_path, ids=[number_of(IDS[0])])

    def test_it_is_said_and_kept(self, filled, make):
        assert filled.encrypted
        assert make(read_only=True).encrypted
        with pytest.raises(ParameterError, match="expected encrypt=True, as the store was created, got False"):
            make(read_only=True, encrypt=False)
        make("plain", encrypt=False).close()
        with pytest.raises(ParameterError, match="expected encrypt=False"):
            make("plain", encrypt=True)
        with pytest.raises(ParameterError, match="encrypt: expected True, False or None, got 1"):
            make("other", encrypt=1)

    def test_the_digest_is_that_of_a_plain_store(self, filled, make, vectors):
        plain = make("plain", encrypt=False)
        plain.add(vectors, ids=IDS, subjects=SUBJECTS, payloads=PAYLOADS)
        assert filled.digest() == plain.digest()
        for db in (filled, plain):
            db.forget(subject=SUBJECTS[2])
        assert filled.digest() == plain.digest()

    def test_each_record_has_a_key_of_its_own(self, filled, keys):
        sealed, state = rows_of(filled.path)
        numbers = [key_number(one) for one in [*sealed, state]]
        assert len(set(numbers)) == 41
        living = living_keys(keys)
        assert set(living) == set(numbers)
        assert len(set(living.values())) == 41
        for one in sealed:
            for number in numbers[:5]:
                if number != key_number(one):
                    with pytest.raises(FormatError, match="expected what was sealed"):
                        unseal(one, living[number])

    def test_a_changed_record_is_refused(self, filled, make):
        filled.close()
        connection = sqlite3.connect(filled.path)
        (sealed,) = connection.execute("SELECT record FROM sealed WHERE slot = 7").fetchone()
        changed = sealed[:30] + bytes([sealed[30] ^ 1]) + sealed[31:]
        connection.execute("UPDATE sealed SET record = ? WHERE slot = 7", (changed,))
        connection.commit()
        connection.close()
        with pytest.raises(FormatError, match="expected what was sealed with it, got other bytes: damaged"):
            make()

    @pytest.mark.parametrize("value", [b"", b"short", b"\xff" * 100, "text", 7])
    def test_other_things_in_place_of_records(self, filled, make, value):
        filled.close()
        connection = sqlite3.connect(filled.path)
        connection.execute("UPDATE sealed SET record = ? WHERE slot = 7", (value,))
        connection.commit()
        connection.close()
        with pytest.raises(FormatError, match="damaged"):
            make(read_only=True)


class TestCopies:
    """Backups and copies of the files, from before a forget, opened with the vault from after it."""

    @pytest.fixture(params=["backup", "files"])
    def old(self, filled, tmp_path, request):
        if request.param == "files":
            return copy_files(filled, tmp_path / "copy")
        filled.backup(tmp_path / "old.lethe")
        return tmp_path / "old.lethe"

    def test_what_is_forgotten_later_cannot_be_read(self, filled, old, keys, tmp_path, vectors, leftovers):
        sealed, state = rows_of(old)
        filled.forget(IDS[5])
        filled.forget(subject=SUBJECTS[1])
        gone = {5, *range(1, 40, 4)}
        with pytest.raises(KeysError, match=r"got none for 10 of 40: they were forgotten after this copy was made"):
            open_store(old, read_only=True, keys=keys)
        with open_store(old, read_only=True, keys=keys, drop_unreadable=True) as db:
            assert {record.id for record in db} == {IDS[i] for i in range(40) if i not in gone}
            assert len(db) == 30
            assert db.digest() == filled.digest()
            assert IDS[5] not in db.search(vectors[5], k=40).ids
            assert db.subjects() == filled.subjects()
        # And not by other means: whatever key is left opens none of them.
        left = living_keys(keys)
        closed = [one for one in sealed if key_number(one) not in left]
        assert len(closed) == 10
        # Nor can the old digest be used to test guesses.
        for one in [*closed, *([state] if state else [])]:
            for key in left.values():
                with pytest.raises(FormatError):
                    unseal(one, key)
        assert leftovers(old.parent, vectors=vectors[sorted(gone)]) == []

    def test_every_earlier_version_goes_with_the_record(self, filled, old, keys, tmp_path, vectors):
        filled.update(ids=IDS[5], vectors=-vectors[5], payloads=[{"note": "new"}])
        filled.backup(tmp_path / "newer.lethe")
        for path, vector in ((old, vectors[5]), (tmp_path / "newer.lethe", -vectors[5])):
            with open_store(path, read_only=True, keys=keys) as db:
                assert np.array_equal(db.get(IDS[5])[0].vector, vector), "an update must not spoil older backups"
        filled.forget(IDS[5])
        for path in (old, tmp_path / "newer.lethe"):
            with open_store(path, read_only=True, keys=keys, drop_unreadable=True) as db:
                assert IDS[5] not in db
                assert len(db) == 39

    def test_added_again_is_another_record(self, filled, old, keys, vectors):
        filled.forget(IDS[5])
        filled.add(vectors[5], ids=IDS[5])
        with open_store(old, read_only=True, keys=keys, drop_unreadable=True) as db:
            assert IDS[5] not in db

    def test_a_restored_one_becomes_the_store(self, filled, old, keys, make, vectors):
        filled.forget(IDS[:10])
        digest = filled.digest()
        filled.close()
        filled.path.unlink()
        with pytest.raises(KeysError, match="got none for 10 of 40"):
            open_store(old, keys=keys)
        with open_store(old, keys=keys, drop_unreadable=True) as db:
            assert db.digest() == digest
            db.add(vectors[0], ids="new")
            receipt = db.forget(IDS[11])
            assert db.verify(receipt, vectors=vectors[11], ids=[IDS[11]])
        with open_store(old, keys=keys) as db:
            assert len(db) == 30
        assert len(living_keys(keys)) == 31

    def test_without_the_vault(self, filled, old, tmp_path):
        with pytest.raises(KeysError, match="expected the vault with the keys of the records, got nothing there"):
            open_store(old, read_only=True)
        with pytest.raises(KeysError, match="got nothing there"):
            open_store(old)

    def test_not_for_writing_beside_the_store(self, filled, old, keys):
        with pytest.raises(StoreLockedError, match="expected to be the only writer with this vault"):
            open_store(old, keys=keys)
        with open_store(old, read_only=True, keys=keys) as db:
            assert len(db) == 40

    def test_the_same_bytes_for_the_same_records(self, filled, tmp_path, vectors, make):
        filled.backup(tmp_path / "a")
        make(read_only=True).backup(tmp_path / "b")
        filled.add(vectors[0], ids="in between")
        filled.forget("in between")
        filled.backup(tmp_path / "c")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()
        sealed, state = rows_of(tmp_path / "a")
        assert state == b"", "a digest would tell something about records that are forgotten later"
        assert [key_number(one) for one in sealed] == sorted(key_number(one) for one in sealed)


class TestForgetting:
    def test_the_key_and_the_sealed_record_are_in_no_file(self, filled, keys, tmp_path):
        sealed, state = rows_of(filled.path)
        before = living_keys(keys)
        receipt = filled.forget(IDS[7])
        after = living_keys(keys)
        gone = set(before) - set(after)
        assert gone == {key_number(sealed[7]), key_number(state)}
        needles = [Needle("key", before[number]) for number in gone]
        needles += [Needle("sealed", sealed[7]), Needle("state", state)]
        sources = [MemorySource(path.name, read_through(path)) for path in tmp_path.iterdir() if path.is_file()]
        assert search(sources, needles).findings == []
        assert search(sources, [Needle("another", before[key_number(sealed[8])])]).findings, "it would be found"
        assert "people.lethe-keys-vault" in receipt["residue"]["searched"]

    @pytest.mark.parametrize(
        ("owner", "name"),
        [(Vault, "destroy"), (Checkpointer, "run"), (StoreLedger, "sign")],
        ids=["key", "row", "receipt"],
    )
    @pytest.mark.parametrize("later", ["next call", "next open"])
    def test_what_cannot_complete_completes_later(self, filled, make, keys, monkeypatch, owner, name, later):
        def fail(*arguments, **named):
            raise FileError("out of order")

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            with pytest.raises(ErasureIncompleteError, match="out of order"):
                filled.forget(IDS[7])
            assert filled.receipts() == []
            assert IDS[7] not in filled
            if later == "next open":  # as a crash would leave it
                with contextlib.suppress(FileError):
                    filled.close()
        if later == "next open":
            db = make()
        else:
            db = filled
            db.complete_erasures()
        assert db.pending_erasures() == 0
        assert db.receipts()[0].records == 1
        assert len(living_keys(keys)) == 40
        connection = db._session.connection
        assert connection.execute("SELECT count(*) FROM shredding").fetchone() == (0,)

    def test_a_refused_add_leaves_no_key(self, filled, keys, vectors, tmp_path):
        before = living_keys(keys)
        with pytest.raises(IdError):
            filled.load([{"vectors": vectors[:5], "ids": range(5)}, {"vectors": vectors[5:7], "ids": [5, IDS[0]]}])
        assert living_keys(keys) == before
        assert len(filled) == 40
        filled.add(vectors[:5], ids=range(5))
        assert len(living_keys(keys)) == 46

    def test_a_trace_of_the_key_stops_the_receipt(self, filled, keys, vectors, tmp_path):
        sealed, _ = rows_of(filled.path)
        (tmp_path / "people.lethe-journal").write_bytes(b"....." + living_keys(keys)[key_number(sealed[3])])
        with pytest.raises(ErasureIncompleteError, match=r"record key in people.lethe-journal"):
            filled.forget(IDS[3])
        assert filled.receipts() == []


class TestVault:
    def test_kept_apart(self, make, vectors, tmp_path):
        (tmp_path / "safe").mkdir()
        db = make(keys=tmp_path / "safe" / "k")
        db.add(vectors, ids=range(40))
        assert sorted(path.name for path in (tmp_path / "safe").iterdir()) == ["k", "k-vault"]
        assert (tmp_path / "safe" / "k-vault").stat().st_mode & 0o777 == 0o600
        assert db.verify(db.forget(3))
        db.close()
        assert len(make(keys=tmp_path / "safe" / "k")) == 39

    def test_an_older_one_loses_nothing(self, filled, make, keys, vectors):
        """Somebody puts an old copy of the vault back: refused, and once the right one is there nothing is missing."""
        vault = keys.with_name(keys.name + "-vault")
        filled.close()
        shutil.copy(vault, vault.with_name("stale"))
        db = make()
        db.add(vectors[:5], ids=range(5))
        db.close()
        shutil.move(vault, vault.with_name("right"))
        shutil.copy(vault.with_name("stale"), vault)
        for read_only in (True, False):
            with pytest.raises(KeysError, match=r"got none for 5 of 45.*or the vault is older than the store"):
                make(read_only=read_only)
        shutil.move(vault.with_name("right"), vault)
        assert len(make()) == 45

    def test_of_another_store(self, filled, make, keys, tmp_path):
        other = make("other")
        other.close()
        filled.close()
        shutil.copy(tmp_path / "other-keys-vault", tmp_path / "people.lethe-keys-vault")
        with pytest.raises(KeysError, match=r"expected vault [0-9a-f]{32}, with which the store was made, got"):
            make()

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda data: b"", "expected a vault, got something else"),
            (lambda data: data[:40], "expected a vault, got something else"),
            (lambda data: b"X" + data[1:], "expected a vault, got something else"),
            (lambda data: data[:8] + b"\7" + data[9:], "expected a vault of version 1, got 7; a newer lethevec"),
            (lambda data: data[: 64 + 32 * 20], "got none for 22 of 40"),
            (lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:], "expected what was sealed"),
        ],
    )
    def test_damaged(self, filled, make, keys, damage, message):
        vault = keys.with_name(keys.name + "-vault")
        filled.close()
        vault.write_bytes(damage(vault.read_bytes()))
        for read_only in (True, False):
            with pytest.raises(FileError, match=message):
                make(read_only=read_only)

    def test_one_with_keys_is_not_taken_for_a_new_store(self, filled, make, keys):
        filled.close()
        filled.path.unlink()
        with pytest.raises(KeysError, match="expected no vault, or an empty one, for a new store, got one with 40"):
            make()
        assert len(living_keys(keys)) == 41

    def test_an_empty_one_is_taken(self, make, tmp_path):
        """A creation that died between the vault and the database."""
        id = Vault.create(tmp_path / "people.lethe-keys-vault")
        assert make()._session.tables.vault.id == id

    def test_a_key_that_a_crash_cut_short(self, tmp_path):
        path = tmp_path / "v"
        Vault.create(path)
        vault = Vault(path, writable=True)
        assert vault.put(3) == range(2, 5)
        vault.close()
        with path.open("ab") as file:
            file.write(b"half")
        vault = Vault(path, writable=True)
        assert vault.put(2) == range(6, 8)
        assert [key is None for key in vault.get(range(10))] == [True] * 2 + [False] * 6 + [True] * 2
        vault.close()

    def test_destroying(self, tmp_path):
        path = tmp_path / "v"
        Vault.create(path)
        vault = Vault(path, writable=True)
        vault.put(4998)
        head, before = path.read_bytes()[:64], vault.get(range(5000))
        assert vault.destroy([-1, -2, 7, 8, 9, 4000, 5000, 10**9]) == 4
        assert path.read_bytes()[:64] == head
        assert path.stat().st_size == 64 + 32 * 5000
        after = vault.get(range(5000))
        assert [i for i in range(5000) if after[i] != before[i]] == [7, 8, 9, 4000]
        assert vault.get([4999, 7, 0]) == [before[4999], None, before[0]]
        assert vault.destroy([]) == 0
        vault.close()
        vault.close()

    def test_a_state_has_one_key_at_a_time(self, filled, make, keys, vectors):
        seen = set()
        for id in IDS[:4]:
            filled.forget(id)
            seen.add(key_number(rows_of(filled.path)[1]))
            assert sum(number < 2 for number in living_keys(keys)) == 1
        assert seen == {0, 1}
        filled.close()
        vault = keys.with_name(keys.name + "-vault")
        data = bytearray(vault.read_bytes())
        data[64:128] = bytes(64)
        vault.write_bytes(data)
        for read_only in (True, False):  # without it the digest is counted again
            with make(read_only=read_only) as db:
                digest = db.digest()
        assert sum(number < 2 for number in living_keys(keys)) == 1
        plain = make("plain", encrypt=False)
        plain.add(vectors[4:], ids=IDS[4:], subjects=SUBJECTS[4:], payloads=PAYLOADS[4:])
        assert digest == plain.digest()

    def test_sealing(self):
        one, two = seal(7, b"k" * 32, b"content"), seal(7, b"k" * 32, b"content")
        assert one != two, "a nonce is never used twice"
        assert unseal(one, b"k" * 32) == b"content"
        moved = (8).to_bytes(8, "big") + one[8:]
        with pytest.raises(FormatError):
            unseal(moved, b"k" * 32)
