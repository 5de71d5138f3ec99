"""The plug-ins, through stand-ins of what ann-benchmarks and big-ann-benchmarks do: configuration, calls, results."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

yaml = pytest.importorskip("yaml")
PLUGINS = Path(__file__).parents[2] / "plugins"
RNG = np.random.default_rng(1)
TRAIN = RNG.standard_normal((800, 12)).astype(np.float32)
TEST = RNG.standard_normal((20, 12)).astype(np.float32)
BITS, ASKED = RNG.random((800, 40)) < 0.5, RNG.random((20, 40)) < 0.5


def true_neighbours(metric: str, vectors: np.ndarray, ids: np.ndarray, k: int) -> list[set[int]]:
    base, queries = vectors.astype(np.float64), TEST.astype(np.float64)
    if metric in ("angular", "ip"):
        if metric == "angular":
            base = base / np.linalg.norm(base, axis=1, keepdims=True)
        far = -(queries @ base.T)
    else:
        far = np.linalg.norm(queries[:, None] - base[None], axis=2)
    return [set(ids[np.argsort(row)[:k]].tolist()) for row in far]


def load(monkeypatch: pytest.MonkeyPatch, name: str, path: Path, stand_ins: dict[str, dict[str, Any]]) -> Any:
    """Import a plug-in under the name that it has in its framework, beside stand-ins of what it imports from there."""
    for module, names in stand_ins.items():
        made = types.ModuleType(module)
        made.__dict__.update(names, __path__=[])
        monkeypatch.setitem(sys.modules, module, made)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


# ann-benchmarks ------------------------------------------------------------------------------------------------------


class BaseANN:
    def done(self) -> None:
        pass

    def get_memory_usage(self) -> float:
        return 1.0

    def get_additional(self) -> dict[str, Any]:
        return {}


@pytest.fixture
def ann(monkeypatch: pytest.MonkeyPatch) -> Any:
    package = "ann_benchmarks.algorithms"
    stand_ins: dict[str, dict[str, Any]] = {
        "ann_benchmarks": {},
        package: {},
        f"{package}.base": {},
        f"{package}.base.module": {"BaseANN": BaseANN},
        f"{package}.lethevec": {},
    }
    path = PLUGINS / "ann-benchmarks" / "lethevec" / "module.py"
    return load(monkeypatch, f"{package}.lethevec.module", path, stand_ins)


def definitions(metric: str, kind: str = "float") -> list[tuple[dict[str, Any], list[Any], list[list[Any]]]]:
    """(entry, constructor arguments, groups of query arguments), read as the framework reads a configuration."""
    entries = yaml.safe_load((PLUGINS / "ann-benchmarks" / "lethevec" / "config.yml").read_text())[kind][metric]
    found = []
    for entry in entries:
        base = [metric if value == "@metric" else value for value in entry["base_args"]]
        for group in entry["run_groups"].values():
            queries = [list(one) for one in itertools.product(*group["query_args"])]
            found += [(entry, [*base, *given], queries) for given in itertools.product(*group["args"])]
    return found


@pytest.mark.parametrize("metric", ["angular", "euclidean"])
def test_ann_benchmarks_calling_sequence(ann: Any, metric: str) -> None:
    true = true_neighbours(metric, TRAIN, np.arange(len(TRAIN)), 10)
    for entry, arguments, query_groups in definitions(metric):
        assert entry["module"] == ann.__name__.removesuffix(".module")
        algorithm = getattr(ann, entry["constructor"])(*arguments)
        assert isinstance(algorithm, BaseANN)
        algorithm.get_memory_usage()
        algorithm.fit(TRAIN)
        recalls, names = [], set()
        for given in query_groups:
            algorithm.set_query_arguments(*given)
            names.add(str(algorithm))
            answers = [algorithm.query(query, 10) for query in TEST]
            for ids in answers:
                assert len(set(ids)) == len(ids) <= 10  # the framework refuses repeated ids
                assert all(0 <= int(id) < len(TRAIN) for id in ids)
            recalls.append(np.mean([len(t & set(ids.tolist())) / 10 for t, ids in zip(true, answers, strict=True)]))
            algorithm.batch_query(TEST, 10)
            for alone, batch in zip(answers, algorithm.get_batch_results(), strict=True):
                np.testing.assert_array_equal(alone, batch)
        assert len(names) == len(query_groups)  # results are stored by name
        assert recalls == sorted(recalls)
        assert recalls[-1] == 1.0
        assert algorithm.get_additional() == {}
        algorithm.done()


def test_ann_benchmarks_ranks_bits_by_hamming_distance(ann: Any) -> None:
    """By distance, because many are equally far. With all the effort there is the answers are exact."""
    far = (ASKED[:, None] != BITS[None]).sum(axis=2)
    limit = np.sort(far, axis=1)[:, 9]
    for entry, arguments, query_groups in definitions("hamming", "bit"):
        algorithm = getattr(ann, entry["constructor"])(*arguments)
        algorithm.fit(BITS)
        algorithm.set_query_arguments(*query_groups[-1])
        algorithm.batch_query(ASKED, 10)
        for row, (query, batch) in enumerate(zip(ASKED, algorithm.get_batch_results(), strict=True)):
            found = algorithm.query(query, 10)
            np.testing.assert_array_equal(found, batch)
            assert len(set(found.tolist())) == 10
            assert (far[row, found] <= limit[row]).all()
            assert (np.diff(far[row, found]) >= 0).all()


def test_ann_benchmarks_asks_for_more_than_there_are(ann: Any) -> None:
    algorithm = ann.Lethevec("euclidean")
    algorithm.fit(TRAIN[:5])
    assert sorted(algorithm.query(TEST[0], 10).tolist()) == [0, 1, 2, 3, 4]


def test_ann_benchmarks_refuses_other_metrics(ann: Any) -> None:
    with pytest.raises(NotImplementedError, match="angular, euclidean, hamming, got 'jaccard'"):
        ann.Lethevec("jaccard")


# big-ann-benchmarks --------------------------------------------------------------------------------------------------


class BaseStreamingANN:
    def get_results(self) -> Any:
        return self.res  # type: ignore[attr-defined]


@pytest.fixture
def streaming(monkeypatch: pytest.MonkeyPatch) -> Any:
    base = "neurips23.streaming"
    stand_ins: dict[str, dict[str, Any]] = {
        "neurips23": {},
        base: {},
        f"{base}.base": {"BaseStreamingANN": BaseStreamingANN},
        f"{base}.lethevec": {},
    }
    path = PLUGINS / "big-ann-benchmarks" / "lethevec" / "lethevec_streaming.py"
    return load(monkeypatch, f"{base}.lethevec.lethevec_streaming", path, stand_ins)


RUNBOOK = [
    {"operation": "insert", "start": 1, "end": 600},
    {"operation": "search"},
    {"operation": "delete", "start": 1, "end": 300},
    {"operation": "search"},
    {"operation": "insert", "start": 1, "end": 300},
    {"operation": "search"},
    {"operation": "replace", "tags_start": 1, "tags_end": 101, "ids_start": 600, "ids_end": 700},
    {"operation": "search"},
]


def entry_of(data: str) -> dict[str, Any]:
    path = PLUGINS / "big-ann-benchmarks" / "lethevec" / "config.yaml"
    entry: dict[str, Any] = yaml.safe_load(path.read_text())[data]["lethevec"]
    return entry


def replay(algorithm: Any, data: np.ndarray, metric: str, least: float = 0.95) -> list[np.ndarray]:
    """The runbook, step by step as the framework's runner takes them; the answers of every search, checked."""
    held = np.full(len(data), -1)  # which row an id has
    answers = []
    for step in RUNBOOK:
        if step["operation"] == "search":
            algorithm.query(TEST, 10)
            answers.append(algorithm.get_results())
            check(answers[-1], data, held, metric, least)
        elif step["operation"] == "replace":
            ids = np.arange(step["tags_start"], step["tags_end"], dtype=np.uint32)
            rows = np.arange(step["ids_start"], step["ids_end"])
            algorithm.replace(data[rows], ids)
            held[ids] = rows
        else:
            ids = np.arange(step["start"], step["end"], dtype=np.uint32)
            if step["operation"] == "insert":
                algorithm.insert(data[ids], ids)
                held[ids] = ids
            else:
                algorithm.delete(ids)
                held[ids] = -1
    return answers


