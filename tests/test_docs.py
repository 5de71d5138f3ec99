"""The documents are true: their Python and their commands run, print what they show, and their links lead somewhere.

A document's blocks run in order, in one folder, and the Python ones share their names. What a Python block prints must
be shown, either

* in the block marked `text` that follows it: then that is all of the output; or
* in comments of the block itself: then each printed line is found in them, in order.

A block that prints nothing needs neither. In a block marked `console` lines that begin with `$` are commands, which
must succeed, and the lines below are what they print: `...` stands for anything in a line, or for any lines. Spaces are
not compared.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lethevec.errors import MissingDependencyError

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^(?P<space> *)```(?P<kind>\w*)[^\n]*\n(?P<code>.*?)^(?P=space)```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"(?:^|\s)#\s?(.*)$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")


class Block(NamedTuple):
    """Something to run; `shown` is the output of Python that the next block shows."""

    line: int
    kind: str
    code: str
    shown: str | None


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(text: str) -> list[Block]:
    """The Python and console blocks; the output is a `text` block with only blank lines between."""
    found = list(FENCE.finditer(text))
    out = []
    for at, fence in enumerate(found):
        if fence["kind"] not in ("python", "console"):
            continue
        shown = None
        for following in found[at + 1 : at + 2]:
            if following["kind"] == "text" and not text[fence.end() : following.start()].strip():
                shown = following["code"]
        line = text.count("\n", 0, fence.start()) + 2
        out.append(Block(line, fence["kind"], textwrap.dedent(fence["code"]), shown))
    return out


def plain(line: str) -> str:
    return " ".join(line.split())


def missing_line(printed: str, comments: str) -> str | None:
    """The first printed line that the comments do not have, after those before it."""
    at = 0
    for line in filter(None, map(plain, printed.splitlines())):
        found = comments.find(line, at)
        if found < 0:
            return line
        at = found + len(line)
    return None


def commands(code: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a console block with the lines that they are said to print."""
    command, shown = "", []
    for line in code.replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line[2:], []
        elif plain(line):
            shown.append(plain(line))
    if command:
        yield command, shown


def agrees(printed: str, shown: list[str]) -> bool:
    """Whether an output is what is shown."""
    pattern = "".join(
        r"(?:.*\n)*" if line == "..." else re.escape(line).replace(re.escape("..."), ".*") + r"\n" for line in shown
    )
    lines = "".join(line + "\n" for line in filter(None, map(plain, printed.splitlines())))
    return re.fullmatch(pattern, lines) is not None


def run_console(code: str, folder: Path, where: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command, shown in commands(code):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=folder,
            env={**os.environ, "PATH": path, "HOME": str(folder)},  # what goes to ~ must not go to the tester's
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{where}: {command}\n{done.stdout}"
        assert agrees(done.stdout, shown), f"{where}: {command} prints\n{done.stdout}"


def run_python(block: Block, names: dict[str, Any], path: Path, where: str) -> None:
    printed = io.StringIO()
    # Blank lines in front give errors the line numbers of the document.
    compiled = compile("\n" * (block.line - 1) + block.code, str(path), "exec")
    with contextlib.redirect_stdout(printed):
        exec(compiled, names)
    got = printed.getvalue()
    if block.shown is not None:
        assert list(map(plain, got.strip().splitlines())) == list(map(plain, block.shown.strip().splitlines())), where
    else:
        missing = missing_line(got, plain(" ".join(COMMENT.findall(block.code))))
        assert missing is None, f"{where}: prints {missing!r}, which is not shown"


@pytest.mark.parametrize("path", [d for d in DOCUMENTS if blocks(d.read_text())], ids=name_of)
def test_examples_run_and_print_what_is_shown(path, tmp_path, monkeypatch):
    if path.parent.name == "integrations":  # a page has the name of its adapter, which needs its framework
        try:
            importlib.import_module(f"lethevec.integrations.{path.stem}")
        except MissingDependencyError as error:
            pytest.skip(f"{error} (make test-{path.stem})")
    follow(path, tmp_path, monkeypatch)


def follow(path, folder, monkeypatch):
    """Run a document's blocks as a reader would who is in this folder."""
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(path.read_text()):
        where = f"{name_of(path)}, line {block.line}"
        if block.kind == "console":
            run_console(block.code, folder, where)
        else:
            run_python(block, names, path, where)


@pytest.mark.parametrize("names", [("README.md", "docs/tutorial.md"), ("docs/tutorial.md", "README.md")])
def test_readme_and_the_tutorial_can_be_followed_in_one_folder(names, tmp_path, monkeypatch):
    for name in names:
        follow(ROOT / name, tmp_path, monkeypatch)


INLINE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
INDENTED = re.compile(r"^ {4}(\S.*(?:\\\n.*)*)$", re.MULTILINE)
BENCH = re.compile(r"(?:python -m lethevec\.bench|lethevec bench) (\w+)((?: [^|;&#]*)?)")


def mentioned(text: str) -> list[str]:
    """Commands that a document names and this test does not run: they need data, a clone or hours."""
    text = FENCE.sub(lambda block: block["code"] if block["kind"] == "sh" else "", text)
    found = [*INLINE.findall(text), *INDENTED.findall(text), *text.splitlines()]
    return [plain(code.replace("\\\n", " ")) for code in found]


def test_commands_that_are_not_run_exist():
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w-]+):", text, re.MULTILINE))
    targets |= {f"test-{name}" for name in re.findall(r"^FRAMEWORKS := (.*)$", text, re.MULTILINE)[0].split()}
    extras = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    seen = set()
    for path in DOCUMENTS:
        for command in mentioned(path.read_text()):
            for target in re.findall(r"^make ([\w-]+)", command):
                seen.add(f"make {target}")
                assert target in targets, f"{name_of(path)}: {command}"
            for names in re.findall(r"^pip install '(?:lethevec|\.)\[([\w,]+)\]'", command):
                seen.update(names.split(","))
                assert set(names.split(",")) <= extras, f"{name_of(path)}: {command}"
    assert seen >= {"make demo", "make bench", "make test", "cli", "store", "datasets", "bench"}


