"""The scripts of the gallery run, and print what the gallery shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "gallery.md").read_text()
#: What each needs besides lethevec.
NEEDS = {"face_gallery": "skimage"}


def shown() -> dict[str, str]:
    """What the page says that each script prints."""
    return dict(re.findall(r"`python examples/(\w+)\.py`.*?```text\n(.*?)```", PAGE, re.DOTALL))


def test_every_script_is_in_the_gallery():
    assert set(shown()) == {path.stem for path in (ROOT / "examples").glob("*.py")}


@pytest.mark.parametrize("name", sorted(shown()))
def test_a_script_prints_what_the_gallery_shows(name, tmp_path):
    if name in NEEDS:
        pytest.importorskip(
            NEEDS[name], reason=f"{NEEDS[name]} is not installed: make test-sklearn runs examples/{name}.py"
        )
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pattern = re.escape(shown()[name].strip()).replace(re.escape("..."), "[^\n]*")
    assert re.fullmatch(pattern, done.stdout.strip()), done.stdout
    assert list(tmp_path.iterdir()) == []  # a script leaves nothing behind
