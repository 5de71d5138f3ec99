"""Find all places at which any of many byte patterns stand, in one pass and with bounded work.

Words of 8 bytes are read from the data on a grid of every `grid` bytes. Wherever a pattern of `grid + 7` bytes or more
stands, it covers a whole word of the grid, which is one of its first `grid` words: its anchors. So the longer the
shortest pattern, the fewer places are looked at: with 15 bytes or more, one in eight.

Anchors can be very common (zeros, the same few floats of a vector of small whole numbers), and many patterns can share
one. So a place of the grid is never compared with patterns one by one. An anchor tells at which distances before it a
pattern may begin, at most `grid`; each such beginning is tested against all patterns of one length at once, down a tree
whose steps are whole words and which is walked for many places at a time with NumPy. Whatever the data and patterns, a
byte of the data is tested as a beginning at most once for each length of patterns: `PatternTable.tested` counts them.

Everything here is exact: the tree compares every byte.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["PatternTable"]

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
Bool = npt.NDArray[np.bool_]
Matches = tuple[I64, I64]

_WORD = 8
_MAX_WORDS = 60_000
_PART = 1 << 15  # places of the grid, or matches of a short pattern, that are worked on at a time: bounds the memory
_RUN = 2 * _WORD
_MIX = np.uint64(0x9E3779B97F4A7C15)  # an odd constant whose product spreads the words over the table
_EACH_BYTE = np.uint64(0x0101010101010101)


class PatternTable:
    """Distinct byte patterns, arranged for one pass over any data. A match names its pattern by its number.

    >>> table = PatternTable([b"river of forgetting", b"Lethe"])
    >>> [(places.tolist(), numbers.tolist()) for places, numbers in table.matches(b"Lethe, a river of forgetting")]
    [([0], [1]), ([9], [0])]
    """

    def __init__(self, patterns: Sequence[bytes]) -> None:
        """Arrange the patterns; none may be empty or come twice."""
        self.patterns = list(patterns)
        self.longest = max(map(len, self.patterns), default=1)
        self.tested = 0  # beginnings that were walked down a tree, so far
        self._short = [number for number, pattern in enumerate(self.patterns) if len(pattern) < _WORD]
        by_size: dict[int, list[int]] = defaultdict(list)
        for number, pattern in enumerate(self.patterns):
            if len(pattern) >= _WORD:
                by_size[len(pattern)].append(number)
        wide = len(self.patterns) - len(self._short)
        shortest = min(by_size, default=_WORD)
        # A wide grid makes a large table; with very many patterns that costs more than it saves.
        fits = [g for g in (8, 4, 2, 1) if shortest >= g + _WORD - 1 and (g == 1 or g * wide <= _MAX_WORDS)]
        self._grid = fits[0]
        self._trees = [_Tree(self.patterns, numbers, self._grid) for _, numbers in sorted(by_size.items())]
        # Inside a long run of one byte no pattern begins, but for one that begins with such a run.
        self._runs: Bool = np.zeros(256, dtype=np.bool_)
        for tree in self._trees:
            self._runs |= tree.runs
        # Those of each tree once; to find what two trees share would take longer than all the rest of this.
        words: U64 = np.concatenate([tree.anchors for tree in self._trees] or [np.empty(0, np.uint64)])
        # About a thousand cells for each word, as long as the table stays in the cache: few false alarms.
        bits = min(max(len(words).bit_length() + 10, 12), 22)
        self._shift = np.uint64(64 - bits)
        self._cells: Bool = np.zeros(1 << bits, dtype=np.bool_)
        self._cells[(words * _MIX) >> self._shift] = True

    def matches(self, data: bytes) -> Iterator[Matches]:
        """Every place at which a pattern stands, once, part by part: the places, and the numbers of the patterns."""
        for number in self._short:
            found = _find_all(data, self.patterns[number])
            while part := list(islice(found, _PART)):
                yield np.array(part, dtype=np.int64), np.full(len(part), number, dtype=np.int64)
        if not self._trees or len(data) < _WORD:
            return
        # All words at all offsets, overlapping; as a type without alignment, so that none is copied before it is taken.
        everywhere: npt.NDArray[np.void] = np.ndarray((len(data) - _WORD + 1,), dtype="V8", buffer=data, strides=(1,))
        for lane in range(0, _WORD, self._grid):
            count = (len(data) - lane) // _WORD
            if count <= 0:
                continue
            words: U64 = np.frombuffer(data, dtype="<u8", count=count, offset=lane)
            hits = np.flatnonzero(self._cells[(words * _MIX) >> self._shift])
            for start in range(0, len(hits), _PART):
                part_hits = self._without_runs(words, hits[start : start + _PART])
                found_here = [self._walk(tree, everywhere, words, part_hits, lane) for tree in self._trees]
                places = np.concatenate([places for places, _ in found_here])
                numbers = np.concatenate([numbers for _, numbers in found_here])
                if len(places):
                    order = np.argsort(places, kind="stable")
                    yield places[order], numbers[order]

    def _without_runs(self, words: U64, hits: I64) -> I64:
        """Leave out words amid a run of one byte: files are full of zeros, and so are the anchors of plain vectors."""
        here = words[hits]
        run = (here == (here & np.uint64(0xFF)) * _EACH_BYTE) & ~self._runs[(here & np.uint64(0xFF)).astype(np.intp)]
        inner = np.flatnonzero(run & (hits > 0) & (hits < len(words) - 1))
        if not len(inner):
            return hits
        around = hits[inner]
        inner = inner[(words[around - 1] == here[inner]) & (words[around + 1] == here[inner])]
        keep = np.ones(len(hits), dtype=np.bool_)
        keep[inner] = False
        return hits[keep]

    def _walk(self, tree: _Tree, everywhere: npt.NDArray[np.void], words: U64, hits: I64, lane: int) -> Matches:
        """The matches of one tree's patterns that cover these words."""
        which, known = _look_up(tree.anchors, words[hits])
        hits, which = hits[known], which[known]
        place, distance = np.nonzero(tree.distances[which])
        begin = lane + _WORD * hits[place] - distance
        begin = begin[(begin >= 0) & (begin <= len(everywhere) + _WORD - 1 - tree.size)]
        self.tested += len(begin)
        return tree.walk(everywhere, begin)


