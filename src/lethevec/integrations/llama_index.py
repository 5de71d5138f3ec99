"""LlamaIndex: a vector store that forgets, also what nodes say about each other.

A node becomes a record: its metadata are the fields of the payload, beside LlamaIndex's own `_node_content`, which is
the whole node as JSON. That content names the node's neighbours (the node before and after it, parent and children)
with their metadata. So forgetting a node also takes it out of the content of those that name it, before the erasure:
neither its id nor its metadata are left in the store.

What it does not reach: text of a node that others have as their own, because chunks overlap or because a parser keeps
the sentences around a node in its metadata (forget the whole document: `forget(ref_doc_id=...)`); the document store
and the index store of a `StorageContext` (`delete_ref_doc` keeps the text of a document there unless it is called with
`delete_from_docstore=True`), the cache of an ingestion pipeline, chat memories, traces, and nodes that your program
holds.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

import lethevec
from lethevec.errors import (
    ErasureIncompleteError,
    InputError,
    LethevecError,
    ParameterError,
    UnknownIdError,
    UnsupportedError,
)

from ._common import EVERYTHING, both, lists_for_tuples, missing, pages, present, similarity, subject_of

try:
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings
    from llama_index.core.schema import BaseNode
    from llama_index.core.vector_stores.types import (
        BasePydanticVectorStore,
        FilterCondition,
        FilterOperator,
        MetadataFilter,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
    from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
except ImportError as error:
    raise missing("llama_index", error) from None

__all__ = ["LethevecVectorStore"]

_CONTENT = "_node_content"
#: Ids of nodes that a node's content names, so that they are found when one of those is forgotten.
_RELATED = "_related"
#: Keys of the metadata that hold None, "" or [], for `is_empty`.
_EMPTY = "_empty"
_PART = 500  # records rewritten at once
_PREFETCH = 4  # candidates for each answer of a query in mode mmr
_COMPARED = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    FilterOperator.TEXT_MATCH: "$text",
}


class LethevecVectorStore(BasePydanticVectorStore):
    """Nodes in a lethevec store.

    Args:
        store: a `lethevec.Store`, a collection, or a server's client.
        subject_key: the key of a node's metadata that says whose data it is. It becomes the record's subject, so that
            `forget(subject=...)` finds all nodes of a person.

    >>> import tempfile
    >>> from llama_index.core.schema import TextNode
    >>> from llama_index.core.vector_stores.types import VectorStoreQuery
    >>> folder = tempfile.TemporaryDirectory()
    >>> nodes = LethevecVectorStore(lethevec.open(folder.name + "/nodes.lethe", dim=2), subject_key="author")
    >>> nodes.add([TextNode(id_="a", text="Dear Bob", embedding=[1, 0], metadata={"author": "ann"})])
    ['a']
    >>> nodes.query(VectorStoreQuery(query_embedding=[1, 0.1], similarity_top_k=1)).nodes[0].get_content()
    'Dear Bob'
    >>> nodes.forget(subject="ann").records
    1
    >>> nodes.close(); folder.cleanup()
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    flat_metadata: bool = False
    subject_key: str | None = None

    _store: Any = PrivateAttr()
    _last_receipt: lethevec.Receipt | None = PrivateAttr(default=None)

    def __init__(self, store: Any, *, subject_key: str | None = None) -> None:
        """Put a vector store over a store that is open."""
        super().__init__(stores_text=True, subject_key=subject_key)
        self._store = store

    @classmethod
    def class_name(cls) -> str:
        """As LlamaIndex names its parts."""
        return "LethevecVectorStore"

    @property
    def client(self) -> Any:
        """The store."""
        return self._store

    @property
    def last_receipt(self) -> lethevec.Receipt | None:
        """The receipt of the last erasure."""
        return self._last_receipt

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    # --- In ----------------------------------------------------------------------------------------------------------

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Add nodes with their embeddings, or replace those whose ids are there."""
        last = {node.node_id: node for node in nodes}
        if last:
            given = list(last.values())
            self._store.upsert(
                [node.get_embedding() for node in given],
                ids=list(last),
                subjects=[subject_of(node.metadata, self.subject_key) for node in given],
                payloads=[_payload(node) for node in given],
            )
        return [node.node_id for node in nodes]

    # --- Out ---------------------------------------------------------------------------------------------------------

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Nodes by id, by filters, or by both; those that are not there are left out."""
        if node_ids is not None and filters is None:
            return [_node(record.payload) for record in present(self._store, node_ids)]
        return [_node(record.payload) for record in pages(self._store, _where(filters, node_ids))]

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """The nearest nodes, in mode default or mmr.

        A similarity is the cosine, the inner product, or under "l2" 1 / (1 + distance).
        """
        if query.query_embedding is None:
            raise InputError("query: expected a query_embedding, got none")
        where = both(
            _where(query.filters, query.node_ids or None),  # LlamaIndex gives empty lists where nothing is asked
            {"ref_doc_id": {"$in": list(query.doc_ids)}} if query.doc_ids else None,
        )
        k = query.similarity_top_k
        if query.mode == VectorStoreQueryMode.DEFAULT:
            hits = self._store.search([query.query_embedding], k, where=where)[0]
            return VectorStoreQueryResult(
                nodes=[_node(hit.payload) for hit in hits],
                similarities=[similarity(self._store.metric, hit.distance) for hit in hits],
                ids=[str(hit.id) for hit in hits],
            )
        if query.mode == VectorStoreQueryMode.MMR:
            return self._mmr(query, k, where, **kwargs)
        raise UnsupportedError(f"query: expected the mode default or mmr, got {query.mode}")

    def _mmr(
        self,
        query: VectorStoreQuery,
        k: int,
        where: Mapping[str, Any] | None,
        mmr_threshold: float | None = None,
        mmr_prefetch_k: int | None = None,
        mmr_prefetch_factor: float = _PREFETCH,
        **kwargs: Any,
    ) -> VectorStoreQueryResult:
        fetched = mmr_prefetch_k if mmr_prefetch_k is not None else int(k * mmr_prefetch_factor)
        hits = self._store.search([query.query_embedding], max(k, fetched), where=where)[0]
        records = {record.id: record for record in present(self._store, [hit.id for hit in hits])}
        scores, ids = get_top_k_mmr_embeddings(
            query.query_embedding,
            [np.asarray(records[hit.id].vector).tolist() for hit in hits],
            similarity_top_k=k,
            embedding_ids=[hit.id for hit in hits],
            mmr_threshold=query.mmr_threshold if query.mmr_threshold is not None else mmr_threshold,
        )
        return VectorStoreQueryResult(
            nodes=[_node(records[id].payload) for id in ids], similarities=list(scores), ids=[str(id) for id in ids]
        )

    # --- Forgetting --------------------------------------------------------------------------------------------------

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Forget all nodes of a document."""
        self._forget({"ref_doc_id": ref_doc_id})

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Forget nodes by id, by filters, or by both. Ids that are not there are passed over."""
        if node_ids is None and filters is None:
            raise ParameterError("delete_nodes: expected node_ids or filters, got neither; clear() forgets everything")
        if node_ids is not None and not node_ids:
            return
        if filters is None:
            self._forget(None, ids=node_ids)
        else:
            self._forget(_where(filters, node_ids) or EVERYTHING)

    def clear(self) -> None:
        """Forget everything."""
        self._last_receipt = self._store.forget(where=EVERYTHING, ignore_unknown=True)

    def forget(
        self,
        node_ids: Sequence[str] | str | None = None,
        *,
        subject: str | None = None,
        ref_doc_id: str | None = None,
        filters: MetadataFilters | None = None,
        elsewhere: Mapping[str, int | None] | None = None,
    ) -> lethevec.Receipt:
        """Forget nodes, and what others say about them; the signed receipt. One of the first four says which.

        `elsewhere` is what you erased outside the store, for the receipt to state (see `lethevec.Store.forget`).
        """
        given = (node_ids, subject, ref_doc_id, filters)
        if sum(one is not None for one in given) != 1:
            raise ParameterError("forget: expected one of node_ids, subject, ref_doc_id and filters")
        if node_ids is not None:
            ids = [node_ids] if isinstance(node_ids, str) else list(node_ids)
            return self._forget(None, ids=ids, elsewhere=elsewhere)
        if subject is not None:
            return self._forget(None, subject=subject, elsewhere=elsewhere)
        where = {"ref_doc_id": ref_doc_id} if ref_doc_id is not None else _where(filters, None) or EVERYTHING
        return self._forget(where, elsewhere=elsewhere)

    def _forget(
        self,
        where: dict[str, Any] | None,
        *,
        ids: list[str] | None = None,
        subject: str | None = None,
        elsewhere: Mapping[str, int | None] | None = None,
    ) -> lethevec.Receipt:
        """Rewrite the nodes that name the forgotten ones, then forget those; nothing that was replaced is left.

        Where the store refuses (somebody has set a legal hold), the nodes that were rewritten are as they were.
        """
        if elsewhere is not None:
            # Whatever is wrong with it is refused before a neighbour is rewritten.
            with suppress(UnknownIdError):
                self._store.forget([f"nothing has this id: {secrets.token_hex(16)}"], elsewhere=elsewhere)
        if ids is not None:
            gone = list(dict.fromkeys(ids))
        else:
            gone = [str(id) for id in self._store.ids(where=where, subject=subject)]
        # The receipt says what was asked for: a subject, a filter, or ids.
        asked: dict[str, Any] = {"subject": subject} if subject is not None else {"where": where}
        before: dict[Any, Any] = {}
        try:
            for start in range(0, len(gone), _PART):
                self._rewrite_neighbours(set(gone), gone[start : start + _PART], before)
            receipt: lethevec.Receipt = (
                self._store.forget(gone, ignore_unknown=True, elsewhere=elsewhere)
                if ids is not None
                else self._store.forget(**asked, ignore_unknown=True, elsewhere=elsewhere)
            )
        except ErasureIncompleteError:  # they are forgotten, and their bytes go as soon as nobody is in the way
            raise
        except LethevecError:
            self._write_payloads(before)
            raise
        self._last_receipt = receipt
        return receipt

    def _rewrite_neighbours(self, gone: set[str], part: list[str], before: dict[Any, Any]) -> None:
        """Take these out of what names them; `before` gets what was there."""
        naming = [record for record in pages(self._store, {_RELATED: {"$any": part}}) if record.id not in gone]
        for start in range(0, len(naming), _PART):
            some = naming[start : start + _PART]
            self._write_payloads({record.id: _without(record.payload or {}, gone) for record in some})
            before.update((record.id, record.payload) for record in some if record.id not in before)

    def _write_payloads(self, payloads: Mapping[Any, Any]) -> None:
        ids = list(payloads)
        for start in range(0, len(ids), _PART):
            part = ids[start : start + _PART]
            self._store.update(ids=part, payloads=[payloads[id] for id in part])


