"""The thin distribution with the conventional name: built, installed, and the same classes under its modules."""

from __future__ import annotations

import pytest

pytest.importorskip("langchain_core", reason="the framework is not installed: make test-langchain")

CLASSES = {
    "langchain_lethevec": "LethevecVectorStore",
}


def test_it_is_built_installed_and_imported(distribution):
    metadata = distribution("langchain-lethevec", "lethevec.integrations.langchain", CLASSES)
    assert "lethevec[langchain]" in metadata
