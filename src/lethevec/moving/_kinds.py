"""The kinds of sources by name."""

from __future__ import annotations

from ..errors import ParameterError
from ._chroma import ChromaSource
from ._faiss import FaissSource
from ._hnswlib import HnswlibSource
from ._lancedb import LanceSource
from ._pgvector import PgvectorSource
from ._qdrant import QdrantSource
from ._source import Source

__all__ = ["KINDS", "open_source"]

#: What `--from` takes, and what stands behind it.
KINDS = {
    "chroma": "the folder of a local Chroma",
    "qdrant": "the URL of a Qdrant server",
    "lancedb": "the folder or URL of a LanceDB database",
    "faiss": "a file that faiss.write_index wrote",
    "hnswlib": "a file that hnswlib's save_index wrote",
    "pgvector": "the connection string of a PostgreSQL database with pgvector",
}


def open_source(
    kind: str,
    location: str,
    *,
    collection: str | None = None,
    metric: str | None = None,
    vector_field: str | None = None,
    id_field: str | None = None,
    api_key: str | None = None,
) -> Source:
    """Open a collection for reading.

    `collection` is its name (a table, in LanceDB and PostgreSQL); it may be left out where there is only one. `metric`
    is for sources that do not say which they use. `vector_field` and `id_field` name columns, in sources that have
    columns, and the vector of Qdrant points that have several. `api_key` is for Qdrant.
    """
    if kind == "chroma":
        return ChromaSource(location, collection)
    if kind == "qdrant":
        return QdrantSource(location, collection, vector_field, api_key)
    if kind == "lancedb":
        return LanceSource(location, collection, metric, vector_field, id_field)
    if kind == "faiss":
        return FaissSource(location)
    if kind == "hnswlib":
        return HnswlibSource(location, metric)
    if kind == "pgvector":
        return PgvectorSource(location, collection, metric, vector_field, id_field)
    raise ParameterError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
