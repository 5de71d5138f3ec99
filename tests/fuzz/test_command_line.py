"""Commands with strange arguments: an exit code from 0 to 4, a line in words, no traceback, nothing changed on refusal.

Hypothesis draws a command, takes its arguments and options as click describes them, and gives them values that fit,
values that do not, and values meant for another option. LETHEVEC_EXAMPLES=20 tries 20 times as many.

Left out is what does not end by itself or reaches outside the folder: servers (tried with `--check` only), benchmarks,
the demonstration, named pipes that nobody writes to, downloads, and `import --from` another database.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("cryptography")

import click
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lethevec
from lethevec.cli.app import cli

TIMES = int(os.environ.get("LETHEVEC_EXAMPLES", "1"))
DIM = 3
LEFT_OUT = {"bench", "demo", "completion", "doctor"}
CHECKED = {"serve", "mcp"}  # with --check they end

#: What stands in the folder in which a command runs, and what does not.
PATHS = [
    "people.lethe",
    "folder",
    "records.jsonl",
    "vectors.npy",
    "receipt.json",
    "chain.jsonl",
    "backup.lethe",
    "empty",
    "noise.npz",
    "missing",
    "missing/below.jsonl",
    "new.lethe",
    "new.jsonl",
    "new.npz",
    "link.lethe",
    ".",
    "/dev/null",
    "people.lethe-keys",
    "-",
]
STRANGE = [
    "",
    " ",
    "0",
    "1",
    "-1",
    "2",
    "1e400",
    "nan",
    "inf",
    "-inf",
    "9" * 30,
    "0x10",
    "1,0,0",
    "1,nan,0",
    ",",
    "ann",
    "nobody",
    "notes",
    "true",
    "null",
    "[]",
    "{}",
    '{"n": 1}',
    '{"n": {"$gt": "x"}}',
    '{"n": {"$regex": "("}}',
    '{"$and": 3}',
    '{"n":' * 2000,
    "[" * 5000,
    "family=usr",
    "source=pivots",
    "source=[]",
    "bits=-1",
    "=",
    "cell_size=x",
    "key={}",
    "a\udcff",
    "ä\n\u202e",
    "--",
    "--help",
    "-k",
    "00" * 32,
    "jsonl",
    "2020-01-01",
    "all",
    "%s%n",
    "x" * 5000,
]
strange = st.one_of(
    st.sampled_from(STRANGE), st.sampled_from(PATHS), st.text(max_size=4).filter(lambda t: "\0" not in t)
)


def fitting(kind: click.ParamType) -> st.SearchStrategy[str]:
    """Values of a parameter's own type."""
    if isinstance(kind, click.Choice):
        return st.sampled_from([str(choice) for choice in kind.choices])
    if isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        return st.one_of(st.integers(-3, 9).map(str), st.floats(-3, 9).map(str), st.sampled_from(STRANGE[:14]))
    if isinstance(kind, click.Path | click.File):
        return st.sampled_from(PATHS)
    return strange


