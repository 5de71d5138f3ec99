"""Search raw bytes for what should be gone: vectors, ids, subjects, payloads, in every encoding we can think of.

A needle is cut into windows (16 bytes every 8, for binary data; 24 every 8, for text), and every window is looked for
at every byte offset, so that a piece of a half overwritten record is found too: any surviving run of 23 bytes (31 of
text) contains a whole window. Shorter needles are looked for as a whole.

A window can be too plain to mean anything: fewer than 6 bytes (8 of text), or fewer than 4 different ones (runs of
zeros, small integers), or fewer than 4 that differ from the most frequent one, match by accident everywhere. Those are
counted as `plain` and not looked for, and the report says so.

One pass over the data whatever the number of needles (see `patterns`). What living records have too is dropped without
being looked at place by place: vectors of small whole numbers have many windows in common.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .._progress import Progress
from .patterns import PatternTable

__all__ = [
    "Finding",
    "MemorySource",
    "Needle",
    "Paged",
    "Report",
    "Source",
    "id_needles",
    "search",
    "text_needles",
    "vector_needles",
]

_BLOCK = 1 << 22
_MIN_BYTES = 6
_MIN_TEXT = 8
_MIN_DISTINCT = 4
_MIN_OTHERS = 4  # bytes that differ from the most frequent one
_INNOCENT, _GUILTY = 1, 2  # what is known of a window that was found


@dataclass(frozen=True)
class Needle:
    """Some bytes to look for, and what they are."""

    label: str
    data: bytes
    text: bool = False
    step: int = 8  # bytes from one window to the next

    def windows(self) -> Iterator[tuple[int, bytes]]:
        """The pieces that are looked for, with their offsets in the needle."""
        size = 24 if self.text else 16
        if len(self.data) <= size:
            yield 0, self.data
            return
        last = len(self.data) - size
        for offset in [*range(0, last, self.step), last]:
            yield offset, self.data[offset : offset + size]


@dataclass(frozen=True)
class Finding:
    """One window of a needle at one place."""

    source: str
    offset: int
    label: str
    data: bytes


@dataclass
class Report:
    """What was searched, for how many patterns, and what was found."""

    searched: dict[str, int] = field(default_factory=dict)
    patterns: int = 0
    plain: int = 0
    findings: list[Finding] = field(default_factory=list)
    bytes_by_label: dict[str, int] = field(default_factory=dict)

    @property
    def bytes_found(self) -> int:
        """How many bytes of needles were found somewhere, each counted once."""
        return sum(self.bytes_by_label.values())

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Numbers only, for a receipt: nothing of what was looked for."""
        return {
            "searched": dict(self.searched),
            "patterns": self.patterns,
            "plain": self.plain,
            "found": len(self.findings),
        }


class Source(Protocol):
    """Something to search: a name and blocks of bytes, with the offset of each. Blocks that follow on are joined."""

    @property
    def name(self) -> str:
        """What findings call it."""
        ...

    @property
    def length(self) -> int:
        """About how many bytes there are, for a progress line."""
        ...

    def blocks(self, size: int) -> Iterable[tuple[int, bytes]]:
        """The content, in order."""
        ...


@dataclass(frozen=True)
class MemorySource:
    """Bytes in memory, as a source."""

    name: str
    data: bytes

    @property
    def length(self) -> int:
        """How many bytes there are."""
        return len(self.data)

    def blocks(self, size: int) -> Iterator[tuple[int, bytes]]:
        """The content, in order."""
        for start in range(0, len(self.data), size):
            yield start, self.data[start : start + size]


@dataclass(frozen=True)
class Paged:
    """A source of pages: of every `size` bytes the first `used` belong together, and nothing goes on from page to page.

    What stands across the end of a page is an accident: the end of somebody's numbers, and zeros after it.
    """

    source: Source
    size: int
    used: int

    @property
    def name(self) -> str:
        """What findings call it."""
        return self.source.name

    @property
    def length(self) -> int:
        """How many bytes there are."""
        return self.source.length

    def blocks(self, size: int) -> Iterable[tuple[int, bytes]]:
        """The content, in order."""
        return self.source.blocks(size)


