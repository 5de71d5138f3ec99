"""The promise, for tables: after any history, buckets, answers and memory are those of a fresh index of the survivors.

Vectors come from a small set of directions, so that buckets are crowded and empty again and again, blocks fill and are
given back, and rows are renumbered while they share a bucket. LETHEVEC_EXAMPLES=20 tries 20 times as many histories.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from lethevec import Index, Tables
from lethevec._native import core
from lethevec.errors import IdError, UnknownIdError

TIMES = int(os.environ.get("LETHEVEC_EXAMPLES", "1"))
DIM = 24
TABLES = {"source": Tables(tables=3, key_bits=5, probes=6)}
CONFIGURATIONS = {
    "cosine": {},
    "l2": {"metric": "l2"},
    "usr ip": {"metric": "ip", "family": "usr", "bits": 2 * DIM, "steps": 2},
    "codes": {"keep_vectors": False, "bits": 2 * DIM},
    "codes hamming": {"metric": "l2", "keep_vectors": False, "family": "superbit", "bits": DIM, "ranking": "hamming"},
}
SIZES = st.sampled_from([1, 2, 9, 10, 50, 200, 1100])
SEEDS = st.integers(0, 2**32 - 1)
THREADS = st.sampled_from([1, 2, None])


class History(RuleBasedStateMachine):
    """`records` is the model: id to vector."""

    arguments: dict

    def __init__(self, contents_of):
        super().__init__()
        self.contents_of = contents_of
        self.index = Index(DIM, **TABLES, **self.arguments)
        self.records = {}
        self.made = 0

    def draw(self, seed, count):
        rng = np.random.default_rng(seed)
        centres = np.random.default_rng(0).normal(size=(6, DIM))
        spread = rng.choice([0.0, 0.1, 1.0])
        x = centres[rng.integers(6, size=count)] + spread * rng.normal(size=(count, DIM))
        return (x * rng.lognormal(size=(count, 1))).astype(np.float32)

    def fresh_ids(self, count):
        self.made += count
        return (np.arange(self.made - count, self.made) * 2654435761) % (1 << 40)

    def some(self, seed, count):
        ids = np.array(sorted(self.records), dtype=np.int64)
        return np.random.default_rng(seed).choice(ids, size=min(count, len(ids)), replace=False)

    @rule(seed=SEEDS, count=SIZES, threads=THREADS)
    def add(self, seed, count, threads):
        x, ids = self.draw(seed, count), self.fresh_ids(count)
        self.index.add(x, ids=ids, threads=threads)
        self.records.update(zip(ids.tolist(), x, strict=True))

    @rule(seed=SEEDS, count=SIZES, threads=THREADS)
    @precondition(lambda self: self.records)
    def update(self, seed, count, threads):
        ids = self.some(seed, count)
        x = self.draw(seed, len(ids))
        self.index.update(x, ids=ids, threads=threads)
        self.records.update(zip(ids.tolist(), x, strict=True))

    @rule(seed=SEEDS, count=SIZES)
    @precondition(lambda self: self.records)
    def forget(self, seed, count):
        ids = self.some(seed, count)
        self.index.forget(ids)
        for id in ids.tolist():
            del self.records[id]

    @rule(seed=SEEDS)
    @precondition(lambda self: self.records)
    def forget_one_by_one(self, seed):
        for id in self.some(seed, 25).tolist():
            self.index.forget(id)
            del self.records[id]

    @rule()
    @precondition(lambda self: self.records)
    def forget_all(self):
        self.index.forget(self.index.ids())
        self.records.clear()

    @rule(seed=SEEDS)
    @precondition(lambda self: self.records)
    def refusals(self, seed):
        ids = np.concatenate([self.fresh_ids(30), self.some(seed, 1)])
        x = self.draw(seed, len(ids))
        with pytest.raises(IdError):
            self.index.add(x, ids=ids)
        with pytest.raises(UnknownIdError):
            self.index.update(x, ids=ids)
        with pytest.raises(UnknownIdError):
            self.index.forget(ids)

    @rule()
    def save_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            self.index.save(Path(folder) / "snapshot")
            self.index = Index.load(Path(folder) / "snapshot")

    @rule(seed=SEEDS)
    def compare(self, seed=0):
        """A second index, of the survivors in another order and other batches."""
        ids = np.random.default_rng(seed).permutation(np.array(sorted(self.records), dtype=np.int64))
        other = Index(DIM, **TABLES, **self.arguments)
        for at in range(0, len(ids), 500):
            x = np.stack([self.records[id] for id in ids[at : at + 500].tolist()])
            other.add(x, ids=ids[at : at + 500])
        assert self.index.stats() == other.stats()
        assert self.index.digest() == other.digest()
        assert core.table_stats(self.index._native) == core.table_stats(other._native)
        for t in range(3):
            assert self.contents_of(self.index, t) == self.contents_of(other, t)
        queries = self.draw(seed + 1, 4)
        for effort in (0.05, 1.0, 4.0):
            one, two = self.index.search(queries, 6, effort=effort), other.search(queries, 6, effort=effort)
            np.testing.assert_array_equal(one.ids, two.ids)
            np.testing.assert_array_equal(one.distances, two.distances)
            assert one.work == two.work

    def teardown(self):
        self.compare()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_any_history_equals_a_fresh_index(name, contents_of):
    class Configured(History):
        arguments = CONFIGURATIONS[name]

        def __init__(self):
            super().__init__(contents_of)

    run_state_machine_as_test(
        Configured,
        settings=settings(
            max_examples=12 * TIMES,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
