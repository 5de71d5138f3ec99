"""What the suite does not ask: scores, filters, subjects, receipts, and what is left in the files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("langchain_core", reason="LangChain is not installed: make test-langchain")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from lethevec.errors import InputError, ParameterError
from lethevec.integrations.langchain import LethevecVectorStore

EMBEDDING = DeterministicFakeEmbedding(size=16)
TEXTS = [f"the private letter number {n:03d} of a person" for n in range(30)]
METADATAS = [{"author": f"person {n % 3}", "n": n, "tags": ["a", "b"] if n % 2 else ["a"]} for n in range(30)]


@pytest.fixture(params=["file", "server"])
def letters(tmp_path, request):
    if request.param == "file":
        made = LethevecVectorStore.open(str(tmp_path / "letters.lethe"), EMBEDDING, subject_key="author")
    else:
        made = LethevecVectorStore(request.getfixturevalue("remote")(dim=16), EMBEDDING, subject_key="author")
    made.add_texts(TEXTS, METADATAS, ids=[str(n) for n in range(30)])
    yield made
    made.close()


def held_in_files(folder: Path, text: str) -> bool:
    return any(text.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_scores_are_distances_and_relevance_grows(letters):
    found = letters.similarity_search_with_score(TEXTS[3], k=5)
    assert found[0][0] == Document(id="3", page_content=TEXTS[3], metadata=METADATAS[3])
    assert found[0][1] == pytest.approx(0, abs=1e-6)
    assert [score for _, score in found] == sorted(score for _, score in found)
    relevant = letters.similarity_search_with_relevance_scores(TEXTS[3], k=1)
    assert relevant[0][1] == pytest.approx(1, abs=1e-6)
    x = np.array(EMBEDDING.embed_documents(TEXTS))
    cosines = x @ x[3] / np.linalg.norm(x, axis=1) / np.linalg.norm(x[3])
    with pytest.warns(UserWarning, match="between 0 and 1"):  # LangChain's, of negative cosines
        assert {d.id: s for d, s in letters.similarity_search_with_relevance_scores(TEXTS[3], k=30)} == pytest.approx(
            {str(n): c for n, c in enumerate(cosines)}, abs=1e-5
        )


def test_filters_and_subjects(letters):
    def ids(**asked):
        return {int(document.id) for document in letters.similarity_search(TEXTS[0], k=30, **asked)}

    assert ids(filter={"author": "person 1"}) == set(range(1, 30, 3)) == ids(subject="person 1")
    assert ids(filter={"n": {"$gte": 10, "$lt": 12}}) == {10, 11}
    assert ids(filter={"$or": [{"n": 4}, {"$not": {"n": {"$lt": 29}}}]}) == {4, 29}
    assert ids(filter={"n": {"$in": [1, 2]}, "author": {"$ne": "person 2"}}) == {1}
    assert ids(filter={"tags": {"$contains": "b"}, "$id": {"$in": ["1", "2"]}}) == {1}
    retriever = letters.as_retriever(search_kwargs={"k": 2, "filter": {"n": 7}})
    assert [document.id for document in retriever.invoke("anything")] == ["7"]
    for wrong in ({"n": {"$above": 1}}, {"$and": "n"}, ["n"]):
        with pytest.raises(ParameterError):
            ids(filter=wrong)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_mmr_equals_langchains_own(letters, weight):
    query = EMBEDDING.embed_query("a query")
    nearest = letters.similarity_search_by_vector(query, k=12)
    vectors = EMBEDDING.embed_documents([document.page_content for document in nearest])
    wanted = maximal_marginal_relevance(np.array(query), vectors, lambda_mult=weight, k=5)
    found = letters.max_marginal_relevance_search("a query", k=5, fetch_k=12, lambda_mult=weight)
    assert [document.id for document in found][1:] == [nearest[place].id for place in wanted][1:]
    assert len(letters.max_marginal_relevance_search("a query", k=5, filter={"n": {"$lt": 2}})) == 2


def test_forget_gives_a_receipt_and_leaves_nothing(letters, folder):
    assert held_in_files(folder, TEXTS[4])
    receipt = letters.forget(subject="person 1")
    assert receipt.records == 10
    assert letters.last_receipt is receipt
    assert letters.store.verify(receipt, subject="person 1")
    assert not letters.similarity_search(TEXTS[4], k=30, filter={"author": "person 1"})
    assert not any(held_in_files(folder, TEXTS[n]) for n in range(1, 30, 3))
    assert letters.delete(filter={"n": {"$lt": 3}}) is True
    assert letters.last_receipt.records == 2
    assert letters.forget(["3", "4", "3", "never there"]).records == 1
    assert letters.delete([]) is True
    assert letters.delete(subject="nobody") is True
    for asked in ({}, {"ids": ["5"], "subject": "person 2"}):
        with pytest.raises(ParameterError, match="one of ids, subject and filter"):
            letters.delete(**asked)
    letters.delete_collection()
    assert (letters.store.count(), letters.last_receipt.records) == (0, 17)


def test_a_receipt_states_other_places(letters):
    asked = [{"ids": ["5"]}, {"subject": "person 1"}, {"filter": {"n": {"$lt": 3}}}]
    for one in asked:
        receipt = letters.forget(**one, elsewhere={"record-manager": 3, "chat-history": None})
        assert receipt["asked"]["elsewhere"] == [
            {"place": "chat-history", "erased": None},
            {"place": "record-manager", "erased": 3},
        ]
        assert receipt.records > 0
    count = letters.store.count()
    for one in asked:
        with pytest.raises(ParameterError, match="elsewhere"):
            letters.forget(**one, elsewhere={"A place": 3})
    assert letters.store.count() == count


def test_embeddings_from_elsewhere(letters):
    vectors = EMBEDDING.embed_documents(["x", "y"])
    assert letters.add_embeddings(list(zip("xy", vectors, strict=True)), [{"n": 1}] * 2, ids=["x", "y"]) == ["x", "y"]
    assert letters.similarity_search("x", k=1)[0].page_content == "x"
    without_text = letters.add_embeddings(vectors)
    assert len(set(without_text)) == 2
    assert letters.get_by_ids(without_text[:1])[0].page_content == ""
    letters.add_embeddings(vectors, texts=["u", "v"], ids=["u", "v"])
    assert letters.get_by_ids(["v"])[0].page_content == "v"
    only_vectors = LethevecVectorStore(letters.store)
    assert only_vectors.similarity_search_by_vector(vectors[0], k=1)
    with pytest.raises(ParameterError, match="embedding"):
        only_vectors.similarity_search("x")


def test_the_last_of_an_id_that_comes_twice_is_kept(letters):
    assert letters.add_texts(["old", "new"], ids=["z", "z"]) == ["z", "z"]
    assert letters.get_by_ids(["z"])[0].page_content == "new"


def test_tuples_become_lists(letters):
    """Loaders write tuples into metadata: Unstructured's coordinates, for one."""
    where = {"coordinates": {"points": ((1.0, 2.0), (3.0, 4.0))}}
    letters.add_texts(["a title"], [where], ids=["t"])
    assert letters.get_by_ids(["t"])[0].metadata == {"coordinates": {"points": [[1.0, 2.0], [3.0, 4.0]]}}