def vector_needles(vector: npt.NDArray[np.float32], label: str = "vector", *, own_only: bool = False) -> list[Needle]:
    """A vector as other programs might have written it; `own_only`: only as this store writes it (float32 LE).

    float32 and float64 in both byte orders, float16, scaled to length 1, JSON with float32 and float64 digits, with and
    without spaces, base64 in its three alignments, and hexadecimal.
    """
    flat = np.ascontiguousarray(vector, dtype=np.float32).ravel()
    raw = flat.astype("<f4", copy=False).tobytes()
    needles = [Needle(f"{label} float32 LE", raw)]
    if own_only:
        return needles
    needles += [
        Needle(f"{label} float32 BE", flat.astype(">f4").tobytes()),
        Needle(f"{label} float64 LE", flat.astype("<f8").tobytes()),
        Needle(f"{label} float64 BE", flat.astype(">f8").tobytes()),
    ]
    with np.errstate(over="ignore"):
        needles.append(Needle(f"{label} float16 LE", flat.astype("<f2").tobytes()))
    norm = np.float32(np.linalg.norm(flat))
    if norm > 0 and np.isfinite(norm):
        needles.append(Needle(f"{label} of length 1, float32 LE", (flat / norm).astype("<f4").tobytes()))
    for digits, values in (("float64", [repr(float(v)) for v in flat]), ("float32", [str(v) for v in flat])):
        for gap in (",", ", "):
            needles.append(Needle(f"{label} JSON {digits} {gap!r}", gap.join(values).encode(), text=True))
    needles += _base64_needles(label, raw)
    needles.append(Needle(f"{label} hexadecimal", raw.hex().encode(), text=True))
    return needles


def text_needles(text: str, label: str) -> list[Needle]:
    """A text as UTF-8 and as a JSON string would hold it."""
    needles = [Needle(f"{label} UTF-8", text.encode("utf-8", "surrogatepass"), text=True)]
    escaped = json.dumps(text)[1:-1]
    if escaped != text:
        needles.append(Needle(f"{label} JSON escapes", escaped.encode(), text=True))
    return needles


def id_needles(id: int | str, *, own_only: bool = False) -> list[Needle]:
    """An id: a string as text; an int in 8 bytes of both orders, as SQLite stores it, as a varint and as digits.

    `own_only`: only as this store writes it.
    """
    if isinstance(id, str):
        return text_needles(id, "id")
    if own_only:
        return [Needle("id SQLite integer", _sqlite_integer(id))]
    forms = {
        "int64 LE": id.to_bytes(8, "little", signed=True),
        "int64 BE": id.to_bytes(8, "big", signed=True),
        "SQLite integer": _sqlite_integer(id),
        "SQLite varint": _sqlite_varint(id),
        "digits": str(id).encode(),
    }
    unique: dict[bytes, str] = {}
    for name, data in forms.items():
        unique.setdefault(data, name)
    return [Needle(f"id {name}", data, text=name == "digits") for data, name in unique.items()]


def search(
    sources: Iterable[Source], needles: Iterable[Needle], explained: Callable[[Finding], bool] | None = None
) -> Report:
    """Look for every needle in every source. `explained` may call a finding innocent (a living record has it too)."""
    inquiry = _Inquiry(needles, explained)
    searched = inquiry.report.searched
    given = list(sources)
    with Progress(sum(source.length for source in given), "searching for what is left", unit="bytes") as progress:
        for source in given:
            searched[source.name] = searched.get(source.name, 0) + _search_source(source, inquiry, progress)
    inquiry.count_bytes()
    return inquiry.report


def _search_source(source: Source, inquiry: _Inquiry, progress: Progress) -> int:
    """Search one source block by block; its bytes."""
    table = inquiry.table
    size = 0
    tail, tail_at = b"", 0
    for offset, block in source.blocks(_BLOCK):
        joined = tail_at + len(tail) == offset
        data, start = (tail + block, tail_at) if joined else (block, offset)
        seen = len(tail) if joined else 0
        for places, numbers in table.matches(data):
            if isinstance(source, Paged):
                inside = (start + places) % source.size + inquiry.sizes[numbers] <= source.used
                places, numbers = places[inside], numbers[inside]
            inquiry.judge(source.name, start, seen, places, numbers)
        keep = min(len(data), table.longest - 1)
        tail, tail_at = (data[-keep:], start + len(data) - keep) if keep else (b"", 0)
        size += len(block)
        progress.advance(len(block))
    return size


