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

from lethevec import Pivots, Preview
from lethevec._filters import matches, parse
from lethevec._forgetting.verify import verify_chain
from lethevec._native import core
from lethevec._store import image
from lethevec._store import open as open_store
from lethevec.errors import ErasureIncompleteError, IdError, UnknownIdError

from .conftest import account, find_leftovers

pytest.importorskip("cryptography")

DIM = 6
NAMES = [f"name-of-a-person-{i:02d}" for i in range(12)]
NUMBERS = [10**15 + 7**i for i in range(12)]
POOL = [*NAMES, *NUMBERS]
SUBJECTS = ["alice@example.org", "bob@example.org", "carol@example.org"]
CODES = {"family": "usr", "bits": 24 * DIM}
CELLS = {"source": Pivots(cell_size=3, key=bytes(range(16)))}
METRICS = ("l2", "cosine", "ip")

some_ids = st.lists(st.sampled_from(POOL), min_size=1, max_size=8, unique=True)
few_ids = st.lists(st.sampled_from(POOL), min_size=1, max_size=4, unique=True)
subjects = st.one_of(st.none(), st.sampled_from(SUBJECTS))
sizes = st.sampled_from([0, 1, 5, 300])
FILTERS = [
    {"year": 3},
    {"year": {"$gte": 1, "$lt": 4}, "$subject": SUBJECTS[0]},
    {"$or": [{"$subject": SUBJECTS[1]}, {"year": {"$in": [0, 4]}}]},
    {"year": {"$exists": False}},
    {"note": {"$text": "note and"}},
    {"$or": [{"note": {"$exists": False}}, {"note": {"$regex": "^0000[0-9][13579]"}}]},
    {"$not": {"$id": {"$in": POOL[8:16]}}},
    {"note": {"$gte": "000004"}, "$subject": {"$ne": SUBJECTS[1]}},
    {"tags": {"$contains": "red"}},
    {"tags": {"$any": ["blue", "green"]}, "year": {"$gte": 2}},
    {"tags": {"$all": ["red", "blue"]}},
    {"day": {"$gte": "2024-02-10", "$lt": "2024-03-01T12:00Z"}},
]
TAGS = [[], ["red"], ["blue", "red"], ["green", "blue", "red"], ["green"], "red"]
steps = st.tuples(
    st.sampled_from(["add", "upsert", "update", "forget", "forget where"]), few_ids, subjects, sizes, st.integers(0, 11)
)

Fields = tuple[np.ndarray | None, str | None, dict | None]


class StoppedError(Exception):
    """Ends a transaction that is to leave nothing."""


def in_order(ids):
    """The order of ids: integers by value, then strings by code point."""
    ids = list(ids)
    return sorted(id for id in ids if isinstance(id, int)) + sorted(id for id in ids if isinstance(id, str))