def test_refused_calls_change_nothing(letters):
    before = letters.store.digest()
    with pytest.raises(InputError):
        letters.add_texts(["a", "b"], ids=["one"])
    with pytest.raises(InputError):
        letters.add_texts(["a"], [{"author": 1.5}])
    with pytest.raises(InputError):
        letters.add_texts(["a"], [{"when": object()}])
    with pytest.raises(ParameterError, match="store= or path="):
        LethevecVectorStore.from_texts(["a"], EMBEDDING)
    assert letters.store.digest() == before


def test_from_texts_and_metadata_beside_the_text(tmp_path):
    path = str(tmp_path / "flat.lethe")
    flat = LethevecVectorStore.from_texts(["a"], EMBEDDING, [{"n": 1}], path=path, ids=["1"], metadata_key=None)
    assert flat.store.get(["1"])[0].payload == {"text": "a", "n": 1}
    assert flat.similarity_search("a", filter={"n": 1}) == [Document(id="1", page_content="a", metadata={"n": 1})]
    with pytest.raises(InputError, match="'text'"):
        flat.add_texts(["a"], [{"text": "b"}])
    flat.close()


def test_the_indexing_of_langchain(letters):
    manager = InMemoryRecordManager(namespace="letters")
    manager.create_schema()
    letters.delete_collection()
    documents = [Document(page_content=f"page {n}", metadata={"source": f"book {n % 2}"}) for n in range(6)]
    settings = {"cleanup": "full", "source_id_key": "source", "key_encoder": "sha256"}
    assert index(documents, manager, letters, **settings)["num_added"] == 6
    result = index(documents[:4], manager, letters, **settings)
    assert (result["num_skipped"], result["num_deleted"], letters.store.count()) == (4, 2, 4)
    assert letters.last_receipt.records == 2


def test_async(letters):
    async def run():
        await letters.aadd_texts(["later"], ids=["later"])
        found = await letters.asimilarity_search("later", k=1)
        await letters.adelete(["later"])
        return found, await letters.aget_by_ids(["later", "1"])

    found, left = asyncio.run(run())
    assert found[0].id == "later"
    assert [document.id for document in left] == ["1"]


def test_history_leaves_no_trace(tmp_path):
    """A store that had and forgot documents equals one that never had them."""
    digests = []
    for name, gone in (("one", range(10, 30)), ("other", ())):
        made = LethevecVectorStore.open(str(tmp_path / f"{name}.lethe"), EMBEDDING, subject_key="author")
        for n in [*range(10), *gone]:
            made.add_texts([TEXTS[n]], [METADATAS[n]], ids=[str(n)])
        if gone:
            made.forget([str(n) for n in gone])
        digests.append(made.store.digest())
        made.close()
    assert digests[0] == digests[1]
