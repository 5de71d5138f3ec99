"""Databases that search under a filter on metadata, each as its own documentation advises: ours, LanceDB and Chroma.

All get the same unit vectors and the same flat metadata, and answer the same questions, given in our language and
translated into theirs.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec

F32 = npt.NDArray[np.float32]
Where = Mapping[str, Any]
_BATCH = 5_000  # the most that every one of them takes at once


class OurStore:
    """A store of ours."""

    name = "lethevec"

    def __init__(self, folder: Path, vectors: F32, payloads: Sequence[dict[str, Any]]) -> None:
        """Load everything."""
        self.path = folder / "filters.lethe"
        self.db = lethevec.open(self.path, dim=vectors.shape[1])
        self.db.load(
            {"vectors": vectors[at : at + 50_000], "ids": range(at, min(len(vectors), at + 50_000)),
             "payloads": payloads[at : at + 50_000]}
            for at in range(0, len(vectors), 50_000)
        )  # fmt: skip

    def search(self, query: F32, k: int, where: Where | None) -> list[int]:
        """Ids, nearest first."""
        return [int(hit.id) for hit in self.db.search(query, k=k, where=where)[0]]

    def count(self, where: Where) -> int:
        """How many pass."""
        return self.db.count(where)

    def close(self) -> None:
        """Close the store."""
        self.db.close()


class LanceDB:
    """A table with an index of the vectors, and a scalar index of each field."""

    name = "lancedb"
    probes = 20  # as its documentation has it

    def __init__(self, folder: Path, vectors: F32, payloads: Sequence[dict[str, Any]]) -> None:
        """Load everything and make the indexes."""
        lancedb = importlib.import_module("lancedb")
        pyarrow = importlib.import_module("pyarrow")
        columns = {field: pyarrow.array([p[field] for p in payloads]) for field in payloads[0] if field != "tags"}
        table = pyarrow.table(
            {
                "id": pyarrow.array(range(len(vectors))),
                "vector": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1]),
                **columns,
            }
        )
        self._table = lancedb.connect(str(folder / "lance")).create_table("records", table)
        self._table.create_index(
            metric="cosine", num_partitions=max(1, int(len(vectors) ** 0.5)), index_type="IVF_FLAT"
        )
        for field in columns:
            self._table.create_scalar_index(field)

    def search(self, query: F32, k: int, where: Where | None) -> list[int]:
        """Ids, nearest first."""
        asked = self._table.search(query).metric("cosine").limit(k).nprobes(self.probes).select(["id"])
        if where is not None:
            asked = asked.where(_sql(where), prefilter=True)
        return [row["id"] for row in asked.to_list()]

    def count(self, where: Where) -> int:
        """How many pass."""
        return int(self._table.count_rows(_sql(where)))

    def close(self) -> None:
        """Nothing to do."""


class WholeLanceDB(LanceDB):
    """The same, looking into every partition: it finds what we find."""

    name = "lancedb, all partitions"
    probes = 1 << 20


class ChromaDB:
    """A collection in a persistent client."""

    name = "chroma"

    def __init__(self, folder: Path, vectors: F32, payloads: Sequence[dict[str, Any]]) -> None:
        """Load everything."""
        chromadb = importlib.import_module("chromadb")
        client = chromadb.PersistentClient(
            str(folder / "chroma"), settings=chromadb.Settings(anonymized_telemetry=False)
        )
        self._collection = client.create_collection("records", metadata={"hnsw:space": "cosine"})
        flat = [{field: value for field, value in p.items() if field != "tags"} for p in payloads]
        for at in range(0, len(vectors), _BATCH):
            part = slice(at, at + _BATCH)
            ids = [str(id) for id in range(at, min(len(vectors), at + _BATCH))]
            self._collection.add(ids=ids, embeddings=vectors[part], metadatas=flat[part])

    def search(self, query: F32, k: int, where: Where | None) -> list[int]:
        """Ids, nearest first."""
        found = self._collection.query(query_embeddings=[query], n_results=k, include=[], where=_one_each(where))
        return [int(id) for id in found["ids"][0]]

    def count(self, where: Where) -> int:
        """How many pass: it has no other way."""
        return len(self._collection.get(where=_one_each(where), include=[])["ids"])

    def close(self) -> None:
        """Nothing to do."""


def peers() -> list[type[LanceDB] | type[ChromaDB]]:
    """Those that are installed."""
    needed: list[tuple[str, type[LanceDB] | type[ChromaDB]]] = [
        ("lancedb", LanceDB),
        ("lancedb", WholeLanceDB),
        ("chromadb", ChromaDB),
    ]
    return [kind for module, kind in needed if importlib.util.find_spec(module) is not None]


def _parts(where: Where) -> list[tuple[str, str, Any]]:
    return [
        (field, name, operand)
        for field, tests in where.items()
        for name, operand in (tests.items() if isinstance(tests, Mapping) else [("$eq", tests)])
    ]


def _sql(where: Where) -> str:
    signs = {"$eq": "=", "$gte": ">=", "$lt": "<"}
    return " AND ".join(f"{field} {signs[name]} {operand!r}" for field, name, operand in _parts(where))


def _one_each(where: Where | None) -> dict[str, Any] | None:
    """Chroma takes one condition, or several in an $and."""
    if where is None:
        return None
    parts = [{field: {name: operand}} for field, name, operand in _parts(where)]
    return parts[0] if len(parts) == 1 else {"$and": parts}
