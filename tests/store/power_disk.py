"""What a disk may hold after a power cut, from the trace of everything that a process did to the files of a folder, and
of the folders in it.

The rules are the strict ones of POSIX, and no real file system is as bad. What was written to a file is safe when that
file has been synced, and a name that was made, renamed or removed when its folder has been. Of everything since then
any part may be there, in any order: whole writes or single sectors of them, lengths with or without the bytes, new
names without old ones. SQLite's shared memory (`-shm`) is lost, as it lies in memory.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pytest

__all__ = ["MODES", "Disk", "Event", "build_library", "points", "trace"]

SECTOR = 512
MODES = ("nothing", "everything", "in order", "writes", "sectors")
_EVENT = struct.Struct("=IIQQ")


def build_library(folder: Path) -> Path:
    """Compile power_trace.c; the test is skipped where that cannot be."""
    if not sys.platform.startswith("linux"):
        pytest.skip("calls are traced by LD_PRELOAD, on Linux alone")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to build the library that traces calls")
    library = folder / "power_trace.so"
    source = Path(__file__).with_name("power_trace.c")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return library


@dataclass(frozen=True)
class Event:
    """One call: C creates, W writes, T sets a length, F syncs a file and N the names of a folder, D makes a folder, R
    renames, U unlinks, and S says on stdout."""

    kind: str
    file: int
    offset: int
    data: bytes


def trace(library: Path, folder: Path, module: str, *arguments: object) -> list[Event]:
    """Let a worker, a module of the tests, do its work, and return what it did to the files of the folder."""
    path = folder.with_suffix(".trace")
    environment = os.environ | {"LD_PRELOAD": str(library), "POWER_FOLDER": str(folder), "POWER_TRACE": str(path)}
    command = [sys.executable, "-m", module, *map(str, arguments)]
    root = Path(__file__).parents[2]
    subprocess.run(command, cwd=root, env=environment, check=True, stdout=subprocess.PIPE, timeout=600)
    events = _read_trace(path)
    path.unlink()
    return events


def points(events: list[Event], choose: random.Random, count: int) -> list[int]:
    """Before which events the power goes: anywhere, before a sync, and after something was said."""
    syncs = [place for place, event in enumerate(events) if event.kind == "F"]
    said = [place + 1 for place, event in enumerate(events) if event.kind == "S"]
    third = count // 3
    chosen = choose.choices(range(len(events) + 1), k=third) + choose.choices(syncs, k=third)
    return sorted(chosen + choose.choices(said, k=count - 2 * third))


def _read_trace(path: Path) -> list[Event]:
    data, at, events = path.read_bytes(), 0, []
    while at < len(data):
        kind, length, file, offset = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        events.append(Event(chr(kind), file, offset, data[at : at + length]))
        at += length
    return events


@dataclass
class _Write:
    """Bytes at an offset, or a new length if there are none."""

    offset: int
    data: bytes | None

    def apply(self, to: bytearray) -> None:
        if self.data is None:
            del to[self.offset :]
            to.extend(bytes(self.offset - len(to)))
        else:
            to.extend(bytes(max(0, self.offset - len(to))))
            to[self.offset : self.offset + len(self.data)] = self.data

    def sectors(self) -> Iterator[_Write]:
        if self.data is None:
            yield self
            return
        start, end = self.offset, self.offset + len(self.data)
        while start < end:
            stop = min(end, (start // SECTOR + 1) * SECTOR)
            yield _Write(start, self.data[start - self.offset : stop - self.offset])
            start = stop


@dataclass(eq=False)
class _File:
    """What the disk has of a file for certain, what was done since, and what the process sees."""

    safe: bytearray = field(default_factory=bytearray)
    since: list[_Write] = field(default_factory=list)
    seen: bytearray = field(default_factory=bytearray)

    def do(self, write: _Write) -> None:
        write.apply(self.seen)
        self.since.append(write)

    def sync(self) -> None:
        self.safe, self.since = bytearray(self.seen), []

    def survivor(self, choose: random.Random, mode: str, chance: float) -> bytes:
        """One of the contents that may be there."""
        if mode in ("nothing", "everything"):
            return bytes(self.safe if mode == "nothing" else self.seen)
        content, kept = bytearray(self.safe), self.since
        if mode == "in order":
            kept = kept[: choose.randint(0, len(kept))]
            if kept and kept[-1].data is not None:
                kept = [*kept[:-1], *_part(choose, list(kept[-1].sectors()))]
        else:
            pieces = [piece for write in kept for piece in (write.sectors() if mode == "sectors" else [write])]
            kept = [piece for piece in pieces if choose.random() < chance]
        for write in kept:
            write.apply(content)
        if mode == "sectors" and choose.random() < 0.3:  # the length is there, and the bytes are not
            content.extend(bytes(max(0, len(self.seen) - len(content))))
        return bytes(content)


@dataclass(frozen=True)
class _Naming:
    """`new` names the file from now on (or a folder, where it is None), and `old` nothing any more; one may be missing.
    Both are paths in one folder."""

    old: str | None
    new: str | None
    file: _File | None

    @property
    def parent(self) -> str:
        """The folder that has to be synced for it."""
        return _parent(self.new or self.old or "")

    def apply(self, to: dict[str, _File | None]) -> None:
        if self.old is not None:
            to.pop(self.old, None)
        if self.new is not None:
            to[self.new] = self.file


class Disk:
    """A folder, followed through a trace."""

    def __init__(self, folder: Path) -> None:
        """All that lies there is safe."""
        self._files: dict[int, _File] = {}
        self._safe: dict[str, _File | None] = {}  # by path below the folder; None for a folder
        self._since: list[_Naming] = []
        for name, content in _contents(folder).items():
            file = None if content is None else _File(bytearray(content), [], bytearray(content))
            self._safe[name] = file
            if file is not None:
                self._files[(folder / name).stat().st_ino] = file
        self._seen = dict(self._safe)

    def follow(self, event: Event) -> None:
        """One call."""
        text = event.data.decode() if event.kind in "CDNRU" else ""
        if event.kind == "C":
            file = self._files[event.file] = _File()  # also where the number was that of a file that is gone
            self._name(_Naming(None, text, file))
        elif event.kind == "D":
            self._name(_Naming(None, text, None))
        elif event.kind == "R":
            old, new = text.split("\n")
            self._name(_Naming(old, new, self._files[event.file]))
        elif event.kind == "U":
            if not text.endswith("-shm"):
                self._name(_Naming(text, None, None))
        elif event.kind == "N":
            for naming in self._since:
                if naming.parent == text:
                    naming.apply(self._safe)
            self._since = [naming for naming in self._since if naming.parent != text]
        elif event.kind == "F":
            self._files[event.file].sync()
        elif event.kind in "WT":
            self._files[event.file].do(_Write(event.offset, event.data if event.kind == "W" else None))

    def _name(self, naming: _Naming) -> None:
        naming.apply(self._seen)
        self._since.append(naming)

    def names(self) -> list[str]:
        """The files that the process sees, by their paths below the folder."""
        return [name for name, file in self._seen.items() if file is not None]

    def read(self, name: str) -> bytes:
        """What the process sees under a name; nothing if there is no such file."""
        file = self._seen.get(name)
        return b"" if file is None else bytes(file.seen)

    def at_risk(self) -> int:
        """How many writes and names may be lost, without those of files whose content means nothing."""
        both = [*self._safe.items(), *self._seen.items()]
        files = {file for name, file in both if file is not None and not name.endswith(("-lock", "-reserve"))}
        names = [one for one in self._since if not (one.new or one.old or "").endswith(("-lock", "-reserve"))]
        return len(names) + sum(len(file.since) for file in files)

    def cut(self, folder: Path, choose: random.Random, mode: str) -> None:
        """Make a folder of what may be left when the power goes now."""
        chance = choose.choice((0.1, 0.5, 0.9))
        names = dict(self._safe)
        if mode == "everything":
            kept = self._since
        elif mode == "in order":
            kept = self._since[: choose.randint(0, len(self._since))]
        else:
            kept = [one for one in self._since if mode != "nothing" and choose.random() < chance]
        for naming in kept:
            naming.apply(names)
        folder.mkdir()
        for name, file in sorted(names.items(), key=lambda named: named[0]):  # a folder before what is in it
            place = folder / name
            if not place.parent.exists():  # its name was lost, and with it all that it held
                continue
            if file is None:
                place.mkdir(mode=0o700)
                continue
            place.write_bytes(file.survivor(choose, mode, chance))
            place.chmod(0o600)

    def differences(self, folder: Path) -> list[str]:
        """Names and contents that are not what the trace says; none, or the trace has a gap."""
        there = {name: content for name, content in _contents(folder).items() if not name.endswith("-shm")}
        seen = {name: None if file is None else bytes(file.seen) for name, file in self._seen.items()}
        absent = object()
        return sorted(name for name in there.keys() | seen if there.get(name, absent) != seen.get(name, absent))


def _parent(name: str) -> str:
    parent = str(PurePosixPath(name).parent)
    return "" if parent == "." else parent


def _contents(folder: Path) -> dict[str, bytes | None]:
    """All files by their paths below the folder; None for folders."""
    paths = sorted(folder.rglob("*"))
    return {path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes() for path in paths}


def _part(choose: random.Random, pieces: list[_Write]) -> list[_Write]:
    return pieces[: choose.randint(0, len(pieces))]
