"""Where there is no browser: a person is told what is missing, and CI must not be green."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("required", "code", "said"), [("", 0, "1 skipped"), ("1", 1, "need chromium")])
def test_no_browser_is_a_skip_for_a_person_and_a_failure_for_ci(tmp_path, required, code, said):
    pytest.importorskip("playwright", reason="it needs playwright: make test-console")
    one = "tests/console/test_sessions.py::test_a_wrong_key_opens_nothing_and_says_what_to_do"
    environment = {**os.environ, "PATH": str(tmp_path), "LETHEVEC_BROWSER": required}
    environment.pop("LETHEVEC_CHROMIUM", None)
    options = ["-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider", "-rs"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, one],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == code, ran.stdout
    assert said in ran.stdout


def test_ci_asks_for_a_browser():
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert text.index("export LETHEVEC_BROWSER=1\n") < text.index("make test-console\n")