class Histories(RuleBasedStateMachine):
    """A store under random operations beside a dict that says what it should hold."""

    encrypt = False
    index: dict | None = None
    filters: bool | list[str] = True  # the fields that are kept in memory

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.live: dict[int | str, Fields] = {}
        self.born: dict[int | str, int] = {}  # which life of an id this is: an update goes on with it, a forget ends it
        self.gone_vectors: list[np.ndarray] = []
        self.gone_notes: list[str] = []
        self.counter = 0
        self.forgets = 0
        self.reader = None

    @initialize(metric=st.sampled_from(METRICS))
    def begin(self, metric):
        self.metric = metric
        self.db = open_store(
            self.folder / "s.lethe", DIM, metric, encrypt=self.encrypt, index=self.index, filters=self.filters
        )

    def teardown(self):
        if hasattr(self, "db"):
            if self.reader is not None:
                self.reader.close()
            self.db.close()
        shutil.rmtree(self.folder)

    def new_record(self, subject, size) -> Fields:
        """Every vector and note is used once, so that what is found can only be residue. One in five has no vector."""
        self.counter += 1
        rng = np.random.default_rng(self.counter)
        # Norms that differ, so that the gain of codes that follow them moves often.
        vector = (rng.normal(size=DIM) * 2.0 ** rng.integers(-2, 3)).astype(np.float32)
        note = f"{self.counter:06d} confidential note" + " and more of it" * size
        fields = {"year": self.counter % 5, "tags": TAGS[self.counter % 6], "day": f"2024-0{1 + self.counter % 3}-10"}
        payload = {"note": note, **fields} if size else None
        return None if self.counter % 5 == 4 else vector, subject, payload

    def leave(self, fields: Fields) -> None:
        """These were in the store, or nearly, and are so no longer."""
        vector, _, payload = fields
        if vector is not None:
            self.gone_vectors.append(vector)
        if payload is not None and "note" in payload:
            self.gone_notes.append(payload["note"][:24])

    def put(self, id, fields: Fields) -> None:
        if id in self.live:
            self.leave(self.live[id])
        self.born.setdefault(id, self.counter)
        self.live[id] = fields

    def take(self, ids) -> None:
        for id in ids:
            self.leave(self.live.pop(id))
            del self.born[id]

    def passing(self, where) -> list:
        node = parse(where)
        return in_order(id for id, (_, subject, payload) in self.live.items() if matches(node, id, subject, payload))

    def arguments(self, ids, records) -> dict:
        vectors = [vector for vector, _, _ in records]
        everything = {"ids": ids, "subjects": [r[1] for r in records], "payloads": [r[2] for r in records]}
        return {"vectors": None if all(vector is None for vector in vectors) else vectors, **everything}

    # --- What is done, alone or in a transaction ---------------------------------------------------------------------

    def do_add(self, ids, subject, size):
        records = [self.new_record(subject, size) for _ in ids]
        if set(ids) & set(self.live):
            with pytest.raises(IdError):
                self.db.add(**self.arguments(ids, records))
            for record in records:
                self.leave(record)
            return
        self.db.add(**self.arguments(ids, records))
        for id, record in zip(ids, records, strict=True):
            self.put(id, record)

    def do_upsert(self, ids, subject, size):
        records = [self.new_record(subject, size) for _ in ids]
        self.db.upsert(**self.arguments(ids, records))
        for id, record in zip(ids, records, strict=True):
            self.put(id, record)

    def do_update(self, ids, subject, size, way):
        ids = [id for id in ids if id in self.live] or in_order(self.live)[:2]
        records = [self.new_record(subject, size) for _ in ids]
        if way == 0:
            self.db.update(**self.arguments(ids, records))
        elif way == 1:  # payloads merged, the rest stays
            extra = [{"year": self.counter, "more": 1}] * len(ids)
            self.db.update(ids=ids, payloads=extra, merge=True)
            olds = [self.live[id] for id in ids]
            records = [(old[0], old[1], {**(old[2] or {}), **extra[0]}) for old in olds]
        elif way == 2:
            self.db.update([r[0] for r in records], ids)
            records = [(record[0], *self.live[id][1:]) for id, record in zip(ids, records, strict=True)]
        else:
            self.db.update(None, ids, payloads=None)
            records = [(None, self.live[id][1], None) for id in ids]
        for id, record in zip(ids, records, strict=True):
            old = self.live[id]
            if old[0] is not record[0] and old[0] is not None:
                self.gone_vectors.append(old[0])
            if old[2] is not None and "note" in old[2] and (record[2] or {}).get("note") != old[2]["note"]:
                self.gone_notes.append(old[2]["note"][:24])
            self.live[id] = record

    def do_forget(self, ids):
        expected = in_order(ids)
        assert self.db.forget(ids, dry_run=True) == Preview(len(ids), expected, [])
        receipt = self.db.forget(ids)
        self.take(ids)
        self.forgets += 1
        return receipt, len(ids), expected

    def do_forget_where(self, where):
        ids = self.passing(where)
        assert self.db.forget(where=where, dry_run=True).ids == ids
        receipt = self.db.forget(where=where)
        self.take(ids)
        self.forgets += 1
        return receipt, len(ids), ids

    # --- Rules -------------------------------------------------------------------------------------------------------

    @rule(ids=some_ids, subject=subjects, size=sizes)
    def add(self, ids, subject, size):
        self.do_add(ids, subject, size)

    @rule(ids=some_ids, subject=subjects, size=sizes)
    def upsert(self, ids, subject, size):
        self.do_upsert(ids, subject, size)

    @precondition(lambda self: self.live)
    @rule(ids=few_ids, subject=subjects, size=sizes, way=st.integers(0, 3))
    def update(self, ids, subject, size, way):
        self.do_update(ids, subject, size, way)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def forget(self, data):
        ids = data.draw(st.lists(st.sampled_from(in_order(self.live)), min_size=1, max_size=6, unique=True))
        receipt, count, ids = self.do_forget(ids)
        assert receipt.records == count
        self.check_gone(ids)

    @rule(where=st.sampled_from(FILTERS))
    def forget_where(self, where):
        receipt, count, ids = self.do_forget_where(where)
        assert (receipt.records, receipt["asked"]["by"]) == (count, "where")
        self.check_gone(ids)

    @rule(subject=st.sampled_from(SUBJECTS))
    def forget_subject(self, subject):
        ids = [id for id, record in self.live.items() if record[1] == subject]
        if not ids:
            with pytest.raises(UnknownIdError):
                self.db.forget(subject=subject)
            return
        assert self.db.forget(subject=subject).records == len(ids)
        self.take(ids)
        self.forgets += 1
        self.check_gone([*ids, subject])

    @rule(steps=st.lists(steps, min_size=1, max_size=4), commit=st.booleans())
    def transaction(self, steps, commit):
        before = dict(self.live), dict(self.born), self.forgets
        started = set(self.live)
        receipts, names = [], []
        gone = len(self.gone_vectors), len(self.gone_notes)
        try:
            with self.db.transaction():
                for kind, ids, subject, size, way in steps:
                    if kind == "add":
                        self.do_add(ids, subject, size)
                    elif kind == "upsert":
                        self.do_upsert(ids, subject, size)
                    elif kind == "update" and self.live:
                        self.do_update(ids, subject, size, way % 4)
                    elif kind == "forget" and set(ids) & set(self.live):
                        receipts.append(self.do_forget([id for id in ids if id in self.live]))
                    elif kind == "forget where":
                        receipts.append(self.do_forget_where(FILTERS[way]))
                    assert len(self.db) == len(self.live)
                    assert self.db.ids() == in_order(self.live)
                    vectors = [r[0] for r in self.live.values() if r[0] is not None]
                    assert len(self.db.search(np.ones(DIM), k=30)[0]) == len(vectors)
                if not commit:
                    raise StoppedError
        except StoppedError:
            new = [fields for id, fields in self.live.items() if before[0].get(id) is not fields]
            self.live, self.born, self.forgets = before
            # What lives again is not gone; what was new in the transaction is, and may be nowhere.
            del self.gone_vectors[gone[0] :], self.gone_notes[gone[1] :]
            kept = {id(fields[0]) for fields in self.live.values()}
            self.gone_vectors += [f[0] for f in new if f[0] is not None and id(f[0]) not in kept]
            for receipt, *_ in receipts:
                with pytest.raises(ErasureIncompleteError):
                    receipt.to_json()
            assert find_leftovers(self.folder, vectors=self.gone_vectors[gone[0] :]) == []
            return
        for receipt, count, ids in receipts:
            assert receipt.records == count
            assert receipt in self.db.receipts()
            names += [id for id in ids if id not in self.live and id in started]
        if receipts:
            self.check_gone(names)

    def check_gone(self, names):
        """Of everything that ever left nothing is in any file; of names, those that went just now are looked for."""
        left = find_leftovers(self.folder, vectors=self.gone_vectors, ids=names, texts=self.gone_notes)
        assert left == []
        assert account(self.folder / "s.lethe") == {}

    @rule()
    def reopen(self):
        self.db.close()
        self.db = open_store(self.folder / "s.lethe", filters=self.filters)

    @rule(where=st.sampled_from([None, *FILTERS]))
    def export_and_load(self, where):
        """What is exported and read back is the records that pass, to the last bit."""
        wanted = in_order(self.live) if where is None else self.passing(where)
        path = self.folder / "export"
        path.mkdir()
        assert self.db.export(path / "out.jsonl", where=where) == len(wanted)
        with (
            open_store(path / "loaded.lethe", DIM, self.metric, index=self.index) as loaded,
            open_store(path / "fresh.lethe", DIM, self.metric, index=self.index) as fresh,
        ):
            if wanted:
                loaded.load(path / "out.jsonl")
                fresh.add(**self.arguments(wanted, [self.live[id] for id in wanted]))
            assert loaded.digest() == fresh.digest()
        shutil.rmtree(path)

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
                fresh.add(**self.arguments(ids, [self.live[id] for id in ids]))
            assert self.db.digest() == fresh.digest()
            if self.index is not None:
                assert kept_codes(self.db) == kept_codes(fresh)
            self.db.backup(path / "one")
            (self.db if self.encrypt else fresh).backup(path / "two")
            assert (path / "one").read_bytes() == (path / "two").read_bytes()
            queries = np.random.default_rng(1).normal(size=(3, DIM))
            for where in (None, {"$subject": SUBJECTS[0]}, FILTERS[self.counter % len(FILTERS)]):
                expected = fresh.search(queries, k=5, where=where)
                wanted = in_order(self.live) if where is None else self.passing(where)
                for store in (self.db, self.reader):
                    if store is not None:
                        assert store.ids(where) == wanted
                        assert store.count(where) == len(wanted)
                        self.check_pages(store, where, wanted)
                        hits = store.search(queries, k=5, where=where)
                        assert hits.ids.tolist() == expected.ids.tolist()
                        assert hits.distances.tolist() == expected.distances.tolist()
                        assert hits.payloads.tolist() == expected.payloads.tolist()
                        radius = float(np.nextafter(np.float32(expected.distances[0, 0]), np.float32(np.inf)))
                        radius = radius if np.isfinite(radius) else 1.0
                        near = store.search_radius(queries, radius, where=where)
                        within = fresh.search_radius(queries, radius, where=where)
                        assert near.ids.tolist() == within.ids.tolist()
                        assert near.distances.tolist() == within.distances.tolist()
                        listed = {id for id in near.ids.ravel().tolist() if id != -1}
                        assert listed <= set(wanted)
                        assert expected.ids[0, 0] == -1 or expected.ids[0, 0] in listed
            for store in (self.db, self.reader):
                if store is not None:
                    memory = core.testing.raw_memory(store._mirror.index._native)
                    assert not [note for note in self.gone_notes if note.encode() in memory]
        shutil.rmtree(path)
        chain = self.db.receipts(all_kinds=True)
        assert sum(receipt.kind == "erasure" for receipt in chain) == self.forgets
        assert verify_chain(chain)

    def check_pages(self, store, where, wanted):
        """Page by page, every record is as it should be."""
        found = []
        while page := store.get(where=where, limit=3, after=found[-1].id if found else None):
            found += page
        assert [record.id for record in found] == wanted
        for record in found:
            vector, subject, payload = self.live[record.id]
            assert (record.subject, record.payload) == (subject, payload)
            assert (record.vector is None) == (vector is None)
            assert vector is None or np.array_equal(record.vector, vector)


