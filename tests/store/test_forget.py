"""Forgetting: nothing is left in any file, receipts hold what they say, and an erasure that cannot finish says so."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import shutil
import sqlite3

import numpy as np
import pytest

from lethevec._forgetting.receipts import Receipt
from lethevec._forgetting.residue import MemorySource, search, vector_needles
from lethevec._forgetting.verify import verify_chain, verify_receipt
from lethevec._store.ids import number_of
from lethevec.errors import (
    ErasureIncompleteError,
    FormatError,
    IdError,
    InputError,
    ParameterError,
    ReceiptError,
    UnknownIdError,
)

BOTH_LAYOUTS = True
IDS = [f"record-of-somebody-{i:04d}" for i in range(40)]
SUBJECTS = [f"subject-number-{i % 4:03d}@example.org" for i in range(40)]
PAYLOADS = [{"note": f"a private remark about number {i:04d}"} for i in range(40)]


@pytest.fixture
def filled(make, vectors):
    db = make()
    db.add(vectors, ids=IDS, subjects=SUBJECTS, payloads=PAYLOADS)
    return db


class TestErasure:
    def test_by_id(self, filled, vectors, tmp_path, leftovers, unaccounted, layout):
        sought = {"vectors": vectors[3:4], "ids": [IDS[3], number_of(IDS[3])], "texts": [PAYLOADS[3]["note"][-20:]]}
        assert bool(leftovers(tmp_path, **sought)) == (layout == "plain"), (
            "the search would find it, and what is sealed not"
        )
        receipt = filled.forget(ids=[IDS[3]])
        assert leftovers(tmp_path, **sought) == []
        assert unaccounted(filled.path) == {}
        assert receipt.records == 1
        assert IDS[3] not in filled
        assert IDS[3] not in filled.search(vectors[3], k=40).ids
        assert filled.subjects()[SUBJECTS[3]] == 9

    def test_by_subject(self, filled, vectors, tmp_path, leftovers, unaccounted):
        gone = range(1, 40, 4)
        receipt = filled.forget(subject=SUBJECTS[1])
        sought = {
            "vectors": vectors[gone],
            "ids": [IDS[i] for i in gone],
            "texts": [SUBJECTS[1], *(PAYLOADS[i]["note"][-20:] for i in gone)],
        }
        assert leftovers(tmp_path, **sought) == []
        assert unaccounted(filled.path) == {}
        assert receipt.records == 10
        assert SUBJECTS[1] not in filled.subjects()
        assert len(filled) == 30

    def test_large_int_ids_are_not_left_as_signposts_in_the_tree(self, make, tmp_path, leftovers, layout):
        """The key of a deleted row may stay inside SQLite's b-tree; so the id must not be the key."""
        rng = np.random.default_rng(3)
        ids = [int(i) for i in rng.choice(2**62, 3000)]
        db = make(dim=40)
        db.add(rng.normal(size=(3000, 40)), ids=ids)
        db.forget(ids[::2])
        assert leftovers(tmp_path, ids=ids[::2]) == []
        if layout == "plain":
            assert len(leftovers(tmp_path, ids=ids[1:100:2])) >= 50

    def test_replaced_vectors_go_with_the_record(self, filled, vectors, tmp_path, leftovers):
        for round in range(5):
            filled.update(ids=IDS[:20], vectors=vectors[:20] * np.float32(1.5 + round))
        filled.forget(IDS[:20])
        old = [vectors[i] * np.float32(1.5 + r) for i in range(20) for r in range(5)]
        assert leftovers(tmp_path, vectors=[*vectors[:20], *old], ids=IDS[:20]) == []

    def test_after_closing_and_reopening(self, filled, make, vectors, tmp_path, leftovers):
        filled.forget(IDS[:7])
        filled.close()
        assert leftovers(tmp_path, vectors=vectors[:7], ids=IDS[:7]) == []
        make()
        assert leftovers(tmp_path, vectors=vectors[:7], ids=IDS[:7]) == []

    def test_later_writes_do_not_bring_it_back(self, filled, vectors, tmp_path, leftovers):
        """A page in SQLite's cache could still have old bytes in its unused parts, and be written again."""
        for step, id in enumerate(IDS[:20]):
            filled.forget([id])
            filled.add(vectors[step] + 1000, ids=[step], payloads=[{"x": "y" * step * 20}])
            assert leftovers(tmp_path, vectors=vectors[: step + 1], ids=IDS[: step + 1]) == []

    def test_a_refused_load_leaves_nothing_in_the_log(self, make, tmp_path, leftovers):
        """Pages of a large transaction go to the log before it ends; when it is refused they must not stay."""
        data = np.random.default_rng(2).normal(size=(2000, 8)).astype(np.float32)
        db = make()
        db._session.connection.execute("PRAGMA cache_size=5")
        written = []

        def batches():
            for start in range(0, 2000, 100):
                yield {"vectors": data[start : start + 100], "ids": range(start, start + 100)}
            written.append((tmp_path / "people.lethe-wal").stat().st_size)
            yield {"vectors": data[:1], "ids": [5]}

        with pytest.raises(IdError):
            db.load(batches())
        assert written[0] > 100_000, "it did go to the log"
        assert leftovers(tmp_path, vectors=data[::50]) == []
        assert len(db) == 0

    def test_a_shared_subject_payload_or_vector_of_somebody_else_may_stay(self, make, vectors):
        db = make()
        twins = np.stack([vectors[0], vectors[0]])
        db.add(
            twins,
            ids=["the-first-twin", "the-second-twin"],
            subjects="the-family",
            payloads=[{"k": "the same text"}] * 2,
        )
        receipt = db.forget("the-first-twin", search_all=True)
        assert receipt["residue"]["found"] == 0
        assert db.get("the-second-twin")[0].subject == "the-family"

    @pytest.mark.parametrize("dim", [64, 1280])  # in leaves, and on overflow pages
    @pytest.mark.parametrize("search_all", [False, True])
    def test_vectors_of_small_whole_numbers_and_zeros(self, make, tmp_path, unaccounted, dim, search_all):
        """The end of a living vector, and the zeros of a free page after it, spell a piece of a forgotten one."""
        rng = np.random.default_rng(3)
        pairs = [(a, b) for a in range(1, 5) for b in range(1, 5)]
        blocks, gone = [], []
        for _ in range(20 if dim < 100 else 6):  # pages of living ones, and pages that will be free
            living = rng.integers(1, 5, size=(17, dim)).astype(np.float32)
            # Everything that the last two numbers of a living vector and zeros can spell.
            forgotten = np.array([[a, b, *[0] * 6] * (dim // 8) for a, b in pairs] * 3, dtype=np.float32)
            gone += range(sum(map(len, blocks)) + 17, sum(map(len, blocks)) + 17 + len(forgotten))
            blocks += [living, forgotten]
        everything = np.concatenate(blocks)
        db = make(dim=dim)
        db.add(everything, ids=range(len(everything)))
        for part in (gone[: len(gone) // 2], gone[len(gone) // 2 :]):
            receipt = db.forget(part, search_all=search_all)
            assert receipt["residue"]["patterns"] > 0
            assert unaccounted(db.path) == {}
            assert db.verify(receipt, ids=part[:5], vectors=everything[part[:16]])

    def test_words_of_the_schema_as_subject(self, make, vectors):
        db = make()
        db.add(vectors[:3], ids=[1, 2, 3], subjects=["records_subject", "lethevec-receipt", "configuration"])
        for subject in ("records_subject", "lethevec-receipt", "configuration"):
            assert db.forget(subject=subject, search_all=True).records == 1

    def test_search_all_searches_every_byte(self, filled):
        some, every = filled.forget(IDS[0]), filled.forget(IDS[1], search_all=True)
        assert "people.lethe" not in some["residue"]["searched"]
        assert every["residue"]["searched"]["people.lethe"] == filled.path.stat().st_size
        assert every["residue"]["patterns"] > 5

    def test_many_records_are_sampled(self, make):
        db = make()
        data = np.random.default_rng(1).normal(size=(1200, 8))
        db.add(data, ids=range(1200), subjects="everybody")
        receipt = db.forget(subject="everybody")
        assert receipt.records == 1200 == len(receipt["erased"])
        assert receipt["residue"]["records"] == 100  # every twelfth
        assert len(db) == 0


class TestRefused:
    def test_arguments(self, filled):
        with pytest.raises(ParameterError, match="got neither"):
            filled.forget()
        with pytest.raises(ParameterError, match="got both"):
            filled.forget([IDS[0]], subject=SUBJECTS[0])
        with pytest.raises(InputError):
            filled.forget([IDS[0], IDS[0]])
        with pytest.raises(UnknownIdError, match="which has none"):
            filled.forget(subject="nobody")
        with pytest.raises(UnknownIdError, match="1 are not"):
            filled.forget([IDS[0], "nobody"])
        assert len(filled) == 40
        assert filled.receipts() == []

    def test_unknown_ones_may_be_ignored(self, filled):
        receipt = filled.forget([IDS[0], "nobody"], ignore_unknown=True)
        assert receipt.records == 1
        assert len(receipt["asked"]["missing"]) == 1
        empty = filled.forget(subject="nobody", ignore_unknown=True)
        assert empty.records == 0
        assert filled.verify(empty)


class TestIncomplete:
    @pytest.fixture
    def reader(self, filled):
        connection = sqlite3.connect(filled.path, isolation_level=None)
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM store").fetchone()
        yield connection
        connection.close()

    def test_a_snapshot_in_the_way(self, filled, reader, vectors, tmp_path, leftovers, layout):
        with pytest.raises(ErasureIncompleteError, match=r"a reader holds a snapshot.*no receipt was issued") as caught:
            filled.forget(IDS[3], timeout=0.1)
        assert caught.value.pending == 1
        assert filled.pending_erasures() == 1
        assert IDS[3] not in filled
        assert IDS[3] not in filled.search(vectors[3], k=40).ids
        assert filled.receipts() == []
        if layout == "plain":
            assert leftovers(tmp_path, vectors=vectors[3:4]), "the bytes are still there, as the error says"
        table = "sealed" if layout == "sealed" else "vectors"
        assert reader.execute(f"SELECT count(*) FROM {table}").fetchone() == (40,)
        with pytest.raises(ErasureIncompleteError):
            filled.forget(IDS[4], timeout=0.1)
        with pytest.raises(ErasureIncompleteError) as caught:
            filled.complete_erasures(timeout=0.1)
        assert caught.value.pending == 2
        reader.execute("ROLLBACK")
        first, second = filled.complete_erasures()
        assert (first.records, second.records) == (1, 1)
        assert first["residue"]["records"] == 1
        assert leftovers(tmp_path, vectors=vectors[3:5], ids=IDS[3:5]) == []
        assert verify_chain(filled.receipts(all_kinds=True))

    @pytest.mark.parametrize("operation", ["search", "add", "update", "forget", "close"])
    def test_completes_at_the_next_opportunity(self, filled, reader, make, vectors, tmp_path, leftovers, operation):
        with pytest.raises(ErasureIncompleteError):
            filled.forget(IDS[3], timeout=0.0)
        reader.execute("ROLLBACK")
        {
            "search": lambda: filled.search(vectors[0]),
            "add": lambda: filled.add(vectors[0], ids=["new"]),
            "update": lambda: filled.update(ids=IDS[9], subjects="new"),
            "forget": lambda: filled.forget(IDS[4]),
            "close": lambda: filled.close(),
        }[operation]()
        assert leftovers(tmp_path, vectors=vectors[3:4], ids=IDS[3:4]) == []
        db = make() if operation == "close" else filled
        assert db.pending_erasures() == 0
        assert db.receipts()[0].records == 1

    def test_completes_at_the_next_open(self, filled, reader, make, vectors, tmp_path, leftovers, unaccounted):
        with pytest.raises(ErasureIncompleteError):
            filled.forget(IDS[3], timeout=0.0)
        filled.close()
        reader.execute("ROLLBACK")
        db = make()
        assert db.pending_erasures() == 0
        (receipt,) = db.receipts()
        assert receipt.records == 1
        assert receipt["residue"]["records"] == 0  # its bytes are no longer known to anybody
        assert receipt["residue"]["pages"] == db.path.stat().st_size // db._session.page_size
        assert leftovers(tmp_path, vectors=vectors[3:4], ids=IDS[3:4]) == []
        assert unaccounted(db.path) == {}
        assert db.verify(receipt, vectors=vectors[3], ids=[IDS[3]])

    def test_open_with_a_reader_still_in_the_way(self, filled, reader, make):
        with pytest.raises(ErasureIncompleteError):
            filled.forget(IDS[3], timeout=0.0)
        filled.close()
        db = make()
        assert db.pending_erasures() == 1
        assert IDS[3] not in db
        reader.execute("ROLLBACK")
        assert len(db.complete_erasures()) == 1

    def test_a_trace_that_is_found_stops_the_receipt(self, filled, vectors):
        """Should SQLite ever leave something where we do not look, the search says so, and no receipt is made."""
        planted = filled.path.with_name(filled.path.name + "-journal")
        planted.write_bytes(b"??" + vectors[3].tobytes())
        with pytest.raises(
            ErasureIncompleteError, match=r"expected no trace.*vector float32 LE in people.lethe-journal"
        ):
            filled.forget(IDS[3])
        assert filled.receipts() == []
        assert filled.pending_erasures() == 1
        planted.unlink()
        (receipt,) = filled.complete_erasures()
        assert receipt["residue"]["records"] == 1


class TestReceipts:
    def test_offline(self, filled):
        receipt = filled.forget(IDS[0])
        assert verify_receipt(Receipt.from_json(receipt.to_json()), [filled.public_key()])
        chain = [Receipt.from_json(r.to_json()) for r in filled.receipts(all_kinds=True)]
        assert verify_chain(chain, key=filled.public_key())

    def test_live(self, filled, vectors):
        receipt = filled.forget(IDS[:3])
        assert filled.verify(receipt)["trusted key"].passed is None
        report = filled.verify(receipt.to_json(), ids=IDS[:3], vectors=vectors[:3], key=filled.public_key())
        assert report, str(report)
        assert {check.name for check in report.checks} == {
            "signature", "chain", "key file", "trusted key", "digest", "absent", "digest after", "unused bytes",
            "about", "residue",
        }  # fmt: skip
        assert all(check.passed for check in report.checks)
        filled.add(vectors[0] + 1, ids=["somebody else"])
        report = filled.verify(receipt)
        assert report
        assert report["digest after"].passed is None
        assert "written to 1 times since" in report["digest after"].detail

    def test_live_from_a_reader_without_keys(self, filled, make, tmp_path, layout):
        receipt = filled.forget(IDS[:3])
        filled.close()
        key = make(read_only=True).public_key()
        assert all(c.passed for c in make(read_only=True).verify(receipt, ids=IDS[:3], key=key).checks)
        (tmp_path / "people.lethe-keys").rename(tmp_path / "elsewhere")
        if layout == "sealed":
            shutil.copy(tmp_path / "people.lethe-keys-vault", tmp_path / "elsewhere-vault")
        report = make(read_only=True).verify(receipt, ids=IDS[:3])
        assert report
        assert report["audit key"].passed is None
        assert report["key file"].passed is None
        assert "nothing but the chain itself vouches" in report["trusted key"].detail
        assert "absent" not in report
        apart = make(read_only=True, keys=tmp_path / "elsewhere")
        assert all(c.passed for c in apart.verify(receipt, key=key, anchor=apart.anchor()).checks)

    def test_what_came_back_is_noticed(self, filled, vectors):
        by_id, by_subject = filled.forget(IDS[1]), filled.forget(subject=SUBJECTS[0])
        filled.add(vectors[1], ids=IDS[1])
        filled.add(vectors[0], ids="another", subjects=SUBJECTS[0])
        assert filled.verify(by_id)["absent"].passed is False
        assert filled.verify(by_subject)["absent"].passed is False
        assert filled.verify(by_id, vectors=vectors[1])["residue"].passed is True, "a living record has it: not residue"

    def test_about_something_else(self, filled):
        receipt = filled.forget(subject=SUBJECTS[0])
        assert filled.verify(receipt, subject=SUBJECTS[0])["about"].passed
        assert filled.verify(receipt, subject=SUBJECTS[1])["about"].passed is False
        assert filled.verify(receipt, ids=[IDS[0]])["about"].passed
        assert filled.verify(receipt, ids=[IDS[0], IDS[1]])["about"].passed is False

    def test_tampering_with_the_store_is_noticed(self, filled, make, vectors, layout):
        receipt = filled.forget(IDS[0])
        filled.close()
        connection = sqlite3.connect(filled.path)
        if layout == "plain":
            connection.execute("UPDATE vectors SET vector = ? WHERE slot = 9", (vectors[0].tobytes(),))
        else:  # sealed records cannot be forged; one can be put in the place of another
            (another,) = connection.execute("SELECT record FROM sealed WHERE slot = 8").fetchone()
            connection.execute("UPDATE sealed SET record = ? WHERE slot = 9", (another,))
        connection.commit()
        connection.close()
        if layout == "sealed":
            with pytest.raises(FormatError, match="expected each id once"):
                make()
            return
        report = make().verify(receipt)
        assert {check.name for check in report.failed} == {"digest", "digest after"}

    def test_tampering_with_the_receipts_is_noticed(self, filled, make):
        receipt, other = filled.forget(IDS[0]), filled.forget(IDS[1])
        filled.close()
        connection = sqlite3.connect(filled.path)
        altered = json.loads(receipt.to_json())
        altered["records"] = 0
        text = Receipt(altered).to_json()
        connection.execute("UPDATE receipts SET receipt = ? WHERE sequence = 1", (text,))
        connection.commit()
        connection.close()
        db = make()
        assert db.verify(receipt)["signature"].passed
        assert db.verify(receipt)["chain"].passed is False
        assert db.verify(other)["chain"].passed is False
        assert not db.verify(text)

    def test_leftovers_in_unused_bytes_are_noticed(self, filled, make):
        receipt = filled.forget(IDS[0])
        filled.close()
        data = bytearray(filled.path.read_bytes())
        data[4096 + 300 : 4096 + 310] = b"left-over!"  # page 2 is the table `store`: one row of 2.5 kB at its end
        filled.path.write_bytes(data)
        assert make().verify(receipt)["unused bytes"].passed is False

    def test_a_foreign_receipt(self, filled, make, vectors):
        other = make("other.lethe")
        other.add(vectors[:2], ids=[1, 2])
        report = filled.verify(other.forget(1))
        assert not report
        assert report["signature"].passed is None
        assert report["chain"].passed is False
        with pytest.raises(ReceiptError):
            filled.verify("{}")

    def test_genesis_and_rotation_verify_too(self, filled):
        filled.rotate_keys()
        for receipt in filled.receipts(all_kinds=True):
            assert filled.verify(receipt)

    def test_nothing_in_it_lets_one_recover_a_vector_or_without_the_key_an_id(self, filled, vectors, tmp_path):
        """Every text in the receipts, decoded in every way, has no piece of a vector; and no unkeyed hash of an id."""
        import hashlib

        filled.forget(IDS[0])
        filled.forget(subject=SUBJECTS[1])
        texts = [receipt.to_json() for receipt in filled.receipts(all_kinds=True)]
        leaves = [leaf for text in texts for leaf in _leaves(json.loads(text))]
        decoded = [leaf.encode() for leaf in leaves]
        for leaf, decode in itertools.product(leaves, (bytes.fromhex, base64.b64decode)):
            with contextlib.suppress(ValueError):
                decoded.append(decode(leaf))
        needles = [needle for vector in vectors for needle in vector_needles(vector)]
        assert search([MemorySource(str(i), data) for i, data in enumerate(decoded)], needles).clean
        everything = "".join(texts)
        for word in [*IDS, *SUBJECTS, *(p["note"] for p in PAYLOADS)]:
            assert word not in everything
            for encoded, algorithm in itertools.product(
                (word.encode(), b"s" + word.encode()), ("md5", "sha1", "sha256", "sha512", "blake2b", "blake2s")
            ):
                digest = hashlib.new(algorithm, encoded).hexdigest()
                assert digest[:32] not in everything
            for person in (b"", b"lethevec-id", b"lethevec-subject"):
                for data in (word.encode(), b"s" + word.encode()):
                    assert hashlib.blake2b(data, digest_size=16, person=person).hexdigest() not in everything

    def test_a_digest_in_a_receipt_cannot_be_used_to_test_guesses(self, filled, make, vectors):
        """Who knows all other records and guesses this one could compare digests, were they not keyed."""
        before = filled.digest()
        receipt = filled.forget(IDS[0])
        assert before not in receipt.to_json()
        assert before[:32] not in receipt.to_json()
        twin = make("twin.lethe")
        twin.add(vectors, ids=IDS, subjects=SUBJECTS, payloads=PAYLOADS)
        assert twin.digest() == before
        assert twin.forget(IDS[0])["digest"] != receipt["digest"]


def _leaves(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield str(value)
