"""The thin distribution with the conventional name: built, installed, and the same classes under its modules."""

from __future__ import annotations

import pytest

pytest.importorskip("haystack", reason="the framework is not installed: make test-haystack")

CLASSES = {
    "haystack_integrations.document_stores.lethevec": "LethevecDocumentStore",
    "haystack_integrations.components.retrievers.lethevec": "LethevecEmbeddingRetriever",
}


def test_it_is_built_installed_and_imported(distribution):
    metadata = distribution("lethevec-haystack", "lethevec.integrations.haystack", CLASSES)
    assert "lethevec[haystack]" in metadata
