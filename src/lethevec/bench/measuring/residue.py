"""How much of some vectors is left in the files of a folder."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from lethevec._forgetting.residue import MemorySource, search, vector_needles

from ..peers.peer import F32


def found_of(vectors: F32, folder: Path) -> list[float]:
    """Of each vector, the share that is found in the folder's files, in the encoding of which most is."""
    # Read from a copy that a child makes: this process may hold SQLite connections to these files, and closing a file
    # would drop their locks.
    copy = Path(tempfile.mkdtemp())
    try:
        subprocess.run(["cp", "-r", str(folder), str(copy / "files")], check=True)
        files = [path for path in sorted((copy / "files").rglob("*")) if path.is_file()]
        sources = [MemorySource(path.name, path.read_bytes()) for path in files]
        forms = [vector_needles(vector, str(number)) for number, vector in enumerate(vectors)]
        found = search(sources, [needle for form in forms for needle in form]).bytes_by_label
        return [max(found.get(needle.label, 0) / len(needle.data) for needle in form) for form in forms]
    finally:
        shutil.rmtree(copy)


def beyond(found: list[float], chance: list[float]) -> int:
    """How many vectors are found in part where the survivors do not explain it."""
    return sum(share > expected for share, expected in zip(found, chance, strict=True))
