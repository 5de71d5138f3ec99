"""The thin distribution with the conventional name: built, installed, and the same classes under its modules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("langchain_core", reason="the framework is not installed: make test-langchain")

import lethevec

SOURCE = Path(__file__).parents[3] / "integrations" / "langchain-lethevec"


def test_it_is_built_installed_and_imported(tmp_path):
    shutil.copytree(SOURCE, tmp_path / "source")  # a build leaves files beside the sources
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(tmp_path / "site"), str(tmp_path / "source")], check=True)
    code = """
import importlib, lethevec.integrations.langchain as ours
for module, name in [('langchain_lethevec', 'LethevecVectorStore')]:
    assert getattr(importlib.import_module(module), name) is getattr(ours, name), name
"""
    path = os.pathsep.join([str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})
    [metadata] = (tmp_path / "site").glob("*.dist-info/METADATA")
    text = metadata.read_text()
    assert f"Version: {lethevec.__version__}" in text
    assert "lethevec[langchain]" in text