class SealedHistories(Histories):
    """The same with sealed records, and with backups of every age: a forget must reach into all of them.

    Digest and answers are still compared with those of a fresh store in the clear.
    """

    encrypt = True

    def __init__(self) -> None:
        super().__init__()
        self.backups: list[tuple[Path, dict[int | str, int]]] = []

    @precondition(lambda self: len(self.backups) < 3)
    @rule()
    def keep_a_backup(self):
        path = self.folder / f"backup-{len(self.backups)}"
        self.db.backup(path)
        self.backups.append((path, dict(self.born)))

    @invariant()
    def old_backups_know_what_lives(self):
        for path, born in self.backups:
            readable = {id for id in born if self.born.get(id) == born[id]}
            keys = self.folder / "s.lethe-keys"
            with open_store(path, read_only=True, keys=keys, drop_unreadable=True) as old:
                assert {record.id for record in old} == readable
                assert len(old) == len(readable)


class FewFieldsHistories(Histories):
    """The same with one field in memory: filters on the others look at the records."""

    filters: bool | list[str] = ["year"]  # noqa: RUF012


class CodeHistories(Histories):
    """The same with codes that are kept, and with a gain that moves: the codes in the file must be those of a fresh
    store, row by row."""

    index = CODES


class SealedCodeHistories(SealedHistories):
    """And sealed."""

    index = CODES