def _payload(node: BaseNode) -> dict[str, Any]:
    payload: dict[str, Any] = node_to_metadata_dict(node, remove_text=False, flat_metadata=False)
    for own in (_RELATED, _EMPTY):
        if own in node.metadata:
            raise InputError(f"metadata: expected no key {own!r}, which the adapter uses itself, got one")
    related = _named(json.loads(payload[_CONTENT]))
    empty = [key for key, value in node.metadata.items() if value in (None, "", [])]
    plain: dict[str, Any] = lists_for_tuples(payload)
    return plain | ({_RELATED: related} if related else {}) | ({_EMPTY: empty} if empty else {})


def _node(payload: Mapping[str, Any] | None) -> BaseNode:
    return metadata_dict_to_node(dict(payload or {}))


def _related(content: Mapping[str, Any]) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    """The relations of a node's content: of each kind one node or a list of them."""
    for kind, related in (content.get("relationships") or {}).items():
        yield kind, related if isinstance(related, list) else [related]


def _named(content: Mapping[str, Any]) -> list[str]:
    return sorted({one["node_id"] for _, related in _related(content) for one in related})


def _without(payload: Mapping[str, Any], gone: set[str]) -> dict[str, Any]:
    """A payload whose node does not name these any more."""
    content = json.loads(payload[_CONTENT])
    kept: dict[str, Any] = {}
    for kind, related in _related(content):
        left = [one for one in related if one["node_id"] not in gone]
        if left:
            kept[kind] = left if isinstance(content["relationships"][kind], list) else left[0]
    content["relationships"] = kept
    out = {key: value for key, value in payload.items() if key != _RELATED}
    named = _named(content)
    return out | {_CONTENT: json.dumps(content, ensure_ascii=False)} | ({_RELATED: named} if named else {})