def test_measurements_that_are_not_run_have_the_options_that_are_shown():
    asked: dict[str, set[str]] = {}
    for path in DOCUMENTS:
        for command in mentioned(path.read_text()):
            assert not re.search(r"lethevec\.bench\.\w", command), f"{name_of(path)}: no module is a command: {command}"
            match = BENCH.match(command)
            if match and match[1] not in ("NAME", "EXPERIMENT"):
                asked.setdefault(match[1], set()).update(re.findall(r"--[\w-]+", match[2]))
    assert asked["compare"] >= {"--data", "--peers"}
    for name, options in asked.items():
        command = [sys.executable, "-m", "lethevec.bench", *([name] if name != "help" else []), "--help"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}"
        for option in options:
            assert re.search(rf"{option}\b", done.stdout), f"lethevec bench {name} has no {option}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(path):
    text = FENCE.sub("", path.read_text())
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), f"{name_of(path)}: {link}"
        if anchor:
            assert anchor in anchors(file.read_text()), f"{name_of(path)}: {link}"


def anchors(text: str) -> set[str]:
    """Those that GitHub gives to the headings."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_fence_is_closed(path):
    fences = re.findall(r"^ *```", path.read_text(), re.MULTILINE)
    assert len(fences) % 2 == 0


def test_the_checks_can_fail():
    text = "```python\nprint(1)\nprint(2)  # 1, then 2\n```\n\n```text\n1\n2\n```\n[a](b#c)\n"
    ((line, kind, code, shown),) = blocks(text)
    assert (line, kind) == (2, "python")
    assert code == "print(1)\nprint(2)  # 1, then 2\n"
    assert shown == "1\n2\n"
    assert missing_line("1\n2\n", "1, then 2") is None
    assert missing_line("2\n1\n", "1, then 2") == "1"
    assert LINK.findall(FENCE.sub("", text)) == ["b#c"]
    assert anchors("# A b, `c`\n") == {"a-b-c"}
    assert blocks("1. x\n\n    ```console\n    $ a\n    b\n    ```\n")[0].code == "$ a\nb\n"


def test_the_checks_of_consoles_can_fail(tmp_path):
    assert list(commands("$ a \\\n  b\nx  y\n\n$ c\n")) == [("a   b", ["x y"]), ("c", [])]
    assert agrees("a 1.5 s\nb\nc\n", ["a ... s", "..."])
    assert not agrees("a 1.5 s\nb\n", ["a ... s"])
    assert not agrees("a\n", ["a", "b"])
    assert not agrees("ab\n", ["a"])
    for code in ("$ false\n", "$ echo 1\n2\n", "$ false | cat\n"):
        with pytest.raises(AssertionError):
            run_console(code, tmp_path, "here")


def test_the_navigation_has_every_page():
    """A page that is in no menu is found by nobody; a strict build says so too, but needs more installed."""
    text = (ROOT / "mkdocs.yml").read_text()
    listed = set(re.findall(r"^\s+- [^#\n]*?([\w./-]+\.md)$", text, re.MULTILINE))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    results = {page for page in pages if page.startswith("results/")}
    assert pages - results == listed - results


def test_the_reference_has_every_public_name():
    """Each name of `lethevec.__all__`, by itself or from where it is defined."""
    import lethevec

    text = "\n".join(path.read_text() for path in (ROOT / "docs" / "api").glob("*.md"))
    shown = set(re.findall(r"^::: (lethevec[\w.]*)$", text, re.MULTILINE))
    named = {path.rsplit(".", 1)[1] for path in shown if "." in path}
    assert set(lethevec.__all__) - named == {"__version__"}
    for path in shown - {"lethevec.reference", "lethevec.datasets", "lethevec.errors"}:
        if path.startswith("lethevec.reference."):
            importlib.import_module(path)
            continue
        module, name = path.rsplit(".", 1)
        assert hasattr(importlib.import_module(module), name), path
