"""The single experiments run from end to end on a small file, and record every part with its recall."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lethevec
from lethevec.bench import cli
from lethevec.bench.experiments import ALL, batches, growth, module_of, scan, sources
from lethevec.bench.measuring import process
from lethevec.bench.measuring.timing import Timing, Turn
from lethevec.bench.report.results import NAME, read

pytest.importorskip("h5py")
pytest.importorskip("faiss")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("one_thread")]
Measure = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def measure(tmp_path: Path) -> Measure:
    """Runs an experiment with three short rounds; the lines of its results."""

    def run(*arguments: str) -> list[dict[str, Any]]:
        assert cli.main([*arguments, "--rounds", "3", "--seconds", "0", "--out", str(tmp_path / "out")]) == 0
        assert (tmp_path / "out" / "report.html").exists()
        return [line for line in read(tmp_path / "out" / NAME) if not line.get("ended")]

    return run


@pytest.fixture
def data(toy: Callable[..., str]) -> str:
    return toy("toy-16-euclidean.hdf5", "euclidean", records=1000, queries=60)


def of(lines: list[dict[str, Any]], what: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["what"] == what]


def test_encode(measure: Measure, capsys: pytest.CaptureFixture[str]) -> None:
    found = of(measure("encode", "--batch", "50"), "encoding")
    assert {(line["family"], line["dim"]) for line in found} == {
        (family, dim) for family in ("superbit", "progressive", "usr") for dim in (96, 128)
    }
    assert min(line["equal_bits_with_numpy"] for line in found) > 0.99
    assert all(len(line["wall"]) == 3 and line["rate"] > 0 for line in found)
    out = capsys.readouterr().out
    assert "### Encoding, dim 96, 768 bits" in out
    assert "sa_encode" in out


def test_effort(measure: Measure, data: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = of(measure("effort", "--data", data, "--sources", "scan,tables,pivots", "--efforts", "0.5", "1"), "effort")
    assert [(line["source"], line["effort"]) for line in lines] == [
        (source, effort) for source in ("scan", "tables", "pivots") for effort in ("0.5", "1", "inf")
    ]
    for less, more, everything in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        assert 0.5 < less["recall"] <= more["recall"] <= everything["recall"] == 1.0
        assert everything["us_per_query"] > 0
    assert "recall@10 by effort" in capsys.readouterr().out


def test_compare(measure: Measure, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", "--data", data, "--peers", "flat,rabitq", "--targets", "0.9"]
    lines = measure(*command)
    found = of(lines, "at recall")
    assert [line["competitor"] for line in found] == [
        "lethevec (scan)",
        "Faiss Flat (exact)",
        "Faiss RaBitQfs + refine",
    ]
    assert all(line["recall"] >= 0.85 and len(line["wall"]) == 3 for line in found)
    assert {line["competitor"] for line in of(lines, "build")} == {line["competitor"] for line in found}
    title = "tuned to a recall of 0.9 on other queries; 30 queries one by one"
    assert title in capsys.readouterr().out
    assert title in (tmp_path / "out" / "report.html").read_text()
    # Once more with --resume: it was done before, and the report still has the table.
    assert measure(*command, "--resume") == lines
    assert "done before" in capsys.readouterr().out
    assert title in (tmp_path / "out" / "report.md").read_text()


def test_scan(measure: Measure, data: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = measure("scan", "--data", data, "--sizes", "300", "600")
    ours = [line for line in of(found, "at recall") if line["competitor"] == "lethevec (scan)"]
    assert len(ours) == 1
    assert ours[0]["recall"] >= 0.9
    assert of(found, "bandwidth")[0]["bytes_read"] > 0
    beside = of(found, "paper")
    assert {(line["bits"], line["asked"], line["competitor"]) for line in beside} == {
        (bits, asked, who) for bits in (768, 2048) for asked in ("alone", "batch") for who in ("lethevec", "faiss")
    }
    for bits in (768, 2048):
        recalls = [line["recall"] for line in beside if line["bits"] == bits]
        assert max(recalls) - min(recalls) < 0.05  # the same codes on both sides; ties may fall otherwise
    forgotten = of(found, "forget")
    assert [line["records"] for line in forgotten] == [line["records"] for line in of(found, "memory")] == [300, 600]
    assert all(set(line["micros"]) > set(line["goals"]) for line in forgotten)
    assert all(cost > 0 for line in forgotten for cost in line["micros"].values())
    assert "Adding and forgetting, dim 16, l2" in capsys.readouterr().out


def test_sources(measure: Measure, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    found = measure("sources", "--data", data, "--changes", "24", "--clock", "cpu")
    assert {line["source"] for line in of(found, "sweep")} == {"scan", "tables", "pivots", "graph"}
    for source in ("scan", "tables", "pivots", "graph"):
        own = [line for line in of(found, "sweep") if line["source"] == source]
        assert [line["effort"] for line in own] == sorted(line["effort"] for line in own)
        recalls = [line["recall"] for line in own]
        assert recalls == sorted(recalls)
        assert recalls[-1] > 0.9
    costs = {line["source"]: line for line in of(found, "source")}
    assert costs["graph"]["bytes_per_record"] > costs["scan"]["bytes_per_record"] > 4 * 16
    assert all(0 < line["forget"] <= line["worst_forget"] for line in costs.values())
    # A set of 1,000 is scanned, whatever the index is to be good at.
    assert [of(found, "chosen")[0][optimize] for optimize in ("updates", "search", "memory")] == ["scan"] * 3
    assert "every source, one thread" in capsys.readouterr().out
    drawn = (tmp_path / "out" / "sources-toy-16-euclidean.svg").read_text()
    assert "queries per second" in drawn
    assert "bytes a record" in drawn


def test_the_source_that_auto_is_said_to_choose_is_the_one_it_uses() -> None:
    """By `optimize` and the number of records; lower lines stand in for those that take long to reach."""
    x = np.random.default_rng(0).standard_normal((400, 256)).astype(np.float32)
    for optimize, many in (("updates", "pivots"), ("search", "graph"), ("memory", "scan")):
        usual = lethevec.Index(256, optimize=optimize).config.source
        lines = [300 if line <= 100_000 else line for line in (usual.pivots_from, usual.graph_from)]
        low = lethevec.Auto(pivots_from=lines[0], graph_from=lines[1])
        for n, expected in ((200, "scan"), (400, many)):
            index = lethevec.Index(256, source=low)
            index.add(x[:n], ids=range(n))
            stats = index.stats()
            used = "graph" if stats["vertices"] else "pivots" if stats["pivots"] else "scan"
            assert used == expected, (optimize, n)
            grown = {200: 20_000, 400: 100_000}[n]
            assert sources.chosen_by(optimize, 256, "cosine", grown) == expected


def test_the_speed_at_a_recall_lies_between_those_of_its_neighbours() -> None:
    points = [(0.8, 4000.0), (0.9, 2000.0), (1.0, 500.0)]
    assert sources.rate_at(points, 0.9) == pytest.approx(2000.0)
    assert sources.rate_at(points, 0.95) == pytest.approx(1000.0)
    assert sources.rate_at(points, 0.5) == pytest.approx(4000.0)
    assert sources.rate_at(points[:2], 0.95) is None


def test_tables(measure: Measure, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    options = ["--sizes", "300", "--tables", "1", "2", "--key-bits", "4", "--flips", "1", "--changes", "40"]
    found = measure("tables", "--data", data, *options)
    swept = of(found, "sweep")
    assert {line["source"] for line in swept} == {"scan", "L=1, b=4", "L=2, b=4"}
    for source in ("scan", "L=1, b=4", "L=2, b=4"):
        recalls = [line["recall"] for line in swept if line["source"] == source]
        assert recalls == sorted(recalls)  # by rising effort
        assert recalls[-1] > 0.9
    beside = of(found, "faiss")
    assert {line["competitor"] for line in beside} == {
        "Faiss IndexBinaryFlat",
        "lethevec tables",
        "Faiss IndexBinaryHash",
        "Faiss IndexBinaryMultiHash",
    }
    hashed = {line["setting"]: line["recall"] for line in beside if line["competitor"] == "Faiss IndexBinaryHash"}
    assert hashed["nflip=0"] <= hashed["nflip=1"]
    changed = {(line["source"], line["records"]) for line in of(found, "changes")}
    assert changed == {(source, n) for source in ("tables", "scan") for n in (300, 1000)}
    check_growth(found, {"tables", "scan"})
    assert "tables grows as n^" in capsys.readouterr().out
    page = (tmp_path / "out" / "report.html").read_text()
    for name in ("tables-toy-16-euclidean", "tables-growth-toy-16-euclidean"):
        assert (tmp_path / "out" / f"{name}.svg").exists()
    assert page.count("data:image/svg") == 2


def test_pivots(measure: Measure, data: str) -> None:
    pytest.importorskip("matplotlib")
    options = ["--sizes", "300", "--changes", "64", "--peers", "flat", "--targets", "0.9"]
    found = measure("pivots", "--data", data, *options)
    assert [line["competitor"] for line in of(found, "at recall")] == [
        "lethevec (pivots)",
        "lethevec (refined)",
        "Faiss Flat (exact)",
    ]
    check_growth(found, {"pivots", "refined", "scan"})
    changed = of(found, "changes")
    assert [line["source"] for line in changed] == ["pivots", "refined"]
    assert all(line["add"] > 0 and line["forget"] > 0 for line in changed)
    halves = of(found, "half")
    assert [(line["layout"], line["source"]) for line in halves] == [
        (layout, source) for layout in ("spread", "one cluster") for source in ("pivots", "refined")
    ]
    assert all(line["build"] > 0 and line["forget"] > 0 and line["search_longest"] > 0 for line in halves)


def check_growth(found: list[dict[str, Any]], sources: set[str]) -> None:
    grown, (fitted,) = of(found, "growth"), of(found, "exponents")
    assert {line["source"] for line in grown} == set(fitted["exponents"]) == sources
    assert {line["records"] for line in grown} == set(fitted["sizes"])
    assert all(line["recall"] >= 0.8 and len(line["wall"]) == 3 for line in grown)
    scanned = fitted["exponents"]["scan"]
    assert 0.5 < scanned["looked"] < 1.1  # few records: what is looked at again counts as well
    assert scanned["lowest"] <= scanned["time"] <= scanned["highest"]


def test_residue(measure: Measure) -> None:
    pytest.importorskip("cryptography")
    found = measure("residue", "--vectors", "300", "--forget", "5", "--dim", "16")
    told = {(line["peer"], line["step_done"]): line for line in of(found, "residue")}
    for (peer, step), line in told.items():
        if peer.startswith("lethevec"):
            assert (line["bytes"], line["some"]) == (0, 0), step
    assert {peer for peer, _ in told} >= {"lethevec (store)", "lethevec (index)", "faiss", "SQLite"}
    assert told["lethevec (index)", "index: forget, save"]["control"] == 5


def test_scale(measure: Measure) -> None:
    found = measure("scale", "--sizes", "1000", "3000", "--dim", "12", "--changes", "40")
    lines = of(found, "scale")
    assert [line["records"] for line in lines] == [1000, 3000]
    assert lines[0]["pivots"] < lines[1]["pivots"]
    assert min(line["recall"] for line in lines) > 0.8
    assert set(of(found, "exponents")[0]) >= {"build_s", "search_us", "add_mean", "forget_median"}


def test_scale_as_in_the_paper(measure: Measure, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["scale", "--dim", "16", "--graph-records", "0", "--store-records", "0", "--annoy-trees", "2"]
    lines = measure(*command, "--parts", "paper", "--sizes", "500", "1500")
    assert [line["records"] for line in of(lines, "about")] == [500, 1500]
    codes = {(line["records"], line["competitor"], line["bits"]): line for line in of(lines, "codes")}
    assert len(codes) == 2 * 4 * 2
    for n in (500, 1500):
        for bits in (32, 128):
            usr, simhash = codes[n, "USR (T = 17), ours", bits], codes[n, "simHash", bits]
            assert usr["area"] > simhash["area"] > 0
            assert usr["search_us"] > 0
            assert len(usr["precision"]) == len(usr["recalls"]) == 100
        assert len(codes[n, "USR (T = 17), ours", 128]["deletes"]) == 11
    assert codes[500, "simHash", 128]["area"] > codes[500, "simHash", 32]["area"]
    rivals = {(line["records"], line["competitor"]): line for line in of(lines, "rival")}
    again = rivals[1500, "Faiss IVFPQ fast-scan"]
    assert len(again["retrained"]) == 1
    assert again["build_s"] == again["retrained"][0] > 0
    assert len(again["deletes"]) == 11
    assert rivals[1500, "lethevec, in memory"]["retrained"] == []
    assert rivals[1500, "lethevec, in memory"]["recall"] > 0.8
    capsys.readouterr()
    # Nothing is measured a second time, and the pictures are drawn of what there is.
    (tmp_path / "out" / "paper-size-curves.svg").unlink()
    again_lines = measure(*command, "--parts", "", "--resume")
    assert len(of(again_lines, "codes")) == len(codes)
    assert len(of(again_lines, "table")) == len(of(lines, "table")) == 2
    assert (tmp_path / "out" / "paper-size-curves.svg").exists()
    assert "built in" not in capsys.readouterr().out


def test_filters(measure: Measure, tmp_path: Path) -> None:
    """Counts are checked by the experiment itself, against the rules in plain Python."""
    pytest.importorskip("cryptography")
    found = measure("filters", "--shapes", "2000x12", "--folder", str(tmp_path), "--peers-up-to", "0")
    told = {line["filter"]: line for line in of(found, "filter")}
    assert told["none"]["passing"] is None
    assert 900 < told["50 %: kind"]["passing"] < 1100
    assert min(line["recall"] for line in told.values()) > 0.9
    assert all(line["recall"] == 1 for line in told.values() if line["passing"] and line["passing"] < 100)
    assert of(found, "costs")[0]["first_filter_s"] > 0
    assert list(tmp_path.glob("**/*.lethe")) == []


def test_server(measure: Measure) -> None:
    pytest.importorskip("uvicorn")
    if not Path("/proc/self/task").exists():
        pytest.skip("it looks into /proc")
    found = measure(
        "server", "--records", "300", "--dim", "16", "--connections", "1", "3", "--requests", "40", "--chroma", ""
    )
    lines = of(found, "server")
    assert {line["kind"] for line in lines} == {"ours, JSON", "ours, base64", "ours, raw float32"}
    assert [line["connections"] for line in lines] == [1, 1, 1, 3, 3, 3]
    assert all(line["recall"] > 0.95 and line["per_second"] > 0 and line["cpu_us"] > 0 for line in lines)


def test_store(measure: Measure, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    found = measure(
        "store",
        "--sizes",
        "400",
        "600",
        "--dim",
        "8",
        "--family",
        "usr",
        "--per-subject",
        "100",
        "--folder",
        str(tmp_path),
    )
    first, second = of(found, "store")
    assert [line["records"] for line in (first, second)] == [400, 600]
    assert first["forget one, ms"] > 0
    assert first["open a copy without codes, CPU s"] > 0
    assert first["SQLite alone: delete one, ms"] > 0
    assert first["SQLite alone: delete a subject of 100, ms"] > 0
    assert not list(tmp_path.glob("*.lethe"))


def test_the_exponent_of_a_power_law() -> None:
    sizes = [100, 1000, 5000]
    assert growth.exponent(sizes, [3 * n**0.7 for n in sizes]) == pytest.approx(0.7)
    timings = [Timing("one", "wall", [Turn(1, n**power, 0.0) for power in (0.5, 0.6, 0.9)]) for n in sizes]
    assert growth.fit(sizes, timings, [n**1.0 for n in sizes]) == pytest.approx((0.6, 0.5, 0.9, 1.0))
    assert np.isnan(growth.exponent([100], [1.0]))


def test_other_instructions_need_another_process(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are chosen when the library is loaded."""
    seen: list[Any] = []
    monkeypatch.setattr(process, "start_over", lambda given, **variables: seen.append((given, variables)) or 7)
    monkeypatch.delenv("LETHEVEC_ISA", raising=False)
    command = ["scan", "--data", data, "--isa", "scalar", "--parts", "search"]
    assert cli.main(command) == 7
    assert seen == [(command, {"LETHEVEC_ISA": "scalar"})]