class ImageHistories(Histories):
    """The same with images of cells, which are written whenever the store is closed, and between: none may be believed
    that is not of the records, and none may outlive one of them."""

    index = CELLS

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(image, "WORTH_FROM", 1)

    def teardown(self):
        super().teardown()
        self.patch.undo()

    @rule()
    def write(self):
        self.db.write_image()

    @invariant()
    def the_image_is_of_the_records(self):
        if hasattr(self, "db"):
            kept = self.db._image.read()
            assert kept is None or kept.records <= len(self.db._mirror.index)


def kept_codes(db):
    """What is kept of every record, by row."""
    slots = dict(db._session.connection.execute("SELECT slot, number FROM records"))
    return dict(zip(slots.values(), db._codes.of(list(slots)), strict=True))


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=20, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
TestImageHistories = ImageHistories.TestCase
TestImageHistories.settings = settings(TestHistories.settings, max_examples=10)
TestFewFieldsHistories = FewFieldsHistories.TestCase
TestFewFieldsHistories.settings = settings(TestHistories.settings, max_examples=8)
TestSealedHistories = SealedHistories.TestCase
TestSealedHistories.settings = settings(TestHistories.settings, max_examples=10)
TestCodeHistories = CodeHistories.TestCase
TestCodeHistories.settings = settings(TestHistories.settings, max_examples=10)
TestSealedCodeHistories = SealedCodeHistories.TestCase
TestSealedCodeHistories.settings = settings(TestHistories.settings, max_examples=5)
