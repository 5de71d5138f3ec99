"""What is left of a record in the engine: in the memory of Ray's processes, in shared memory, and in files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from tests.ray.engine import ray_processes

#: A record that is like no other, and the bytes that it is looked for by.
VECTOR = np.random.default_rng(77).standard_normal(64).astype(np.float32)
MARKS = {
    "vector": VECTOR[8:24].tobytes(),
    "subject": b"Zaphod Quixotic-Mc-Marker",
    "id": b"an-id-that-is-nowhere-else-9f3",
    "payload": b"a street that is nowhere else 77b",
}


def marks_in(found: list[str]) -> set[str]:
    """Which marks are among what `places_of` found."""
    return {where.rpartition(": ")[2] for where in found}


def places_of(patterns: dict[str, bytes], folders: list[Path]) -> list[str]:
    """Where one of the patterns is: in the memory of Ray's processes, in shared memory, or in files."""
    expression = re.compile(b"|".join(re.escape(pattern) for pattern in patterns.values()))
    names = {pattern: name for name, pattern in patterns.items()}
    found = []
    for pid, words in ray_processes():
        for where, content in memory_of(pid):
            found += [f"{words[:40]}: {where}: {names[match[0]]}" for match in expression.finditer(content)]
    for folder in [*folders, Path("/dev/shm")]:
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                try:
                    content = path.read_bytes()
                except OSError:
                    continue
                found += [f"{path}: {names[match[0]]}" for match in expression.finditer(content)]
    return found


def memory_of(pid: int):
    """The readable memory of a process, piece by piece; shared memory included, which is Ray's object store."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        memory = open(f"/proc/{pid}/mem", "rb", buffering=0)  # noqa: SIM115
    except OSError:
        return
    with memory:
        for line in lines:
            span, rights = line.split(maxsplit=2)[:2]
            if "r" not in rights or line.endswith("[vvar]") or "x" in rights:
                continue
            begin, end = (int(part, 16) for part in span.split("-"))
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
            except (OSError, ValueError, OverflowError):
                continue
            yield line.split(maxsplit=5)[-1][:60], content
