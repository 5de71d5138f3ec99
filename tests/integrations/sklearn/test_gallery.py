"""The gallery of faces: its pictures come with scikit-image, which shares most of what it needs with scikit-learn."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("skimage", reason="scikit-image is not installed: make test-sklearn")

ROOT = Path(__file__).parents[3]


def test_the_script_prints_what_the_gallery_shows(tmp_path):
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"`python examples/face_gallery\.py`.*?```text\n(.*?)```", page, re.DOTALL)
    command = [sys.executable, str(ROOT / "examples" / "face_gallery.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pattern = re.escape(shown.strip()).replace(re.escape("..."), "[^\n]*")
    assert re.fullmatch(pattern, done.stdout.strip()), done.stdout