class _Tree:
    """Patterns of one length: the words that tell where one may begin, and a tree that tells which one it is.

    A step of the tree is a whole word: a node is a number, and its children are found by the node and the rank of the
    next word, which together are one integer. The last word may overlap the one before, so all bytes are compared.
    """

    def __init__(self, patterns: Sequence[bytes], numbers: list[int], grid: int) -> None:
        self.size = len(patterns[numbers[0]])
        rows = np.frombuffer(b"".join(patterns[number] for number in numbers), dtype=np.uint8)
        rows = rows.reshape(len(numbers), self.size)
        begins = [_words_at(rows, at) for at in range(grid)]
        self.anchors: U64
        self.anchors, which = np.unique(np.concatenate(begins), return_inverse=True)
        self.distances: Bool = np.zeros((len(self.anchors), grid), dtype=np.bool_)
        self.distances[which, np.repeat(np.arange(grid), len(numbers))] = True
        alike = (rows[:, :_RUN] == rows[:, :1]).all(axis=1)
        self.runs: Bool = np.zeros(256, dtype=np.bool_)
        self.runs[rows[alike, 0]] = True
        self._steps: list[tuple[int, U64, I64]] = []
        node: I64 = np.zeros(len(numbers), dtype=np.int64)
        for offset in [*range(0, self.size - _WORD, _WORD), self.size - _WORD]:
            known, rank = np.unique(_words_at(rows, offset), return_inverse=True)
            children, node = np.unique(node * len(known) + rank, return_inverse=True)
            self._steps.append((offset, known, children))
        self._numbers: I64 = np.empty(len(numbers), dtype=np.int64)
        self._numbers[node] = numbers

    def walk(self, everywhere: npt.NDArray[np.void], begin: I64) -> Matches:
        """Of these beginnings those at which a pattern stands, and its number."""
        node: I64 = np.zeros(len(begin), dtype=np.int64)
        for offset, known, children in self._steps:
            if not len(begin):
                break
            rank, is_known = _look_up(known, everywhere[begin + offset].view("<u8"))
            begin, node, rank = begin[is_known], node[is_known], rank[is_known]
            node, is_child = _look_up(children, node * len(known) + rank)
            begin, node = begin[is_child], node[is_child]
        return begin, self._numbers[node] if len(begin) else node


def _look_up(ordered: npt.NDArray[Any], values: npt.NDArray[Any]) -> tuple[I64, Bool]:
    """Where each value is in an ascending array that is not empty, and whether it is there at all."""
    at = np.searchsorted(ordered, values)
    at[at == len(ordered)] = 0
    return at, ordered[at] == values


def _words_at(rows: npt.NDArray[np.uint8], offset: int) -> U64:
    return np.ascontiguousarray(rows[:, offset : offset + _WORD]).view("<u8").ravel()


def _find_all(data: bytes, pattern: bytes) -> Iterator[int]:
    place = data.find(pattern)
    while place >= 0:
        yield place
        place = data.find(pattern, place + 1)
