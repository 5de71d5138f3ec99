"""mem0: an agent's memory that forgets, and a way to erase what mem0 itself keeps of deleted memories.

mem0 takes no vector stores but those it knows, and one of them is "langchain". `LethevecMemories` is a LangChain vector
store made for it: `vector_store(...)` gives the part of mem0's configuration.

`Memory.delete` and `delete_all` erase in the store, but mem0 writes the deleted text into its history database at the
same moment, and keeps the last messages of every session there. **So use `forget` of this module**: it takes the rows
out of that database, rewrites it, searches its files for the texts, then forgets the memories, and its receipt states
what was erased in both places.

What it does not reach: what a model's provider keeps of the texts that mem0 sent to it, mem0's telemetry (set
`MEM0_TELEMETRY=False`), a graph store, logs, and messages of the person in sessions of others.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import lethevec
from lethevec.errors import BlockedError, ParameterError

from ._common import both, missing, pages, present, similarity

try:
    import mem0.memory.main  # noqa: F401
    from langchain_core.documents import Document
except ImportError as error:
    raise missing("mem0", error) from None

from .langchain import LethevecVectorStore

__all__ = ["LethevecMemories", "forget", "vector_store"]

_SCOPES = ("user_id", "agent_id", "run_id")
_PIECE = 24  # bytes of a text that are looked for at a time: a long text lies in several pages
_PART = 500  # values in one SQL statement
_NAMED = {"eq": "$eq", "ne": "$ne", "gt": "$gt", "gte": "$gte", "lt": "$lt", "lte": "$lte", "in": "$in", "nin": "$nin"}
_TEXT = {"contains": "", "icontains": "(?i)"}


class LethevecMemories(LethevecVectorStore):
    """mem0's memories in a lethevec store; give it to mem0 with `vector_store`.

    mem0 keeps the entities that its memories mention in a second store, which it gets by copying this one's
    configuration. The copy is the same store, where entities are told from memories by their `entity_type`.
    """

    def __init__(self, store: Any, *, subject_key: str = "user_id", entities: bool = False) -> None:
        """Over a `lethevec.Store`, a collection, or a collection of a server's client."""
        super().__init__(store, subject_key=subject_key, metadata_key="metadata")
        self._entities = entities
        self._own = {"metadata.entity_type": {"$exists": entities}}

    def __deepcopy__(self, memo: dict[int, Any]) -> LethevecMemories:
        """The entities of the same store: mem0 copies its configuration to make a place for them."""
        assert self._subject_key is not None
        return LethevecMemories(self.store, subject_key=self._subject_key, entities=True)

    def similarity_search_by_vector_with_relevance_scores(
        self, embedding: list[float], k: int = 4, filter: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """What mem0 asks for: the nearest memories with their likeness, where more is nearer."""
        where = both(self._own, _where(filter or {}))
        hits = self.store.search([embedding], k, where=where)[0]
        metric = self.store.metric
        return [(self._document(hit.id, hit.payload), max(0.0, similarity(metric, hit.distance))) for hit in hits]

    @property
    def _collection(self) -> LethevecMemories:
        """mem0 lists memories through the collection inside a LangChain store."""
        return self

    def get(self, where: Mapping[str, Any] | None = None, limit: int | None = None) -> dict[str, list[Any]]:
        """Memories that a filter lets through, in the order of ids, as mem0 reads them."""
        records = self.store.get(where=both(self._own, _where(where or {})), limit=limit)
        return {"ids": [record.id for record in records], "metadatas": [_metadata(record) for record in records]}

    def delete_collection(self) -> None:
        """Forget all memories, or all entities."""
        self.last_receipt = self.store.forget(where=self._own, ignore_unknown=True)


def vector_store(store: Any, *, subject_key: str = "user_id") -> dict[str, Any]:
    """The part of mem0's configuration that puts its memories into a store.

        Memory.from_config({"vector_store": vector_store(lethevec.open("memory.lethe", dim=1536)), ...})

    `subject_key` is the field of a memory that says whose it is.
    """
    return {"provider": "langchain", "config": {"client": LethevecMemories(store, subject_key=subject_key)}}


def forget(
    memory: Any,
    ids: Sequence[str] | None = None,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
) -> lethevec.Receipt:
    """Forget memories by ids, or all of a user, agent or run: in the store and in mem0's history database.

    `memory` is a `mem0.Memory` or `AsyncMemory` whose vector store was made by `vector_store`. Texts of memories that
    are in the store no more, because mem0 deleted them, leave the history with any call: nobody knows whose they were.
    The messages that mem0 keeps of sessions of the same user, agent and run go too, for ids those of their sessions.
    The receipt's `elsewhere` says how many rows were erased in `mem0-history` and `mem0-messages`; None, and a warning,
    where that database could not be cleaned.
    """
    client = getattr(getattr(memory, "vector_store", None), "client", None)
    if not isinstance(client, LethevecMemories):
        raise ParameterError(
            "memory: expected a mem0 Memory over lethevec.integrations.mem0.vector_store, "
            f"got {type(memory).__name__} over {type(client).__name__}"
        )
    given = dict(zip(_SCOPES, (user_id, agent_id, run_id), strict=True))
    scope = {name: value for name, value in given.items() if value is not None}
    if (ids is None) == (not scope):
        raise ParameterError("forget: expected either ids or some of user_id, agent_id and run_id")
    store = client.store
    if ids is not None:
        records = present(store, ids)
        wanted = [str(record.id) for record in records]
        scopes = [{name: str(value) for name, value in _metadata(one).items() if name in _SCOPES} for one in records]
        _refuse_held(store, records)
        _unlink_entities(store, set(wanted))
    else:
        scopes = [scope]
        records = list(pages(store, {f"metadata.{name}": value for name, value in scope.items()}))
        wanted = [str(record.id) for record in records]
        _refuse_held(store, records)
    elsewhere = _clean_history(memory.db, store, {*(ids or ()), *wanted}, scopes)
    receipt: lethevec.Receipt = store.forget(wanted, ignore_unknown=True, elsewhere=elsewhere)
    client.last_receipt = receipt
    return receipt


def _refuse_held(store: Any, records: Iterable[lethevec.Record]) -> None:
    """Raise what `forget` would raise of people under legal hold, before mem0's own database is cleaned.

    A change that changes nothing is refused as an erasure is.
    """
    one_of = {record.subject: record.id for record in records if record.subject is not None}
    for id in one_of.values():
        with suppress(BlockedError):  # for whom nothing may be written, but erased
            store.update(ids=[id], payloads=[{}], merge=True)


def _metadata(record: lethevec.Record) -> dict[str, Any]:
    found: dict[str, Any] = (record.payload or {}).get("metadata") or {}
    return found


def _where(filters: Mapping[str, Any]) -> dict[str, Any] | None:
    """mem0's filters in ours: fields side by side, operators without a dollar, AND, OR and NOT."""
    parts: list[dict[str, Any]] = []
    for name, value in filters.items():
        if name.strip("$").upper() in ("AND", "OR", "NOT"):
            branches = [_where(one) or {} for one in (value if isinstance(value, list) else [value])]
            word = name.strip("$").lower()
            parts.append({"$not": {"$or": branches}} if word == "not" else {f"${word}": branches})
        elif isinstance(value, Mapping):
            parts += [_condition(f"metadata.{name}", operator, operand) for operator, operand in value.items()]
        elif value == "*":
            parts.append({f"metadata.{name}": {"$exists": True}})
        else:
            parts.append({f"metadata.{name}": {"$in": value} if isinstance(value, list) else value})
    return both(*parts)


def _condition(field: str, operator: str, operand: Any) -> dict[str, Any]:
    word = operator.strip("$")
    if word in _NAMED:
        return {field: {_NAMED[word]: operand}}
    if word in _TEXT and isinstance(operand, str):
        pattern = _TEXT[word] + "".join(c if c.isalnum() or c.isspace() else f"\\{c}" for c in operand)
        return {field: {"$regex": pattern}}
    raise ParameterError(f"filter: expected one of {', '.join([*_NAMED, *_TEXT])}, got {operator!r:.40}")


def _unlink_entities(store: Any, gone: set[str]) -> None:
    """Take memories out of the entities that name them; an entity that no other memory names goes too."""
    alone: list[str] = []
    for record in pages(store, {"metadata.linked_memory_ids": {"$any": sorted(gone)}} if gone else None):
        if not gone:
            break
        metadata = _metadata(record)
        left = [id for id in metadata.get("linked_memory_ids", []) if id not in gone]
        if left:
            changed = {**(record.payload or {}), "metadata": {**metadata, "linked_memory_ids": left}}
            store.update(ids=[record.id], payloads=[changed], erase_old=True)
        else:
            alone.append(str(record.id))
    if alone:
        store.forget(alone, ignore_unknown=True)


# --- mem0's history database ------------------------------------------------------------------------------------------


def _clean_history(db: Any, store: Any, gone: set[str], scopes: Sequence[Mapping[str, str]]) -> dict[str, int | None]:
    """Erase rows of mem0's database; how many of each table, or None for both if it could not be done."""
    try:
        with db._lock:
            connection = db.connection
            connection.execute("PRAGMA secure_delete = ON")
            texts, counts = _delete_rows(connection, store, gone, scopes)
            # What mem0 deleted before was not overwritten: only a rewritten file is free of it.
            connection.execute("VACUUM")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            if busy:
                raise ParameterError("another program is reading mem0's database")
            found = _left_over(connection, db.db_path, texts)
        if found:
            raise ParameterError(f"{found} of {len(texts)} erased texts are still in the files of mem0's database")
        return {f"mem0-{table}": count for table, count in counts.items()}
    except Exception as error:  # of SQLite, or of another version of mem0: the store's own erasure goes on
        warnings.warn(f"mem0's history database was not cleaned: {error}", RuntimeWarning, stacklevel=3)
        return {"mem0-history": None, "mem0-messages": None}


def _delete_rows(
    connection: Any, store: Any, gone: set[str], scopes: Sequence[Mapping[str, str]]
) -> tuple[set[str], dict[str, int]]:
    """The rows of memories that go or are gone already, and the messages of the scopes; their texts, and how many."""
    known = [row[0] for row in connection.execute("SELECT DISTINCT memory_id FROM history") if row[0] is not None]
    there = {str(record.id) for record in present(store, known)}
    memories = [id for id in known if id in gone or id not in there]
    sessions = [row[0] for row in connection.execute("SELECT DISTINCT session_scope FROM messages")]
    sessions = [name for name in sessions if any(scope and _covers(scope, name) for scope in scopes)]
    texts: set[str] = set()
    counts = {"history": 0, "messages": 0}
    connection.execute("BEGIN IMMEDIATE")
    try:
        for table, key, columns, values in (
            ("history", "memory_id", "old_memory, new_memory", memories),
            ("messages", "session_scope", "content, name", sessions),
        ):
            for part in _parts(values):
                marks = ", ".join("?" * len(part))
                rows = connection.execute(f"SELECT {columns} FROM {table} WHERE {key} IN ({marks})", part).fetchall()
                texts.update(text for row in rows for text in row if isinstance(text, str) and text)
                counts[table] += len(rows)
                connection.execute(f"DELETE FROM {table} WHERE {key} IN ({marks})", part)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return texts, counts


def _parts(values: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(values), _PART):
        yield values[start : start + _PART]


def _covers(scope: Mapping[str, str], session: str) -> bool:
    """Whether a session, which mem0 names like `agent_id=a&user_id=u`, is one of this scope."""
    fields = dict(part.split("=", 1) for part in str(session).split("&") if "=" in part)
    return all(fields.get(name) == _escaped(value) for name, value in scope.items())


def _escaped(value: str) -> str:
    return str(value).replace("%", "%25").replace("&", "%26").replace("=", "%3D")


def _left_over(connection: Any, path: str, texts: Iterable[str]) -> int:
    """How many of the texts are still in the files, and not because a living row says the same."""
    files = [f"{path}{end}" for end in ("", "-wal", "-journal")]
    data = b"\0".join(_bytes_of(name) for name in files)
    return sum(any(piece in data and not _living(connection, piece) for piece in _pieces(text)) for text in texts)


def _bytes_of(path: str) -> bytes:
    """A file, or nothing where there is none: a database in memory has no file."""
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


def _pieces(text: str) -> Iterator[bytes]:
    data = text.encode("utf-8", "surrogatepass")
    if len(data) >= 4:  # shorter ones are in every file
        for start in range(0, max(1, len(data) - _PIECE + 1), _PIECE // 2):
            yield data[start : start + _PIECE]


def _living(connection: Any, piece: bytes) -> bool:
    for table, columns in (("history", ("old_memory", "new_memory")), ("messages", ("content", "name"))):
        holds = " OR ".join(f"instr(CAST({column} AS BLOB), ?)" for column in columns)
        if connection.execute(f"SELECT 1 FROM {table} WHERE {holds} LIMIT 1", [piece] * len(columns)).fetchone():
            return True
    return False
