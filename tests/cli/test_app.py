"""What becomes of errors: one line, an exit code, no traceback; and what the shell sees."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

import lethevec
from lethevec import errors
from lethevec.cli import about, app
from lethevec.cli.output import printable

COMMAND = [sys.executable, "-m", "lethevec.cli"]


@pytest.mark.parametrize(
    ("arguments", "code", "wanted"),
    [
        (["search", "none.lethe", "--id", "a"], 1, "none.lethe: expected a store to read, got nothing there"),
        (["forget", "none.lethe", "a"], 1, "none.lethe: expected a store, got nothing there; `lethevec add` makes one"),
        (["add", "new.lethe", "none.npy"], 1, "none.npy: cannot be read"),
        (["add", "new.lethe", "x.pdf"], 1, "expected a file name that ends in"),
        (["add", "new.lethe", ":nothing"], 1, "name: expected one of"),
        (["search", "people.lethe", "--id", "nobody"], 1, "expected ids that are in the store, got 'nobody'"),
        (["search", "people.lethe", "--vector", "1,2"], 1, "expected shape"),
        (["search", "people.lethe", "--vector", "1,x"], 1, "--vector: expected numbers"),
        (["search", "people.lethe", "--id", "1", "--where", "{"], 1, "--where: expected a condition as JSON"),
        (["search", "people.lethe", "--id", "1", "--where", "[]"], 1, "--where: expected a JSON object"),
        (["search", "people.lethe", "--id", "1", "--where", '{"n": {"$x": 1}}'], 1, "expected one of $eq"),
        (["search", "people.lethe"], 2, "expected one of QUERIES, --vector and --id"),
        (["search", "people.lethe", "--id", "1", "--effort", "0"], 1, "effort"),
        (["forget", "people.lethe"], 2, "expected one of ID..., --subject, --where and --ids-from"),
        (["forget", "people.lethe", "--subject", "nobody"], 1, "subject: expected one that has records"),
        (["verify", "people.lethe"], 1, "expected a receipt of an erasure, got none"),
        (["verify", "people.lethe", "7"], 1, "expected a receipt of an erasure with number 7, got none"),
        (["verify", "people.lethe", "people.lethe"], 1, "expected JSON in UTF-8, got other bytes"),
        (["verify"], 2, "expected one of STORE, RECEIPT and --chain"),
        (["tune", "people.lethe", "--target", "2"], 1, "target_recall: expected a number above 0 and up to 1"),
        (["export", "people.lethe", "x.xyz"], 1, "expected a file name that ends in"),
        (["add", "new.lethe", ":words", "--index", "family"], 1, "--index: expected NAME=VALUE"),
        (["add", "new.lethe", ":words", "--index", "famly=usr"], 1, "famly"),
        (["add", "new.lethe", ":words", "--index", "family=usrr"], 1, "family: expected one of"),
        (["nothing"], 2, "No such command"),
        (["search"], 2, "Missing argument 'STORE'"),
    ],
)
def test_errors_are_one_line_and_a_code(run, store, arguments, code, wanted):
    result = run(*arguments, code=code)
    assert wanted in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    if code == 1:
        assert result.stderr.count("\n") == 1
        assert result.stderr.startswith("lethevec: ")
    assert not (store.parent / "new.lethe").exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ErasureIncompleteError("some bytes"), 4),
        (errors.MissingDependencyError("some package"), 3),
        (errors.FormatError("some file"), 1),
        (PermissionError(13, "Permission denied"), 1),
        (MemoryError(), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_kind_of_error_has_its_code(monkeypatch, error, code):
    def fail(*_):
        raise error

    monkeypatch.setattr(about, "sqlite_facts", fail)
    result = CliRunner().invoke(app.cli, ["doctor"], prog_name="lethevec")
    assert result.exit_code == code
    assert result.stderr.startswith("lethevec: ")
    assert result.stderr.count("\n") == 1


def test_the_codes_are_documented():
    import lethevec.cli

    text = lethevec.cli.__doc__ or ""
    for code in (0, 1, 2, 3, 4, 130):
        assert re.search(rf"\b{code}\b", text.partition("Exit codes")[2])


def test_a_bug_is_not_hidden(monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(about, "sqlite_facts", fail)
    assert isinstance(CliRunner().invoke(app.cli, ["doctor"]).exception, ZeroDivisionError)


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_one_line_says_what_to_install(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; from lethevec.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == f"lethevec: the command line needs the package {missing}: pip install 'lethevec[cli]'\n"


def test_without_signatures_one_line_says_what_to_install(tmp_path):
    code = "import sys; sys.modules['cryptography'] = None; from lethevec.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "add", "new.lethe", ":words"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "pip install 'lethevec[store]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_figures_the_benchmarks_say_what_to_install(tmp_path):
    from lethevec.bench import THREAD_VARIABLES

    code = "import sys; sys.modules['matplotlib'] = None; from lethevec.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "bench", "paper2", "--quick"],
        cwd=tmp_path,
        env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1")},  # else it starts over in another process
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.startswith("lethevec bench: figures need")
    assert "pip install 'lethevec[bench]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_single_measurements_are_called_by_their_names(tmp_path):
    done = subprocess.run([*COMMAND, "bench", "scan", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: lethevec bench scan ")


def test_the_installed_command_is_this_one():
    from importlib.metadata import entry_points

    (entry,) = [e for e in entry_points(group="console_scripts") if e.name == "lethevec"]
    assert entry.load() is lethevec.cli.main


def test_a_reader_that_has_enough_is_no_error_worth_a_traceback(store):
    command = f"{' '.join(COMMAND)} export people.lethe - | head -1 >/dev/null"
    done = subprocess.run(["bash", "-c", command], cwd=store.parent, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_completion_knows_commands_and_options():
    def completed(words: str, number: int) -> set[str]:
        environment = {**os.environ, "_LETHEVEC_COMPLETE": "bash_complete", "COMP_WORDS": words}
        environment["COMP_CWORD"] = str(number)
        done = subprocess.run(
            [sys.executable, "-c", "from lethevec.cli import main; main()"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return {line.partition(",")[2] for line in done.stdout.splitlines()}

    assert completed("lethevec expo", 1) == {"export"}
    assert "--ignore-unknown" in completed("lethevec forget --", 2)
    assert completed("lethevec add --metric ", 3) == {"cosine", "l2", "ip"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run, shell):
    assert "_LETHEVEC_COMPLETE" in run("completion", shell).stdout


def test_a_terminal_obeys_nothing_that_comes_from_a_store():
    assert printable("\x1b]0;x\x07\u202e\n") == "\\x1b]0;x\\x07\\u202e\\n"
    assert printable("añ漢 ok") == "añ漢 ok"
    assert printable(None) == ""
    assert printable(7) == "7"
