"""CrewAI: a memory of agents that forgets.

`LethevecStorage` is a `StorageBackend` of CrewAI's memory: `Memory(storage=LethevecStorage("crew.lethe"))`, or, for
every memory of a program, `set_memory_storage_factory(lambda spec: storage)` of `crewai.memory.storage.factory`. A
memory becomes a record; its `source` (CrewAI's field for a user or session) becomes the record's subject.

What it does not reach: the outputs of tasks that CrewAI keeps for replays (`latest_kickoff_task_outputs.db` in its own
folder), the state of flows that persist, knowledge sources, event listeners, logs and traces, and what a model's
provider keeps of the texts that were sent to it.
"""

from __future__ import annotations

import asyncio
import heapq
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import lethevec
from lethevec.errors import InputError, ParameterError

from ._common import EVERYTHING, both, lists_for_tuples, missing, pages, present, similarity

try:
    from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
    from crewai.memory.types import MemoryRecord, ScopeInfo
except ImportError as error:
    raise missing("crewai", error) from None

__all__ = ["LethevecStorage"]


class LethevecStorage:
    """The memories of a crew in a lethevec store.

    Args:
        store: a path, where a store is or is made with the first memory; or a `lethevec.Store`, a collection, or a
            collection of a server's client.
        encrypt: make a new store whose records are sealed.

    `last_receipt` is the receipt of the last `delete`, `reset` or `forget`.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> storage = LethevecStorage(folder.name + "/crew.lethe")
    >>> storage.save([MemoryRecord(id="1", content="Ann is allergic to nuts", embedding=[1, 0], source="ann")])
    >>> [(record.content, score) for record, score in storage.search([1, 0])]
    [('Ann is allergic to nuts', 1.0)]
    >>> storage.forget(subject="ann").records
    1
    >>> storage.close(); folder.cleanup()
    """

    def __init__(self, store: Any, *, encrypt: bool | None = None) -> None:
        """Nothing is made before the first memory says how long vectors are."""
        self.last_receipt: lethevec.Receipt | None = None
        self._path = os.fspath(store) if isinstance(store, str | os.PathLike) else None
        self._encrypt = encrypt
        self._store = store
        if self._path is not None:
            self._store = lethevec.open(self._path) if os.path.exists(self._path) else None

    @property
    def store(self) -> Any:
        """The store; None before the first memory."""
        return self._store

    def close(self) -> None:
        """Close the store, if this opened it."""
        if self._path is not None and self._store is not None:
            self._store.close()
            self._store = None

    # --- In ----------------------------------------------------------------------------------------------------------

    def save(self, records: list[MemoryRecord]) -> None:
        """Keep memories; one whose id is there is replaced."""
        last = {record.id: record for record in records}  # an id that comes twice has what came last
        if not last:
            return
        lengths = {len(record.embedding) for record in last.values() if record.embedding}
        if self._store is None:
            if not lengths:
                raise InputError("save: expected an embedding in the first memory of a new store, got none")
            assert self._path is not None
            self._store = lethevec.open(self._path, min(lengths), encrypt=self._encrypt)
        self._check_lengths(lengths)
        for group in ([r for r in last.values() if r.embedding], [r for r in last.values() if not r.embedding]):
            if group:
                self._store.upsert(
                    [record.embedding for record in group] if group[0].embedding else None,
                    ids=[record.id for record in group],
                    subjects=[record.source for record in group],
                    payloads=[_payload(record) for record in group],
                )

    def update(self, record: MemoryRecord) -> None:
        """Replace the memory of the same id."""
        self.save([record])

    def touch_records(self, record_ids: list[str]) -> None:
        """Note that memories were used just now."""
        there = present(self._store, record_ids) if self._store is not None else []
        if there:
            now = datetime.utcnow().isoformat()
            self._store.update(
                ids=[record.id for record in there], payloads=[{"last_accessed": now}] * len(there), merge=True
            )

    def _check_lengths(self, lengths: Sequence[int] | set[int]) -> None:
        for length in lengths:
            if length != self._store.dim:
                raise EmbeddingDimensionMismatchError(self._store.dim, length)

    # --- Out ---------------------------------------------------------------------------------------------------------

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """The nearest memories with their likeness, best first: the cosine where the store's metric is cosine."""
        if self._store is None or limit < 1:
            return []
        self._check_lengths([len(query_embedding)])
        where = _where(scope_prefix, categories, metadata_filter=metadata_filter)
        hits = self._store.search([query_embedding], limit, where=where)[0]
        scores = {hit.id: similarity(self._store.metric, hit.distance) for hit in hits}
        found = [(_memory(record), scores[record.id]) for record in present(self._store, list(scores))]
        return [(record, score) for record, score in found if score >= min_score]

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """One memory, or None."""
        found = present(self._store, [record_id]) if self._store is not None else []
        return _memory(found[0]) if found else None

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """The newest memories of a scope first; equally old ones by id."""
        wanted = max(0, offset) + max(0, limit)
        found = heapq.nlargest(wanted, self._matching(scope_prefix), key=lambda one: (_stamp(one.created_at), one.id))
        return found[max(0, offset) :]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """How many memories a scope and the scopes below it have, their categories, and from when to when."""
        path = _scope(scope)
        categories: set[str] = set()
        children: set[str] = set()
        times: list[datetime] = []
        for record in self._matching(path):
            categories.update(record.categories)
            times.append(record.created_at)
            children.update(_child(path, record.scope))
        return ScopeInfo(
            path=path,
            record_count=len(times),
            categories=sorted(categories),
            oldest_record=min(times, key=_stamp, default=None),
            newest_record=max(times, key=_stamp, default=None),
            child_scopes=sorted(children),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """The scopes right below one."""
        path = _scope(parent)
        return sorted({child for record in self._matching(path) for child in _child(path, record.scope)})

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """How many memories of a scope each category has."""
        counts: dict[str, int] = {}
        for record in self._matching(scope_prefix):
            for category in record.categories:
                counts[category] = counts.get(category, 0) + 1
        return dict(sorted(counts.items()))

    def count(self, scope_prefix: str | None = None) -> int:
        """How many memories a scope has."""
        return 0 if self._store is None else int(self._store.count(where=_where(scope_prefix)))

    def _matching(self, scope_prefix: str | None) -> Iterator[MemoryRecord]:
        found = pages(self._store, _where(scope_prefix)) if self._store is not None else iter(())
        return (_memory(record) for record in found)

    # --- Forgetting --------------------------------------------------------------------------------------------------

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Forget the memories for which everything given holds; all of them if nothing is. How many they were."""
        if self._store is None:
            return 0
        where = _where(scope_prefix, categories, record_ids, older_than, metadata_filter)
        self.last_receipt = self._store.forget(where=where or EVERYTHING, ignore_unknown=True)
        return int(self.last_receipt.records)

    def reset(self, scope_prefix: str | None = None) -> None:
        """Forget all memories of a scope, or all there are."""
        self.delete(scope_prefix)

    def forget(
        self,
        ids: Sequence[str] | None = None,
        *,
        subject: str | None = None,
        scope: str | None = None,
        elsewhere: Mapping[str, int | None] | None = None,
    ) -> lethevec.Receipt:
        """Forget memories by ids, all of a subject's, or a scope with what is below it; the signed receipt.

        `elsewhere` is what you erased outside the store, for the receipt to state (see `lethevec.Store.forget`).
        """
        if sum(one is not None for one in (ids, subject, scope)) != 1:
            raise ParameterError("forget: expected one of ids, subject and scope")
        if self._store is None:
            raise ParameterError("forget: expected a store with memories, got one that nothing was saved in")
        if ids is not None:
            receipt = self._store.forget(list(dict.fromkeys(ids)), ignore_unknown=True, elsewhere=elsewhere)
        elif subject is not None:
            receipt = self._store.forget(subject=subject, ignore_unknown=True, elsewhere=elsewhere)
        else:
            where = _where(scope) or EVERYTHING
            receipt = self._store.forget(where=where, ignore_unknown=True, elsewhere=elsewhere)
        self.last_receipt = receipt
        return receipt

    # --- Async: threads ----------------------------------------------------------------------------------------------

    async def asave(self, records: list[MemoryRecord]) -> None:
        """`save` in a thread."""
        await asyncio.to_thread(self.save, records)

    async def asearch(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """`search` in a thread."""
        return await asyncio.to_thread(
            self.search, query_embedding, scope_prefix, categories, metadata_filter, limit, min_score
        )

    async def adelete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """`delete` in a thread."""
        return await asyncio.to_thread(self.delete, scope_prefix, categories, record_ids, older_than, metadata_filter)


def _payload(record: MemoryRecord) -> dict[str, Any]:
    """What a record holds of a memory. `scopes` has its scope and all above, so that a filter finds a branch."""
    return {
        "content": record.content,
        "scope": record.scope,
        "scopes": _branch(record.scope),
        "categories": list(record.categories),
        "metadata": lists_for_tuples(record.metadata),
        "importance": record.importance,
        "created_at": record.created_at.isoformat(),
        "last_accessed": record.last_accessed.isoformat(),
        "private": record.private,
    }


def _memory(record: lethevec.Record) -> MemoryRecord:
    fields = {name: value for name, value in (record.payload or {}).items() if name != "scopes"}
    vector = None if record.vector is None else record.vector.tolist()
    return MemoryRecord(id=str(record.id), source=record.subject, embedding=vector, **fields)


def _where(
    scope_prefix: str | None = None,
    categories: Sequence[str] | None = None,
    record_ids: Sequence[str] | None = None,
    older_than: datetime | None = None,
    metadata_filter: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """All of what is given, as a filter; None where that is nothing."""
    scope = None if scope_prefix is None else _scope(scope_prefix)
    return both(
        None if scope in (None, "/") else {"scopes": {"$contains": scope}},
        {"categories": {"$any": list(categories)}} if categories else None,
        {"$id": {"$in": list(record_ids)}} if record_ids is not None else None,
        {"created_at": {"$lt": older_than.isoformat()}} if older_than is not None else None,
        {f"metadata.{name}": value for name, value in metadata_filter.items()} if metadata_filter else None,
    )


def _scope(text: str) -> str:
    """A scope in its one form: "/" or "/a/b"."""
    return "/" + "/".join(part for part in text.split("/") if part)


def _branch(scope: str) -> list[str]:
    parts = _scope(scope).split("/")[1:]
    return ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts)) if parts[depth]]


def _child(parent: str, scope: str) -> set[str]:
    """The scope right below `parent` on the way to `scope`, if there is one."""
    above = "" if parent == "/" else parent
    rest = _scope(scope)[len(above) :]
    first = rest.split("/")[1] if rest.startswith("/") else ""
    return {f"{above}/{first}"} if first else set()


def _stamp(time: datetime) -> float:
    """For comparing times with and without a zone: CrewAI's have none, and mean UTC."""
    return time.timestamp() if time.tzinfo is not None else (time - datetime(1970, 1, 1)).total_seconds()
