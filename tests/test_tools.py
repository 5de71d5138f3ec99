"""The tools that make documents and packages: what can be checked of them without making anything."""

from __future__ import annotations

import importlib.util
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_extras_are_taken_apart():
    text = (ROOT / "pyproject.toml").read_text()
    extra = tool("extra")
    docs = extra.requirements(text, "docs")
    assert any(item.startswith("mkdocs-material") for item in docs)
    demo = extra.requirements(text, "demo")
    assert {re.split(r"[<>=]", item)[0] for item in demo} == {"cryptography", "click", "rich", "faiss-cpu"}
    with pytest.raises(SystemExit, match="got 'nothing'"):
        extra.requirements(text, "nothing")
    lines = (
        '[project.optional-dependencies]\na = [ # one "x"\n  "b>=1", "lethevec[c]",\n]\nc = ["d[e]>2"] # "y"\n[next]\n'
    )
    assert extra.requirements(lines, "a") == ["b>=1", "d[e]>2"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is of Python 3.11")
def test_extras_are_read_as_toml_reads_them():
    import tomllib

    text = (ROOT / "pyproject.toml").read_text()
    extra = tool("extra")
    for name, wanted in tomllib.loads(text)["project"]["optional-dependencies"].items():
        if not any(item.startswith("lethevec[") for item in wanted):
            assert extra.requirements(text, name) == wanted


def test_pictures_are_there_and_shown():
    pictures = tool("make_pictures")
    shown = "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    assert {path.name for path in pictures.FOLDER.iterdir()} == set(pictures.PICTURES)
    for name in pictures.PICTURES:
        assert f"(pictures/{name})" in shown
        assert ElementTree.parse(pictures.FOLDER / name).getroot().tag.endswith("svg")


def test_what_the_pictures_say_is_measured():
    """On fewer words; the order of things is the one that docs/hashing.md tells."""
    pictures = tool("make_pictures")
    data = pictures.Data(2000, 60)
    few, many = (data.recall("usr", 400, "hamming", steps=steps) for steps in (1, 17))
    assert many > few
    assert data.recall("superbit", 400, "hamming") == few
    assert data.recall("progressive", 400, "asymmetric") > data.recall("usr", 400, "asymmetric") > many
    probing = pictures.measure_probing(data)["found"]
    directed, flips, any_order = (found[63] for found in probing.values())
    assert directed > flips > any_order
    assert all(found[-1] == pytest.approx(1.0) for found in probing.values())


def test_doctests_in_docstrings_become_fences():
    pytest.importorskip("griffe")
    fenced = tool("docs_doctests").fenced
    assert fenced("A.\n\n>>> 1\n1\n\nB.") == "A.\n\n```pycon\n>>> 1\n1\n```\n\nB."
    assert fenced(">>> 1") == "```pycon\n>>> 1\n```"
    assert fenced("no example") == "no example"
