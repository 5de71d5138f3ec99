"""LangChain: a vector store that forgets.

`LethevecVectorStore` is a `langchain_core` vector store over a lethevec store. A document becomes a record whose
payload holds the text and, under one key, the metadata. `delete` erases as `forget` does; `forget` gives the receipt.

What it does not reach: text that overlapping chunks have in common, unless all of them are forgotten (by a filter, or
by their subject); and anything that LangChain keeps elsewhere. That is the record manager of `indexing.index` (ids and
hashes of documents), caches of embeddings and of answers, chat histories, the document store of a parent document
retriever, traces that are sent to a service, and documents that your program holds.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import lethevec
from lethevec.errors import InputError, ParameterError

from ._common import EVERYTHING, lists_for_tuples, missing, prefixed, present, similarity, spread_out, subject_of

try:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore
except ImportError as error:
    raise missing("langchain", error) from None

__all__ = ["LethevecVectorStore"]


class LethevecVectorStore(VectorStore):
    """Documents in a lethevec store.

    Args:
        store: a `lethevec.Store`, a collection, or a server's client.
        embedding: what turns texts into vectors; may be None where only vectors are given.
        subject_key: the key of a document's metadata that says whose data it is. It becomes the record's subject, so
            that `forget(subject=...)` finds all documents of a person.
        text_key: the field of the payload that holds the text.
        metadata_key: the field that holds the metadata; None puts them beside the text, as collections have them that
            were moved in from elsewhere.

    `filter=` in searches and deletes is lethevec's `where` language over the metadata: `{"year": {"$gte": 1990}}`.

    >>> import tempfile
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> folder = tempfile.TemporaryDirectory()
    >>> letters = LethevecVectorStore.open(
    ...     folder.name + "/letters.lethe", DeterministicFakeEmbedding(size=8), subject_key="author"
    ... )
    >>> letters.add_texts(["Dear Bob", "Dear Ann"], [{"author": "ann"}, {"author": "bob"}], ids=["1", "2"])
    ['1', '2']
    >>> letters.similarity_search("Dear Ann", k=1)[0].page_content
    'Dear Ann'
    >>> letters.forget(subject="bob").records
    1
    >>> letters.get_by_ids(["1", "2"])
    [Document(id='1', metadata={'author': 'ann'}, page_content='Dear Bob')]
    >>> letters.close(); folder.cleanup()
    """

    def __init__(
        self,
        store: Any,
        embedding: Embeddings | None = None,
        *,
        subject_key: str | None = None,
        text_key: str = "text",
        metadata_key: str | None = "metadata",
    ) -> None:
        """Put a vector store over a store that is open."""
        self.store = store
        self.last_receipt: lethevec.Receipt | None = None
        self._embedding = embedding
        self._subject_key, self._text_key, self._metadata_key = subject_key, text_key, metadata_key

    @classmethod
    def open(
        cls,
        path: str,
        embedding: Embeddings,
        *,
        metric: str | None = None,
        encrypt: bool | None = None,
        subject_key: str | None = None,
        **settings: Any,
    ) -> LethevecVectorStore:
        """Open the store at `path`, or make it with the dimension that the embedding has."""
        dim = len(embedding.embed_query("dimension"))
        store = lethevec.open(path, dim, metric, encrypt=encrypt)
        return cls(store, embedding, subject_key=subject_key, **settings)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    @property
    def embeddings(self) -> Embeddings | None:
        """What turns texts into vectors."""
        return self._embedding

    # --- In ----------------------------------------------------------------------------------------------------------

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Add texts, or replace those whose ids are there; ids are made up where none are given."""
        given = list(texts)
        return self._upsert(given, self._embed(given), metadatas, ids)

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Add documents, or replace those whose ids are there. `ids=` goes before the ids of the documents."""
        ids = kwargs.pop("ids", None)
        texts = [document.page_content for document in documents]
        chosen = ids if ids is not None else [document.id for document in documents]
        return self._upsert(texts, self._embed(texts), [document.metadata for document in documents], chosen)

    def add_embeddings(
        self,
        embeddings: Sequence[Any],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        texts: Sequence[str] | None = None,
        ids: list[str] | None = None,
    ) -> list[str]:
        """Add vectors that were made elsewhere: pairs of text and vector, or vectors beside `texts` (or without)."""
        pairs = list(embeddings)
        if (
            texts is None
            and pairs
            and isinstance(pairs[0], tuple)
            and len(pairs[0]) == 2
            and isinstance(pairs[0][0], str)
        ):
            return self._upsert([text for text, _ in pairs], [vector for _, vector in pairs], metadatas, ids)
        return self._upsert([""] * len(pairs) if texts is None else list(texts), pairs, metadatas, ids)

    def _embed(self, texts: list[str]) -> list[Any]:
        if self._embedding is None:
            raise ParameterError("embedding: expected one that turns texts into vectors, got None")
        return list(self._embedding.embed_documents(texts)) if texts else []

    def _upsert(
        self,
        texts: list[str],
        vectors: list[Any],
        metadatas: Sequence[Mapping[str, Any]] | None,
        ids: Sequence[str | None] | None,
    ) -> list[str]:
        names = [
            id if id is not None else str(uuid.uuid4()) for id in (ids if ids is not None else [None] * len(texts))
        ]
        metadatas = [{}] * len(texts) if metadatas is None else metadatas
        for name, values in (("embeddings", vectors), ("metadatas", metadatas), ("ids", names)):
            if len(values) != len(texts):
                raise InputError(f"{name}: expected one for each of {len(texts)} texts, got {len(values)}")
        last = {id: place for place, id in enumerate(names)}  # an id that comes twice has what came last
        places = list(last.values())
        if places:
            self.store.upsert(
                [vectors[place] for place in places],
                ids=list(last),
                subjects=[subject_of(metadatas[place], self._subject_key) for place in places],
                payloads=[self._payload(texts[place], metadatas[place]) for place in places],
            )
        return names

    def _payload(self, text: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
        if self._metadata_key is not None:
            return {self._text_key: text, self._metadata_key: lists_for_tuples(metadata)}
        if self._text_key in metadata:
            raise InputError(f"metadata: expected no key {self._text_key!r}, which holds the text, got one")
        return {**lists_for_tuples(metadata), self._text_key: text}

    # --- Out ---------------------------------------------------------------------------------------------------------

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The documents of ids; those that are not there are left out."""
        return [self._document(record.id, record.payload) for record in present(self.store, ids)]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """The k documents nearest to a text. `filter=`, `subject=` and `effort=` as in `lethevec.Store.search`."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """The same with distances: the smaller, the nearer."""
        return self.similarity_search_with_score_by_vector(self._query(query), k, **kwargs)

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """The k documents nearest to a vector."""
        return [document for document, _ in self.similarity_search_with_score_by_vector(embedding, k, **kwargs)]

    def similarity_search_with_score_by_vector(
        self, embedding: Sequence[float], k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """The same with distances."""
        return [(self._document(hit.id, hit.payload), hit.distance) for hit in self._hits(embedding, k, **kwargs)]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Documents that are near to a text and unlike each other, out of the `fetch_k` nearest."""
        return self.max_marginal_relevance_search_by_vector(self._query(query), k, fetch_k, lambda_mult, **kwargs)

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """The same for a vector."""
        hits = self._hits(embedding, max(k, fetch_k), **kwargs)
        records = present(self.store, [hit.id for hit in hits])
        chosen = spread_out(embedding, [record.vector for record in records], k, lambda_mult)
        return [self._document(records[place].id, records[place].payload) for place, _ in chosen]

    def _query(self, text: str) -> list[float]:
        if self._embedding is None:
            raise ParameterError("embedding: expected one that turns texts into vectors, got None")
        return list(self._embedding.embed_query(text))

    def _hits(
        self,
        embedding: Sequence[float],
        k: int,
        *,
        filter: Mapping[str, Any] | None = None,
        subject: str | None = None,
        effort: float = 1.0,
        **kwargs: Any,
    ) -> list[lethevec.Hit]:
        where = None if filter is None else prefixed(filter, self._metadata_key)
        found: list[lethevec.Hit] = self.store.search([embedding], k, where=where, subject=subject, effort=effort)[0]
        return found

    def _document(self, id: object, payload: Mapping[str, Any] | None) -> Document:
        fields = dict(payload or {})
        text = fields.pop(self._text_key, "")
        metadata = fields if self._metadata_key is None else fields.get(self._metadata_key) or {}
        return Document(id=str(id), page_content=text if isinstance(text, str) else str(text), metadata=dict(metadata))

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        metric = self.store.metric
        return lambda distance: similarity(metric, distance)

    # --- Forgetting --------------------------------------------------------------------------------------------------

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool | None:
        """Forget documents, by ids, `subject=` or `filter=`. Ids that are not there are passed over.

        `last_receipt` is then the receipt. Nothing is taken for "all": use `delete_collection` for that.
        """
        if ids is not None and not ids:
            return True
        self.forget(ids, **kwargs)
        return True

    def forget(
        self,
        ids: Sequence[str] | str | None = None,
        *,
        subject: str | None = None,
        filter: Mapping[str, Any] | None = None,
        elsewhere: Mapping[str, int | None] | None = None,
    ) -> lethevec.Receipt:
        """Forget documents by ids, all of a subject's, or those that a filter lets through; the signed receipt.

        `elsewhere` is what you erased outside the store, for the receipt to state (see `lethevec.Store.forget`).
        """
        if sum(one is not None for one in (ids, subject, filter)) != 1:
            raise ParameterError("forget: expected one of ids, subject and filter")
        if ids is not None:
            wanted = list(dict.fromkeys([ids] if isinstance(ids, str) else ids))
            receipt = self.store.forget(wanted, ignore_unknown=True, elsewhere=elsewhere)
        elif subject is not None:
            receipt = self.store.forget(subject=subject, ignore_unknown=True, elsewhere=elsewhere)
        else:
            where = prefixed(filter or {}, self._metadata_key)
            receipt = self.store.forget(where=where, ignore_unknown=True, elsewhere=elsewhere)
        self.last_receipt = receipt
        return receipt

    def delete_collection(self) -> None:
        """Forget everything; the store stays, and is empty."""
        self.last_receipt = self.store.forget(where=EVERYTHING, ignore_unknown=True)

    # --- Made from texts ---------------------------------------------------------------------------------------------

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        store: Any = None,
        path: str | None = None,
        **kwargs: Any,
    ) -> LethevecVectorStore:
        """A vector store with these texts, over `store` or over the store at `path`, which is made if need be."""
        if (store is None) == (path is None):
            raise ParameterError("from_texts: expected either store= or path=, which says where the documents go")
        made = cls(store, embedding, **kwargs) if path is None else cls.open(path, embedding, **kwargs)
        made.add_texts(texts, metadatas, ids=ids)
        return made
