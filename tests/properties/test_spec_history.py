"""The native index equals the spec's index over any history: ids, answers to the last bit, digest, after each step.

Hypothesis thinks of adds, updates, forgets and refusals for every source, metric, family and ranking; changes happen
with any instruction set, and each question is asked with all that this machine has. The spec's index is a plain dict
with everything computed from it, so it cannot remember. LETHEVEC_EXAMPLES=20 tries 20 times as many histories.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import lethevec
from lethevec import Auto, Graph, Pivots, Tables, reference
from lethevec._native import core
from lethevec.errors import IdError, UnknownIdError

TIMES = int(os.environ.get("LETHEVEC_EXAMPLES", "1"))
DIM = 20
TABLES = {"source": Tables(tables=2, key_bits=5, probes=6)}
GRAPH = Graph(cell_size=5, cells=4, pool=10)
PIVOTS = {"source": Pivots(cell_size=6, probes=8)}
REFINED = Pivots(cell_size=6, probes=8, refine=True)
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "scan": {"source": "scan"},
    "scan l2 swept": {"source": "scan", "metric": "l2", "bits": 3 * DIM, "sweeps": 1},
    "scan ip svd": {"source": "scan", "metric": "ip", "rotation": "svd", "seed": 3},
    "scan usr l2": {"source": "scan", "metric": "l2", "family": "usr", "bits": 2 * DIM, "steps": 3},
    "scan usr ip hamming": {
        "source": "scan",
        "metric": "ip",
        "family": "usr",
        "bits": 2 * DIM,
        "steps": 3,
        "ranking": "hamming",
    },
    "scan usr cosine": {"source": "scan", "family": "usr", "bits": 2 * DIM, "steps": 3},
    "scan codes": {"source": "scan", "keep_vectors": False, "bits": 2 * DIM},
    "scan codes superbit cut": {
        "source": "scan",
        "metric": "ip",
        "family": "superbit",
        "bits": DIM + 9,
        "keep_vectors": False,
    },
    "scan codes simhash hamming": {
        "source": "scan",
        "metric": "l2",
        "family": "simhash",
        "bits": 90,
        "ranking": "hamming",
        "keep_vectors": False,
    },
    "scan faiss": {"source": "scan", "family": "faiss-lsh", "bits": DIM + 3, "metric": "l2"},
    "tables": TABLES,
    "tables l2": {**TABLES, "metric": "l2"},
    "tables usr ip": {**TABLES, "metric": "ip", "family": "usr", "bits": 2 * DIM, "steps": 3},
    "tables simhash": {**TABLES, "family": "simhash", "bits": 50},
    "tables hamming": {**TABLES, "family": "superbit", "bits": 50, "ranking": "hamming"},
    "tables codes l2": {**TABLES, "metric": "l2", "keep_vectors": False, "bits": 3 * DIM},
    "tables codes usr hamming": {
        **TABLES,
        "family": "usr",
        "bits": 2 * DIM,
        "steps": 3,
        "ranking": "hamming",
        "keep_vectors": False,
    },
    "pivots": PIVOTS,
    "pivots refined": {"source": REFINED},
    "pivots l2": {**PIVOTS, "metric": "l2", "bits": 5 * DIM, "sweeps": 1},
    "pivots ip refined, with a key": {"metric": "ip", "source": replace(REFINED, key=bytes(range(16)))},
    "graph": {"source": GRAPH},
    "graph l2, with a key": {"metric": "l2", "source": replace(GRAPH, key=bytes(range(16)), pool=30)},
    "scan float16": {"source": "scan", "keep_vectors": "float16"},
    "scan int8 usr l2": {
        "source": "scan",
        "metric": "l2",
        "family": "usr",
        "bits": 2 * DIM,
        "steps": 3,
        "keep_vectors": "int8",
    },
    "scan int8 ip": {"source": "scan", "metric": "ip", "keep_vectors": "int8"},
    "tables int8": {**TABLES, "keep_vectors": "int8"},
    "pivots int8": {**PIVOTS, "keep_vectors": "int8"},
    "pivots float16 l2 refined": {"source": REFINED, "metric": "l2", "keep_vectors": "float16"},
    "graph int8 l2": {"source": GRAPH, "metric": "l2", "keep_vectors": "int8"},
    "auto": {"source": Auto(pivots_from=60, pivots=Pivots(cell_size=6))},
}
SIZES = st.sampled_from([1, 1, 2, 5, 31, 33, 100])
SCALES = st.sampled_from([1e-4, 0.3, 1.0, 1.0, 1.1, 30.0, 1e5])
SEEDS = st.integers(0, 2**32 - 1)
#: (k, effort, which part of the records is allowed): some prune, some look at everything.
QUESTIONS = ((1, 0.05, 1.0), (3, 0.3, 1.0), (10, 1.0, 0.2), (2, 0.3, 0.6), (4, 1e6, 1.0))


class BothIndexes(RuleBasedStateMachine):
    """`index` is native, `spec` is plain NumPy; whatever happens, happens to both."""

    arguments: ClassVar[dict[str, Any]] = {}

    def __init__(self):
        super().__init__()
        self.index = lethevec.Index(DIM, **self.arguments)
        self.spec = reference.Index(json.loads(self.index.config.canonical()))
        self.drawn = self.made = 0
        self.isa = core.active_isa()

    def teardown(self):
        core.use_isa(self.isa)

    # --- What may happen ---------------------------------------------------------------------------------------------

    def draw(self, seed, count, scale):
        self.drawn += 1
        rng = np.random.default_rng([seed, self.drawn])
        if self.index.config.keep_vectors == "float16":
            scale = min(scale, 100.0)  # so that all numbers are in its range
        return (rng.normal(size=(count, DIM)) * scale * rng.lognormal(size=(count, 1))).astype(np.float32)

    def fresh_ids(self, count):
        self.made += count
        return reference.words(0, 1, self.made)[-count:].view(np.int64)

    def some(self, seed, count):
        return np.random.default_rng(seed).choice(self.spec.ids(), size=min(count, len(self.spec)), replace=False)

    @initialize(seed=SEEDS, isa=st.sampled_from(core.supported_isas()))
    def begin(self, seed, isa):
        core.use_isa(isa)
        self.add(seed, 100, 1.0)

    @rule(seed=SEEDS, count=SIZES, scale=SCALES)
    def add(self, seed, count, scale):
        if len(self.spec) > 400:
            return
        x, ids = self.draw(seed, count, scale), self.fresh_ids(count)
        self.index.add(x, ids=ids)
        self.spec.add(x, ids)

    @rule(seed=SEEDS)
    @precondition(lambda self: len(self.spec) > 0 and self.index.config.keep_vectors)
    def add_copies(self, seed):
        """Equal vectors under different ids."""
        x = np.repeat(self.spec.state.vectors[seed % len(self.spec)][None], 3, axis=0)
        ids = self.fresh_ids(3)
        self.index.add(x, ids=ids)
        self.spec.add(x, ids)

    @rule(seed=SEEDS, count=SIZES, scale=SCALES)
    @precondition(lambda self: len(self.spec) > 0)
    def update(self, seed, count, scale):
        ids = self.some(seed, count)
        x = self.draw(seed, len(ids), scale)
        self.index.update(x, ids=ids)
        self.spec.update(x, ids)

    @rule(seed=SEEDS, count=SIZES)
    @precondition(lambda self: len(self.spec) > 0)
    def forget(self, seed, count):
        ids = self.some(seed, count)
        assert self.index.forget(ids) == len(ids)
        self.spec.forget(ids)

    @rule(seed=SEEDS)
    @precondition(lambda self: len(self.spec) > 0)
    def refusals(self, seed):
        ids = np.concatenate([self.fresh_ids(3), self.some(seed, 1)])
        x = self.draw(seed, len(ids), 1.0)
        with pytest.raises(IdError):
            self.index.add(x, ids=ids)
        with pytest.raises(KeyError):
            self.spec.add(x, ids)
        for change, of_spec in (
            (self.index.update, self.spec.update),
            (lambda _, ids: self.index.forget(ids), lambda _, ids: self.spec.forget(ids)),
        ):
            with pytest.raises(UnknownIdError):
                change(x, ids)
            with pytest.raises(KeyError):
                of_spec(x, ids)

    @rule(isa=st.sampled_from(core.supported_isas()))
    def switch(self, isa):
        core.use_isa(isa)

    # --- What must hold after each step ------------------------------------------------------------------------------

    @invariant()
    def same(self):
        np.testing.assert_array_equal(self.index.ids(), self.spec.ids())
        assert self.index.digest() == self.spec.digest()
        assert self.index.stats()["mean_norm"] == self.spec.state.mean_norm
        queries = np.random.default_rng(self.drawn).normal(size=(2, DIM)).astype(np.float32)
        if len(self.spec) and self.index.config.keep_vectors:
            queries[1] = self.spec.state.vectors[0]
        some = self.some(self.drawn, 40) if len(self.spec) else np.array([5])
        asked = [
            (k, effort, None if part == 1 else self.some(self.drawn, round(part * len(self.spec))))
            for k, effort, part in QUESTIONS
        ]
        expected = [self.spec.search(queries, k, effort=effort, allow=allow) for k, effort, allow in asked]
        near = expected[-1][1][:, 2]  # a distance that occurs, where there are as many records
        radius = float(near[0]) if np.isfinite(near[0]) else 1.0
        within = self.spec.search_radius(queries, radius, allow=some)
        before = core.active_isa()
        try:
            for isa in core.supported_isas():
                core.use_isa(isa)
                for (k, effort, allow), answer in zip(asked, expected, strict=True):
                    assert_equal(self.index.search(queries, k, effort=effort, allow=allow), answer)
                assert_equal(self.index.search_radius(queries, radius, allow=some), within)
        finally:
            core.use_isa(before)


def assert_equal(hits, expected):
    """Ids and distances, to the last bit."""
    np.testing.assert_array_equal(hits.ids, expected[0])
    np.testing.assert_array_equal(hits.distances.view(np.uint32), expected[1].view(np.uint32))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_spec_over_any_history(name):
    machine = type("BothIndexes", (BothIndexes,), {"arguments": CONFIGURATIONS[name]})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=12 * TIMES,
            stateful_step_count=12,
            deadline=None,
            derandomize=TIMES == 1,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("change", ["vector", "record", "answer"])
def test_the_machine_would_notice(change, monkeypatch):
    configuration = CONFIGURATIONS["scan codes" if change == "answer" else "scan l2 swept"]
    machine = type("BothIndexes", (BothIndexes,), {"arguments": configuration})()
    machine.begin(1, core.active_isa())
    machine.same()
    id = machine.spec.ids()[:1]
    if change == "vector":
        machine.spec.update(np.nextafter(machine.spec.state.vectors[:1], np.float32(9)), id)
    elif change == "record":
        machine.index.forget(id)
    else:
        monkeypatch.setattr(reference.families, "FALLOFF", 0.5)
    with pytest.raises(AssertionError):
        machine.same()


def test_questions_that_prune():
    """Otherwise the machine would compare searches of everything."""
    for name in ("scan", "tables", "pivots"):
        index = lethevec.Index(DIM, **CONFIGURATIONS[name])
        rng = np.random.default_rng(1)
        index.add(rng.normal(size=(300, DIM)), ids=range(300))
        work = index.search(rng.normal(size=DIM), 3, effort=0.3).work
        assert 3 <= work.reranked < 100, name
