"""Chroma: a local folder, read through its own package. The files are then searched for what was deleted.

A deleted record can be in four places: in the log (a table in which every record is written whole and which Chroma
empties only up to what its graph files have); in the graph files, where it is marked or not even that yet; in the graph
files of a collection that was dropped, which stay as they are; and in parts of the database that are free.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._extras import need
from .._store.foreign import rows_of
from ..errors import FileError, FormatError
from ._hnsw_file import HnswFile, read_header
from ._left_behind import Prints, bytes_by_file, files_below, unused_bytes
from ._source import F32, Batch, Residue, Source, choose, same_dim

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
        """Records in the log, vectors in graph files, also of dropped collections, and bytes in unused parts."""
        ids, living = self._living()
        logged, log_bytes = self._logged(ids)
        graph = self._in_graph(living)
        places = bytes_by_file(graph, files_below(self._folder)) if len(graph) else {}
        unused = unused_bytes(self._folder / "chroma.sqlite3")
        for place, held in (("log", log_bytes), ("unused parts", unused)):
            if held:
                places[f"chroma.sqlite3, {place}"] = held
        dropped, dropped_bytes = 0, 0
        for file in self._graph_files(own=False):
            held = 4 * file.dim * file.count
            places[f"{file.path.relative_to(self._folder)}, of a dropped collection"] = held
            dropped, dropped_bytes = dropped + file.count, dropped_bytes + held
        both = Prints(graph, unit=self._unit)
        records = dropped + len(graph) + sum(not both.has(vector[None])[0] for vector in logged.values())
        words = [
            f"the vectors of {len(graph):,} deleted records are still in the graph files, where Chroma only marks them"
            if len(graph)
            else "no deleted vectors in the graph files",
            *(
                [f"{len(logged):,} deleted records are still whole in the log of chroma.sqlite3: vectors and texts"]
                if logged
                else []
            ),
            *([f"{dropped:,} vectors are in the graph files of collections that were dropped"] if dropped else []),
            f"{unused:,} bytes in unused parts of chroma.sqlite3 are not overwritten: deleted texts and metadata"
            if unused
            else "nothing in the unused parts of chroma.sqlite3",
        ]
        return Residue(records, graph.nbytes + log_bytes + unused + dropped_bytes, "; ".join(words), places)

    @property
    def _unit(self) -> bool:
        """Whether vectors in the graph files have length 1."""
        return self.metric == "cosine"

    def _living(self) -> tuple[set[int | str], Prints]:
        """The ids of the records, and by what their vectors are told."""
        ids: set[int | str] = set()
        living = Prints(np.empty((0, self.dim), dtype=np.float32), unit=self._unit)
        for batch in self.batches(10_000):
            ids.update(batch.ids)
            living.add(batch.vectors)
        return ids, living

    def _logged(self, living: set[int | str]) -> tuple[dict[str, F32], int]:
        """The vectors of records in the log that are not there any more, by their ids; and their bytes."""
        found: dict[str, F32] = {}
        held = 0
        query = "SELECT id, vector, metadata FROM embeddings_queue WHERE topic LIKE ? AND vector IS NOT NULL"
        try:
            for id, vector, metadata in rows_of(self._folder / "chroma.sqlite3", query, (f"%/{self._collection.id}",)):
                if id not in living and len(vector) == 4 * self.dim:
                    found[id] = np.frombuffer(vector, dtype="<f4").astype(np.float32)
                    held += len(vector) + len((metadata or "").encode("utf-8", "surrogatepass"))
        except FormatError:  # another version of Chroma has other tables
            return {}, 0
        return found, held

    def _in_graph(self, living: Prints) -> F32:
        """Vectors in the graph files of this collection that no record has; and all that are marked as deleted."""
        gone = []
        for file in self._graph_files(own=True):
            if file.dim == self.dim:
                gone += [vectors[marked | ~living.has(vectors)] for _, vectors, marked in file.parts(10_000)]
        return np.concatenate(gone) if gone else np.empty((0, self.dim), dtype=np.float32)

    def _graph_files(self, *, own: bool) -> list[HnswFile]:
        """The graph files of this collection, or those that belong to no collection any more."""
        try:
            rows = rows_of(self._folder / "chroma.sqlite3", "SELECT id, collection FROM segments")
            owners = {str(id): str(collection) for id, collection in rows}
        except FormatError:  # another version of Chroma has other tables
            return []
        found = []
        for header in sorted(self._folder.glob("*/header.bin")):
            owner = owners.get(header.parent.name)
            if owner == str(self._collection.id) if own else owner is None:
                try:
                    found.append(read_header(header, header.with_name("data_level0.bin"), skip=4))
                except (FormatError, OSError):  # another version of Chroma writes other files
                    continue
        return found

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
