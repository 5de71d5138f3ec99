"""The documents are true: their Python runs, it prints what they show, and their links lead somewhere.

A document's blocks run in order and share their names. What a block prints must be shown, either

* in the block marked `text` that follows it: then that is all of the output; or
* in comments of the block itself: then each printed line is found in them, in order.

A block that prints nothing needs neither. Spaces are not compared.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"(?:^|\s)#\s?(.*)$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(text: str) -> list[tuple[int, str, str | None]]:
    """(line, code, output or None) of each Python block; the output is a `text` block with only blank lines between."""
    found = list(FENCE.finditer(text))
    out = []
    for at, fence in enumerate(found):
        if fence[1] != "python":
            continue
        shown = None
        for following in found[at + 1 : at + 2]:
            if following[1] == "text" and not text[fence.end() : following.start()].strip():
                shown = following[2]
        out.append((text.count("\n", 0, fence.start()) + 2, fence[2], shown))
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


@pytest.mark.parametrize("path", [d for d in DOCUMENTS if blocks(d.read_text())], ids=name_of)
def test_examples_run_and_print_what_is_shown(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for line, code, shown in blocks(path.read_text()):
        where = f"{name_of(path)}, line {line}"
        printed = io.StringIO()
        # Blank lines in front give errors the line numbers of the document.
        compiled = compile("\n" * (line - 1) + code, str(path), "exec")
        with contextlib.redirect_stdout(printed):
            exec(compiled, names)
        got = printed.getvalue()
        if shown is not None:
            assert list(map(plain, got.strip().splitlines())) == list(map(plain, shown.strip().splitlines())), where
        else:
            missing = missing_line(got, plain(" ".join(COMMENT.findall(code))))
            assert missing is None, f"{where}: prints {missing!r}, which is not shown"


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
    fences = re.findall(r"^```", path.read_text(), re.MULTILINE)
    assert len(fences) % 2 == 0


def test_the_checks_can_fail():
    text = "```python\nprint(1)\nprint(2)  # 1, then 2\n```\n\n```text\n1\n2\n```\n[a](b#c)\n"
    ((line, code, shown),) = blocks(text)
    assert line == 2
    assert code == "print(1)\nprint(2)  # 1, then 2\n"
    assert shown == "1\n2\n"
    assert missing_line("1\n2\n", "1, then 2") is None
    assert missing_line("2\n1\n", "1, then 2") == "1"
    assert LINK.findall(FENCE.sub("", text)) == ["b#c"]
    assert anchors("# A b, `c`\n") == {"a-b-c"}
