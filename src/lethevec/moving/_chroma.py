"""Chroma: a local folder, read through its own package. The files are then searched for what was deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._extras import need
from ..errors import FileError, FormatError
from ._hnsw_file import read_header
from ._left_behind import bytes_by_file, files_below, unused_bytes
from ._source import Batch, Residue, Source, choose, same_dim

__all__ = ["ChromaSource"]

#: Where a document and a URI go in the payload, unless the metadata has fields of these names.
_TEXTS = {"documents": ("document", "chroma:document"), "uris": ("uri", "chroma:uri")}


class ChromaSource(Source):
    """A collection of a local Chroma."""

    def __init__(self, location: str, collection: str | None) -> None:
        """Open the folder and choose the collection."""
        self._folder = Path(location)
        if not (self._folder / "chroma.sqlite3").is_file():
            raise FileError(f"{location}: expected a folder of Chroma, with a chroma.sqlite3 in it, got none")
        chromadb = need("chromadb", "chroma", "reading a folder of Chroma")
        settings = need("chromadb.config", "chroma", "reading a folder of Chroma").Settings
        self._client = chromadb.PersistentClient(str(self._folder), settings=settings(anonymized_telemetry=False))
        self.name = choose((one.name for one in self._client.list_collections()), collection, location)
        # An embedding function would have to be made, and perhaps downloaded, for nothing.
        self._collection = self._client.get_collection(self.name, embedding_function=None)
        first = self._collection.get(limit=1, include=["embeddings"])["embeddings"]
        if first is None or len(first) == 0:
            raise FormatError(f"{location}: expected records in the collection {self.name!r}, got none")
        self.dim = len(first[0])
        self.metric = _metric(self._collection.configuration_json)
        if self._collection.metadata:
            self.remarks = (
                f"the collection's own metadata are not copied: {json.dumps(self._collection.metadata)[:200]}",
            )

    def count(self) -> int:
        """What Chroma says."""
        return int(self._collection.count())

    def batches(self, size: int) -> Iterator[Batch]:
        """In the order in which Chroma gives them."""
        start = 0
        while True:
            include = ["embeddings", "metadatas", "documents", "uris"]
            part = self._collection.get(include=include, limit=size, offset=start)
            if not part["ids"]:
                return
            vectors = np.ascontiguousarray(part["embeddings"], dtype=np.float32)
            payloads = [_payload(part, place) for place in range(len(part["ids"]))]
            yield Batch(list(part["ids"]), same_dim(vectors, self.dim, self.name), payloads)
            start += len(part["ids"])

    def residue(self) -> Residue:
        """Vectors that are only marked in the graph files, and bytes in the unused parts of the database."""
        gone = []
        for header in sorted(self._folder.glob("*/header.bin")):
            elements = header.with_name("data_level0.bin")
            try:
                file = read_header(header, elements, skip=4)
                gone += [vectors[deleted] for _, vectors, deleted in file.parts(10_000) if file.dim == self.dim]
            except (FormatError, OSError):  # another version of Chroma writes other files
                continue
        left = np.concatenate(gone) if gone else np.empty((0, self.dim), dtype=np.float32)
        places = bytes_by_file(left, files_below(self._folder)) if len(left) else {}
        unused = unused_bytes(self._folder / "chroma.sqlite3")
        if unused:
            places["chroma.sqlite3, unused parts"] = unused
        words = [
            f"the vectors of {len(left):,} deleted records are still in the graph files, where Chroma only marks them"
            if len(left)
            else "no deleted vectors in the graph files",
            f"{unused:,} bytes in unused parts of chroma.sqlite3 are not overwritten: deleted texts and metadata"
            if unused
            else "nothing in the unused parts of chroma.sqlite3",
        ]
        return Residue(len(left), left.nbytes + unused, "; ".join(words), places)

    def close(self) -> None:
        """Let go of the folder."""
        close = getattr(self._client, "close", None)
        if close is not None:
            close()


def _metric(configuration: dict[str, Any]) -> str:
    for part in ("hnsw", "spann"):
        space = (configuration.get(part) or {}).get("space")
        if space in ("cosine", "l2", "ip"):
            return str(space)
    return "l2"


def _payload(part: dict[str, Any], place: int) -> dict[str, Any] | None:
    payload = dict((part["metadatas"] or {})[place] or {})
    for column, (name, other) in _TEXTS.items():
        text = part[column][place] if part[column] is not None else None
        if text is not None:
            payload[name if name not in payload else other] = text
    return payload or None