def test_goals_are_halved_without_avx512(monkeypatch: pytest.MonkeyPatch) -> None:
    info = lethevec.cpu_info()
    for isa, goal in (("avx512", 8.0), ("avx2", 4.0)):
        monkeypatch.setattr(lethevec, "cpu_info", lambda isa=isa: type(info)(**{**_fields(info), "isa": isa}))
        assert scan.goal_here(8.0) == goal


def _fields(info: Any) -> dict[str, Any]:
    return dict(info._asdict()) if hasattr(info, "_asdict") else dict(vars(info))


@pytest.mark.parametrize("name", list(ALL))
def test_every_experiment_can_be_run_and_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(module_of(name).experiment)
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert "--data" in out
    assert "--rounds" in out
    if name in ("compare", "pivots", "peers"):
        assert "--peers" in out


def test_batches(measure: Measure, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "default_threads", lambda: 2)
    options = ("--peers", "ivfpq", "--sources", "scan,graph", "--batch", "20", "--folder", str(tmp_path))
    found = measure("batches", "--data", data, "--target", "0.9", *options)
    lines = of(found, "queries")
    assert [line["competitor"] for line in lines][:2] == ["lethevec (scan)", "lethevec (graph)"]
    assert len(lines) == 3
    assert all(line["recall"] >= 0.85 for line in lines)
    assert all(line[name] > 0 for line in lines for name in ("alone_us", "batch_us", "shared_us", "cores", "cpu"))
    made = of(found, "building")
    ways = ["add", "Index.load", "open, with an image", "open, without"]
    assert [(line["source"], line["how"]) for line in made] == [(s, way) for s in ("scan", "graph") for way in ways]
    assert not list(tmp_path.glob("tmp*"))  # nothing stays behind


