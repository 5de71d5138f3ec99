"""The benchmarks run from end to end on a small file, and record every part with its recall."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lethevec
from lethevec.bench import compare, encode, growing, harness, pivots, scan, tables

h5py = pytest.importorskip("h5py")
pytest.importorskip("faiss")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(harness, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture
def data(tmp_path: Path) -> str:
    rng = np.random.default_rng(1)
    points = rng.standard_normal((40, 16))[rng.integers(0, 40, 1030)] + 0.5 * rng.standard_normal((1030, 16))
    path = tmp_path / "toy-16-euclidean.hdf5"
    with h5py.File(path, "w") as file:
        file.attrs["distance"] = "euclidean"
        file["train"], file["test"] = points[:1000], points[1000:]
    return str(path)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


SHORT = ["--rounds", "3", "--seconds", "0"]


def test_encode(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encode.main([*SHORT, "--batch", "50"])
    found = lines(results)
    assert {(line["family"], line["dim"]) for line in found} == {
        (family, dim) for family in ("superbit", "progressive", "usr") for dim in (96, 128)
    }
    assert min(line["equal_bits_with_numpy"] for line in found) > 0.99
    assert all(len(line["seconds"]) == 3 and line["rate"] > 0 for line in found)
    out = capsys.readouterr().out
    assert "### Encoding, dim 96, 768 bits" in out
    assert "sa_encode" in out


def test_compare(results: Path, data: str, capsys: pytest.CaptureFixture[str]) -> None:
    compare.main([*SHORT, "--data", data, "--peers", "flat,rabitq", "--targets", "0.9"])
    timed = [line for line in lines(results) if "recall" in line]
    assert [line["competitor"] for line in timed] == [
        "lethevec (scan)",
        "Faiss Flat (exact)",
        "Faiss RaBitQfs + refine",
    ]
    assert all(line["recall"] >= 0.9 for line in timed)
    assert "recall of at least 0.9, 30 queries" in capsys.readouterr().out


def test_scan(results: Path, data: str, capsys: pytest.CaptureFixture[str]) -> None:
    scan.main([*SHORT, "--data", data, "--sizes", "300", "600"])
    found = lines(results)
    parts = {part: [line for line in found if line["part"] == part] for part in ("search", "paper", "forget", "memory")}
    ours = [line for line in parts["search"] if line["competitor"] == "lethevec (scan)"]
    assert len(ours) == 1
    assert ours[0]["recall"] >= 0.95
    assert {line["bits"] for line in parts["paper"]} == {768, 2048}
    for bits in (768, 2048):
        recalls = [line["recall"] for line in parts["paper"] if line["bits"] == bits]
        assert max(recalls) - min(recalls) < 0.05  # the same codes on both sides; ties may fall otherwise
    assert [line["records"] for line in parts["forget"]] == [line["records"] for line in parts["memory"]] == [300, 600]
    assert all(cost > 0 for line in parts["forget"] for cost in line["micros"].values())
    assert "Adding and forgetting, dim 16, l2" in capsys.readouterr().out


def test_tables(results: Path, data: str, capsys: pytest.CaptureFixture[str]) -> None:
    tables.main(
        [*SHORT, "--data", data, "--sizes", "300", "600", "--tables", "1", "2", "--key-bits", "4", "--flips", "1"]
    )
    found = lines(results)
    swept = [line for line in found if line["part"] == "sweep"]
    assert {line["source"] for line in swept} == {"scan", "L=1, b=4", "L=2, b=4"}
    for source in ("scan", "L=1, b=4", "L=2, b=4"):
        recalls = [line["recall"] for line in swept if line["source"] == source]
        assert recalls == sorted(recalls)  # by rising effort
        assert recalls[-1] > 0.9
    beside = {line["competitor"].split(",")[0] for line in found if line["part"] == "faiss"}
    assert beside == {"Faiss IndexBinaryFlat", "lethevec tables", "Faiss IndexBinaryHash", "Faiss IndexBinaryMultiHash"}
    hashed = [line for line in found if line.get("competitor", "").startswith("Faiss IndexBinaryHash")]
    assert hashed[0]["recall"] <= hashed[1]["recall"]  # the second flips a bit more
    changed = {(line["source"], line["records"]) for line in found if line["part"] == "changes"}
    assert changed == {(source, n) for source in ("tables", "scan") for n in (300, 600, 1000)}
    check_growth(found, {"tables", "scan"})
    assert "tables grows as n^" in capsys.readouterr().out
    assert {path.name for path in results.glob("*.svg")} == {
        "tables-toy-16-euclidean.svg",
        "tables-growth-toy-16-euclidean.svg",
    }


def test_pivots(results: Path, data: str) -> None:
    pivots.main([*SHORT, "--data", data, "--parts", "growth,changes", "--sizes", "300", "--changes", "16"])
    found = lines(results)
    check_growth(found, {"pivots", "refined", "scan"})
    assert all(line["add"] > 0 and line["forget"] > 0 for line in found if line["part"] == "changes")


def check_growth(found: list[dict[str, Any]], sources: set[str]) -> None:
    grown = [line for line in found if line["part"] == "growth"]
    timed, (fitted,) = grown[:-1], grown[-1:]
    assert {line["source"] for line in timed} == set(fitted["exponents"]) == sources
    assert {line["records"] for line in timed} == set(fitted["sizes"])
    assert all(line["recall"] >= 0.9 and len(line["seconds"]) == 3 for line in timed)
    scanned = fitted["exponents"]["scan"]
    assert 0.5 < scanned["looked"] < 1.1  # few records: what is looked at again counts as well
    assert scanned["lowest"] <= scanned["time"] <= scanned["highest"]


def test_the_exponent_of_a_power_law() -> None:
    sizes = [100, 1000, 5000]
    assert growing.exponent(sizes, [3 * n**0.7 for n in sizes]) == pytest.approx(0.7)
    timings = [harness.Timing("one", 1, [n**0.5, n**0.6, n**0.9]) for n in sizes]
    assert growing.fit(sizes, timings, [n**1.0 for n in sizes]) == pytest.approx((0.6, 0.5, 0.9, 1.0))
    assert np.isnan(growing.exponent([100], [1.0]))


def test_scan_with_other_instructions(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--isa` hands everything else to a new process, which has LETHEVEC_ISA set."""
    seen: dict[str, Any] = {}

    def run(command: list[str], *, env: dict[str, str], check: bool) -> Any:
        seen.update(command=command, env=env)
        return type("Done", (), {"returncode": 7})

    monkeypatch.setattr(scan.subprocess, "run", run)
    with pytest.raises(SystemExit) as ended:
        scan.main(["--data", data, "--isa", "scalar", "--parts", "search"])
    assert ended.value.code == 7
    assert seen["command"][1:] == ["-m", "lethevec.bench.scan", "--data", data, "--parts", "search"]
    assert seen["env"]["LETHEVEC_ISA"] == "scalar"


def test_goals_are_halved_without_avx512(monkeypatch: pytest.MonkeyPatch) -> None:
    info = lethevec.cpu_info()
    for isa, goal in (("avx512", 8.0), ("avx2", 4.0)):
        monkeypatch.setattr(lethevec, "cpu_info", lambda isa=isa: type(info)(**{**_fields(info), "isa": isa}))
        assert scan.goal_here(8.0) == goal


def _fields(info: Any) -> dict[str, Any]:
    return dict(info._asdict()) if hasattr(info, "_asdict") else dict(vars(info))
