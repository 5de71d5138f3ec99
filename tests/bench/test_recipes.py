"""Recipes for real data: a set is made once, in the layout that the benchmarks read, and mistakes are told."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

from lethevec import datasets
from lethevec.bench import cli
from lethevec.bench.recipes import RECIPES, Recipe, making
from lethevec.errors import FileError

SCRIPTS = Path(making.__file__).parent / "scripts"


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts run in this environment, and one recipe needs nothing of any registry."""
    monkeypatch.setattr(making, "environment", lambda recipe, work, note: sys.executable)
    monkeypatch.setitem(RECIPES, "tiny", Recipe("made up", "euclidean", "tiny", queries=5))


def script(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The script of the recipe `tiny`."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "tiny.py").write_text(text)
    monkeypatch.setattr(making, "__file__", str(tmp_path / "making.py"))


@pytest.mark.usefixtures("here")
def test_a_set_is_made_once_and_can_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = "import sys, numpy as np\nnp.save(sys.argv[2], np.random.default_rng(3).normal(size=(60, 4)))\n"
    script(made, monkeypatch, tmp_path)
    told: list[str] = []
    path = making.make("tiny", tmp_path / "sets", told.append)
    found = datasets.read_benchmark(path)
    assert (found.metric, found.train.shape, found.test.shape) == ("l2", (55, 4), (5, 4))
    assert found.neighbors is not None
    far = np.linalg.norm(found.train[None] - found.test[:, None], axis=2)
    np.testing.assert_array_equal(found.neighbors, np.argsort(far, axis=1))
    assert not list((tmp_path / "sets" / "work").iterdir())  # nothing of the script is left
    before = path.stat().st_mtime_ns
    assert making.make("tiny", tmp_path / "sets", told.append) == path
    assert path.stat().st_mtime_ns == before
    assert told[-1].endswith("is there")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise SystemExit('no such package')", "no such package"),
        ("", "cannot be read"),
        ("import sys, numpy as np\nnp.save(sys.argv[2], np.full((60, 4), np.nan))", "finite vectors"),
        ("import sys, numpy as np\nnp.save(sys.argv[2], np.ones((5, 4)))", "finite vectors"),
    ],
)
def test_a_recipe_that_fails_says_why(text: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(text, monkeypatch, tmp_path)
    with pytest.raises(FileError, match=message):
        making.make("tiny", tmp_path / "sets", lambda _: None)
    assert not list((tmp_path / "sets").glob("*.hdf5"))


def test_every_recipe_has_its_script_and_every_script_a_recipe() -> None:
    assert {recipe.script for recipe in RECIPES.values()} == {path.stem for path in SCRIPTS.glob("*.py")}
    for path in SCRIPTS.glob("*.py"):
        ast.parse(path.read_text())


def test_an_unknown_set_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        cli.main(["data", "nowhere", "--folder", str(tmp_path)])
    assert "expected sets of wordnet-384" in capsys.readouterr().err