def test_memory(measure: Measure, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--target", "0.9", "--folder", str(tmp_path), "--kept", "float32,int8,file")
    found = measure("memory", "--data", data, "--peers", "ivfpq", *options)
    lines = of(found, "bytes")
    ours = [f"lethevec ({source}{how})" for source in ("scan", "pivots") for how in ("", ", int8", ", file")]
    assert [line["competitor"] for line in lines][:6] == ours
    assert all(line["recall"] >= 0.85 for line in lines)
    assert [line["says"] is None for line in lines] == [False] * 6 + [True]
    said = {line["competitor"]: line["says"] for line in lines}
    for source in ("scan", "pivots"):
        whole, small, rest = (said[f"lethevec ({source}{how})"] for how in ("", ", int8", ", file"))
        assert rest == pytest.approx(whole - lines[0]["vector"])
        assert rest < small < whole
    small = of(found, "forms")
    assert [line["form"] for line in small] == ["float32", "float16", "int8"] * 2
    dim = small[0]["vector"] / 4
    assert [line["vector"] for line in small[:3]] == [4 * dim, 2 * dim, 4 + dim]
    assert [line["recall_of_the_exact_ranking"] > 0.9 for line in small] == [True] * 6
    opened = of(found, "opening")
    assert [line["source"] for line in opened] == ["scan", "pivots"]
    assert all(line["ratio"] == line["open"] / line["read"] > 0 for line in opened)
    assert "opening a store of" in capsys.readouterr().out