def _where(filters: MetadataFilters | None, node_ids: Sequence[str] | None) -> dict[str, Any] | None:
    """LlamaIndex's filters in the language of `where`."""
    ids = None if node_ids is None else {"$id": {"$in": list(node_ids)}}
    return both(ids, None if filters is None or not filters.filters else _group(filters))


def _group(filters: MetadataFilters) -> dict[str, Any]:
    parts = [_group(one) if isinstance(one, MetadataFilters) else _filter(one) for one in filters.filters]
    if filters.condition == FilterCondition.OR:
        return {"$or": parts}
    if filters.condition == FilterCondition.NOT:
        return {"$not": {"$or": parts}}
    return {"$and": parts}


def _filter(one: MetadataFilter) -> dict[str, Any]:
    key, value, operator = one.key, one.value, one.operator
    if operator in _COMPARED:
        found = {key: {_COMPARED[operator]: value}}
        # None counts as absent: it differs from everything.
        return found if operator in (FilterOperator.NE, FilterOperator.NIN) else {"$and": [found, {key: {"$ne": None}}]}
    if operator == FilterOperator.TEXT_MATCH_INSENSITIVE:
        return {key: {"$regex": "(?i)" + _escaped(value)}}
    if operator == FilterOperator.IS_EMPTY:
        return {"$or": [{key: {"$exists": False}}, {_EMPTY: {"$contains": key}}]}
    if operator == FilterOperator.CONTAINS:
        return _has(key, "$any", [value])
    if operator in (FilterOperator.ANY, FilterOperator.ALL):
        return _has(key, f"${operator.value}", list(value) if isinstance(value, list | tuple) else [value])
    raise UnsupportedError(f"filters: expected an operator that is known here, got {operator}")


def _has(key: str, operator: str, values: list[Any]) -> dict[str, Any]:
    """An array has one or all of these; so has a text that contains them."""
    texts = [{key: {"$text": value}} for value in values if isinstance(value, str)]
    if not texts or len(texts) < len(values):
        return {key: {operator: values}}
    return {"$or": [{key: {operator: values}}, {"$or" if operator == "$any" else "$and": texts}]}


def _escaped(text: Any) -> str:
    """A pattern that is this text."""
    if not isinstance(text, str):
        raise InputError(f"filters: expected a text to look for, got {type(text).__name__}")
    return "".join(f"\\{c}" if c in r".^$*+?{}[]\|()" else c for c in text)
