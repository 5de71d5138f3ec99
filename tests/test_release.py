"""What a release is checked for: one version everywhere, and every file that is promised."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

import lethevec

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("cp310", "cp311", "cp312", "cp313", "cp314")
SYSTEMS = ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "macosx_11_0_arm64", "win_amd64")


@pytest.fixture
def check() -> Any:
    spec = importlib.util.spec_from_file_location("check_release", ROOT / "tools" / "check_release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src" / "lethevec").mkdir(parents=True)
    (tmp_path / "src" / "lethevec" / "__init__.py").write_text('__version__ = "1.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.0\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0 (2030-01-31)\n\n## 1.1.0 (2029-01-31)\n")
    return tmp_path


def files(version: str) -> list[str]:
    wheels = [f"lethevec-{version}-{python}-{python}-{system}.whl" for python in PYTHONS for system in SYSTEMS]
    return [f"lethevec-{version}.tar.gz", *wheels]


def test_a_whole_release_is_right(check: Any, tree: Path) -> None:
    assert check.problems("v1.2.0", files("1.2.0"), tree) == []


def test_another_version_is_told_wherever_it_stands(check: Any, tree: Path) -> None:
    said = " ".join(check.problems("v1.3.0", files("1.3.0"), tree))
    for place in ("__init__.py", "CITATION.cff", "CHANGELOG.md"):
        assert place in said
    (tree / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.0 (unreleased)\n\n## 1.1.0 (2029-01-31)\n")
    (only,) = check.problems("v1.2.0", files("1.2.0"), tree)
    assert only == "CHANGELOG.md: expected version 1.2.0, got 1.1.0"


def test_a_missing_file_is_named(check: Any, tree: Path) -> None:
    (only,) = check.problems("v1.2.0", [name for name in files("1.2.0") if "cp314-cp314-win" not in name], tree)
    assert only == "expected a wheel of 1.2.0 for cp314 and win_amd64, got none"


def test_this_tree_has_one_version() -> None:
    for path, pattern in (
        ("CITATION.cff", r"^version: (\S+)"),
        ("CHANGELOG.md", r"^## (\S+) \("),
        *((str(p.relative_to(ROOT)), r'^version = "([^"]+)"') for p in ROOT.glob("integrations/*/pyproject.toml")),
    ):
        found = re.search(pattern, (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
        assert found is not None, path
        assert found[1] == lethevec.__version__, path


def test_the_page_of_the_package_stands_by_itself() -> None:
    """PyPI shows it without the files beside it: a link or a picture of the tree would lead nowhere."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [readme] = re.findall(r'^readme = "([^"]+)"', project, re.MULTILINE)
    text = (ROOT / readme).read_text(encoding="utf-8")
    assert [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link] == []
    assert "<img" not in text
    # It says of the package what README says of the tree.
    readme_text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.split("\n\n")[1] == readme_text.split("\n\n")[1]
    for python in PYTHONS:
        assert f'"Programming Language :: Python :: 3.{python[3:]}"' in project
