"""The promise as a state machine: any history that ends in the same records leaves the same digest, backup and answers,
and no byte of what was forgotten in any file."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lethevec._forgetting.verify import verify_chain
from lethevec._store import open as open_store
from lethevec.errors import IdError, UnknownIdError

from .conftest import account, find_leftovers

pytest.importorskip("cryptography")

DIM = 6
NAMES = [f"name-of-a-person-{i:02d}" for i in range(12)]
NUMBERS = [10**15 + 7**i for i in range(12)]
POOL = [*NAMES, *NUMBERS]
SUBJECTS = ["alice@example.org", "bob@example.org", "carol@example.org"]
CODES = {"family": "usr", "bits": 24 * DIM}
METRICS = ("l2", "cosine", "ip")

some_ids = st.lists(st.sampled_from(POOL), min_size=1, max_size=8, unique=True)
subjects = st.one_of(st.none(), st.sampled_from(SUBJECTS))


class Histories(RuleBasedStateMachine):
    """A store under random operations beside a dict that says what it should hold."""

    encrypt = False
    index: dict | None = None

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.live: dict[int | str, tuple[np.ndarray, str | None, dict | None]] = {}
        self.gone_vectors: list[np.ndarray] = []
        self.gone_notes: list[str] = []
        self.counter = 0
        self.forgets = 0
        self.reader = None

    @initialize(metric=st.sampled_from(METRICS))
    def begin(self, metric):
        self.metric = metric
        self.db = open_store(self.folder / "s.lethe", DIM, metric, encrypt=self.encrypt, index=self.index)

    def teardown(self):
        if hasattr(self, "db"):
            if self.reader is not None:
                self.reader.close()
            self.db.close()
        shutil.rmtree(self.folder)

    def new_record(self, subject, size):
        """Every vector and note is used once, so that what is found can only be residue."""
        self.counter += 1
        rng = np.random.default_rng(self.counter)
        # Norms that differ, so that the gain of codes that follow them moves often.
        vector = (rng.normal(size=DIM) * 2.0 ** rng.integers(-2, 3)).astype(np.float32)
        note = f"{self.counter:06d} confidential note" + " and more of it" * size
        return vector, subject, {"note": note} if size else None

    def retire(self, id):
        vector, _, payload = self.live.pop(id)
        self.gone_vectors.append(vector)
        if payload is not None:
            self.gone_notes.append(payload["note"][:24])

    @rule(ids=some_ids, subject=subjects, size=st.sampled_from([0, 1, 5, 300]))
    def add(self, ids, subject, size):
        records = [self.new_record(subject, size) for _ in ids]
        arguments = {"ids": ids, "subjects": subject, "payloads": [r[2] for r in records]}
        if set(ids) & set(self.live):
            with pytest.raises(IdError):
                self.db.add([r[0] for r in records], **arguments)
        else:
            self.db.add([r[0] for r in records], **arguments)
            self.live.update(zip(ids, records, strict=True))

    @precondition(lambda self: self.live)
    @rule(data=st.data(), subject=subjects, size=st.sampled_from([0, 2, 200]))
    def update(self, data, subject, size):
        ids = data.draw(st.lists(st.sampled_from(sorted(self.live, key=str)), min_size=1, max_size=4, unique=True))
        records = [self.new_record(subject, size) for _ in ids]
        self.db.update(ids=ids, vectors=[r[0] for r in records], subjects=subject, payloads=[r[2] for r in records])
        for id, record in zip(ids, records, strict=True):
            self.retire(id)
            self.live[id] = record

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def forget(self, data):
        ids = data.draw(st.lists(st.sampled_from(sorted(self.live, key=str)), min_size=1, max_size=6, unique=True))
        receipt = self.db.forget(ids)
        assert receipt.records == len(ids)
        for id in ids:
            self.retire(id)
        self.check_gone(ids)

    @rule(subject=st.sampled_from(SUBJECTS))
    def forget_subject(self, subject):
        ids = [id for id, record in self.live.items() if record[1] == subject]
        if not ids:
            with pytest.raises(UnknownIdError):
                self.db.forget(subject=subject)
            return
        assert self.db.forget(subject=subject).records == len(ids)
        for id in ids:
            self.retire(id)
        self.check_gone([*ids, subject])

    def check_gone(self, names):
        """Of everything that ever left nothing is in any file; of names, those that went just now are looked for."""
        self.forgets += 1
        left = find_leftovers(self.folder, vectors=self.gone_vectors, ids=names, texts=self.gone_notes)
        assert left == []
        assert account(self.folder / "s.lethe") == {}

    @rule()
    def reopen(self):
        self.db.close()
        self.db = open_store(self.folder / "s.lethe")

    @rule()
    def rotate(self):
        self.db.rotate_keys()

    @precondition(lambda self: self.reader is None)
    @rule()
    def read_along(self):
        self.reader = open_store(self.folder / "s.lethe", read_only=True)

    @invariant()
    def equals_a_fresh_one(self):
        if not hasattr(self, "db"):
            return
        assert len(self.db) == len(self.live)
        path = self.folder / "fresh"
        path.mkdir()
        with open_store(path / "f.lethe", DIM, self.metric, index=self.index) as fresh:
            if self.live:
                ids = sorted(self.live, key=lambda id: hash(str(id)))
                records = [self.live[id] for id in ids]
                fresh.add(
                    [r[0] for r in records], ids=ids, subjects=[r[1] for r in records], payloads=[r[2] for r in records]
                )
            assert self.db.digest() == fresh.digest()
            if self.index is not None:
                assert kept_codes(self.db) == kept_codes(fresh)
            self.db.backup(path / "one")
            (self.db if self.encrypt else fresh).backup(path / "two")
            assert (path / "one").read_bytes() == (path / "two").read_bytes()
            queries = np.random.default_rng(1).normal(size=(3, DIM))
            for where in (None, {"$subject": SUBJECTS[0]}):
                expected = fresh.search(queries, k=5, where=where)
                for store in (self.db, self.reader):
                    if store is not None:
                        hits = store.search(queries, k=5, where=where)
                        assert hits.ids.tolist() == expected.ids.tolist()
                        assert hits.distances.tolist() == expected.distances.tolist()
                        assert hits.payloads.tolist() == expected.payloads.tolist()
        shutil.rmtree(path)
        chain = self.db.receipts(all_kinds=True)
        assert sum(receipt.kind == "erasure" for receipt in chain) == self.forgets
        assert verify_chain(chain)


class SealedHistories(Histories):
    """The same with sealed records, and with backups of every age: a forget must reach into all of them.

    Digest and answers are still compared with those of a fresh store in the clear.
    """

    encrypt = True

    def __init__(self) -> None:
        super().__init__()
        self.born: dict[int | str, int] = {}  # which life of an id this is: an update goes on with it, a forget ends it
        self.backups: list[tuple[Path, dict[int | str, int]]] = []

    @precondition(lambda self: len(self.backups) < 3)
    @rule()
    def keep_a_backup(self):
        path = self.folder / f"backup-{len(self.backups)}"
        self.db.backup(path)
        self.backups.append((path, dict(self.born)))

    @invariant()
    def old_backups_know_what_lives(self):
        self.born = {id: self.born.get(id) or self.counter for id in self.live}
        for path, born in self.backups:
            readable = {id for id in born if self.born.get(id) == born[id]}
            keys = self.folder / "s.lethe-keys"
            with open_store(path, read_only=True, keys=keys, drop_unreadable=True) as old:
                assert {record.id for record in old} == readable
                assert len(old) == len(readable)


class CodeHistories(Histories):
    """The same with codes that are kept, and with a gain that moves: the codes in the file must be those of a fresh
    store, row by row."""

    index = CODES


class SealedCodeHistories(SealedHistories):
    """And sealed."""

    index = CODES


def kept_codes(db):
    """What is kept of every record, by row."""
    slots = dict(db._session.connection.execute("SELECT slot, number FROM records"))
    return dict(zip(slots.values(), db._codes.of(list(slots)), strict=True))


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=20, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
TestSealedHistories = SealedHistories.TestCase
TestSealedHistories.settings = settings(TestHistories.settings, max_examples=10)
TestCodeHistories = CodeHistories.TestCase
TestCodeHistories.settings = settings(TestHistories.settings, max_examples=10)
TestSealedCodeHistories = SealedCodeHistories.TestCase
TestSealedCodeHistories.settings = settings(TestHistories.settings, max_examples=5)
