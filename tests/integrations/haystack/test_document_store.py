"""What the suites do not ask: the retriever, YAML, blobs, subjects, receipts, and what is left in the files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("haystack", reason="Haystack is not installed: make test-haystack")

from haystack import Pipeline
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.retrievers import SentenceWindowRetriever
from haystack.dataclasses import ByteStream, Document, SparseEmbedding
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError

import lethevec
from lethevec.errors import InputError, ParameterError
from lethevec.integrations.haystack import LethevecDocumentStore, LethevecEmbeddingRetriever

DIM = 8
VECTORS = np.random.default_rng(3).normal(size=(30, DIM)).astype(np.float32)


def documents() -> list[Document]:
    return [
        Document(
            id=f"{n:02d}",
            content=f"the private letter number {n:03d}",
            embedding=VECTORS[n].tolist() if n < 20 else None,
            meta={"author": f"person {n % 3}", "n": n},
        )
        for n in range(30)
    ]


@pytest.fixture
def letters(tmp_path):
    made = LethevecDocumentStore(str(tmp_path / "letters.lethe"), embedding_dim=DIM, subject_field="author")
    assert made.write_documents(documents()) == 30
    yield made
    made.close()


def held_in_files(folder: Path, text: str) -> bool:
    return any(text.encode() in path.read_bytes() for path in folder.iterdir() if path.is_file())


def test_retrieval(letters):
    retriever = LethevecEmbeddingRetriever(letters, top_k=30, return_embedding=True)
    found = retriever.run(VECTORS[3].tolist())["documents"]
    assert len(found) == 20  # those with an embedding
    assert (found[0].id, found[0].score) == ("03", pytest.approx(1, abs=1e-6))
    assert np.array_equal(np.float32(found[0].embedding), VECTORS[3])
    x = VECTORS[:20] / np.linalg.norm(VECTORS[:20], axis=1, keepdims=True)
    assert {d.id: d.score for d in found} == pytest.approx({f"{n:02d}": s for n, s in enumerate(x @ x[3])}, abs=1e-5)
    few = retriever.run(VECTORS[3].tolist(), {"field": "meta.n", "operator": "<", "value": 2}, 5, True, False)
    assert {d.id for d in few["documents"]} == {"00", "01"}
    assert all(0 <= d.score <= 1 and d.embedding is None for d in few["documents"])
    again = asyncio.run(retriever.run_async(VECTORS[3].tolist()))["documents"]
    assert again == found
    with pytest.raises(ParameterError, match="LethevecDocumentStore"):
        LethevecEmbeddingRetriever(object())


def test_a_pipeline_and_its_yaml(letters):
    pipeline = Pipeline()
    where = {"field": "author", "operator": "==", "value": "person 1"}
    pipeline.add_component("retriever", LethevecEmbeddingRetriever(letters, filters=where, filter_policy="merge"))
    text = pipeline.dumps()
    letters.close()
    again = Pipeline.loads(text, allowed_modules=["lethevec.integrations.haystack"])
    asked = {"retriever": {"query_embedding": VECTORS[1].tolist()}}
    found = again.run(asked)["retriever"]["documents"]
    assert found[0].id == "01"
    assert {d.meta["author"] for d in found} == {"person 1"}
    again.get_component("retriever").document_store.close()
    with pytest.raises(ParameterError, match="path"):
        LethevecDocumentStore(store=object()).to_dict()
    with pytest.raises(ParameterError, match="either"):
        LethevecDocumentStore()


def test_document_stores_with_one_path_share_a_store(letters):
    """As they are in a process that has loaded a pipeline, or two, from YAML."""
    writer = LethevecDocumentStore(letters.path, embedding_dim=DIM)
    pipeline = Pipeline()
    pipeline.add_component("retriever", LethevecEmbeddingRetriever(letters, top_k=1))
    pipeline.add_component("window", SentenceWindowRetriever(writer))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["lethevec.integrations.haystack"])
    assert again.get_component("retriever").run(VECTORS[1].tolist())["documents"][0].id == "01"
    window = again.get_component("window").document_store
    assert window.count_documents() == writer.count_documents() == 30
    assert window.forget(subject="person 1").records == 10
    assert writer.count_documents() == letters.count_documents() == 20
    letters.close()
    writer.close()
    writer.close()
    assert window.count_documents() == 20
    with pytest.raises(InputError, match="dim=8"):
        LethevecDocumentStore(letters.path, embedding_dim=DIM + 1).count_documents()
    again.get_component("retriever").document_store.close()
    window.close()
    dropped = LethevecDocumentStore(letters.path, embedding_dim=DIM)
    assert dropped.count_documents() == 20
    del dropped
    with lethevec.open(letters.path) as alone:  # nobody else has it open
        assert len(alone) == 20


def test_all_of_a_document_comes_back(letters):
    whole = Document(
        id="whole",
        content=None,
        blob=ByteStream(data=bytes(range(256)), mime_type="application/pdf", meta={"name": "x"}),
        meta={"deep": {"list": [1, None, {"a": "ä"}]}},
        sparse_embedding=SparseEmbedding(indices=[1, 5], values=[0.5, 2.0]),
    )
    letters.write_documents([whole])
    assert [document for document in letters.filter_documents() if document.id == "whole"] == [whole]


def test_forget_gives_a_receipt_and_leaves_nothing(letters, tmp_path):
    receipt = letters.forget(subject="person 1")
    assert receipt.records == 10
    assert letters.store.verify(receipt, subject="person 1")
    assert not any(held_in_files(tmp_path, f"the private letter number {n:03d}") for n in range(1, 30, 3))
    assert held_in_files(tmp_path, "the private letter number 000")
    assert letters.forget("02").records == 1
    assert letters.forget(filters={"field": "meta.n", "operator": ">=", "value": 27}).records == 2
    letters.delete_documents([])
    letters.delete_documents(["03", "03", "none"])
    assert letters.last_receipt.records == 1
    for asked in ({}, {"subject": "a", "document_ids": "b"}):
        with pytest.raises(ParameterError, match="one of"):
            letters.forget(**asked)
    letters.delete_all_documents()
    assert letters.count_documents() == 0


def test_a_receipt_states_other_places(letters):
    filters = {"field": "meta.n", "operator": ">=", "value": 27}
    for one in ({"document_ids": ["02"]}, {"subject": "person 1"}, {"filters": filters}):
        receipt = letters.forget(**one, elsewhere={"cache": 3, "chat-history": None})
        assert receipt["asked"]["elsewhere"] == [
            {"place": "cache", "erased": 3},
            {"place": "chat-history", "erased": None},
        ]
        assert receipt.records > 0
    count = letters.count_documents()
    with pytest.raises(ParameterError, match="elsewhere"):
        letters.forget(subject="person 2", elsewhere={"A place": 3})
    assert letters.count_documents() == count


def test_what_the_page_says_of_splitters_is_true(letters, tmp_path):
    """What parts of one document say of each other is gone with all of them, and only then."""
    splitter = DocumentSplitter(split_by="word", split_length=8, split_overlap=3)
    whole = Document(content=" ".join(f"word{n}" for n in range(20)))
    parts = splitter.run([whole])["documents"]
    letters.write_documents(parts)
    assert len(parts) > 2
    [overlap] = next(d.meta["_split_overlap"] for d in letters.filter_documents() if d.id == parts[0].id)
    assert overlap["range"] == list(parts[0].meta["_split_overlap"][0]["range"])  # a tuple, as the splitter has it
    letters.forget(parts[1].id)
    assert held_in_files(tmp_path, parts[1].id)
    of_one = {"field": "meta.source_id", "operator": "==", "value": whole.id}
    assert letters.forget(filters=of_one).records == len(parts) - 1
    assert not any(held_in_files(tmp_path, text) for text in (parts[1].id, whole.id, "word6"))


def test_an_update_changes_the_subject(letters):
    assert letters.update_by_filter({"field": "meta.n", "operator": "==", "value": 4}, {"author": "someone else"}) == 1
    assert letters.store.get(["04"])[0].subject == "someone else"
    assert letters.forget(subject="someone else").records == 1


def test_policies_within_one_call(letters):
    twice = [Document(id="x", content="one"), Document(id="x", content="two")]
    with pytest.raises(DuplicateDocumentError):
        letters.write_documents(twice)
    assert letters.write_documents(twice, DuplicatePolicy.SKIP) == 1
    assert letters.store.get(["x"])[0].payload["content"] == "one"
    assert letters.write_documents(twice, DuplicatePolicy.OVERWRITE) == 1
    assert letters.store.get(["x"])[0].payload["content"] == "two"


def test_an_embedding_can_be_added_later(letters):
    late = Document(id="25", content="with an embedding", embedding=VECTORS[25].tolist())
    letters.write_documents([late], DuplicatePolicy.OVERWRITE)
    assert letters.embedding_retrieval(VECTORS[25].tolist(), top_k=1)[0].id == "25"
    letters.write_documents([Document(id="25", content="without")], DuplicatePolicy.OVERWRITE)
    assert "25" not in {d.id for d in letters.embedding_retrieval(VECTORS[25].tolist(), top_k=30)}


def test_refused_calls_change_nothing(letters):
    before = letters.store.digest()
    with pytest.raises(InputError):
        letters.write_documents([Document(id="new", meta={"author": 1.5})])
    with pytest.raises(InputError):
        letters.write_documents([Document(id="new", embedding=[1.0, 2.0])])
    for wrong in (
        {"operator": "=="},
        {"field": "meta.n", "operator": "like", "value": 1},
        {"field": "meta.n", "operator": "=="},
        {"field": "meta.n", "operator": "==", "value": [1]},
        {"operator": "XOR", "conditions": []},
        {"field": 1, "operator": "==", "value": 1},
        ["n"],
    ):
        with pytest.raises(FilterError):
            letters.filter_documents(wrong)
        with pytest.raises(FilterError):
            letters.delete_by_filter(wrong)
    assert letters.store.digest() == before


def test_over_a_store_that_is_open(tmp_path):
    with lethevec.open(tmp_path / "s.lethe", dim=DIM, metric="l2") as store:
        made = LethevecDocumentStore(store=store)
        made.write_documents(documents())
        found = made.embedding_retrieval(VECTORS[2].tolist(), top_k=2)
        assert (found[0].id, found[0].score) == ("02", 1.0)
        assert 0 < found[1].score < 1
