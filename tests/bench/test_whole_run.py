"""A whole run on a small file: every part with its results, figures with their numbers, the report; and resuming."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lethevec.bench import cli, paper, peers
from lethevec.bench.experiments import deletion, paper3
from lethevec.bench.experiments.run import Run
from lethevec.bench.measuring.field import Competitor
from lethevec.bench.report import analysis, front, results
from lethevec.bench.report.tables import markdown

pytest.importorskip("h5py")
pytest.importorskip("faiss")
pytest.importorskip("matplotlib")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("one_thread")]
Toy = Callable[..., str]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few competitors, among them one that is not installed and one that fails."""
    monkeypatch.setattr(paper, "expansions", lambda data, quick=False: (2, 4))
    monkeypatch.setattr(paper3, "RETRAINED", paper3.RETRAINED[2:])
    absent = Competitor("ScaNN, delete", "scann", {"deletes": True})
    present = Competitor("Faiss IVFPQ, remove_ids", "ivfpq", {"refined": False})
    monkeypatch.setattr(peers.Scann, "module", "not_to_be_found")
    monkeypatch.setattr(deletion, "rivals", lambda: [present, absent])
    monkeypatch.setattr("lethevec.bench.experiments.run.SOURCES", ("scan", "nowhere"))


class Links(HTMLParser):
    """What a page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.found += [value for key in ("src", "href") if (value := named.get(key))]
        self.ids.add(named.get("id") or "")


def test_whole_run(tmp_path: Path, toy: Toy, small: None, capsys: pytest.CaptureFixture[str]) -> None:
    data = toy("glove-100-toy.hdf5", "angular")
    out, docs = tmp_path / "out", tmp_path / "docs"
    command = ["all", "--quick", "--data", data, "--out", str(out), "--peers", "flat,rabitq", "--queries", "40"]
    assert cli.main([*command, "--docs", str(docs)]) == 0
    lines = results.read(out / results.NAME)
    check_results(lines)
    check_report(out, docs, data)

    # Once more with --resume: everything was done before, nothing changes.
    capsys.readouterr()
    assert cli.main([*command, "--resume"]) == 0
    said = capsys.readouterr().out
    assert said.count("done before") == 10
    assert "built" not in said
    assert results.read(out / results.NAME) == lines


def check_results(lines: list[dict[str, Any]]) -> None:
    def found(part: str, what: str) -> list[dict[str, Any]]:
        return [line for line in results.results_of(lines, part) if line.get("what") == what]

    families = {"simHash", "Super-Bit, ours", "USR (T = 17), ours", "Super-Bit, Faiss IndexLSH"}
    first = found("paper1", "point")
    assert {line["competitor"] for line in first} == families | {"lethevec (default)"}
    assert {line.get("bits") for line in first} == {32, 64, None}
    assert all(0 < line["recall"] <= 1 and line["rate"] > 0 for line in first)
    areas = {(line["step"], line["competitor"]): line["area"] for line in found("paper2", "curve")}
    assert set(areas) == {(step, family) for step in ("low", "high") for family in families}
    assert all(areas["high", family] > areas["low", family] for family in families)
    deletions = {line["competitor"]: line for line in found("paper3", "deletion")}
    assert {line["how"] for line in deletions.values()} == {"own", "retrained"}
    assert len(deletions["lethevec, in memory"]["seconds"]) == len(deletions["lethevec, durable"]["seconds"]) == 10
    decay = found("paper3", "decay")
    assert {line["level"] for line in decay} == {0.0, 0.1, 0.5, 0.9}
    assert not any(line["ghosts"] for line in decay)
    for line in decay:
        if line["competitor"].startswith("lethevec"):
            assert line["traces"] == 0
            assert line["control"] > 0  # the living are found, so that nothing found means nothing there
            assert line["recall"] >= 0.8
    curves = found("peers", "point")
    assert {line["competitor"] for line in curves} == {
        "lethevec (default)",
        "lethevec (scan)",
        "lethevec (pivots, refined)",
        "Faiss Flat (exact)",
        "Faiss RaBitQfs + refine",
    }
    assert all(line["recall"] == 1.0 for line in curves if line["competitor"].startswith("Faiss Flat"))
    stream = [line for line in found("streaming", "search") if line["competitor"] == "lethevec (default)"]
    assert len(stream) == 4
    assert all(line["ghosts"] == 0 and line["recall"] > 0.8 for line in stream)
    # After each round of inserts and deletes the files are searched, and the living are found there.
    assert [line["looked_for"] for line in stream] == [0, 10, 10, 10]
    assert all(line["traces"] == 0 and line["control"] > 0 for line in stream)
    assert [[change["operation"] for change in line["changes"]] for line in stream[1:]] == [["insert", "delete"]] * 3
    out = {(line["part"], line["competitor"]): line for line in lines if line.get("what") == "out"}
    assert "is not installed" in out["paper3", "ScaNN, delete"]["skipped"]
    assert "got 'nowhere'" in out["peers", "lethevec (nowhere)"]["error"]


def check_report(out: Path, docs: Path, data: str) -> None:
    page = (out / "report.html").read_text()
    seen = Links()
    seen.feed(page)
    # Self-contained: pictures are inside, links stay on the page.
    assert all(link.startswith("data:image/svg+xml;base64,") or link[1:] in seen.ids for link in seen.found)
    assert sum(link.startswith("data:") for link in seen.found) == 6
    for text in ("Where we lose", "paper&#x27;s GloVe-100", "+123 %", "is not installed", "expected one of", "commit"):
        assert text in page, text
    assert str(Path(data).parent) not in page  # names of files, not where they are
    name = Path(data).stem
    for figure in ("paper1", "paper2", "paper3", "decay", "peers", "streaming"):
        for folder in (out, docs):
            assert (folder / f"{figure}-{name}.svg").read_text().lstrip().startswith("<?xml")
            assert (folder / f"{figure}-{name}.png").read_bytes().startswith(b"\x89PNG")
            with (folder / f"{figure}-{name}.csv").open() as file:
                assert len(list(csv.reader(file))) > 2
    text = (docs / "README.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert all((docs / link).exists() for link in links)
    assert "    lethevec bench all --quick --data glove-100-toy.hdf5" in text
    assert (docs / results.NAME).exists()


def test_a_stopped_run_goes_on(
    tmp_path: Path, toy: Toy, small: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = toy("toy.hdf5", "euclidean")
    command = ["paper2", "--quick", "--data", data, "--out", str(tmp_path / "out"), "--queries", "10"]
    whole, calls = Run.stage, []

    def stops(run: Run, part: str, name: str, *rest: Any) -> None:
        calls.append(name)
        if name == "high":
            raise KeyboardInterrupt
        whole(run, part, name, *rest)

    monkeypatch.setattr(Run, "stage", stops)
    assert cli.main(command) == 130
    assert "--resume goes on" in capsys.readouterr().err
    monkeypatch.setattr(Run, "stage", whole)
    assert cli.main([*command, "--resume"]) == 0
    said = capsys.readouterr().out
    assert "paper2, low: done before" in said
    found = results.results_of(results.read(tmp_path / "out" / results.NAME), "paper2")
    assert {line["step"] for line in found} == {"low", "high"}
    assert len({line["run"] for line in found}) == 2
    assert (tmp_path / "out" / "report.html").read_text().count("Run 2") == 2  # both runs are told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["paper9"], "report, got 'paper9'"),
        (["--quick", "compare"], "before the options, got 'compare' after them"),
        (["pivots", "tables"], "expected 'pivots' alone, because it has options of its own, got 'pivots tables'"),
        (["peers", "--peers", "flat,flut"], "got 'flut'"),
        (["report", "--out", "nothing-here"], "got none"),
        (["paper2", "--data", "missing.hdf5", "--out", "out"], "missing.hdf5"),
    ],
)
def test_mistakes_are_told(
    arguments: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = cli.main(arguments)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    assert code == 2
    assert told in capsys.readouterr().err


def test_one_run_at_a_time(tmp_path: Path, toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    with results.only_run(tmp_path):
        assert cli.main(["paper2", "--data", toy("toy.hdf5", "euclidean"), "--out", str(tmp_path)]) == 2
    assert "got another one that is going on" in capsys.readouterr().err
    assert not (tmp_path / results.NAME).exists()


def test_losses_are_told_and_only_losses() -> None:
    def point(name: str, recall: float, rate: float) -> results.Line:
        return {"part": "peers", "data": "toy", "what": "point", "competitor": name, "recall": recall, "rate": rate}

    lines = [point("lethevec (scan)", 0.92, 100.0), point("fast", 0.96, 300.0), point("slow", 0.96, 50.0)]
    said = analysis.losses(lines, "toy")
    ours = "ours answers at most 100 queries/s (lethevec (scan))"
    assert f"Speed at recall@10 of 0.9: {ours}; faster are fast 300 (3.0 times as many)." in said
    assert "Speed at recall@10 of 0.95: ours does not reach it; faster are fast 300, slow 50." in said
    assert len(said) == 3  # nobody reaches 0.99


def test_one_of_ours_that_fails_is_not_passed_over() -> None:
    def line(name: str, level: float, traces: int = 0) -> results.Line:
        told = {"part": "paper3", "data": "toy", "what": "decay", "competitor": name}
        return {**told, "level": level, "deleted": round(100 * level), "traces": traces}

    whole = [line("lethevec, in memory", level) for level in (0.0, 0.1, 0.5)]
    lines = [*whole, line("lethevec, durable", 0.0), line("lethevec, durable", 0.1), line("other", 0.5, traces=3)]
    clean = (
        "No piece of a forgotten vector is found in our files after any of the deletions; in those of other they are."
    )
    failed = "lethevec, durable did not get through all of them: see the end."
    assert analysis.meaning(lines, "toy") == [clean, failed]
    assert analysis.meaning([*lines, line("lethevec, durable", 0.5)], "toy") == [clean]


def test_results_are_plain_json(tmp_path: Path) -> None:
    made = results.Results(tmp_path, {"path": Path("x")})
    made.stage("p", "d", [{"array": np.arange(3), "number": np.float32(0.5)}], "k")
    line = json.loads(made.path.read_text().splitlines()[0])
    assert (line["array"], line["number"], line["parameters"]["path"]) == ([0, 1, 2], 0.5, "x")
    assert markdown(("a", "b"), [("x", 1)]).count("\n") == 2


def test_the_picture_of_the_front_page(tmp_path: Path) -> None:
    """The fastest peers by name and ours; what is left, at each library's best; nobody whose living are not found."""

    def point(name: str, recall: float, rate: float) -> results.Line:
        return {"part": "peers", "data": "toy", "what": "point", "competitor": name, "recall": recall, "rate": rate}

    def left(peer: str, found: int, control: int = 5) -> results.Line:
        told = {"part": "residue", "data": "", "what": "residue", "peer": peer, "of": 400}
        return {**told, "bytes": found, "control": control}

    slow = [point(f"peer {i}", recall, 100.0 - i) for i in range(8) for recall in (0.8, 0.95)]
    ours = [point("lethevec (graph)", recall, 300.0) for recall in (0.8, 0.97)]
    residue = [left("leaky", 400), left("leaky", 200), left("lethevec (store)", 0), left("quantised", 0, control=0)]
    front.draw([*slow, *ours, *residue], "toy", tmp_path / "front.svg")
    picture = (tmp_path / "front.svg").read_text()
    for text in ("lethevec (graph)", "peer 0", "peer 5", "2 other peers", "leaky", "50 %", "nothing", "toy"):
        assert text in picture, text
    for text in ("peer 7", "quantised", "#000000", "fill: #ffffff"):
        assert text not in picture, text
    front.draw(residue, "", tmp_path / "alone.svg")
    assert "50 %" in (tmp_path / "alone.svg").read_text()