@st.composite
def command_lines(draw: st.DrawFn, name: str) -> list[str]:
    """A command with some of its arguments and options."""
    parameters = cli.commands[name].params
    line = [name]
    for one in parameters:
        values = st.one_of(fitting(one.type), fitting(one.type), fitting(one.type), strange)
        if isinstance(one, click.Argument):
            if one.name == "store" and draw(st.integers(0, 3)):
                line.append("people.lethe")
            elif one.name in ("folder", "target") and draw(st.integers(0, 3)):
                line.append("folder" if one.name == "folder" else "people.lethe")
            elif one.required or draw(st.booleans()):
                line += draw(st.lists(values, min_size=1, max_size=2 if one.nargs == -1 else 1))
        elif name in CHECKED and one.name == "check":
            line.append("--check")
        elif draw(st.integers(0, 4)) == 0 and "--from" not in one.opts:
            line.append(one.opts[-1])
            if not getattr(one, "is_flag", False):
                line += [draw(values) for _ in range(one.nargs)]
    if name in ("forget", "expire") and draw(st.booleans()):
        line.append("--yes")
    # A colon asks for a download, except for the words that are bundled, which are many.
    return [part for part in line if not part.startswith(":")]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, a folder of collections, and files to read, made once."""
    folder = tmp_path_factory.mktemp("template")
    records = {"ids": [1, 2, 3, "x"], "subjects": ["ann", "ann", "bob", None]}
    vectors = np.eye(4, DIM, dtype=np.float32)
    payloads = [{"n": 1}, {"n": "two"}, None, {"deep": {"n": [1]}}]
    with lethevec.open(folder / "people.lethe", dim=DIM, metric="l2") as db:
        db.add(vectors, payloads=payloads, **records)
        db.add([[5, 5, 5]], ids=[9])
        receipt = db.forget([9])
        (folder / "receipt.json").write_text(receipt.to_json())
        (folder / "chain.jsonl").write_text("".join(one.to_json() + "\n" for one in db.receipts(all_kinds=True)))
        db.export(folder / "records.jsonl", where={"n": 1})
        db.backup(folder / "backup.lethe")
    with lethevec.connect(folder / "folder") as db:
        db.collection("notes", dim=DIM, metric="l2").add(vectors, payloads=payloads, **records)
    np.save(folder / "vectors.npy", vectors)
    (folder / "empty").touch()
    (folder / "noise.npz").write_bytes(np.random.default_rng(0).bytes(300))
    (folder / "link.lethe").symlink_to("people.lethe")
    return folder


def state(folder: Path) -> dict[str, str]:
    """What there is: the digests of stores, and the bytes of everything else that a command might write to."""
    found = {}
    for path in sorted(folder.rglob("*")):
        place = str(path.relative_to(folder))
        if path.is_symlink() or not path.is_file():
            found[place] = str(path.readlink()) if path.is_symlink() else "no file"
        elif place.endswith("-lock") and not path.stat().st_size:
            continue  # a writer takes its lock before it looks, and the empty file stays: removing it would be a race
        elif not place.startswith(("people.lethe", "backup.lethe", "folder/")):
            found[place] = hashlib.sha256(path.read_bytes()).hexdigest()
    for name in ("people.lethe", "backup.lethe"):  # a writer gives a backup keys of its own: then it is a store
        with lethevec.open(folder / name, read_only=True) as db:
            found[name] = f"{db.digest()} {len(db.receipts())}"
    with lethevec.connect(folder / "folder", read_only=True) as db:
        found["collections"] = str({name: db.collection(name).digest() for name in db.collections()})
        found["chain"] = str(len(db.receipts(all_kinds=True)))
    return found


# click leaves the file of an option open when another option is refused.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("name", sorted(set(cli.commands) - LEFT_OUT))
def test_any_command_line(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("LETHEVEC_DATA", str(tmp_path / "no-sets"))
    monkeypatch.chdir(tmp_path)
    here = tmp_path / "here"
    before: dict[str, str] = {}

    def fresh() -> None:
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(template, here, symlinks=True)
        monkeypatch.chdir(here)
        before.clear()
        before.update(state(here))

    fresh()

    @settings(
        max_examples=20 * TIMES,
        derandomize=TIMES == 1,  # in the suite always the same ones
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(
        line=command_lines(name),
        piped=st.sampled_from([b"", b"y\n", b"ann\n1\n", b'{"id":7,"vector":[1,2,3]}\n', b"\xff"]),
    )
    def try_it(line: list[str], piped: bytes) -> None:
        try:
            check(line, piped)
        finally:
            if state(here) != before:
                fresh()

    def check(line: list[str], piped: bytes) -> None:
        result = CliRunner().invoke(cli, line, input=piped, prog_name="lethevec")
        shown = f"{line} -> {result.exit_code}: {result.output[-500:]}"
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise AssertionError(shown) from result.exception
        assert result.exit_code in range(5), shown
        assert "Traceback" not in result.output, shown
        if result.exit_code in (1, 2, 3):
            assert state(here) == before, shown
            assert result.stderr.strip() or result.stdout.strip(), shown

    try_it()
