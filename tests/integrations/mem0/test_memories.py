"""mem0 over a lethevec store: its own calls, and `forget` with what mem0 keeps of deleted memories."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

os.environ["MEM0_TELEMETRY"] = "False"
pytest.importorskip("mem0", reason="mem0 is not installed: make test-mem0")

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import FakeListChatModel
from mem0 import Memory

import lethevec
from lethevec.errors import HoldError, ParameterError
from lethevec.integrations.embedding import WordEmbedding
from lethevec.integrations.mem0 import LethevecMemories, forget, vector_store

SECRET = "Ann told her doctor about the rash on her left arm"
LONG = "The diary of Ann, page one. " + " ".join(
    f"On day {n} she saw the {n * n} swans of the lake." for n in range(300)
)


class Words(WordEmbedding, Embeddings):
    """mem0 asks for LangChain's class."""


def make(folder: Path, store) -> Memory:
    return Memory.from_config(
        {
            "vector_store": vector_store(store),
            "embedder": {"provider": "langchain", "config": {"model": Words()}},
            "llm": {"provider": "langchain", "config": {"model": FakeListChatModel(responses=["{}"])}},
            "history_db_path": str(folder / "history.db"),
        }
    )


@pytest.fixture(params=["file", "server"])
def memory(tmp_path, request):
    served = request.param == "server"
    store = request.getfixturevalue("remote")(dim=100) if served else lethevec.open(tmp_path / "m.lethe", dim=100)
    made = make(tmp_path, store)
    yield made
    made.vector_store.client.close()
    made.close()


def add(memory: Memory, text: str, user: str, **more: object) -> str:
    messages = [{"role": "user", "content": text}]
    memory.db.save_messages(messages, f"user_id={user}")  # as mem0 does where a model extracts what is to be kept
    done = memory.add(messages, user_id=user, infer=False, **more)
    return done["results"][0]["id"]


def held(folder: Path, text: str) -> list[str]:
    pieces = [text.encode()[at : at + 40] for at in range(0, max(1, len(text) - 40), 40)]
    return [p.name for p in folder.iterdir() if p.is_file() and any(piece in p.read_bytes() for piece in pieces)]


def test_mem0s_own_calls(memory):
    first = add(memory, SECRET, "ann")
    add(memory, "Bob collects stamps from Norway", "bob", metadata={"year": 2020})
    add(memory, "Bob likes the sea", "bob", metadata={"year": 2026})
    found = memory.search("a visit to the hospital", filters={"user_id": "ann"})["results"]
    assert [(one["id"], one["memory"]) for one in found] == [(first, SECRET)]
    assert 0 < found[0]["score"] <= 1
    assert len(memory.get_all(filters={"user_id": "bob"})["results"]) == 2
    late = memory.search("he likes the ocean", filters={"user_id": "bob", "year": {"gte": 2021}})["results"]
    assert [one["memory"] for one in late] == ["Bob likes the sea"]
    memory.update(first, "Ann is well again")
    assert memory.get(first)["memory"] == "Ann is well again"
    memory.delete(first)
    assert memory.get(first) is None
    memory.delete_all(user_id="bob")
    assert memory.get_all(filters={"user_id": "bob"})["results"] == []
    assert len(memory.vector_store.client.store) == 0


def test_mem0_keeps_what_it_deletes_and_forget_does_not(memory, tmp_path):
    for text in (SECRET, LONG):
        memory.delete(add(memory, text, "ann"))
    assert held(tmp_path, SECRET) == held(tmp_path, LONG) == ["history.db"]  # the reason for this module
    add(memory, "Ann has a cat", "ann")
    add(memory, "Bob collects stamps from Norway", "bob")
    receipt = forget(memory, user_id="ann")
    assert receipt.records == 1
    assert receipt.elsewhere["mem0-history"] >= 5
    assert receipt.elsewhere["mem0-messages"] >= 1
    assert bool(memory.vector_store.client.store.verify(receipt))
    for text in (SECRET, LONG, "Ann has a cat"):
        assert held(tmp_path, text) == []
    assert len(memory.get_all(filters={"user_id": "bob"})["results"]) == 1
    assert held(tmp_path, "Bob collects stamps from Norway")


