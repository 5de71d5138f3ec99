"""The vector store of LlamaIndex: its calls, its filters against its own function, and what is left of a node."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llama_index.core", reason="LlamaIndex is not installed: make test-llama_index")

from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.node_parser import SentenceSplitter, SentenceWindowNodeParser
from llama_index.core.schema import MetadataMode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

import lethevec
from lethevec.errors import HoldError, InputError, ParameterError, UnsupportedError
from lethevec.integrations.llama_index import LethevecVectorStore

DIM = 8
VECTORS = np.random.default_rng(3).normal(size=(40, DIM))


def make_nodes(count: int = 40) -> list[TextNode]:
    return [
        TextNode(
            id_=f"node-{n:02d}",
            text=f"the private letter number {n:03d}",
            embedding=VECTORS[n].tolist(),
            metadata={"author": f"person {n % 4}", "n": n, "tags": ["x", f"t{n % 3}"]},
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"book {n // 10}")},
        )
        for n in range(count)
    ]


@pytest.fixture(params=["file", "server"])
def store(tmp_path, request):
    if request.param == "server":
        yield request.getfixturevalue("remote")(dim=DIM)
        return
    with lethevec.open(tmp_path / "nodes.lethe", dim=DIM) as opened:
        yield opened


@pytest.fixture
def nodes(store):
    made = LethevecVectorStore(store, subject_key="author")
    assert made.add(make_nodes()) == [f"node-{n:02d}" for n in range(40)]
    return made


def ask(k: int = 5, **settings) -> VectorStoreQuery:
    return VectorStoreQuery(query_embedding=VECTORS[0].tolist(), similarity_top_k=k, **settings)


def held_in_files(folder: Path, text: str) -> bool:
    return any(text.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_query_equals_llama_indexs_own_store(nodes):
    simple = SimpleVectorStore()
    simple.add(make_nodes())
    ours, theirs = nodes.query(ask(12)), simple.query(ask(12))
    assert ours.ids == theirs.ids
    assert ours.similarities == pytest.approx(theirs.similarities, abs=1e-5)
    assert [node.node_id for node in ours.nodes] == ours.ids
    wanted = make_nodes()[0]
    wanted.embedding = None
    assert ours.nodes[0] == wanted


@pytest.mark.parametrize("threshold", [0.2, 0.6, 1.0])
def test_mmr_equals_llama_indexs_own(nodes, threshold):
    simple = SimpleVectorStore()
    simple.add(make_nodes())
    asked = ask(6, mode=VectorStoreQueryMode.MMR, mmr_threshold=threshold)
    ours, theirs = nodes.query(asked, mmr_prefetch_k=40), simple.query(asked, mmr_threshold=threshold)
    assert ours.ids == theirs.ids
    assert len(nodes.query(asked).ids) == 6


def test_restrictions_of_a_query(nodes):
    assert {int(id[-2:]) // 10 for id in nodes.query(ask(40, doc_ids=["book 1", "book 3"])).ids} == {1, 3}
    assert set(nodes.query(ask(40, node_ids=["node-01", "node-02", "none"])).ids) == {"node-01", "node-02"}
    filters = MetadataFilters.from_dicts([{"key": "n", "value": 3, "operator": "<"}])
    assert set(nodes.query(ask(40, filters=filters, node_ids=["node-01", "node-09"])).ids) == {"node-01"}
    for mode in (VectorStoreQueryMode.HYBRID, VectorStoreQueryMode.SPARSE, VectorStoreQueryMode.SVM):
        with pytest.raises(UnsupportedError, match="default or mmr"):
            nodes.query(ask(mode=mode))
    with pytest.raises(InputError, match="query_embedding"):
        nodes.query(VectorStoreQuery())


# --- Filters ---------------------------------------------------------------------------------------------------------

METADATA = [
    {"n": 1, "s": "river", "tags": ["red", "blue"], "none": None},
    {"n": 2, "s": "River bank", "tags": ["red"], "e": ""},
    {"n": 2.5, "s": "a.b*c", "tags": [], "other": True},
    {"n": -7, "s": "", "tags": ["green", "blue"], "none": "x"},
    {"s": "2024-05-06", "tags": ["Red"]},
    {},
]
NUMBERS, TEXTS, LISTS = (
    [1, 2, 2.5, -7, 0],
    ["river", "River", "a.b", "b*", "2024-05-06", ""],
    [["red"], ["red", "blue"]],
)
ASKED = [
    *itertools.product(["n"], ["==", "!=", ">", "<", ">=", "<="], NUMBERS),
    *itertools.product(["s"], ["==", "!=", ">", "<", ">=", "<="], TEXTS),
    *itertools.product(["n"], ["in", "nin"], [[1, 2], [2.5], [9]]),
    *itertools.product(["s"], ["in", "nin"], [["river", "a.b*c"], ["x"]]),
    *itertools.product(["s"], ["text_match", "text_match_insensitive", "contains"], TEXTS),
    *itertools.product(["tags"], ["any", "all"], LISTS),
    *itertools.product(["s"], ["any", "all"], [["riv", "er"], ["River", "zzz"]]),
    *itertools.product(["tags"], ["contains"], ["red", "blue", "Red", "none"]),
    *itertools.product(["n", "s", "tags", "none", "e", "never"], ["is_empty"], [None]),
    *itertools.product(["none", "never"], ["==", "!=", "in", "nin"], ["x"]),
]
ASKED = [(k, o, [v] if o in ("in", "nin") and not isinstance(v, list) else v) for k, o, v in ASKED]


@pytest.fixture
def described(store):
    made = LethevecVectorStore(store)
    made.add([TextNode(id_=str(n), embedding=VECTORS[n].tolist(), metadata=m) for n, m in enumerate(METADATA)])
    return made


def matching(filters: MetadataFilters) -> set[str]:
    passes = build_metadata_filter_fn(lambda id: METADATA[int(id)], filters)
    return {str(n) for n in range(len(METADATA)) if passes(str(n))}


def test_every_operator_as_llama_index_itself_has_it(described):
    assert {operator for _, operator, _ in ASKED} == {operator.value for operator in FilterOperator}
    for key, operator, value in ASKED:
        filters = MetadataFilters(filters=[MetadataFilter(key=key, operator=operator, value=value)])
        found = {node.node_id for node in described.get_nodes(filters=filters)}
        assert found == matching(filters), (key, operator, value)


@pytest.mark.parametrize("condition", list(FilterCondition))
def test_conditions(described, condition):
    rng = np.random.default_rng(5)
    for _ in range(60):
        chosen = [ASKED[place] for place in rng.choice(len(ASKED), size=3, replace=False)]
        parts = [MetadataFilter(key=key, operator=operator, value=value) for key, operator, value in chosen]
        filters = MetadataFilters(filters=parts, condition=condition)
        assert {node.node_id for node in described.get_nodes(filters=filters)} == matching(filters), chosen


def test_nested_filters(described):
    inner = MetadataFilters.from_dicts([{"key": "n", "value": 1}, {"key": "n", "value": 2}], FilterCondition.OR)
    outer = MetadataFilters(filters=[inner, MetadataFilter(key="tags", operator="contains", value="blue")])
    assert [node.node_id for node in described.get_nodes(filters=outer)] == ["0"]


# --- Forgetting ------------------------------------------------------------------------------------------------------


def test_delete_get_and_clear(nodes):
    nodes.delete("book 0")
    assert nodes.last_receipt.records == 10
    assert nodes.get_nodes(["node-00", "node-10"])[0].node_id == "node-10"
    nodes.delete_nodes(["node-10", "never there"])
    filters = MetadataFilters.from_dicts([{"key": "n", "value": 38, "operator": ">="}])
    nodes.delete_nodes(filters=filters)
    nodes.delete_nodes(["node-20", "node-30"], MetadataFilters.from_dicts([{"key": "n", "value": 20}]))
    nodes.delete_nodes([])
    assert nodes.client.count() == 40 - 10 - 1 - 2 - 1
    with pytest.raises(ParameterError, match="clear"):
        nodes.delete_nodes()
    nodes.clear()
    assert (nodes.client.count(), nodes.last_receipt.records) == (0, 26)
    assert nodes.get_nodes() == nodes.query(ask()).nodes == []


def test_a_forgotten_node_is_taken_out_of_its_neighbours(tmp_path, store, folder):
    made = LethevecVectorStore(store, subject_key="author")
    document = Document(text=" ".join(f"Sentence number {n} about nothing." for n in range(60)), id_="the book")
    parts = SentenceSplitter(chunk_size=60, chunk_overlap=0).get_nodes_from_documents([document])
    assert len(parts) > 5
    for n, node in enumerate(parts):
        node.embedding = VECTORS[n].tolist()
        node.metadata = {"author": f"person {n}", "secret": f"what only person {n} knows"}
    for one, following in itertools.pairwise(parts):  # as a splitter of nodes with metadata has them
        one.relationships[NodeRelationship.NEXT] = following.as_related_node_info()
        following.relationships[NodeRelationship.PREVIOUS] = one.as_related_node_info()
    parts[0].relationships[NodeRelationship.CHILD] = [part.as_related_node_info() for part in parts[2:5]]
    made.add(parts)
    gone, left = parts[3], parts[2]
    assert held_in_files(folder, "what only person 3 knows")
    assert made.get_nodes([left.node_id])[0].next_node.node_id == gone.node_id
    receipt = made.forget(subject="person 3")
    assert receipt.records == 1
    before, after, parent = made.get_nodes([parts[2].node_id, parts[4].node_id, parts[0].node_id])
    assert before.next_node is None
    assert after.prev_node is None
    assert before.prev_node.node_id == parts[1].node_id
    assert [child.node_id for child in parent.child_nodes] == [parts[2].node_id, parts[4].node_id]
    for text in (gone.node_id, "what only person 3 knows", gone.hash, gone.get_content(MetadataMode.NONE)):
        assert not held_in_files(folder, text), text
    # The rest is as it was, and a store that never had the node has the same records.
    assert made.get_nodes([parts[5].node_id])[0].prev_node.node_id == parts[4].node_id
    digest = store.digest()
    with lethevec.open(tmp_path / "other.lethe", dim=DIM) as other:
        never = LethevecVectorStore(other, subject_key="author")
        for part in parts:
            if part is gone:
                continue
            kept = {}
            for kind, related in part.relationships.items():
                some = [r for r in (related if isinstance(related, list) else [related]) if r.node_id != gone.node_id]
                if some:
                    kept[kind] = some if isinstance(related, list) else some[0]
            part.relationships = kept
            never.add([part])
        assert other.digest() == digest


def test_forget_by_anything(nodes, folder):
    assert nodes.forget("node-00").records == 1
    assert nodes.forget(["node-01", "node-02"]).records == 2
    assert nodes.forget(ref_doc_id="book 1").records == 10
    assert nodes.forget(filters=MetadataFilters.from_dicts([{"key": "n", "value": 25, "operator": ">="}])).records == 15
    receipt = nodes.forget(subject="person 0")
    assert nodes.client.verify(receipt, subject="person 0")
    assert nodes.forget(subject="nobody").records == 0
    assert not held_in_files(folder, "the private letter number 000")
    for asked in ({}, {"node_ids": "a", "subject": "b"}):
        with pytest.raises(ParameterError, match="one of"):
            nodes.forget(**asked)


def test_a_receipt_states_other_places(nodes):
    filters = MetadataFilters.from_dicts([{"key": "n", "value": 25, "operator": ">="}])
    asked = [{"node_ids": "node-00"}, {"ref_doc_id": "book 1"}, {"filters": filters}, {"subject": "person 0"}]
    for one in asked:
        receipt = nodes.forget(**one, elsewhere={"docstore": 3, "cache": None})
        assert receipt["asked"]["elsewhere"] == [
            {"place": "cache", "erased": None},
            {"place": "docstore", "erased": 3},
        ]
        assert receipt.records > 0


def test_a_place_that_is_refused_leaves_the_neighbours_as_they_are(tmp_path, store):
    made = LethevecVectorStore(store)
    one, other = TextNode(text="one", id_="one"), TextNode(text="other", id_="other")
    for node, vector in ((one, VECTORS[0]), (other, VECTORS[1])):
        node.embedding = vector.tolist()
    one.relationships[NodeRelationship.NEXT] = other.as_related_node_info()
    made.add([one, other])
    before = store.digest()
    with pytest.raises(ParameterError, match="elsewhere"):
        made.forget("other", elsewhere={"A place": 3})
    assert store.digest() == before
    assert made.get_nodes(["one"])[0].next_node.node_id == "other"


def test_what_a_legal_hold_refuses_leaves_the_neighbours_as_they_are(tmp_path):
    with lethevec.connect(tmp_path / "folder") as db:
        store = db.collection("nodes", dim=DIM)
        made = LethevecVectorStore(store, subject_key="author")
        before, held, after = (TextNode(text=who, id_=who, metadata={"author": who}) for who in ("ann", "bob", "eve"))
        for node, vector in zip((before, held, after), VECTORS, strict=False):
            node.embedding = vector.tolist()
        before.relationships[NodeRelationship.NEXT] = held.as_related_node_info()
        after.relationships[NodeRelationship.PREVIOUS] = held.as_related_node_info()
        made.add([before, held, after])
        digest = store.digest()
        # The node itself is held, and then one that names it, which would have to be changed.
        for person in ("bob", "eve"):
            db.hold(subject=person, reason="a case")
            with pytest.raises(HoldError):
                made.forget("bob")
            assert store.digest() == digest
            db.lift(db.holds(person)[0].id, "closed")
        assert made.forget("bob").records == 1
        assert made.get_nodes(["ann"])[0].next_node is None


def test_what_the_page_says_of_windows_is_true(store, folder):
    """A parser that writes a node's sentence into others: it is gone with the whole document, and only then."""
    parser = SentenceWindowNodeParser(sentence_splitter=lambda text: text.split("|"), window_size=1)
    parts = parser.get_nodes_from_documents([Document(text="the first|a private second|the third", id_="doc")])
    made = LethevecVectorStore(store)
    for node, vector in zip(parts, VECTORS, strict=False):
        node.embedding = vector.tolist()
    made.add(parts)
    made.forget(parts[1].node_id)
    assert "private" in made.get_nodes([parts[0].node_id])[0].metadata["window"]
    assert made.forget(ref_doc_id="doc").records == 2
    assert not held_in_files(folder, "a private second")