class _Inquiry:
    """The windows of all needles, what is known of each of them, and the report."""

    def __init__(self, needles: Iterable[Needle], explained: Callable[[Finding], bool] | None) -> None:
        self._needles = list(needles)
        self._explained = explained
        where: dict[bytes, list[tuple[int, int]]] = defaultdict(list)  # of each window: needles, and offsets in them
        plain = 0
        looked = [(number, *piece) for number, needle in enumerate(self._needles) for piece in needle.windows()]
        for (number, at, window), varied in zip(looked, _are_varied([one[2] for one in looked]), strict=True):
            if not varied and _is_plain(window, self._needles[number].text):
                plain += 1
            else:
                where[window].append((number, at))
        self.table = PatternTable(list(where))
        self.report = Report(patterns=len(where), plain=plain)
        self._where = list(where.values())
        self.sizes = np.array([len(window) for window in where], dtype=np.int64)
        self._known = np.zeros(len(where), dtype=np.uint8)

    def judge(
        self, source: str, start: int, seen: int, places: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
    ) -> None:
        """Report these windows, but for the innocent and for those wholly inside what the last block already showed."""
        new = (places + self.sizes[numbers] > seen) & (self._known[numbers] != _INNOCENT)
        places, numbers = places[new], numbers[new]
        unknown, first = np.unique(numbers, return_index=True)
        for number, at in zip(unknown.tolist(), first.tolist(), strict=True):
            if not self._known[number]:
                asked = self._finding(source, start + int(places[at]), number, self._where[number][0][0])
                innocent = self._explained is not None and self._explained(asked)
                self._known[number] = _INNOCENT if innocent else _GUILTY
        guilty = self._known[numbers] == _GUILTY
        for place, number in zip(places[guilty].tolist(), numbers[guilty].tolist(), strict=True):
            for needle, _ in self._where[number]:
                self.report.findings.append(self._finding(source, start + place, number, needle))

    def count_bytes(self) -> None:
        """Put into the report how many bytes of each label were found."""
        covered: dict[int, set[int]] = defaultdict(set)
        for number in np.flatnonzero(self._known == _GUILTY).tolist():
            for needle, at in self._where[number]:
                covered[needle].update(range(at, at + len(self.table.patterns[number])))
        for needle, bytes_found in covered.items():
            label = self._needles[needle].label
            self.report.bytes_by_label[label] = self.report.bytes_by_label.get(label, 0) + len(bytes_found)

    def _finding(self, source: str, place: int, number: int, needle: int) -> Finding:
        return Finding(source, place, self._needles[needle].label, self.table.patterns[number])


def _is_plain(window: bytes, text: bool) -> bool:
    """Whether a window would match by accident: too short, or little more than a run of one byte."""
    distinct = len(set(window))
    if len(window) < (_MIN_TEXT if text else _MIN_BYTES) or distinct < _MIN_DISTINCT:
        return True
    if distinct > _MIN_OTHERS:  # each of the others is there at least once: nearly every window ends here
        return False
    return len(window) - max(map(window.count, set(window))) < _MIN_OTHERS


def _are_varied(windows: Sequence[bytes]) -> list[bool]:
    """Of which windows it can be told at once that they are not plain; there are thousands of them after a forget."""
    varied = np.zeros(len(windows), dtype=np.bool_)
    by_size: dict[int, list[int]] = defaultdict(list)
    for place, window in enumerate(windows):
        by_size[len(window)].append(place)
    for size, places in by_size.items():
        if size >= _MIN_TEXT:
            rows = np.frombuffer(b"".join([windows[place] for place in places]), dtype=np.uint8).reshape(-1, size)
            ordered = np.sort(rows, axis=1)
            varied[places] = (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1) >= _MIN_OTHERS
    return varied.tolist()


def _base64_needles(label: str, raw: bytes) -> list[Needle]:
    """In a longer base64 text the vector starts at byte 0, 1 or 2 of a group of three; whole groups are searched."""
    needles = []
    for lead in range(3):
        body = raw[(3 - lead) % 3 :]
        text = base64.b64encode(body[: len(body) // 3 * 3])
        needles.append(Needle(f"{label} base64, alignment {lead}", text, text=True))
    return needles


def _sqlite_integer(value: int) -> bytes:
    """An integer column as SQLite's record format stores it: big-endian in 1, 2, 3, 4, 6 or 8 bytes."""
    for size in (1, 2, 3, 4, 6, 8):
        if -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1):
            return value.to_bytes(size, "big", signed=True)
    raise OverflowError(value)


def _sqlite_varint(value: int) -> bytes:
    """A rowid as SQLite writes it: 7 bits a byte, high bits first, the ninth byte whole."""
    value &= (1 << 64) - 1
    if value >> 56:
        head = [0x80 | (value >> (8 + 7 * i)) & 0x7F for i in range(7, -1, -1)]
        return bytes([*head, value & 0xFF])
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(0x80 | value & 0x7F)
    return bytes(reversed(groups))
