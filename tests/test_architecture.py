"""ARCHITECTURE.md names files; every one of them exists, and its map has no part that is gone."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
#: What in backticks looks like a path of this project.
_TOP = ("src/", "native/", "tests/", "tools/", "docs/", "plugins/", "cmake/")
_NAMED = sorted({name for name in re.findall(r"`([A-Za-z0-9_./-]+)`", TEXT) if name.startswith(_TOP)})
#: What names a file by the end of its path.
_SHORT = sorted(
    {name for name in re.findall(r"`(_?[a-z]+/[a-z_0-9/]+\.(?:py|h|cpp))`", TEXT) if not name.startswith(_TOP)}
)


def test_it_names_files():
    assert len(_NAMED) > 40


@pytest.mark.parametrize("name", _NAMED)
def test_a_named_file_exists(name):
    assert (ROOT / name).exists()


@pytest.mark.parametrize("name", _SHORT)
def test_a_file_that_is_named_by_its_end_exists(name):
    assert (ROOT / "src/lethevec" / name).is_file() or (ROOT / "native" / name).is_file()


def test_the_picture_names_every_part():
    picture = TEXT[TEXT.index("```mermaid") : TEXT.index("```\n", TEXT.index("```mermaid") + 3)]
    listed = subprocess.run(["git", "ls-files", "src/lethevec", "native"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a clone")
    folders = set()
    for name in listed.stdout.splitlines():
        parts = name.split("/")
        if parts[0] == "native" and len(parts) > 2:
            folders.add(parts[1] + "/")
        if parts[0] == "src" and len(parts) > 3:
            folders.add(parts[2] + "/")
    missing = {folder for folder in folders if folder not in picture}
    assert not missing


def test_native_folders_include_only_what_is_below_them_in_the_picture():
    picture = TEXT[TEXT.index("```mermaid") : TEXT.index("```\n", TEXT.index("```mermaid") + 3)]
    core = picture[picture.index("subgraph native") : picture.index("end", picture.index("subgraph native"))]
    names = {folder: node for node, folder in re.findall(r'(\w+)\["(\w+)/', core)}
    below = {node: set() for node in [*names.values(), "core"]}
    for upper, lower in re.findall(r"^\s*(\w+) -->\s*(\w+)$", picture, re.MULTILINE):
        if upper in below and lower in below:
            below[upper].add(lower)
    for _ in below:  # and what is below those
        for node, lower in below.items():
            below[node] = lower.union(*(below[one] for one in lower))
    assert all(node not in lower for node, lower in below.items())
    seen = 0
    for path in sorted((ROOT / "native").rglob("*.[hc]*")):
        folder = path.relative_to(ROOT / "native").parts[0]
        if folder == "bind" or folder not in names:
            continue  # the bindings know everything, and so does the index at the root
        for included in re.findall(r'^#include "(\w+)/', path.read_text(), re.MULTILINE):
            seen += 1
            assert included == folder or names[included] in below[names[folder]], f"{path.name} includes {included}/"
    assert seen > 150


def test_contributing_names_what_ci_and_the_schedule_run():
    contributing = " ".join((ROOT / "CONTRIBUTING.md").read_text().split())
    targets = re.findall(r"^make (\S+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert len(targets) > 5
    named = [f"`make {target}`" for target in targets]
    assert f"CI runs `.ci/run` for every change: {', '.join(named[:-1])} and {named[-1]}." in contributing
    scheduled = (ROOT / ".github/workflows/scheduled.yml").read_text()
    [matrix] = re.findall(r"target: \[(.+)\]", scheduled)
    for target in [*matrix.split(", "), *re.findall(r"run: (?:.*&& )?make ([a-z-]+)", scheduled)]:
        assert f"`make {target}`" in contributing
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in ("test-server-load", "test-server-crash", "test-chroma-suite"):
        assert f"run: make {target}\n" in scheduled


def test_a_release_is_published_only_when_all_checks_have_passed():
    """Those of every change and those of every week, each called as a whole; nothing else may publish."""
    folder = ROOT / ".github/workflows"
    release = (folder / "release.yml").read_text()
    called = dict(re.findall(r"^  (\w+):\n    uses: \./\.github/workflows/(\w+)\.yml$", release, re.MULTILINE))
    assert set(called.values()) == {"wheels", "checks", "scheduled"}
    [publish] = re.findall(r"^  publish:\n((?:    .*\n|\n)+)", release, re.MULTILINE)
    [needs] = re.findall(r"^    needs: \[(.+)\]$", publish, re.MULTILINE)
    assert set(needs.split(", ")) == set(called)
    assert "if:" not in publish  # it would be run although something has failed
    assert "pypa/gh-action-pypi-publish" in publish
    for name in called.values():
        assert re.search(r"^  workflow_call:$", (folder / f"{name}.yml").read_text(), re.MULTILINE)
    assert re.search(r"^      - run: \.ci/run$", (folder / "checks.yml").read_text(), re.MULTILINE)
    for other in set(folder.glob("*.yml")) - {folder / "release.yml"}:
        assert "publish@" not in other.read_text()
