"""Haystack: a document store that forgets, and the retriever that searches it.

A document becomes a record whose payload holds content, meta and blob. Documents without an embedding are kept too:
they are found by filters, and never by the retriever. Documents come back by ascending id, not in the order in which
they were written, which would be a trace of history.

What it does not reach: what documents that were split from one say of each other (overlapping text, and in their `meta`
ids, which are hashes of content), unless all of them are forgotten; other document stores of a pipeline, caches
(`CacheChecker`), documents in the state or the snapshots of a pipeline, traces, and files from which documents were
made.
"""

from __future__ import annotations

import asyncio
import base64
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import Any, TypeVar

import lethevec
from lethevec.errors import InputError, ParameterError

from ._common import EVERYTHING, NOTHING, lists_for_tuples, missing, pages, present, similarity, subject_of

try:
    from haystack import component, default_from_dict, default_to_dict
    from haystack.dataclasses import ByteStream, Document, SparseEmbedding
    from haystack.document_stores.errors import DuplicateDocumentError
    from haystack.document_stores.types import DuplicatePolicy, FilterPolicy
    from haystack.document_stores.types.filter_policy import apply_filter_policy
    from haystack.errors import FilterError
except ImportError as error:
    raise missing("haystack", error) from None

__all__ = ["LethevecDocumentStore", "LethevecEmbeddingRetriever"]

T = TypeVar("T")

