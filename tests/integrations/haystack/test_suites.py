"""Haystack's own suites for document stores: base, extended, metadata, and their async twins.

As the suites ask: `test_write_documents` says what happens without a policy, and `assert_documents_are_equal` compares
documents as this store gives them, by ascending id and with embeddings of float32.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("haystack", reason="Haystack is not installed: make test-haystack")

from haystack.dataclasses import Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.testing import document_store as suites
from haystack.testing import document_store_async as async_suites

from lethevec.integrations.haystack import LethevecDocumentStore


class Ours:
    @pytest.fixture
    def document_store(self, tmp_path):
        made = LethevecDocumentStore(str(tmp_path / "documents.lethe"), embedding_dim=768)
        yield made
        made.close()

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        received, expected = (sorted(some, key=lambda document: document.id) for some in (received, expected))
        assert len(received) == len(expected)
        for got, wanted in zip(received, expected, strict=True):
            fields, others = got.to_dict(flatten=False), wanted.to_dict(flatten=False)
            one, other = fields.pop("embedding"), others.pop("embedding")
            assert fields == others
            assert (one is None) == (other is None)
            assert one is None or np.allclose(one, other, rtol=1e-6)


class Served(Ours):
    """Over a collection of a server's client."""

    @pytest.fixture
    def document_store(self, remote):
        return LethevecDocumentStore(store=remote(dim=768))


class TestSync(
    Ours,
    suites.DocumentStoreBaseExtendedTests,
    suites.CountDocumentsByFilterTest,
    suites.CountUniqueMetadataByFilterTest,
    suites.GetMetadataFieldsInfoTest,
    suites.GetMetadataFieldMinMaxTest,
    suites.GetMetadataFieldUniqueValuesTest,
):
    def test_write_documents(self, document_store):
        document = Document(content="test doc")
        assert document_store.write_documents([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents([document])
        self.assert_documents_are_equal(document_store.filter_documents(), [document])


class TestServed(Served, TestSync):
    """All of it again."""


class TestAsync(
    Ours,
    async_suites.DeleteAllAsyncTest,
    async_suites.CountDocumentsAsyncTest,
    async_suites.CountDocumentsByFilterAsyncTest,
    async_suites.CountUniqueMetadataByFilterAsyncTest,
    async_suites.DeleteByFilterAsyncTest,
    async_suites.UpdateByFilterAsyncTest,
    async_suites.WriteDocumentsAsyncTest,
    async_suites.DeleteDocumentsAsyncTest,
    async_suites.GetMetadataFieldsInfoAsyncTest,
    async_suites.GetMetadataFieldMinMaxAsyncTest,
    async_suites.GetMetadataFieldUniqueValuesAsyncTest,
    async_suites.FilterDocumentsAsyncTest,
):
    async def test_write_documents_async(self, document_store):
        document = Document(content="test doc")
        assert await document_store.write_documents_async([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async([document])


class TestServedAsync(Served, TestAsync):
    """All of it again."""


def test_nothing_of_the_suites_is_left_out():
    for ours, theirs in ((TestSync, suites), (TestAsync, async_suites)):
        known = {
            name
            for kind in vars(theirs).values()
            if isinstance(kind, type) and kind.__module__ == theirs.__name__
            for name in dir(kind)
            if name.startswith("test_")
        }
        assert known == {name for name in dir(ours) if name.startswith("test_")}