@pytest.mark.parametrize("metric", ["euclidean", "ip"])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
def test_big_ann_streaming_calling_sequence(streaming: Any, metric: str, dtype: str) -> None:
    entry = entry_of("random-xs")
    assert entry["module"] == streaming.__name__
    data = TRAIN if dtype == "float32" else np.abs(TRAIN * 20).astype(dtype)
    (group,) = entry["run-groups"].values()
    for params in json.loads(group["args"]):
        base = [metric if value == "@metric" else value for value in entry["base-args"]]
        algorithm = getattr(streaming, entry["constructor"])(*base, params)
        algorithm.setup(dtype, len(data), data.shape[1])
        algorithm.set_query_arguments(json.loads(group["query-args"])[-1])
        replay(algorithm, data, metric)
        assert algorithm.get_additional()["bytes_per_record"] > 0
        assert "effort=2" in str(algorithm)


def test_big_ann_replays_the_runbook_for_each_set_of_query_arguments(streaming: Any) -> None:
    """On one object that is set up once: nothing of one replay may be left in the next."""
    (group,) = entry_of("random-xs")["run-groups"].values()
    algorithm = streaming.Lethevec("euclidean", {})
    algorithm.setup("float32", len(TRAIN), TRAIN.shape[1])
    names = set()
    for arguments in json.loads(group["query-args"]):
        algorithm.set_query_arguments(arguments)
        answers = replay(algorithm, TRAIN, "euclidean", least=0.7)
        names.add(str(algorithm))
        fresh = streaming.Lethevec("euclidean", {})
        fresh.setup("float32", len(TRAIN), TRAIN.shape[1])
        fresh.set_query_arguments(arguments)
        for one, other in zip(answers, replay(fresh, TRAIN, "euclidean", least=0.7), strict=True):
            np.testing.assert_array_equal(one, other)
    assert len(names) == len(json.loads(group["query-args"]))  # results are stored by name