_ORDER = {">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
_OWN = {"id": "$id", "content": "content"}

#: Stores that are open, by their paths. A store has one writer, and a pipeline that is loaded from YAML has a document
#: store for every component that names one, all of them with the same path.
_OPEN: dict[str, _Shared] = {}
_GUARD = threading.RLock()  # a document store may be collected in the middle of opening one


class LethevecDocumentStore:
    """Documents in a lethevec store.

    Args:
        path: where the store is, or is to be made.
        embedding_dim: numbers of an embedding, for a new store.
        metric: "cosine", "l2" or "ip", for a new store; cosine unless given.
        subject_field: the field of `meta` that says whose data a document is. It becomes the record's subject, so that
            `forget(subject=...)` finds all documents of a person.
        encrypt: make a new store whose records are sealed.
        store: instead of a path: a `lethevec.Store`, a collection, or a server's client. Such a document store cannot
            be written into a pipeline's YAML.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> letters = LethevecDocumentStore(folder.name + "/letters.lethe", embedding_dim=2, subject_field="author")
    >>> letters.write_documents([Document(id="1", content="Dear Bob", embedding=[1, 0], meta={"author": "ann"})])
    1
    >>> retriever = LethevecEmbeddingRetriever(letters)
    >>> [document.content for document in retriever.run([1, 0.1])["documents"]]
    ['Dear Bob']
    >>> letters.forget(subject="ann").records
    1
    >>> letters.close(); folder.cleanup()
    """

    def __init__(
        self,
        path: str | None = None,
        *,
        embedding_dim: int = 768,
        metric: str | None = None,
        subject_field: str | None = None,
        encrypt: bool | None = None,
        store: Any = None,
    ) -> None:
        if (path is None) == (store is None):
            raise ParameterError("expected either a path or store=, which says where the documents go")
        self.path, self.embedding_dim, self.metric = path, embedding_dim, metric
        self.subject_field, self.encrypt = subject_field, encrypt
        self.last_receipt: lethevec.Receipt | None = None
        self._store = store
        self._let_go: Callable[[], object] = lambda: None

    @property
    def store(self) -> Any:
        """The store, opened when it is first needed; document stores with the same path share it."""
        if self._store is None:
            assert self.path is not None
            shared = _take(self.path, self.embedding_dim, self.metric, self.encrypt)
            self._store, self._let_go = shared.store, weakref.finalize(self, _give_back, shared)
        return self._store

    def close(self) -> None:
        """Close the store, if no other document store uses it; it is opened again when it is needed."""
        if self.path is None:
            self._store.close()
            return
        self._store = None
        self._let_go()

    def to_dict(self) -> dict[str, Any]:
        """For a pipeline's YAML."""
        if self.path is None:
            raise ParameterError("to_dict: expected a document store with a path, got one over a store that is open")
        made: dict[str, Any] = default_to_dict(
            self,
            path=self.path,
            embedding_dim=self.embedding_dim,
            metric=self.metric,
            subject_field=self.subject_field,
            encrypt=self.encrypt,
        )
        return made

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> LethevecDocumentStore:
        """From a pipeline's YAML."""
        made: LethevecDocumentStore = default_from_dict(cls, data)
        return made

    # --- In ----------------------------------------------------------------------------------------------------------

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Write documents; how many were written. Without a policy, an id that is there already is refused."""
        if not isinstance(documents, list) or not all(isinstance(document, Document) for document in documents):
            raise ValueError("documents: expected a list of Document, got something else")
        last: dict[str, Document] = {}
        for document in documents:
            if document.id in last and policy in (DuplicatePolicy.NONE, DuplicatePolicy.FAIL):
                raise DuplicateDocumentError(f"documents: expected each id once, got {document.id!r} more than once")
            if document.id not in last or policy == DuplicatePolicy.OVERWRITE:
                last[document.id] = document
        if policy != DuplicatePolicy.OVERWRITE:
            there = {str(record.id) for record in present(self.store, last)}
            if there and policy != DuplicatePolicy.SKIP:
                raise DuplicateDocumentError(f"documents: expected new ids, got {min(there)!r}, which is there already")
            last = {id: document for id, document in last.items() if id not in there}
        whole = [document for document in last.values() if document.embedding is not None]
        bare = [document for document in last.values() if document.embedding is None]
        # All of them are checked before the first is written.
        parts = [(group, self._columns(group)) for group in (whole, bare) if group]
        for group, columns in parts:
            vectors = None if group is bare else [document.embedding for document in group]
            self.store.upsert(vectors, **columns)
        return len(last)

    def _columns(self, documents: list[Document]) -> dict[str, Any]:
        return {
            "ids": [document.id for document in documents],
            "subjects": [subject_of(document.meta, self.subject_field) for document in documents],
            "payloads": [_payload(document) for document in documents],
        }

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Change fields of the meta of all documents that pass; how many."""
        records = list(pages(self.store, _where(filters)))
        if records:
            added = lists_for_tuples(meta)
            payloads = [{**(record.payload or {}), "meta": {**_meta(record.payload), **added}} for record in records]
            subjects = [subject_of(payload["meta"], self.subject_field) for payload in payloads]
            changed: dict[str, Any] = {"payloads": payloads}
            if self.subject_field is not None:
                changed["subjects"] = subjects
            self.store.update(ids=[record.id for record in records], **changed)
        return len(records)

    # --- Out ---------------------------------------------------------------------------------------------------------

    def count_documents(self) -> int:
        """How many documents there are."""
        return int(self.store.count())

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """The documents that pass, by ascending id."""
        return [_document(record.id, record.payload, record.vector) for record in pages(self.store, _where(filters))]

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        """How many documents pass."""
        return int(self.store.count(where=_where(filters)))

    def embedding_retrieval(
        self,
        query_embedding: list[float],
        *,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        scale_score: bool = False,
        return_embedding: bool = False,
    ) -> list[Document]:
        """The documents nearest to an embedding, with a score that grows with likeness."""
        hits = self.store.search([query_embedding], top_k, where=_where(filters))[0]
        vectors = {}
        if return_embedding:
            vectors = {record.id: record.vector for record in present(self.store, [hit.id for hit in hits])}
        found = []
        for hit in hits:
            score = similarity(self.store.metric, hit.distance)
            if scale_score and self.store.metric == "cosine":
                score = (score + 1) / 2
            found.append(_document(hit.id, hit.payload, vectors.get(hit.id), score))
        return found

    def count_unique_metadata_by_filter(self, filters: dict[str, Any], metadata_fields: list[str]) -> dict[str, int]:
        """Of each of these fields, how many different values the documents have that pass."""
        return {_bare(field): len(_distinct(self._values(field, filters))) for field in metadata_fields}

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        """The fields of all meta, with the type of their values."""
        types: dict[str, dict[str, str]] = {}
        for record in pages(self.store):
            for field, value in _meta(record.payload).items():
                if value is not None:
                    types[field] = {"type": _type(value)}
        return dict(sorted(types.items()))

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """The least and the greatest value of a field; None where there is none, or where they have no order."""
        values = [value for value in self._values(metadata_field) if isinstance(value, int | float | str)]
        try:
            return {"min": min(values, default=None), "max": max(values, default=None)}
        except TypeError:
            return {"min": None, "max": None}

    def get_metadata_field_unique_values(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        """Different values of a field, a page of them, and how many there are."""
        values = _distinct(self._values(metadata_field, filters))
        if search_term:
            values = [value for value in values if search_term.lower() in str(value).lower()]
        ordered = sorted(values, key=lambda value: (str(value), type(value).__name__))
        return ordered[from_ : from_ + size], len(ordered)

    def _values(self, field: str, filters: dict[str, Any] | None = None) -> Iterable[Any]:
        for record in pages(self.store, _where(filters)):
            value = _meta(record.payload).get(_bare(field))
            if value is not None:
                yield value

    # --- Forgetting --------------------------------------------------------------------------------------------------

    def delete_documents(self, document_ids: list[str]) -> None:
        """Forget documents; ids that are not there are passed over."""
        if document_ids:
            self.forget(document_ids)

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Forget all documents that pass; how many there were."""
        return int(self.forget(filters=filters).records)

    def delete_all_documents(self, recreate_index: bool = False) -> None:
        """Forget everything. There is nothing else to recreate: an empty store equals a new one either way."""
        self.last_receipt = self.store.forget(where=EVERYTHING, ignore_unknown=True)

    def forget(
        self,
        document_ids: list[str] | str | None = None,
        *,
        subject: str | None = None,
        filters: dict[str, Any] | None = None,
        elsewhere: Mapping[str, int | None] | None = None,
    ) -> lethevec.Receipt:
        """Forget documents by ids, all of a subject's, or those that pass a filter; the signed receipt.

        `elsewhere` is what you erased outside the store, for the receipt to state (see `lethevec.Store.forget`).
        """
        if sum(one is not None for one in (document_ids, subject, filters)) != 1:
            raise ParameterError("forget: expected one of document_ids, subject and filters")
        if document_ids is not None:
            wanted = [document_ids] if isinstance(document_ids, str) else list(dict.fromkeys(document_ids))
            receipt: lethevec.Receipt = self.store.forget(wanted, ignore_unknown=True, elsewhere=elsewhere)
        elif subject is not None:
            receipt = self.store.forget(subject=subject, ignore_unknown=True, elsewhere=elsewhere)
        else:
            where = _where(filters) or EVERYTHING
            receipt = self.store.forget(where=where, ignore_unknown=True, elsewhere=elsewhere)
        self.last_receipt = receipt
        return receipt

    # --- Async: the same in a thread ---------------------------------------------------------------------------------

    async def write_documents_async(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """As `write_documents`."""
        return await _in_thread(self.write_documents, documents, policy)

    async def update_by_filter_async(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """As `update_by_filter`."""
        return await _in_thread(self.update_by_filter, filters, meta)

    async def count_documents_async(self) -> int:
        """As `count_documents`."""
        return await _in_thread(self.count_documents)

    async def filter_documents_async(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """As `filter_documents`."""
        return await _in_thread(self.filter_documents, filters)

    async def count_documents_by_filter_async(self, filters: dict[str, Any]) -> int:
        """As `count_documents_by_filter`."""
        return await _in_thread(self.count_documents_by_filter, filters)

    async def embedding_retrieval_async(self, query_embedding: list[float], **settings: Any) -> list[Document]:
        """As `embedding_retrieval`."""
        return await _in_thread(lambda: self.embedding_retrieval(query_embedding, **settings))

    async def count_unique_metadata_by_filter_async(
        self, filters: dict[str, Any], metadata_fields: list[str]
    ) -> dict[str, int]:
        """As `count_unique_metadata_by_filter`."""
        return await _in_thread(self.count_unique_metadata_by_filter, filters, metadata_fields)

    async def get_metadata_fields_info_async(self) -> dict[str, dict[str, str]]:
        """As `get_metadata_fields_info`."""
        return await _in_thread(self.get_metadata_fields_info)

    async def get_metadata_field_min_max_async(self, metadata_field: str) -> dict[str, Any]:
        """As `get_metadata_field_min_max`."""
        return await _in_thread(self.get_metadata_field_min_max, metadata_field)

    async def get_metadata_field_unique_values_async(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        """As `get_metadata_field_unique_values`."""
        return await _in_thread(
            self.get_metadata_field_unique_values, metadata_field, search_term, from_, size, filters
        )

    async def delete_documents_async(self, document_ids: list[str]) -> None:
        """As `delete_documents`."""
        await _in_thread(self.delete_documents, document_ids)

    async def delete_by_filter_async(self, filters: dict[str, Any]) -> int:
        """As `delete_by_filter`."""
        return await _in_thread(self.delete_by_filter, filters)

    async def delete_all_documents_async(self, recreate_index: bool = False) -> None:
        """As `delete_all_documents`."""
        await _in_thread(self.delete_all_documents, recreate_index)


@component
class LethevecEmbeddingRetriever:
    """The documents of a `LethevecDocumentStore` that are nearest to an embedding.

    Args:
        document_store: where to search.
        filters: what documents must pass; how filters at run time go with them is the `filter_policy`.
        top_k: how many.
        scale_score: under cosine, scores from 0 to 1 instead of -1 to 1.
        return_embedding: whether documents come with their embeddings.
    """

    def __init__(
        self,
        document_store: LethevecDocumentStore,
        *,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        scale_score: bool = False,
        return_embedding: bool = False,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        if not isinstance(document_store, LethevecDocumentStore):
            raise ParameterError(
                f"document_store: expected a LethevecDocumentStore, got {type(document_store).__name__}"
            )
        self.document_store = document_store
        self.filters = filters
        self.top_k = top_k
        self.scale_score = scale_score
        self.return_embedding = return_embedding
        self.filter_policy = (
            filter_policy if isinstance(filter_policy, FilterPolicy) else FilterPolicy.from_str(filter_policy)
        )

    def to_dict(self) -> dict[str, Any]:
        """For a pipeline's YAML."""
        made: dict[str, Any] = default_to_dict(
            self,
            document_store=self.document_store.to_dict(),
            filters=self.filters,
            top_k=self.top_k,
            scale_score=self.scale_score,
            return_embedding=self.return_embedding,
            filter_policy=self.filter_policy.value,
        )
        return made

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> LethevecEmbeddingRetriever:
        """From a pipeline's YAML."""
        settings = dict(data["init_parameters"])
        settings["document_store"] = LethevecDocumentStore.from_dict(settings["document_store"])
        made: LethevecEmbeddingRetriever = default_from_dict(cls, {**data, "init_parameters": settings})
        return made

    @component.output_types(documents=list[Document])
    def run(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        scale_score: bool | None = None,
        return_embedding: bool | None = None,
    ) -> dict[str, list[Document]]:
        """Search."""
        return {
            "documents": self.document_store.embedding_retrieval(
                query_embedding,
                filters=apply_filter_policy(self.filter_policy, self.filters, filters),
                top_k=self.top_k if top_k is None else top_k,
                scale_score=self.scale_score if scale_score is None else scale_score,
                return_embedding=self.return_embedding if return_embedding is None else return_embedding,
            )
        }

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int | None = None,
        scale_score: bool | None = None,
        return_embedding: bool | None = None,
    ) -> dict[str, list[Document]]:
        """Search in a thread."""
        return await _in_thread(self.run, query_embedding, filters, top_k, scale_score, return_embedding)


# --- Stores that are open --------------------------------------------------------------------------------------------


class _Shared:
    """A store that is open, and how many document stores use it."""

    def __init__(self, store: lethevec.Store) -> None:
        self.store, self.users = store, 0


def _take(path: str, dim: int, metric: str | None, encrypt: bool | None) -> _Shared:
    key = os.path.realpath(path)
    with _GUARD:
        while True:
            shared = _OPEN.get(key)
            if shared is None or shared.store.closed:
                shared = _OPEN[key] = _Shared(lethevec.open(path, dim, metric, encrypt=encrypt))
            store = shared.store
            if store.dim != dim or metric not in (None, store.metric):
                raise InputError(
                    f"{path}: expected dim={store.dim} and metric={store.metric!r}, as it is open here, "
                    f"got dim={dim} and metric={metric!r}"
                )
            shared.users += 1
            if not store.closed:  # the collector may just have ended the last document store that used it
                return shared


def _give_back(shared: _Shared) -> None:
    with _GUARD:
        shared.users -= 1
        if shared.users < 1:
            shared.store.close()
            for key in [key for key, one in _OPEN.items() if one is shared]:
                del _OPEN[key]


async def _in_thread(function: Callable[..., T], *values: Any) -> T:
    return await asyncio.to_thread(function, *values)


# --- Documents and records -------------------------------------------------------------------------------------------


def _payload(document: Document) -> dict[str, Any]:
    payload: dict[str, Any] = {"content": document.content, "meta": document.meta}
    if document.blob is not None:
        blob = document.blob
        payload["blob"] = {
            "data": base64.b64encode(blob.data).decode(),
            "mime_type": blob.mime_type,
            "meta": blob.meta,
        }
    if document.sparse_embedding is not None:
        payload["sparse_embedding"] = document.sparse_embedding.to_dict()
    plain: dict[str, Any] = lists_for_tuples(payload)
    return plain


def _document(id: object, payload: Mapping[str, Any] | None, vector: Any, score: float | None = None) -> Document:
    fields = dict(payload or {})
    blob, sparse = fields.get("blob"), fields.get("sparse_embedding")
    return Document(
        id=str(id),
        content=fields.get("content"),
        meta=dict(fields.get("meta") or {}),
        score=score,
        blob=None
        if blob is None
        else ByteStream(data=base64.b64decode(blob["data"]), mime_type=blob["mime_type"], meta=blob["meta"]),
        embedding=None if vector is None else vector.tolist(),
        sparse_embedding=None if sparse is None else SparseEmbedding.from_dict(sparse),
    )


def _meta(payload: Mapping[str, Any] | None) -> dict[str, Any]:
    meta: dict[str, Any] = (payload or {}).get("meta") or {}
    return meta


def _bare(field: str) -> str:
    return field.removeprefix("meta.")


def _type(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "int" if isinstance(value, int) else "float" if isinstance(value, float) else "keyword"


def _distinct(values: Iterable[Any]) -> list[Any]:
    """1, 1.0, True and "1" are different values."""
    return list({(type(value).__name__, repr(value)): value for value in values}.values())


# --- Filters ---------------------------------------------------------------------------------------------------------


def _where(filters: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Haystack's filters in the language of `where`."""
    return _condition(filters) if filters else None


def _condition(one: Any) -> dict[str, Any]:
    if not isinstance(one, Mapping) or "operator" not in one:
        raise FilterError(f"filters: expected a condition with an operator, got {one!r:.80}")
    operator = one["operator"]
    if "field" not in one:
        if "conditions" not in one or not isinstance(one["conditions"], list):
            raise FilterError(f"filters: expected conditions for {operator!r:.40}, got none")
        parts = [_condition(part) for part in one["conditions"]]
        if operator not in ("AND", "OR", "NOT"):
            raise FilterError(f"filters: expected AND, OR or NOT, got {operator!r:.40}")
        if not parts:
            return NOTHING if operator in ("OR", "NOT") else EVERYTHING
        return (
            {"$or": parts} if operator == "OR" else {"$and": parts} if operator == "AND" else {"$not": {"$and": parts}}
        )
    if "value" not in one:
        raise FilterError(f"filters: expected a value for {one['field']!r:.40}, got none")
    return _comparison(_field(one["field"]), operator, one["value"])


def _field(field: Any) -> str:
    if not isinstance(field, str):
        raise FilterError(f"filters: expected a field by its name, got {field!r:.40}")
    return _OWN.get(field, field if field.startswith("meta.") else f"meta.{field}")


def _comparison(field: str, operator: Any, value: Any) -> dict[str, Any]:
    if isinstance(value, datetime | date):
        value = value.isoformat()
    if operator in ("==", "!="):
        found = _equal(field, value)
        return found if operator == "==" else {"$not": found}
    if operator in ("in", "not in"):
        if not isinstance(value, list):
            raise FilterError(f"filters: expected a list for {operator!r}, got {type(value).__name__}")
        found = {"$or": [_equal(field, item) for item in value]} if value else NOTHING
        return found if operator == "in" else {"$not": found}
    if operator not in _ORDER:
        raise FilterError(f"filters: expected one of ==, !=, >, >=, <, <=, in and not in, got {operator!r:.40}")
    if value is None:
        return NOTHING
    if isinstance(value, str) and not _is_date(value):
        raise FilterError(f"filters: expected a number or an ISO date for {operator}, got the text {value!r:.40}")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise FilterError(f"filters: expected a number or an ISO date for {operator}, got {type(value).__name__}")
    return {field: {_ORDER[operator]: value}}


def _equal(field: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {"$or": [{field: {"$exists": False}}, {field: None}]}
    if not isinstance(value, str | int | float | bool):
        raise FilterError(f"filters: expected a text, a number, a boolean or None, got {type(value).__name__}")
    return {field: {"$eq": value}}


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
