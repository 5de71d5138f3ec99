"""CrewAI's storage: the protocol, its memory on top of it, scopes and filters against a plain list, and residue."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("crewai", reason="CrewAI is not installed: make test-crewai")

from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.storage.factory import set_memory_storage_factory
from crewai.memory.types import MemoryRecord
from crewai.memory.unified_memory import Memory

import lethevec
from lethevec.errors import InputError, ParameterError
from lethevec.integrations.crewai import LethevecStorage
from lethevec.integrations.embedding import WordEmbedding

DIM = 8
VECTORS = np.random.default_rng(3).normal(size=(30, DIM)).astype(np.float32)
SCOPES = ["/", "/firm", "/firm/sales", "/firm/salesmen", "/home"]
START = datetime(2026, 1, 1)


def memories() -> list[MemoryRecord]:
    return [
        MemoryRecord(
            id=f"m{n:02d}",
            content=f"the private remark number {n:03d}",
            scope=SCOPES[n % 5],
            categories=["work", "talk"][: n % 3],
            metadata={"n": n, "odd": bool(n % 2)},
            importance=n / 30,
            created_at=START + timedelta(days=n),
            last_accessed=START,
            embedding=VECTORS[n].tolist(),
            source=f"person {n % 3}",
            private=n % 4 == 0,
        )
        for n in range(30)
    ]


@pytest.fixture(params=["file", "server"])
def storage(tmp_path, request):
    there = tmp_path / "crew.lethe" if request.param == "file" else request.getfixturevalue("remote")(dim=DIM)
    made = LethevecStorage(there)
    made.save(memories())
    yield made
    made.close()


def below(scope: str, prefix: str | None) -> bool:
    return prefix in (None, "/") or scope == prefix or scope.startswith(f"{prefix}/")


def test_it_is_a_storage_backend(storage):
    assert isinstance(storage, StorageBackend)


def test_memories_come_back_as_they_were(storage):
    assert {m.id: m for m in memories()} == {m.id: m for m in storage.list_records()}
    assert np.array_equal(np.float32(storage.get_record("m07").embedding), VECTORS[7])
    assert storage.get_record("nobody") is None


def test_a_search_scores_by_cosine_and_filters(storage):
    found = storage.search(VECTORS[3].tolist(), limit=30)
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    cosines = {f"m{n:02d}": float(s) for n, s in enumerate(unit @ unit[3])}
    assert {record.id: score for record, score in found} == pytest.approx(
        {id: score for id, score in cosines.items() if score >= 0}, abs=1e-5
    )
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    for prefix in (None, *SCOPES, "firm/sales/", "/nowhere"):
        for categories in (None, ["work"], ["talk", "none"]):
            for filters in (None, {"odd": True}, {"n": 11, "odd": True}):
                ids = {r.id for r, _ in storage.search([1.0] * DIM, prefix, categories, filters, 30, -1.0)}
                path = prefix if prefix is None else "/" + prefix.strip("/")
                assert ids == {
                    m.id
                    for m in memories()
                    if below(m.scope, path)
                    and (not categories or set(categories) & set(m.categories))
                    and all(m.metadata[k] == v for k, v in (filters or {}).items())
                }
    assert len(storage.search(VECTORS[3].tolist(), limit=3)) == 3
    assert [r.id for r, _ in storage.search(VECTORS[3].tolist(), min_score=0.999)] == ["m03"]


def test_scopes_and_categories(storage):
    assert storage.list_scopes() == ["/firm", "/home"]
    assert storage.list_scopes("/firm/") == ["/firm/sales", "/firm/salesmen"]
    assert storage.list_scopes("/home") == []
    assert (storage.count(), storage.count("/firm"), storage.count("/firm/sales")) == (30, 18, 6)
    info = storage.get_scope_info("/firm")
    assert (info.path, info.record_count, info.child_scopes) == ("/firm", 18, ["/firm/sales", "/firm/salesmen"])
    assert (info.oldest_record, info.newest_record) == (START + timedelta(days=1), START + timedelta(days=28))
    assert storage.list_categories() == {"talk": 10, "work": 20}
    assert [r.id for r in storage.list_records("/home", limit=2, offset=1)] == ["m24", "m19"]


def test_what_is_deleted_is_what_everything_given_allows(storage):
    assert storage.delete(scope_prefix="/firm/sales", older_than=START + timedelta(days=8)) == 2
    assert storage.delete(categories=["talk"], metadata_filter={"odd": True}, scope_prefix="/home") == 1
    assert storage.delete(record_ids=["m01", "nobody"]) == 1
    assert storage.delete(record_ids=[]) == 0
    assert storage.last_receipt.records == 0
    storage.reset("/firm")
    assert storage.count("/firm") == 0
    assert storage.count() == 11
    storage.reset()
    assert storage.count() == 0


def test_nothing_is_left_of_a_person(storage, tmp_path):
    others = [m for m in memories() if m.source != "person 1"]
    receipt = storage.forget(subject="person 1")
    assert receipt.records == 10
    assert storage.store.verify(receipt, subject="person 1")
    fresh = LethevecStorage(tmp_path / "other.lethe")
    fresh.save(others[::-1])
    assert fresh.store.digest() == storage.store.digest()
    fresh.close()
    for path in Path(tmp_path).iterdir():
        data = path.read_bytes()
        assert not any(f"remark number {n:03d}".encode() in data or VECTORS[n].tobytes() in data for n in (1, 4, 28))


def test_a_receipt_states_other_places(storage):
    scope = storage.get_record("m05").scope
    for one in ({"ids": ["m02"]}, {"subject": "person 1"}, {"scope": scope}):
        receipt = storage.forget(**one, elsewhere={"task-outputs": 3, "traces": None})
        assert receipt["asked"]["elsewhere"] == [
            {"place": "task-outputs", "erased": 3},
            {"place": "traces", "erased": None},
        ]
        assert receipt.records > 0
    before = storage.store.digest()
    with pytest.raises(ParameterError, match="elsewhere"):
        storage.forget(subject="person 0", elsewhere={"A place": 3})
    assert storage.store.digest() == before


def test_updates_and_touches(storage):
    changed = storage.get_record("m05").model_copy(update={"content": "another remark"})
    storage.update(changed)
    assert storage.get_record("m05") == changed
    storage.touch_records(["m05", "nobody"])
    assert storage.get_record("m05").last_accessed > START
    assert storage.get_record("m05").content == "another remark"


def test_refused_calls_change_nothing(storage):
    before = storage.store.digest()
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.save([MemoryRecord(content="x", embedding=[1.0] * 3)])
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.search([1.0] * 3)
    with pytest.raises(ParameterError, match="one of ids, subject and scope"):
        storage.forget()
    with pytest.raises(InputError):
        storage.save([MemoryRecord(content="x", metadata={"when": object()}, embedding=[1.0] * DIM)])
    assert storage.store.digest() == before


def test_an_empty_store(tmp_path):
    empty = LethevecStorage(str(tmp_path / "empty.lethe"))
    assert (empty.search([1.0]), empty.count(), empty.delete(), empty.list_scopes()) == ([], 0, 0, [])
    with pytest.raises(InputError, match="first memory"):
        empty.save([MemoryRecord(content="without")])
    empty.save([MemoryRecord(id="a", content="with", embedding=[1.0, 0.0]), MemoryRecord(id="b", content="without")])
    assert {record.id for record in empty.list_records()} == {"a", "b"}
    assert [record.id for record, _ in empty.search([1.0, 0.0])] == ["a"]
    empty.close()
    again = LethevecStorage(str(tmp_path / "empty.lethe"))
    assert again.count() == 2
    again.close()


def test_async(storage):
    async def run():
        await storage.asave([MemoryRecord(id="late", content="later", embedding=VECTORS[0].tolist(), scope="/late")])
        found = await storage.asearch(VECTORS[0].tolist(), scope_prefix="/late")
        return found, await storage.adelete(record_ids=["late"])

    found, gone = asyncio.run(run())
    assert ([record.id for record, _ in found], gone) == (["late"], 1)


def test_crewais_memory_on_top(tmp_path):
    embedding = WordEmbedding()
    with lethevec.connect(tmp_path / "folder") as db:
        storage = LethevecStorage(db.collection("crew", dim=100))
        set_memory_storage_factory(lambda spec: storage)
        try:
            memory = Memory(embedder=embedding.embed_documents, llm=None)
            facts = {"scope": "/ann", "categories": ["health"], "importance": 0.9}
            memory.remember("Ann told her doctor about a rash", source="ann", **facts)
            memory.remember("Bob collects stamps from Norway", source="bob", **{**facts, "scope": "/bob"})
            memory.drain_writes()
            found = memory.recall("a visit to the hospital", depth="shallow", source="ann", limit=2)
            assert found[0].record.content == "Ann told her doctor about a rash"
            assert memory.forget(scope="/ann") == 1
            assert storage.last_receipt.records == 1
            assert [r.content for r in memory.list_records()] == ["Bob collects stamps from Norway"]
        finally:
            set_memory_storage_factory(None)
