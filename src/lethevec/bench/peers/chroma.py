"""Chroma: a database on disk, in its own folder."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .peer import F32, Ids, Peer


class Chroma(Peer):
    """A persistent client with one collection."""

    name = "chroma"
    module = "chromadb"

    def start(self, sample: F32, metric: str) -> None:
        chromadb = importlib.import_module("chromadb")
        settings = chromadb.Settings(anonymized_telemetry=False)
        self.client = chromadb.PersistentClient(str(self.folder), settings=settings)
        # A low threshold, so that a small run is written to the vector segment as a large one would be.
        space = {"l2": "l2", "ip": "ip"}.get(metric, "cosine")
        about = {"hnsw:sync_threshold": 500, "hnsw:batch_size": 100, "hnsw:space": space}
        self.collection = self.client.create_collection("vectors", metadata=about)

    def insert(self, vectors: F32, ids: Ids) -> None:
        for start in range(0, len(vectors), 1000):
            part = slice(start, start + 1000)
            self.collection.add(ids=[str(id) for id in ids[part]], embeddings=vectors[part].tolist())

    def delete(self, ids: Ids) -> None:
        self.collection.delete(ids=[str(id) for id in ids])

    def save(self, folder: Path) -> Path:
        """It is saved already: its files are in its own folder."""
        return self.folder

    def erasing(self, ids: Ids, folder: Path) -> Iterator[tuple[str, Path]]:
        self.delete(ids)
        yield "delete", self.folder
        module = importlib.import_module("chromadb")
        places = [Path(sys.executable).parent / "chroma", Path(str(module.__file__)).parents[1] / "bin" / "chroma"]
        tool = shutil.which("chroma") or next((str(place) for place in places if place.exists()), None)
        if tool is not None:
            command = [sys.executable, tool, "vacuum", "--path", str(self.folder), "--force"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            yield ("delete, vacuum" if done.returncode == 0 else "delete, vacuum (failed)"), self.folder

    def search_one(self, query: F32, k: int) -> Ids:
        found = self.collection.query(query_embeddings=[query.tolist()], n_results=k, include=[])["ids"][0]
        return np.array([int(id) for id in found], dtype=np.int64)
