"""Records in and out as Chroma has them: columns of ids, embeddings, metadatas, documents and uris."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec
from lethevec.errors import LethevecError, UnknownIdError

from .. import fields
from ..core import Core
from ..problems import Problem
from .filters import DOCUMENT, URI, escape, join, metadata_of, payload_of, to_where
from .registry import Entry, Registry

__all__ = ["ChromaRecords"]

F32 = npt.NDArray[np.float32]
MAX_BATCH = 5461  # what the real server says; clients split longer batches
SUBJECT = "lethevec:subject"  # in a collection's metadata: the field that holds the subject of a record


class ChromaRecords:
    """The calls on one server's collections. All of them block."""

    def __init__(self, core: Core, registry: Registry) -> None:
        self._core = core
        self._registry = registry

    def _open(self, entry: Entry) -> Any:
        """The collection, or None before its first record."""
        if entry.dim is None:
            return None
        try:
            return self._core.db.collection(entry.store)
        except LethevecError:
            if entry.store in self._core.db.collections():
                raise
            return None

    def put(self, id: str, body: dict[str, Any], kind: str) -> int:
        """`add` keeps what is there, `update` changes it, `upsert` does either."""
        ids = _texts(body, "ids", needed=True)
        assert ids is not None
        if len(ids) > MAX_BATCH:
            raise Problem(413, "BatchSizeExceededError", f"expected at most {MAX_BATCH} records in one request")
        with self._registry.lock:
            entry = self._registry.by_id(id)
            vectors = _embeddings(body.get("embeddings"), len(ids), entry.dim)
            columns = [_column(body, name, len(ids)) for name in ("metadatas", "documents", "uris")]
            if not ids:
                return 0
            if kind != "update" and any(vector is None for vector in vectors):
                raise Problem(400, "InvalidArgumentError", "embeddings: expected one for each id")
            if entry.dim is None:
                dims = {len(vector) for vector in vectors if vector is not None}
                if kind == "update" or not dims:
                    return 0
                if len(dims) > 1:
                    raise Problem(400, "InvalidArgumentError", "embeddings: expected the same dimension for all")
                entry = replace(entry, dim=dims.pop())
                self._core.db.collection(entry.store, dim=entry.dim, metric=entry.metric)
                self._registry.save(entry)
            collection = self._core.db.collection(entry.store)
            there = {record.id: record for record in _known(collection, ids)}
            new: dict[str, tuple[Any, Any]] = {}
            for place, one in enumerate(ids):
                old = there.get(one)
                if (kind == "add" and (old is not None or one in new)) or (kind == "update" and old is None):
                    continue
                before, payload = (None, None) if old is None else (_vector(old, entry), old.payload)
                if one in new:
                    before, payload = new[one]
                vector = before if vectors[place] is None else vectors[place]
                new[one] = vector, _changed(payload, *(column[place] for column in columns))
            if not new:
                return 0
            self._write(collection, entry, new)
            return len(new)

    def _write(self, collection: Any, entry: Entry, new: dict[str, tuple[Any, Any]]) -> None:
        field = (entry.metadata or {}).get(SUBJECT)
        subjects = None
        if type(field) is str:
            name = escape(field)
            values = [(payload or {}).get(name) for _, payload in new.values()]
            subjects = [None if value is None else str(value) for value in values]
        vectors: Any = np.stack([vector for vector, _ in new.values()])
        if entry.metric == "cosine" and not vectors.any(axis=1).all():
            # A vector of zeros has no direction: such a record is kept without one, found by `get` and not by `query`.
            vectors = [vector if vector.any() else None for vector in vectors]
        collection.upsert(vectors, ids=list(new), subjects=subjects, payloads=[payload for _, payload in new.values()])

    def get(self, id: str, body: dict[str, Any]) -> dict[str, Any]:
        """Records by ids or filters, ascending by id."""
        entry = self._registry.by_id(id)
        include = _include(body, ("metadatas", "documents"))
        collection = self._open(entry)
        found = [] if collection is None else self._chosen(collection, body)
        answer: dict[str, Any] = {"ids": [record.id for record in found], "include": list(include)}
        answer["embeddings"] = [_vector(record, entry) for record in found] if "embeddings" in include else None
        payloads = [record.payload for record in found]
        answer |= _parts(payloads, include)
        return answer

    def _chosen(self, collection: Any, body: dict[str, Any]) -> list[lethevec.Record]:
        ids = _texts(body, "ids")
        where = to_where(body.get("where"), body.get("where_document"))
        limit = _number(body, "limit")
        offset = _number(body, "offset") or 0
        if limit == 0:
            return []
        end = None if limit is None else limit + offset
        if ids is not None:
            found = _known(collection, ids)
            if where is not None:
                allowed = set(collection.ids(where))
                found = [record for record in found if record.id in allowed]
            return found[offset:end]
        page: list[lethevec.Record] = collection.get(where=where, limit=end)
        return page[offset:]

    def query(self, id: str, body: dict[str, Any]) -> dict[str, Any]:
        """The nearest records, with Chroma's distances."""
        entry = self._registry.by_id(id)
        include = _include(body, ("metadatas", "documents", "distances"))
        given = body.get("query_embeddings")
        if type(given) is not list or not given:
            raise Problem(400, "InvalidArgumentError", "query_embeddings: expected a list of vectors")
        queries = _embeddings(given, len(given), entry.dim)
        k = _number(body, "n_results")
        k = 10 if k is None else k
        if not 1 <= k <= self._core.settings.max_k:
            raise Problem(400, "InvalidArgumentError", f"n_results: expected 1 to {self._core.settings.max_k}")
        where = to_where(body.get("where"), body.get("where_document"))
        ids = _texts(body, "ids")
        collection = self._open(entry)
        n = len(queries)
        if ids is not None:
            if collection is None or not all(id in collection for id in ids):
                raise Problem(400, "InvalidArgumentError", "Error finding id: expected ids that are in the collection")
            where = join({"$id": {"$in": ids}}, where)
        if collection is None:
            empty: list[list[Any]] = [[] for _ in range(n)]
            answer: dict[str, Any] = {"ids": empty, "include": list(include)}
            for name in ("embeddings", "documents", "metadatas", "uris", "distances"):
                answer[name] = empty if name in include else None
            return answer
        k = max(1, min(k, len(collection)))
        options: dict[str, Any] = {} if where is None else {"where": where}
        hits = collection.search(np.stack([query for query in queries if query is not None]), k, **options)
        counts = np.isfinite(hits.distances).sum(axis=1).tolist()
        rows = [row[:count] for row, count in zip(hits.ids.tolist(), counts, strict=True)]
        answer = {"ids": rows, "include": list(include)}
        distances = _distances(hits.distances, entry.metric)
        answer["distances"] = (
            [row[:count] for row, count in zip(distances, counts, strict=True)] if "distances" in include else None
        )
        payloads = [row[:count] for row, count in zip(hits.payloads.tolist(), counts, strict=True)]
        columns = [_parts(row, include) for row in payloads]
        for name in ("documents", "metadatas", "uris"):
            answer[name] = [column[name] for column in columns] if name in include else None
        answer["embeddings"] = None
        if "embeddings" in include:
            wanted = list(dict.fromkeys(one for row in rows for one in row))
            vectors = {record.id: record.vector for record in _known(collection, wanted)}
            answer["embeddings"] = [[vectors.get(one) for one in row] for row in rows]
        return answer

    def count(self, id: str) -> int:
        """How many records there are."""
        collection = self._open(self._registry.by_id(id))
        return 0 if collection is None else len(collection)

    def delete(self, id: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Forget records; how many, and the receipt."""
        limit = _number(body, "limit")
        where = to_where(body.get("where"), body.get("where_document"))
        ids = _texts(body, "ids")
        if limit is not None and where is None:
            raise Problem(400, "InvalidArgumentError", "limit: expected a where or where_document beside it")
        with self._registry.lock:
            entry = self._registry.by_id(id)
            collection = self._open(entry)
            if collection is None or limit == 0 or (where is None and not ids):
                return 0, None
            if where is None:
                chosen = [record.id for record in _known(collection, ids or [])]
            else:
                chosen = collection.ids(where)
                if ids is not None:
                    chosen = [id for id in chosen if id in set(ids)]
                chosen = chosen[:limit]
            if not chosen:
                return 0, None
            receipt = collection.forget(chosen, ignore_unknown=True, timeout=self._core.settings.timeout)
            return receipt["records"], receipt


def _known(collection: Any, ids: list[str]) -> list[lethevec.Record]:
    """Those of these records that are there, ascending by id."""
    wanted = sorted(set(ids))
    try:
        found: list[lethevec.Record] = collection.get(wanted)
    except UnknownIdError:
        found = collection.get([id for id in wanted if id in collection])
    return found


def _vector(record: lethevec.Record, entry: Entry) -> F32:
    """The vector as it came: records without one had zeros."""
    if record.vector is not None:
        return record.vector
    assert entry.dim is not None
    return np.zeros(entry.dim, dtype=np.float32)


def _changed(payload: dict[str, Any] | None, metadata: Any, document: Any, uri: Any) -> dict[str, Any] | None:
    """A payload after an update: new fields replace, null takes a field away, what is not given stays."""
    merged = dict(payload or {})
    if metadata is not None:
        for name, value in metadata.items():
            if value is None:
                merged.pop(escape(name), None)
        merged |= payload_of(metadata, None, None) or {}
    merged |= payload_of(None, document, uri) or {}
    return merged or None


def _parts(payloads: list[Any], include: tuple[str, ...]) -> dict[str, Any]:
    """Metadata, documents and uris of payloads; None for what is not included."""
    return {
        "metadatas": [metadata_of(payload) for payload in payloads] if "metadatas" in include else None,
        "documents": [(payload or {}).get(DOCUMENT) for payload in payloads] if "documents" in include else None,
        "uris": [(payload or {}).get(URI) for payload in payloads] if "uris" in include else None,
    }


def _distances(distances: F32, metric: str) -> F32:
    """Ours as Chroma has them: l2 is squared, ip is 1 minus the inner product."""
    if metric == "l2":
        squared: F32 = distances * distances
        return squared
    return distances + np.float32(1.0) if metric == "ip" else distances


def _embeddings(value: Any, count: int, dim: int | None) -> list[F32 | None]:
    """One vector or null for each record, from lists or base64."""
    if value is None:
        return [None] * count
    if type(value) is not list or len(value) != count:
        raise Problem(400, "InvalidArgumentError", f"embeddings: expected one for each of the {count} ids")
    made: list[F32 | None] = []
    for place, one in enumerate(value):
        if one is None:
            made.append(None)
            continue
        try:
            if type(one) is str:
                vector: F32 = np.frombuffer(fields.decode(one, "embeddings"), dtype="<f4").astype(np.float32)
            else:
                with np.errstate(over="ignore"):
                    vector = np.array(one, dtype=np.float32)
        except (ValueError, TypeError):
            raise Problem(400, "InvalidArgumentError", "embeddings: expected lists of numbers", at=[place]) from None
        if vector.ndim != 1 or not len(vector):
            raise Problem(400, "InvalidArgumentError", "embeddings: expected lists of numbers", at=[place])
        if dim is not None and len(vector) != dim:
            raise Problem(
                400,
                "InvalidArgumentError",
                f"Collection expecting embedding with dimension of {dim}, got {len(vector)}",
            )
        made.append(vector)
    return made


def _texts(body: dict[str, Any], name: str, *, needed: bool = False) -> list[str] | None:
    value = body.get(name)
    if value is None and not needed:
        return None
    if type(value) is not list or not all(type(one) is str for one in value):
        raise Problem(400, "InvalidArgumentError", f"{name}: expected a list of texts")
    return value


def _column(body: dict[str, Any], name: str, count: int) -> list[Any]:
    value = body.get(name)
    kind = dict if name == "metadatas" else str
    if value is None:
        return [None] * count
    if type(value) is not list or len(value) != count or not all(one is None or type(one) is kind for one in value):
        raise Problem(400, "InvalidArgumentError", f"{name}: expected one for each of the {count} ids")
    return value


def _number(body: dict[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is not None and (type(value) is not int or not 0 <= value < 1 << 40):
        raise Problem(400, "InvalidArgumentError", f"{name}: expected a whole number that is not negative")
    return value


def _include(body: dict[str, Any], default: tuple[str, ...]) -> tuple[str, ...]:
    value = body.get("include")
    if value is None:
        return default
    known = ("metadatas", "documents", "embeddings", "distances", "uris", "data")
    if type(value) is not list or not all(type(one) is str and one in known for one in value):
        raise Problem(400, "InvalidArgumentError", f"include: expected a list of {', '.join(known)}")
    return tuple(value)
