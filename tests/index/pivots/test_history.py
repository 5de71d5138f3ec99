"""The promise, for pivots: after any history, cells, records, answers and memory are those of a fresh index.

Vectors come from a few centres, often equal, so that pivots tie and cells fill and empty; pivots come and go at will.
LETHEVEC_EXAMPLES=20 tries 20 times as many histories.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from lethevec import Index, reference
from lethevec._native import core
from lethevec.errors import IdError, UnknownIdError

TIMES = int(os.environ.get("LETHEVEC_EXAMPLES", "1"))
DIM = 12
PIVOTS = {"cell_size": 8, "probes": 6}
CONFIGURATIONS = {
    "cosine": {},
    "l2, 3 planes": {"metric": "l2", "bits": 3 * DIM, "sweeps": 1},
    "ip": {"metric": "ip"},
    "cosine, refined": {"refine": True},
    "l2, refined, key": {"metric": "l2", "refine": True, "key": bytes(range(16))},
    "ip, refined, large cells": {"metric": "ip", "refine": True, "cell_size": 60},
    "l2, far away": {"metric": "l2"},
    "l2, following": {"metric": "l2", "cell_size": None},
    "cosine, refined, following": {"refine": True, "cell_size": None},
}
SIZES = st.sampled_from([1, 2, 9, 33, 100, 400])
SEEDS = st.integers(0, 2**32 - 1)
THREADS = st.sampled_from([1, 2, None])
#: Records above which the spec takes too long.
FEW = 500


class History(RuleBasedStateMachine):
    """`records` is the model: id to vector. `gone` holds what was forgotten or replaced since the last look."""

    arguments: dict
    far = np.float32(0)

    def __init__(self, tools):
        super().__init__()
        self.tools = tools
        self.index = self.fresh()
        self.records = {}
        self.gone = []
        self.made = self.drawn = 0
        self.isa = core.active_isa()

    def fresh(self):
        return Index(DIM, **self.tools.options(**{**PIVOTS, **self.arguments}))

    def teardown(self):
        try:
            self.compare()
        finally:
            core.use_isa(self.isa)

    # --- What may happen ---------------------------------------------------------------------------------------------

    def draw(self, seed, count):
        self.drawn += 1
        rng = np.random.default_rng([seed, self.drawn])
        centres = np.random.default_rng(0).normal(size=(6, DIM))
        spread = rng.choice([0.0, 0.1, 1.0, 1.0])
        x = centres[rng.integers(6, size=count)] + spread * rng.normal(size=(count, DIM))
        if spread:
            x = x * rng.lognormal(size=(count, 1))
        return x.astype(np.float32) + self.far

    def fresh_ids(self, count):
        """Eight bytes each that occur nowhere by chance."""
        self.made += count
        return reference.words(0, 1, self.made)[-count:].view(np.int64)

    def all_ids(self):
        return np.array(sorted(self.records), dtype=np.int64)

    def pivots(self):
        return self.tools.pivots_among(self.index.config, self.all_ids(), len(self.records))

    def some(self, seed, count, of=None):
        ids = self.all_ids() if of is None else of
        return np.random.default_rng(seed).choice(ids, size=min(count, len(ids)), replace=False)

    def put(self, ids, x, threads=1):
        self.index.add(x, ids=ids, threads=threads)
        self.records.update(zip(ids.tolist(), x, strict=True))

    def drop(self, ids):
        assert self.index.forget(ids) == len(ids)
        for id in ids.tolist():
            self.gone.append(self.records.pop(id))

    def replace(self, ids, x, threads=1):
        self.index.update(x, ids=ids, threads=threads)
        self.gone += [self.records[id] for id in ids.tolist()]
        self.records.update(zip(ids.tolist(), x, strict=True))

    @rule(seed=SEEDS, count=SIZES, threads=THREADS)
    def add(self, seed, count, threads):
        self.put(self.fresh_ids(count), self.draw(seed, count), threads)

    @rule(seed=SEEDS, count=st.sampled_from([1, 2, 20]))
    def add_pivots(self, seed, count):
        """Nothing but pivots, which take over from the others; some of them equal."""
        ids = self.fresh_ids(count * self.index_cell_size())
        ids = self.tools.pivots_among(self.index.config, ids, len(self.records) + count)
        if len(ids):
            self.put(ids, self.draw(seed, len(ids)))

    def index_cell_size(self):
        return self.index.config.source.cell_size or 8

    @rule(seed=SEEDS)
    @precondition(lambda self: self.records)
    def add_copies_of_one(self, seed):
        (id,) = self.some(seed, 1).tolist()
        ids = self.fresh_ids(20)
        self.put(ids, np.repeat(self.records[id][None], 20, axis=0))

    @rule(seed=SEEDS, count=SIZES, threads=THREADS)
    @precondition(lambda self: self.records)
    def update(self, seed, count, threads):
        ids = self.some(seed, count)
        self.replace(ids, self.draw(seed, len(ids)), threads)

    @rule(seed=SEEDS, count=st.sampled_from([1, 5]))
    @precondition(lambda self: self.records)
    def move_pivots(self, seed, count):
        ids = self.some(seed, count, self.pivots())
        if len(ids):
            self.replace(ids, self.draw(seed, len(ids)))

    @rule(seed=SEEDS, count=SIZES)
    @precondition(lambda self: self.records)
    def forget(self, seed, count):
        self.drop(self.some(seed, count))

    @rule(seed=SEEDS)
    @precondition(lambda self: self.records)
    def forget_one_by_one(self, seed):
        for id in self.some(seed, 25):
            self.drop(id[None])

    @rule(seed=SEEDS, count=st.sampled_from([1, 1, 4, 10_000]))
    @precondition(lambda self: self.records)
    def forget_pivots(self, seed, count):
        """With the last of them everything falls into the void."""
        ids = self.some(seed, count, self.pivots())
        if len(ids):
            self.drop(ids)

    @rule(seed=SEEDS, with_pivot=st.booleans())
    @precondition(lambda self: self.records)
    def empty_a_cell(self, seed, with_pivot):
        _, held = self.tools.native_state(self.index)
        of = {id: cell for id, (cell, *_) in held.items()}
        (chosen,) = self.some(seed, 1).tolist()
        ids = np.array([id for id, cell in of.items() if cell == of[chosen] and (with_pivot or id != cell)], np.int64)
        if len(ids):
            self.drop(ids)

    @rule()
    @precondition(lambda self: self.records)
    def forget_all(self):
        self.drop(self.index.ids())

    @rule(seed=SEEDS)
    @precondition(lambda self: self.records)
    def refusals(self, seed):
        before = self.index.digest(), self.index.stats(), self.tools.native_state(self.index)
        ids = np.concatenate([self.fresh_ids(30), self.some(seed, 1)])
        x = self.draw(seed, len(ids))
        with pytest.raises(IdError):
            self.index.add(x, ids=ids)
        with pytest.raises(UnknownIdError):
            self.index.update(x, ids=ids[::-1])
        with pytest.raises(UnknownIdError):
            self.index.forget(ids[::-1])
        assert (self.index.digest(), self.index.stats(), self.tools.native_state(self.index)) == before

    @rule()
    def save_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            self.index.save(Path(folder) / "snapshot")
            self.index = Index.load(Path(folder) / "snapshot")

    @rule(isa=st.sampled_from(core.supported_isas()))
    def switch(self, isa):
        core.use_isa(isa)

    # --- What must hold ----------------------------------------------------------------------------------------------

    @rule(seed=SEEDS)
    def compare(self, seed=0):
        """A second index, of the survivors in another order and other batches; and the spec."""
        ids = np.random.default_rng(seed).permutation(self.all_ids())
        other = self.fresh()
        for part in np.array_split(ids, 3):
            if len(part):
                other.add(np.stack([self.records[id] for id in part.tolist()]), ids=part)
        state = self.tools.native_state(self.index)
        self.tools.assert_same_state(state, self.tools.native_state(other))
        assert self.index.ids().tolist() == sorted(self.records)
        assert self.index.stats() == other.stats()
        assert core.pivot_stats(self.index._native) == core.pivot_stats(other._native)
        assert self.index.digest() == other.digest()
        with tempfile.TemporaryDirectory() as folder:
            self.index.save(Path(folder) / "a")
            other.save(Path(folder) / "b")
            assert (Path(folder) / "a").read_bytes() == (Path(folder) / "b").read_bytes()
        self.compare_answers(other, seed)
        if 0 < len(ids) <= FEW:
            x = np.stack([self.records[id] for id in ids.tolist()])
            self.tools.assert_same_state(state, self.tools.Spec(self.index.config, ids, x).state())
        self.look_for_traces()

    def compare_answers(self, other, seed):
        queries = self.draw(seed, 4)
        some = self.some(2, 100) if self.records else None
        for how in ({"k": 6, "effort": 0.05}, {"k": 6}, {"k": 3, "effort": 4.0}, {"k": 5, "allow": some}):
            one, two = self.index.search(queries, **how), other.search(queries, **how)
            np.testing.assert_array_equal(one.ids, two.ids)
            np.testing.assert_array_equal(one.distances.view(np.uint32), two.distances.view(np.uint32))
            assert one.work == two.work
            assert set(one.ids.ravel().tolist()) <= {-1, *self.records}

    def look_for_traces(self):
        """Neither vector nor direction of a record that is gone, in any buffer, in use or not."""
        memory = core.testing.raw_memory(self.index._native)
        alive = [np.stack(list(self.records.values()))] if self.records else []
        shown = {row[:3].tobytes() for x in alive for row in np.concatenate([x, reference.directions(x)])}
        for vector in self.gone[:20]:
            for x in (vector, reference.directions(vector[None])[0]):
                assert x[:3].tobytes() in shown or x[:3].tobytes() not in memory
        self.gone.clear()


def machine_of(name, tools):
    class Configured(History):
        arguments = CONFIGURATIONS[name]
        far = np.float32(3000 if name.endswith("far away") else 0)

        def __init__(self):
            super().__init__(tools)

    return Configured


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_any_history_equals_a_fresh_index(name, tools):
    run_state_machine_as_test(
        machine_of(name, tools),
        settings=settings(
            max_examples=8 * TIMES,
            stateful_step_count=16,
            deadline=None,
            derandomize=TIMES == 1,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_long_walk_through_everything(name, tools):
    """Hypothesis leaves rules out of many of its histories. This one goes through all of them, and looks each time."""
    machine = machine_of(name, tools)()
    rng = np.random.default_rng(7)

    def draw(*choices):
        return choices[rng.integers(len(choices))]

    def seed():
        return int(rng.integers(2**32))

    steps = {
        "add": lambda: machine.add(seed(), draw(1, 33, 200), draw(1, 2)),
        "add_pivots": lambda: machine.add_pivots(seed(), draw(1, 10)),
        "add_copies_of_one": lambda: machine.add_copies_of_one(seed()),
        "update": lambda: machine.update(seed(), draw(1, 5, 60), draw(1, 2)),
        "move_pivots": lambda: machine.move_pivots(seed(), draw(1, 5)),
        "forget": lambda: machine.forget(seed(), draw(1, 60)),
        "forget_one_by_one": lambda: machine.forget_one_by_one(seed()),
        "forget_one_pivot": lambda: machine.forget_pivots(seed(), 1),
        "forget_all_pivots": lambda: machine.forget_pivots(seed(), 10_000),
        "empty_a_cell": lambda: machine.empty_a_cell(seed(), draw(True, False)),
        "refusals": lambda: machine.refusals(seed()),
        "save_and_load": machine.save_and_load,
        "switch": lambda: machine.switch(draw(*core.supported_isas())),
    }
    try:
        machine.add(1, 300, 1)
        for _ in range(2):
            for step in rng.permutation(sorted(steps)):
                steps[str(step)]()
                if machine.records:
                    machine.compare(seed())
        machine.forget_all()
    finally:
        machine.teardown()


def test_the_machine_would_notice(tools):
    """A record that the model has lost, or that is still in memory, is seen."""
    machine = machine_of("l2, 3 planes", tools)()
    machine.draw = lambda seed, count: np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    machine.add(1, 100, 1)
    machine.gone = [machine.records[int(machine.some(3, 1)[0])]]
    machine.look_for_traces()  # alive: no trace
    vector = machine.records.pop(int(machine.some(3, 1)[0]))
    machine.gone = [vector]
    with pytest.raises(AssertionError):
        machine.look_for_traces()
    with pytest.raises(AssertionError):
        machine.compare()