def test_an_index_of_llama_index(store, folder):
    made = LethevecVectorStore(store)
    documents = [Document(text=f"the private page number {n}", id_=f"page {n}") for n in range(4)]
    context = StorageContext.from_defaults(vector_store=made)
    index = VectorStoreIndex.from_documents(documents, context, embed_model=MockEmbedding(DIM))
    assert len(index.as_retriever(similarity_top_k=4).retrieve("page")) == 4
    index.delete_ref_doc("page 2")
    found = index.as_retriever(similarity_top_k=4).retrieve("page")
    assert sorted(one.node.ref_doc_id for one in found) == ["page 0", "page 1", "page 3"]
    assert not held_in_files(folder, "the private page number 2")


def test_async_and_replacing(nodes):
    async def run():
        changed = make_nodes(1)
        changed[0].set_content("another text")
        await nodes.async_add(changed)
        await nodes.adelete("book 3")
        await nodes.adelete_nodes(["node-20"])
        return await nodes.aget_nodes(["node-00", "node-20"]), await nodes.aquery(ask(40))

    got, found = asyncio.run(run())
    assert [node.get_content() for node in got] == ["another text"]
    assert len(found.ids) == 29


def test_tuples_become_lists(nodes):
    nodes.add([TextNode(id_="t", embedding=VECTORS[0].tolist(), metadata={"box": (1, (2, 3))})])
    assert nodes.get_nodes(["t"])[0].metadata == {"box": [1, [2, 3]]}
    assert nodes.client.get(["t"])[0].payload["box"] == [1, [2, 3]]


def test_keys_of_the_adapter_are_refused(nodes):
    with pytest.raises(InputError, match="_related"):
        nodes.add([TextNode(embedding=VECTORS[0].tolist(), metadata={"_related": 1})])