def test_big_ann_configuration_has_the_data_sets_that_the_readme_lists() -> None:
    """A data set that is not in the configuration is refused by the framework."""
    text = (PLUGINS / "README.md").read_text()
    rows = [line for line in text.splitlines() if "runbook" in line or "expiration" in line]
    listed = {name for row in rows if row.startswith("| `") for name in re.findall(r"`([\w-]+)`", row.split("|")[2])}
    assert listed >= {"random-xs", "msturing-10M-clustered", "wikipedia-1M", "wikipedia-35M", "msmarco-100M"}
    for name in listed:
        assert entry_of(name) == entry_of("random-xs")


def check(found: np.ndarray, data: np.ndarray, held: np.ndarray, metric: str, least: float) -> None:
    assert found.shape == (len(TEST), 10)
    ids = np.flatnonzero(held >= 0)
    assert np.isin(found, ids).all()
    rows = data[held[found]].astype(np.float64)
    if metric == "ip":
        got = -np.einsum("qkd,qd->qk", rows, TEST)
        best = np.sort(-(TEST @ data[held[ids]].T.astype(np.float64)), axis=1)[:, :10]
    else:
        got = np.linalg.norm(rows - TEST[:, None], axis=2)
        best = np.sort(np.linalg.norm(data[held[ids]][None].astype(np.float64) - TEST[:, None], axis=2))[:, :10]
    # By distance, because whole numbers tie; and a few may be missed.
    assert (got <= best[:, -1:] + 1e-3).mean() > least


def test_big_ann_range_query(streaming: Any) -> None:
    algorithm = streaming.Lethevec("euclidean", {})
    algorithm.setup("float32", 100, 12)
    algorithm.insert(TRAIN[:100], np.arange(100, dtype=np.uint32))
    algorithm.range_query(TEST, 4.0)
    limits, distances, ids = algorithm.get_results()
    full = np.linalg.norm(TRAIN[None, :100] - TEST[:, None], axis=2)
    for row, (begin, end) in enumerate(itertools.pairwise(limits)):
        assert set(ids[begin:end].tolist()) == set(np.flatnonzero(full[row] <= 4.0).tolist())
        assert (distances[begin:end] <= 4.0).all()


@pytest.mark.parametrize("name", ["ann-benchmarks", "big-ann-benchmarks"])
def test_dockerfile_starts_from_the_framework(name: str) -> None:
    text = (PLUGINS / name / "lethevec" / "Dockerfile").read_text()
    assert text.startswith("FROM ann-benchmarks\n" if name == "ann-benchmarks" else "FROM neurips23\n")
    assert "import lethevec" in text