def test_forget_by_id_takes_it_out_of_entities(memory, tmp_path):
    one, two = add(memory, SECRET, "ann"), add(memory, "Ann has a cat", "ann")
    both = {"data": "Ann Andersson", "entity_type": "PERSON", "linked_memory_ids": [one, two], "user_id": "ann"}
    only = {"data": "Doctor Dolittle", "entity_type": "PERSON", "linked_memory_ids": [one], "user_id": "ann"}
    vector = Words().embed_query("doctor")
    memory.entity_store.insert([vector, vector], [both, only], ["e1", "e2"])
    assert len(memory.get_all(filters={"user_id": "ann"})["results"]) == 2  # entities are no memories
    receipt = forget(memory, [one])
    assert receipt.records == 1
    entities = memory.entity_store.list(filters={"user_id": "ann"})[0]
    assert [(e.id, e.payload["linked_memory_ids"]) for e in entities] == [("e1", [two])]
    assert held(tmp_path, SECRET) == held(tmp_path, "Doctor Dolittle") == []
    assert forget(memory, user_id="ann").records == 2
    assert len(memory.vector_store.client.store) == 0


def test_what_a_legal_hold_keeps_stays_in_mem0s_database_too(tmp_path):
    with lethevec.connect(tmp_path / "folder") as db:
        memory = make(tmp_path, db.collection("memories", dim=100))
        one = add(memory, SECRET, "ann")
        db.hold(subject="ann", reason="a case")
        for asked in ({"ids": [one]}, {"user_id": "ann"}):
            with pytest.raises(HoldError):
                forget(memory, **asked)
            assert "history.db" in held(tmp_path, SECRET)
            assert memory.history(one)
        db.lift(db.holds("ann")[0].id, "closed")
        assert forget(memory, user_id="ann").elsewhere == {"mem0-history": 1, "mem0-messages": 1}
        assert held(tmp_path, SECRET) == []
        memory.close()


def test_a_database_that_cannot_be_cleaned_is_named(memory, tmp_path):
    add(memory, SECRET, "ann")
    memory.db.connection.execute("PRAGMA busy_timeout = 50")
    reader = sqlite3.connect(tmp_path / "history.db")
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM history").fetchall()
    with pytest.warns(RuntimeWarning, match="was not cleaned"):
        receipt = forget(memory, user_id="ann")
    assert receipt.elsewhere == {"mem0-history": None, "mem0-messages": None}
    assert "mem0-history" in str(lethevec.verify(receipt, key=memory.vector_store.client.store.public_key()))
    assert held(tmp_path, SECRET) == ["history.db"]
    reader.close()
    assert forget(memory, user_id="ann").elsewhere == {"mem0-history": 1, "mem0-messages": 1}
    assert held(tmp_path, SECRET) == []


def test_bad_calls_change_nothing(memory):
    add(memory, SECRET, "ann")
    with pytest.raises(ParameterError, match="either ids or"):
        forget(memory)
    with pytest.raises(ParameterError, match="either ids or"):
        forget(memory, ["x"], user_id="ann")
    with pytest.raises(ParameterError, match="expected a mem0 Memory"):
        forget(object(), user_id="ann")
    client = LethevecMemories(memory.vector_store.client.store)
    with pytest.raises(ParameterError, match="near"):
        client.get(where={"year": {"near": 3}})
    assert len(memory.get_all(filters={"user_id": "ann"})["results"]) == 1


def test_history_leaves_no_trace(tmp_path):
    """A store that had and forgot a person's memories equals one that never had them."""
    digests = []
    for name, gone in (("one", 12), ("other", 0)):
        folder = tmp_path / name
        folder.mkdir()
        with lethevec.open(folder / "memory.lethe", dim=100) as store:
            client = LethevecMemories(store)
            words = Words()
            for n in range(10 + gone):
                data = {"data": f"memory {n}", "user_id": "ann" if n >= 10 else "bob"}
                client.add_embeddings([words.embed_query(data["data"])], [data], ids=[f"m{n}"])
            if gone:
                store.forget(subject="ann")
            digests.append(store.digest())
    assert digests[0] == digests[1]
