"""Random histories over several collections, with holds, blocks, expiry and erasures, against a plain-Python oracle.

After every step the answers are the oracle's. In the end a second folder is filled with what is left: the digest is
equal, the chain verifies, and no file has a byte of a vector that is gone.
"""

from __future__ import annotations

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import lethevec
from lethevec.errors import BlockedError, HoldError, UnknownIdError

from ..store.conftest import find_leftovers

pytest.importorskip("cryptography")

DIM = 6
NAMES = ("photos", "notes", "voices")
PEOPLE = ("ann", "bob", "cem")
DAY = 86_400.0

names = st.sampled_from(NAMES)
people = st.sampled_from(PEOPLE)


def vector(number: int) -> np.ndarray:
    return np.random.default_rng(number).normal(size=DIM).astype(np.float32)


class Histories(RuleBasedStateMachine):
    """The oracle: of each collection, id to (number of its vector, subject, day on which it expires or None)."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="lethevec-history-"))
        self.now = 1_800_000_000.0
        self.kept: dict[str, dict[int, tuple[int, str, float | None]]] = {}
        self.held: dict[str, list[str]] = {}
        self.blocked: set[str] = set()
        self.counter = 0
        self.gone: set[int] = set()
        self.db = self.open()

    def open(self) -> lethevec.Database:
        return lethevec.connect(self.folder / "people", clock=lambda: self.now)

    @initialize()
    def begin(self) -> None:
        for name in NAMES[:2]:
            self.make(name)

    def make(self, name: str) -> lethevec.Store:
        if name not in self.kept:
            self.kept[name] = {}
        return self.db.collection(name, dim=DIM, metric="l2", encrypt=(name == "voices") or None)

    def alive(self, name: str) -> dict[int, tuple[int, str, float | None]]:
        return {id: it for id, it in self.kept[name].items() if it[2] is None or it[2] > self.now}

    @rule(name=names, person=people, ids=st.sets(st.integers(0, 15), min_size=1), days=st.none() | st.integers(1, 9))
    def upsert(self, name: str, person: str, ids: set[int], days: int | None) -> None:
        store = self.make(name)
        chosen = sorted(ids)
        new = {}
        for id in chosen:
            self.counter += 1
            new[id] = (self.counter, person, None if days is None else self.now + days * DAY)
        before = self.kept[name]
        held = {before[id][1] for id in chosen if id in before} & self.held.keys()
        fresh = any(id not in before or before[id][1] != person or id not in self.alive(name) for id in chosen)
        call = lambda: store.upsert(  # noqa: E731
            [vector(n) for n, _, _ in new.values()],
            ids=chosen,
            subjects=person,
            expires=None if days is None else timedelta(days=days),
            erase_old=bool(self.counter % 2),
        )
        if held or (person in self.blocked and fresh):
            with pytest.raises((HoldError, BlockedError)):
                call()
            return
        call()
        self.gone |= {before[id][0] for id in chosen if id in before}
        before.update(new)

    @rule(person=people, block=st.booleans())
    def forget(self, person: str, block: bool) -> None:
        if person in self.held:
            with pytest.raises(HoldError):
                self.db.forget(subject=person, block=block, ignore_unknown=True)
            return
        count = 0
        receipt = self.db.forget(subject=person, block=block, ignore_unknown=True)
        for kept in self.kept.values():
            for id in [id for id, it in kept.items() if it[1] == person]:
                self.gone.add(kept.pop(id)[0])
                count += 1
        assert receipt.records == count
        if block:
            self.blocked.add(person)

    @rule(name=names, ids=st.sets(st.integers(0, 15), min_size=1))
    def forget_ids(self, name: str, ids: set[int]) -> None:
        if name not in self.kept:
            return
        store = self.make(name)
        there = [id for id in ids if id in self.kept[name]]
        if {self.kept[name][id][1] for id in there} & self.held.keys():
            with pytest.raises(HoldError):
                store.forget(sorted(ids), ignore_unknown=True)
            return
        assert store.forget(sorted(ids), ignore_unknown=True).records == len(there)
        self.gone |= {self.kept[name].pop(id)[0] for id in there}

    @rule(person=people)
    def hold(self, person: str) -> None:
        if not any(it[1] == person for name in self.kept for it in self.alive(name).values()):
            with pytest.raises(UnknownIdError):
                self.db.hold(person, "a reason")
            return
        self.held.setdefault(person, []).append(self.db.hold(person, "a reason")["hold"])

    @rule(person=people)
    def lift(self, person: str) -> None:
        for hold in self.held.pop(person, []):
            self.db.lift(hold)

    @rule(person=people)
    def unblock(self, person: str) -> None:
        if person in self.blocked:
            self.db.unblock(person)
            self.blocked.remove(person)

    @rule(days=st.integers(1, 5))
    def time_goes_by(self, days: int) -> None:
        self.now += days * DAY

    @rule()
    def expire(self) -> None:
        receipt = self.db.expire(skip_held=True)
        count = 0
        for name, kept in self.kept.items():
            alive = self.alive(name)
            for id in [id for id, it in kept.items() if id not in alive and it[1] not in self.held]:
                self.gone.add(kept.pop(id)[0])
                count += 1
        assert (0 if receipt is None else receipt.records) == count

    @rule(name=names)
    def drop(self, name: str) -> None:
        if name not in self.kept:
            return
        if {it[1] for it in self.kept[name].values()} & self.held.keys():
            with pytest.raises(HoldError):
                self.db.drop(name)
            return
        assert self.db.drop(name).records == len(self.kept[name])
        self.gone |= {it[0] for it in self.kept.pop(name).values()}

    @rule()
    def reopen(self) -> None:
        self.db.close()
        self.db = self.open()

    @invariant()
    def answers_are_the_oracles(self) -> None:
        assert self.db.collections() == sorted(self.kept)
        for name in self.kept:
            alive = self.alive(name)
            store = self.db.collection(name)
            assert store.ids() == sorted(alive)
            assert len(store) == len(alive)
            hits = store.search(vector(0), k=20)[0]
            order = sorted(alive, key=lambda id: (np.linalg.norm(vector(alive[id][0]) - vector(0)), id))
            assert [hit.id for hit in hits] == order
        for person in PEOPLE:
            expected = sum(it[1] == person for kept in self.kept.values() for it in kept.values())
            assert len(self.db.access(person)) == expected
            assert self.db.is_blocked(person) == (person in self.blocked)

    def teardown(self) -> None:
        try:
            assert lethevec.verify_chain(self.db.receipts(all_kinds=True), key=self.db.public_key())
            with lethevec.connect(self.folder / "other", clock=lambda: self.now - 1000 * DAY) as other:
                for name in sorted(self.kept, reverse=True):
                    store = other.collection(name, dim=DIM, metric="l2", encrypt=(name == "voices") or None)
                    for id, (number, person, expires) in sorted(self.kept[name].items(), reverse=True):
                        after = None if expires is None else timedelta(seconds=expires - self.now + 1000 * DAY)
                        store.add([vector(number)], ids=[id], subjects=person, expires=after)
                assert other.digest() == self.db.digest()
            self.db.forget(subject="nobody", ignore_unknown=True)
            self.db.close()
            gone = [vector(number) for number in sorted(self.gone)]
            assert find_leftovers(self.folder / "people", vectors=gone) == []
        finally:
            self.db.close()
            shutil.rmtree(self.folder)


Histories.TestCase.settings = settings(
    max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
test_histories = Histories.TestCase