def test_the_picture_is_drawn_of_results_that_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each part comes from the first folder that has it."""
    about = {"what": "point", "competitor": "lethevec (graph)", "recall": 0.9, "rate": 9.0, "records": 1234}
    left = {"what": "residue", "peer": "leaky", "of": 400, "bytes": 200, "control": 5}
    for folder, part, data, line in (
        ("new", "peers", "toy", about),
        ("old", "peers", "before", about),
        ("old", "residue", "", left),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        with (tmp_path / folder / results.NAME).open("a") as file:
            common = {"part": part, "data": data, "stage": f"{part}/{data}"}
            file.writelines(json.dumps({**common, **one}) + "\n" for one in (line, {"ended": True}))
    picture = tmp_path / "front.svg"
    assert cli.main(["front", str(tmp_path / "new"), str(tmp_path / "old"), "--to", str(picture)]) == 0
    text = picture.read_text()
    assert "toy, 1,234 records" in text
    assert "before" not in text
    assert "50 %" in text
    for wrong, told in (
        (["front", str(tmp_path / "new"), "--to", str(picture)], "expected results of 'residue', got none"),
        (["front", str(tmp_path), "--to", str(picture)], "got none"),
        (["front", str(tmp_path / "old"), "--set", "toy", "--to", str(picture)], "expected a set of before, got 'toy'"),
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit):
            cli.main(wrong)
        assert told in " ".join(capsys.readouterr().err.split())


def test_the_picture_of_the_committed_results_has_both_panels(tmp_path: Path) -> None:
    committed = Path(__file__).parents[2] / "docs" / "results"
    picture = tmp_path / "front.svg"
    assert cli.main(["front", str(committed), "--to", str(picture)]) == 0
    text = picture.read_text()
    for told in (
        "recall@10",
        "queries per second, one thread",
        "lethevec (pivots)",
        "deleted vectors' bytes",
        "hnswlib",
    ):
        assert told in text, told


def test_who_was_not_part_of_a_run_is_named() -> None:
    """Whoever is on the list and has no line at all; who was skipped is told as that."""
    common = {"part": "peers", "data": "toy", "records": 9, "dim": 2, "metric": "l2", "queries": 5}
    lines: list[results.Line] = [
        {**common, "what": "point", "competitor": name, "recall": 0.95, "rate": 9.0}
        for name in ("lethevec (pivots)", "ScaNN")
    ]
    lines.append({**common, "what": "out", "competitor": "SymphonyQG", "skipped": "no AVX-512"})
    absent = analysis.not_part(lines, "toy")
    assert "hnswlib" in absent
    assert not {"ScaNN", "SymphonyQG", "Faiss IndexLSH (800 bits)"} & set(absent)
    rows = {row[0]: row[1] for row in analysis.out_table(lines).rows}
    assert rows["hnswlib"] == "not part of this run"
    assert rows["SymphonyQG"].startswith("skipped")
    [said] = [text for text in analysis.meaning(lines, "toy") if "peers that ran" in text]
    assert "Of the 1 peers that ran" in said
    assert "Not part of this run: " in said
    assert analysis.not_part([], "toy") == []


def test_on_which_queries_settings_were_chosen_is_said_as_it_is_known() -> None:
    def line(data: str, **more: int) -> results.Line:
        return {"part": "peers", "data": data, "what": "point", "queries": 5, "competitor": "x", **more}

    apart = "chosen on other queries than those that are timed"
    assert analysis.how_chosen([line("a", tuning=5)]).strip() == f"Settings are {apart}."
    for lines in ([line("a")], [line("a", tuning=0)]):
        assert analysis.how_chosen(lines).endswith("these results do not say.")
    assert analysis.how_chosen([line("a", tuning=5), line("b")]).endswith("do not say. Of a they were.")
    assert analysis.how_chosen([]) == ""
