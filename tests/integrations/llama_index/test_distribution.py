"""The thin distribution with the conventional name: built, installed, and the same classes under its modules."""

from __future__ import annotations

import pytest

pytest.importorskip("llama_index.core", reason="the framework is not installed: make test-llama_index")

CLASSES = {
    "llama_index.vector_stores.lethevec": "LethevecVectorStore",
}


def test_it_is_built_installed_and_imported(distribution):
    metadata = distribution("llama-index-vector-stores-lethevec", "lethevec.integrations.llama_index", CLASSES)
    assert "lethevec[llama_index]" in metadata or "lethevec[llama-index]" in metadata
