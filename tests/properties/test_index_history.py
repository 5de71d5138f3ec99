"""The promise, as a state machine: an index with any history equals a fresh one of the survivors, in all that is seen.

Adds, updates, forgets, refusals, batches, thread counts, instruction sets, saving and loading, in any order that
Hypothesis thinks of, for several configurations; norms range over nine orders of magnitude, so the gain of usr crosses
its steps all the time. LETHEVEC_EXAMPLES=20 tries 20 times as many histories.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

import lethevec
from lethevec import reference
from lethevec._native import core
from lethevec.errors import IdError, UnknownIdError
from lethevec.reference.kept_form import packed, rounded

TIMES = int(os.environ.get("LETHEVEC_EXAMPLES", "1"))
DIM = 40
CONFIGURATIONS = {
    "default": {},
    "l2, 3 planes, swept": {"metric": "l2", "bits": 3 * DIM, "sweeps": 1},
    "usr l2": {"metric": "l2", "family": "usr", "bits": 2 * DIM, "steps": 3},
    "usr ip hamming": {"metric": "ip", "family": "usr", "bits": 2 * DIM, "steps": 3, "ranking": "hamming"},
    "codes": {"keep_vectors": False, "bits": 2 * DIM},
    "in a file": {"vectors": "file"},
    "int8 usr ip in a file": {
        "vectors": "file",
        "keep_vectors": "int8",
        "metric": "ip",
        "family": "usr",
        "bits": 2 * DIM,
        "steps": 3,
    },
    "int8 usr l2": {"keep_vectors": "int8", "metric": "l2", "family": "usr", "bits": 2 * DIM, "steps": 3},
    "float16": {"keep_vectors": "float16"},
    "codes ip, cut": {"metric": "ip", "family": "superbit", "bits": DIM + 9, "keep_vectors": False},
    "simhash hamming codes": {
        "metric": "l2",
        "family": "simhash",
        "bits": 90,
        "ranking": "hamming",
        "keep_vectors": False,
    },
}
SIZES = st.sampled_from([1, 1, 2, 5, 31, 32, 33, 100, 300, 4100])
SCALES = st.sampled_from([1e-4, 0.3, 1.0, 1.0, 1.1, 30.0, 1e5])
SEEDS = st.integers(0, 2**32 - 1)
THREADS = st.sampled_from([1, 2, 3, None])


class History(RuleBasedStateMachine):
    """`records` is the model: id to vector. `gone` holds what was forgotten or replaced since the last look."""

    arguments: ClassVar[dict[str, Any]] = {}

    def __init__(self):
        super().__init__()
        self.index = lethevec.Index(DIM, **self.arguments)
        self.records = {}
        self.gone = []
        self.made = self.drawn = 0
        self.isa = core.active_isa()

    def teardown(self):
        try:
            self.compare()
        finally:
            core.use_isa(self.isa)

    # --- What may happen ---------------------------------------------------------------------------------------------

    def draw(self, seed, count, scale):
        # No two draws share a direction: codes are of directions, and an equal one would look like a trace.
        self.drawn += 1
        if self.index.config.keep_vectors == "float16":
            scale = min(scale, 100.0)  # so that all numbers are in its range
        rng = np.random.default_rng([seed, self.drawn])
        return (rng.normal(size=(count, DIM)) * scale * rng.lognormal(size=(count, 1))).astype(np.float32)

    def fresh_ids(self, count):
        """Eight bytes each that occur nowhere by chance."""
        self.made += count
        return reference.words(0, 1, self.made)[-count:].view(np.int64)

    def some(self, seed, count):
        ids = np.array(sorted(self.records), dtype=np.int64)
        return np.random.default_rng(seed).choice(ids, size=min(count, len(ids)), replace=False)

    @initialize(seed=SEEDS, count=SIZES)
    def begin(self, seed, count):
        self.add(seed, count, 1.0, 1)

    @rule(seed=SEEDS, count=SIZES, scale=SCALES, threads=THREADS)
    def add(self, seed, count, scale, threads):
        x, ids = self.draw(seed, count, scale), self.fresh_ids(count)
        self.index.add(x, ids=ids, threads=threads)
        self.records.update(zip(ids.tolist(), x, strict=True))

    @rule(seed=SEEDS)
    @precondition(lambda self: self.records)
    def add_a_copy(self, seed):
        """Equal vectors under different ids."""
        (id,) = self.some(seed, 1).tolist()
        ids = self.fresh_ids(3)
        x = np.repeat(self.records[id][None], 3, axis=0)
        self.index.add(x, ids=ids)
        self.records.update(zip(ids.tolist(), x, strict=True))

    @rule(seed=SEEDS, count=SIZES, scale=SCALES, threads=THREADS)
    @precondition(lambda self: self.records)
    def update(self, seed, count, scale, threads):
        ids = self.some(seed, count)
        x = self.draw(seed, len(ids), scale)
        self.remember(ids, with_id=False)
        self.index.update(x, ids=ids, threads=threads)
        self.records.update(zip(ids.tolist(), x, strict=True))

    @rule(seed=SEEDS, count=SIZES, ignoring=st.booleans())
    @precondition(lambda self: self.records)
    def forget(self, seed, count, ignoring):
        ids = self.some(seed, count)
        self.remember(ids, with_id=True)
        asked = np.concatenate([ids, self.fresh_ids(2)]) if ignoring else ids
        assert self.index.forget(asked, ignore_unknown=ignoring) == len(ids)
        for id in ids.tolist():
            del self.records[id]

    @rule(seed=SEEDS)
    @precondition(lambda self: self.records)
    def forget_the_large(self, seed):
        """Those that hold up the mean norm."""
        ids = np.array(sorted(self.records), dtype=np.int64)
        norms = np.array([np.linalg.norm(self.records[id]) for id in ids.tolist()])
        ids = ids[np.argsort(-norms)[: max(1, len(ids) // 10)]]
        self.remember(ids, with_id=True)
        self.index.forget(ids)
        for id in ids.tolist():
            del self.records[id]

    @rule(seed=SEEDS, scale=SCALES)
    @precondition(lambda self: self.records)
    def refusals(self, seed, scale):
        before = self.index.digest(), self.index.stats()
        ids = np.concatenate([self.fresh_ids(40), self.some(seed, 1)])
        x = self.draw(seed, len(ids), scale)
        with pytest.raises(IdError):
            self.index.add(x, ids=ids)
        with pytest.raises(UnknownIdError):
            self.index.update(x, ids=ids[::-1])
        with pytest.raises(UnknownIdError):
            self.index.forget(ids[::-1])
        assert (self.index.digest(), self.index.stats()) == before

    @rule()
    def save_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            self.index.save(Path(folder) / "snapshot")
            where = self.arguments.get("vectors", "memory")
            self.index = lethevec.Index.load(Path(folder) / "snapshot", vectors=where)

    @rule(isa=st.sampled_from(core.supported_isas()))
    def switch(self, isa):
        core.use_isa(isa)

    @rule()
    def look(self):
        self.compare()

    # --- What must hold ----------------------------------------------------------------------------------------------

    def remember(self, ids, with_id):
        """What of these records must be gone afterwards. A few of them are enough."""
        ids = ids[:5]
        if len(ids) == 0:
            return
        codes = np.empty((len(ids), -(-self.index.config.bits // 8)), dtype=np.uint8)
        norms, factors = np.empty(len(ids), dtype=np.float32), np.empty(len(ids), dtype=np.float32)
        assert self.index._native.export_codes(ids, codes, norms, factors) is None
        for i, id in enumerate(ids.tolist()):
            self.gone.append((id if with_id else None, self.records[id], codes[i].tobytes()))

    def compare(self):
        ids = np.array(list(self.records), dtype=np.int64)
        order = np.random.default_rng(len(ids)).permutation(len(ids))
        fresh = lethevec.Index(DIM, **{**self.arguments, "vectors": "memory"})
        if len(ids):
            x = np.array([self.records[id] for id in ids.tolist()])
            for part in np.array_split(order, 3):
                if len(part):
                    fresh.add(x[part], ids=ids[part])
        assert self.index.ids().tolist() == sorted(self.records)
        assert self.index.digest() == fresh.digest()
        assert self.stats() == fresh.stats()
        with tempfile.TemporaryDirectory() as folder:
            self.index.save(Path(folder) / "a")
            fresh.save(Path(folder) / "b")
            assert (Path(folder) / "a").read_bytes() == (Path(folder) / "b").read_bytes()
        self.compare_answers(fresh)
        self.look_for_traces()

    def stats(self):
        """Those of the index, as if vectors in a file were in memory."""
        stats = self.index.stats()
        in_file = stats["bytes_in_file"]
        if in_file:
            total = stats["bytes_total"] + in_file
            stats |= {"bytes_in_file": 0, "bytes_vectors": in_file, "bytes_total": total}
            stats["bytes_per_record"] = total / len(self.index)
        return stats

    def compare_answers(self, fresh):
        queries = self.draw(1, 4, 1.0)
        if self.records:
            queries = np.vstack([queries, self.records[min(self.records)]])
        some = self.some(2, 50) if self.records else None
        for how in ({"k": 3, "effort": 0.1}, {"k": 10}, {"k": 5, "effort": 0.5, "allow": some}):
            a, b = self.index.search(queries, **how), fresh.search(queries, **how)
            np.testing.assert_array_equal(a.ids, b.ids)
            np.testing.assert_array_equal(a.distances.view(np.uint32), b.distances.view(np.uint32))
            assert a.work == b.work
            assert set(a.ids.ravel().tolist()) <= {-1, *self.records}

    def kept(self, vector):
        """What of a vector is kept in a small form: its beginning and its end, without the scale."""
        form = self.index.config.keep_vectors
        if not isinstance(form, str):
            return ()
        whole = packed(form, rounded(form, vector[None]))
        return (whole[4:20], whole[-16:])

    def look_for_traces(self):
        """No byte pattern of a forgotten record in any buffer of the index, in use or not."""
        if not self.gone:
            return
        native = self.index._native
        memory = core.testing.raw_memory(native)
        if native.in_file():
            memory += Path(os.fsdecode(native.file_path())).read_bytes()
        lanes = [memory[r::stride] for stride in (32, 64) for r in range(stride)]
        words = np.frombuffer(memory, dtype=np.uint32)
        word_lanes = [words[r::32].tobytes() for r in range(32)]
        alive = {vector.tobytes() for vector in self.records.values()}
        for id, vector, code in self.gone:
            if id is not None and id not in self.records:
                assert id.to_bytes(8, "little", signed=True) not in memory
            if vector.tobytes() in alive:
                continue  # a copy of it lives on under another id
            assert vector[:4].tobytes() not in memory
            assert vector[-4:].tobytes() not in memory
            for kept in self.kept(vector):
                assert kept not in memory
            # The code: for hamming ranking, words in blocks of 32 rows; otherwise bytes in blocks of 32 or 64.
            if self.index.config.ranking == "hamming":
                assert code not in memory
                assert not any(code + bytes(-len(code) % 4) in lane for lane in word_lanes)
            else:
                assert not any(code[:5] in lane for lane in lanes)
        self.gone.clear()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_any_history_equals_a_fresh_start(name):
    machine = type("History", (History,), {"arguments": CONFIGURATIONS[name]})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=8 * TIMES,
            stateful_step_count=14,
            deadline=None,
            derandomize=TIMES == 1,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_long_walk_through_everything(name):
    """Hypothesis leaves rules out of many of its histories. This one goes through all of them, three times."""
    machine = type("History", (History,), {"arguments": CONFIGURATIONS[name]})()
    rng = np.random.default_rng(7)

    def draw(*choices):
        return choices[rng.integers(len(choices))]

    def seed():
        return int(rng.integers(2**32))

    steps = {
        "add": lambda: machine.add(seed(), draw(1, 33, 300), draw(1e-4, 1.0, 30.0, 1e5), draw(1, 2, None)),
        "add_a_copy": lambda: machine.add_a_copy(seed()),
        "update": lambda: machine.update(seed(), draw(1, 5, 100), draw(1e-4, 1.0, 1e5), draw(1, 3)),
        "forget": lambda: machine.forget(seed(), draw(1, 31, 100), draw(True, False)),
        "forget_the_large": lambda: machine.forget_the_large(seed()),
        "refusals": lambda: machine.refusals(seed(), draw(1e-4, 1e5)),
        "save_and_load": machine.save_and_load,
        "switch": lambda: machine.switch(draw(*core.supported_isas())),
        "look": machine.look,
    }
    try:
        machine.begin(1, 4100)
        for _ in range(3):
            for step in rng.permutation(sorted(steps)):
                steps[str(step)]()
    finally:
        machine.teardown()


def test_the_machine_would_notice():
    """The look for traces finds a record that is still there, in each way of storing it."""
    for arguments in CONFIGURATIONS.values():
        machine = type("History", (History,), {"arguments": arguments})()
        machine.begin(1, 100)
        ids = machine.some(3, 1)
        machine.remember(ids, with_id=True)
        del machine.records[int(ids[0])]
        with pytest.raises(AssertionError):
            machine.compare()
        with pytest.raises(AssertionError):
            machine.look_for_traces()
        id, vector, code = machine.gone[0]
        for trace in ((None, vector, code), (id, np.full(DIM, 7.5, dtype=np.float32), b"\x5a\xa5\x3c\xc3\x77\x11")):
            machine.gone = [trace]
            with pytest.raises(AssertionError):
                machine.look_for_traces()
