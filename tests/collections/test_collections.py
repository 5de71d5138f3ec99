"""A folder of collections: making, opening, dropping, renaming, and what is refused."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lethevec
from lethevec._collections.names import check_name
from lethevec.errors import (
    FileError,
    FormatError,
    KeysError,
    LethevecError,
    ParameterError,
    StoreLockedError,
    UnknownIdError,
    UnsupportedError,
)

from .conftest import DIM, PEOPLE, ids_of


class TestMaking:
    def test_made_and_opened_again(self, filled, connect, vectors):
        assert filled.collections() == ["notes", "photos", "voices"]
        assert "photos" in filled
        assert "Photos" not in filled
        assert filled.collection("photos") is filled.collection("photos", dim=DIM, metric="l2")
        before = filled.digest()
        filled.close()
        db = connect()
        assert list(db) == ["notes", "photos", "voices"]
        photos = db.collection("photos")
        assert len(photos) == 40
        assert photos.search(vectors[3], k=1)[0][0].id == ids_of("photos", 40)[3]
        assert db.collection("voices").encrypted
        assert db.digest() == before
        assert "3 collections" in repr(db)

    def test_the_digest_depends_on_names_and_records_alone(self, connect, tmp_path, vectors):
        with lethevec.connect(tmp_path / "other") as other, connect() as db:
            for name in ("b", "a"):
                other.collection(name, dim=DIM).add(vectors[:4], ids=range(4))
            db.collection("a", dim=DIM).add(vectors[:5], ids=range(5))
            db.collection("x", dim=DIM).add(vectors[2:4], ids=[2, 3])
            db.collection("x").add(vectors[:2], ids=[0, 1])
            db.collection("gone", dim=3)
            assert db.digest() != other.digest()
            db.rename("x", "b")
            db.collection("a").forget(4)
            db.drop("gone")
            assert db.digest() == other.digest()
            db.rename("b", "c")
            assert db.digest() != other.digest()

    def test_another_shape_is_refused(self, filled):
        with pytest.raises(ParameterError, match="expected dim=8"):
            filled.collection("photos", dim=3)
        with pytest.raises(ParameterError, match="expected metric='l2'"):
            filled.collection("photos", metric="cosine")
        with pytest.raises(ParameterError, match="expected encrypt=False"):
            filled.collection("photos", encrypt=True)
        with pytest.raises(UnknownIdError, match=r"expected one of the collections \(notes, photos, voices\).*dim="):
            filled.collection("films")

    def test_a_collection_that_cannot_be_made_leaves_nothing(self, filled, folder):
        before = sorted(os.listdir(folder))
        with pytest.raises(ParameterError):
            filled.collection("films", dim=-1)
        assert "films" not in filled
        assert sorted(os.listdir(folder)) == before
        filled.collection("films", dim=3)

    def test_a_closed_collection_is_opened_again(self, filled, vectors):
        photos = filled.collection("photos")
        photos.close()
        with pytest.raises(FileError, match="closed"):
            photos.add(vectors[:1], ids=["x"])
        assert len(filled.collection("photos")) == 40

    def test_threads_make_one_collection(self, connect):
        db = connect()
        made = []
        threads = [threading.Thread(target=lambda: made.append(db.collection("photos", dim=3))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 8
        assert len(set(map(id, made))) == 1

    def test_readers(self, filled, connect, vectors):
        reader = connect(read_only=True)
        assert reader.collections() == ["notes", "photos", "voices"]
        photos = reader.collection("photos")
        assert len(photos) == 40
        filled.collection("photos").forget(ids_of("photos", 40)[:2])
        assert len(photos) == 38
        assert reader.receipts() == filled.receipts()
        assert reader.pending_erasures() == 0
        filled.rename("photos", "pictures")
        assert reader.collections() == ["notes", "pictures", "voices"]
        filled.drop("pictures")
        assert len(photos) == 0
        for call in (
            lambda: reader.forget(subject=PEOPLE[0]),
            lambda: reader.drop("notes"),
            lambda: reader.rename("notes", "n"),
            lambda: reader.rotate_keys(),
            lambda: reader.complete_erasures(),
        ):
            with pytest.raises(UnsupportedError, match="read_only=True"):
                call()
        with pytest.raises(UnknownIdError):
            reader.collection("films", dim=3)

    def test_closed(self, filled):
        filled.close()
        filled.close()
        assert "closed" in repr(filled)
        for call in (filled.collections, filled.receipts, lambda: filled.collection("photos"), filled.digest):
            with pytest.raises(FileError, match="closed"):
                call()


class TestNames:
    @pytest.mark.parametrize("name", ["a", "A-b_c", "0", "_x", "Fotos-für-später", "写真", "фото2026", "x" * 255])
    def test_good(self, name):
        assert check_name(name) == name

    @pytest.mark.parametrize(
        "name",
        ["", ".", "..", "a.b", "a/b", "../x", "a\\b", "a b", "-x", "x" * 256, "a\0", "a\n", "e\u0301", "\u0301", "😀"],
    )
    def test_bad(self, name, connect):
        db = connect()
        with pytest.raises(ParameterError, match=r"^name: expected"):
            db.collection(name, dim=3)
        with pytest.raises(ParameterError, match=r"^name: expected"):
            db.drop(name)
        assert db.collections() == []

    @pytest.mark.parametrize("name", [None, 7, b"photos", ["photos"], object()])
    def test_not_a_name(self, name, connect):
        with pytest.raises(ParameterError, match="as a string"):
            connect().collection(name, dim=3)
        assert name not in connect_nothing(connect)

    @given(st.text(max_size=300))
    def test_any_text(self, name):
        try:
            assert check_name(name) == name
        except ParameterError:
            return
        assert not set("./\\ \0") & set(name)


def connect_nothing(connect):
    """The folder that is open already, through a reader."""
    return connect(read_only=True)


class TestRename:
    def test_rename(self, filled, connect, folder):
        receipt = filled.rename("photos", "pictures-of-everybody")
        assert receipt.kind == "rename"
        assert filled.collections() == ["notes", "pictures-of-everybody", "voices"]
        assert len(filled.collection("pictures-of-everybody")) == 40
        with pytest.raises(UnknownIdError):
            filled.collection("photos")
        filled.rename("pictures-of-everybody", "photos")
        filled.close()
        content = b"".join(path.read_bytes() for path in folder.iterdir())
        assert b"pictures-of-everybody" not in content, "a name that is no longer used is in no file"
        assert b"photos" in content
        assert connect().collections() == ["notes", "photos", "voices"]

    def test_refused(self, filled):
        with pytest.raises(ParameterError, match="expected a name that is free"):
            filled.rename("photos", "notes")
        with pytest.raises(ParameterError, match="free"):
            filled.rename("photos", "photos")
        with pytest.raises(UnknownIdError):
            filled.rename("films", "movies")
        with pytest.raises(ParameterError, match=r"^new: expected"):
            filled.rename("photos", "a/b")


class TestDrop:
    def test_drop(self, filled, connect, folder, vectors, residue):
        photos = filled.collection("photos")
        receipt = filled.drop("photos")
        assert (receipt.kind, receipt.records) == ("drop", 40)
        assert filled.collections() == ["notes", "voices"]
        assert len(list(folder.glob("c-*.lethe"))) == 2
        with pytest.raises(FileError, match="closed"):
            len(photos)
        assert lethevec.verify(receipt, key=filled.public_key())
        filled.collection("photos", dim=3)
        filled.close()
        db = connect()
        assert len(db.collection("photos")) == 0
        content = b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
        for i in range(40):
            assert vectors[i].tobytes() not in content
            assert f"payload {i} of photos".encode() not in content

    def test_drop_a_sealed_one(self, filled, folder):
        assert len(list(folder.glob("*-vault"))) == 1
        assert filled.drop("voices").records == 40
        assert list(folder.glob("*-vault")) == []

    def test_unknown(self, filled):
        with pytest.raises(UnknownIdError):
            filled.drop("films")


class TestBadFolders:
    def test_a_folder_that_holds_something_else(self, folder):
        folder.mkdir()
        (folder / "letters.txt").write_text("dear")
        for options in ({}, {"read_only": True}):
            with pytest.raises(FileError, match=r"holds 'letters.txt'|without a catalog"):
                lethevec.connect(folder, **options)
        assert os.listdir(folder) == ["letters.txt"]

    def test_a_file(self, tmp_path):
        path = tmp_path / "people.lethe"
        lethevec.open(path, dim=3).close()
        for options in ({}, {"read_only": True}):
            with pytest.raises(FileError, match=r"lethevec\.open opens a single store"):
                lethevec.connect(path, **options)

    def test_nothing_to_read_and_nowhere_to_make(self, tmp_path):
        with pytest.raises(FileError, match="got nothing there"):
            lethevec.connect(tmp_path / "none", read_only=True)
        with pytest.raises(FileError, match="expected a folder that can be made"):
            lethevec.connect(tmp_path / "a" / "b")

    def test_a_catalog_of_another_program(self, folder):
        folder.mkdir()
        connection = sqlite3.connect(folder / "lethevec.catalog")
        connection.execute("CREATE TABLE t (x)")
        connection.close()
        with pytest.raises(FormatError, match="another SQLite database"):
            lethevec.connect(folder)
        (folder / "lethevec.catalog").write_bytes(b"x" * 5000)
        with pytest.raises(FormatError):
            lethevec.connect(folder)

    def test_an_empty_folder_and_one_whose_making_died(self, folder):
        folder.mkdir()
        (folder / "lethevec.catalog-new").write_bytes(b"half")
        lethevec.connect(folder).close()
        assert not (folder / "lethevec.catalog-new").exists()

    def test_a_collection_is_not_a_store_of_its_own(self, filled, folder):
        filled.close()
        for path in folder.glob("c-*.lethe"):
            with pytest.raises(FileError, match=r"lethevec\.connect"):
                lethevec.open(path)

    def test_a_lost_file_is_named(self, filled, connect, folder):
        path = filled.collection("photos").path
        filled.close()
        for file in folder.glob(path.name + "*"):
            file.unlink()
        db = connect()
        with pytest.raises(FileError, match="expected the file of collection 'photos'"):
            db.collection("photos")
        assert len(db.collection("notes")) == 40

    def test_lost_and_foreign_keys(self, filled, folder, tmp_path):
        filled.close()
        keys = folder / "lethevec.catalog-keys"
        kept = keys.read_bytes()
        keys.unlink()
        with pytest.raises(KeysError, match="got nothing there"):
            lethevec.connect(folder)
        lethevec.connect(tmp_path / "other").close()
        keys.write_bytes((tmp_path / "other" / "lethevec.catalog-keys").read_bytes())
        with pytest.raises(KeysError, match="expected the keys of store"):
            lethevec.connect(folder)
        keys.write_bytes(kept)
        apart = tmp_path / "apart"
        keys.rename(apart)
        for vault in folder.glob("*-vault"):
            vault.rename(tmp_path / vault.name.replace("lethevec.catalog-keys", "apart"))
        with lethevec.connect(folder, keys=apart) as db:
            assert len(db.collection("voices")) == 40

    @pytest.mark.parametrize("folder", [None, 7, b"x", []])
    def test_other_types(self, folder):
        with pytest.raises(LethevecError):
            lethevec.connect(folder)

    @pytest.mark.parametrize(
        "options", [{"timeout": "x"}, {"timeout": float("nan")}, {"read_only": 1}, {"timeout": -1}]
    )
    def test_other_options(self, options, folder):
        with pytest.raises(ParameterError):
            lethevec.connect(folder, **options)
        assert not folder.exists()


def _try_to_connect(folder: Path, answers) -> None:
    try:
        lethevec.connect(folder).close()
        answers.put("opened")
    except StoreLockedError as error:
        answers.put(str(error))


def test_a_second_writer_is_refused(filled, folder):
    """Two processes cannot make one collection: the second does not get as far."""
    with pytest.raises(StoreLockedError, match="expected to be the only writer"):
        lethevec.connect(folder)
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=_try_to_connect, args=(folder, answers))
    process.start()
    assert "expected to be the only writer" in answers.get(timeout=60)
    process.join()
    filled.close()
    lethevec.connect(folder).close()


def test_rotation_is_the_folders(filled, connect):
    first = filled.public_key()
    filled.rotate_keys("a test")
    assert filled.public_key() != first
    with pytest.raises(UnsupportedError, match="whose keys these are"):
        filled.collection("photos").rotate_keys()
    receipt = filled.forget(subject=PEOPLE[0])
    assert lethevec.verify(receipt, key=filled.public_key())
    assert lethevec.verify_chain(filled.receipts(all_kinds=True), key=first)
    filled.close()
    assert connect().receipts()[-1] == receipt


def test_a_search_in_the_middle_of_many_calls(filled, vectors):
    """Collections are stores: the verbs are the same."""
    photos = filled.collection("photos")
    photos.update(vectors[:1] + 9, ids=ids_of("photos", 1))
    assert photos.search(vectors[0] + 9, k=1)[0][0].id == ids_of("photos", 1)[0]
    assert np.allclose(photos.get(ids_of("photos", 1))[0].vector, vectors[0] + 9)
    assert set(photos.subjects()) == set(PEOPLE)
    assert filled.subjects() == {PEOPLE[0]: 42, PEOPLE[1]: 39, PEOPLE[2]: 39}
