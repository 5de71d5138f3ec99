"""LangChain's own suite for vector stores, as it stands: all 25 tests, none overridden."""

from __future__ import annotations

import pytest

pytest.importorskip("langchain_tests", reason="LangChain's tests are not installed: make test-langchain")

from langchain_tests.integration_tests import VectorStoreIntegrationTests

import lethevec
from lethevec.integrations.langchain import LethevecVectorStore


class TestLethevec(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path):
        with lethevec.open(tmp_path / "store.lethe", dim=6) as store:
            yield LethevecVectorStore(store, self.get_embeddings())


class TestSealed(VectorStoreIntegrationTests):
    """The same over an encrypted store, under another metric and with metadata beside the text."""

    @pytest.fixture
    def vectorstore(self, tmp_path):
        with lethevec.open(tmp_path / "store.lethe", dim=6, metric="l2", encrypt=True) as store:
            yield LethevecVectorStore(store, self.get_embeddings(), metadata_key=None, subject_key="user")


class TestServed(VectorStoreIntegrationTests):
    """The same over a collection of a server's client."""

    @pytest.fixture
    def vectorstore(self, remote):
        return LethevecVectorStore(remote(dim=6), self.get_embeddings())


def test_the_suite_has_all_its_tests():
    names = [name for name in dir(VectorStoreIntegrationTests) if name.startswith("test_")]
    assert len(names) >= 25
