r"""Regular expressions that cannot blow up: a subset of Python's syntax, matched in time linear in the text.

A pattern becomes a list of at most 2,000 instructions, and a match follows all of its ways at once (Thompson's
construction), so there is no backtracking: no pattern takes longer than the length of the text times the number of
instructions. What needs backtracking is not in the language: back references and look-around.

| syntax | what it matches |
|---|---|
| `abc`, `\.`, `\n` `\r` `\t` `\f` `\v` `\0`, `\x41`, `\u00e9`, `\U0001f600` | these characters |
| `.` | any character except a newline |
| `[a-z_]`, `[^0-9]`, `\d` `\w` `\s`, `\D` `\W` `\S` | a class of characters; the short forms are of ASCII |
| `ab|cd`, `(...)`, `(?:...)` | one of several; a group |
| `*` `+` `?` `{3}` `{2,}` `{2,5}` | repetition; a `?` after it is allowed and changes nothing |
| `^` `$` `\b` `\B` | the begin and the end of the text; where a word begins or ends, and where none does |
| `(?i)` at the start | letters match in either case |

A pattern is looked for anywhere in the text; `^` and `$` tie it down.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ParameterError

__all__ = ["MAX_INSTRUCTIONS", "MAX_PATTERN", "Instruction", "Pattern", "compile_pattern"]

MAX_PATTERN = 1_000  # characters
MAX_INSTRUCTIONS = 2_000
_MAX_DEPTH = 50  # groups inside each other
_MAX_TIMES = 1_000

Ranges = tuple[tuple[int, int], ...]

_LAST = 0x10FFFF
_DIGITS: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = ((9, 13), (32, 32))
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_SPECIAL = "\\.[]{}()*+?|^$"


@dataclass(frozen=True)
class Instruction:
    """One step of a match: what it does, where it goes on, and for a character which ones will do.

    `char`: consume a character of `ranges` and go on at the next instruction. `split`: go on at `first` and at
    `second`. `jump`: go on at `first`. `begin`, `end`, `word`, `no_word`: go on at the next if the place is such.
    `match`: done.
    """

    name: str
    first: int = 0
    second: int = 0
    ranges: Ranges = ()


@dataclass(frozen=True)
class Pattern:
    """A pattern that was read, as instructions."""

    text: str
    program: tuple[Instruction, ...]

    def found_in(self, text: str) -> bool:
        """Whether the pattern matches somewhere in the text.

        >>> compile_pattern(r"^(\\w+)@example\\.(com|org)$").found_in("ann@example.org")
        True
        >>> compile_pattern("(a*)*b").found_in("a" * 10_000)
        False
        """
        waiting: set[int] = set()  # at `char` instructions
        for place in range(len(text) + 1):
            reached = self._closure([0, *waiting], text, place)
            if reached is None:
                return True
            if place == len(text):
                return False
            character = ord(text[place])
            waiting = {
                at + 1 for at in reached if any(low <= character <= high for low, high in self.program[at].ranges)
            }
        return False

    def _closure(self, starts: list[int], text: str, place: int) -> set[int] | None:
        """The `char` instructions that can be reached without consuming anything; None if a match can."""
        before = place > 0 and _is_word(text[place - 1])
        after = place < len(text) and _is_word(text[place])
        holds = {"begin": place == 0, "end": place == len(text), "word": before != after, "no_word": before == after}
        seen: set[int] = set()
        stack = list(starts)
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            step = self.program[at]
            if step.name == "match":
                return None
            if step.name in ("split", "jump"):
                stack.append(step.first)
                if step.name == "split":
                    stack.append(step.second)
            elif step.name != "char" and holds[step.name]:
                stack.append(at + 1)
        return {at for at in seen if self.program[at].name == "char"}


def _is_word(character: str) -> bool:
    return any(low <= ord(character) <= high for low, high in _WORD)


def compile_pattern(text: str) -> Pattern:
    """Read a pattern; what it cannot be is refused.

    >>> compile_pattern("a{9}{9}")
    Traceback (most recent call last):
        ...
    lethevec.errors.ParameterError: $regex: expected one repetition of a part, got another at character 4 of 'a{9}{9}'
    """
    if len(text) > MAX_PATTERN:
        raise ParameterError(f"$regex: expected at most {MAX_PATTERN} characters, got {len(text)}")
    parsed = _Parser(text).parse()
    program: list[Instruction] = []
    _emit(parsed, program)
    _append(program, Instruction("match"))
    return Pattern(text, tuple(program))


# --- Reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Chars:
    ranges: Ranges


@dataclass(frozen=True)
class _Place:
    name: str


@dataclass(frozen=True)
class _Sequence:
    parts: tuple[_Part, ...]


@dataclass(frozen=True)
class _Choice:
    parts: tuple[_Part, ...]


@dataclass(frozen=True)
class _Repeat:
    part: _Part
    least: int
    most: int | None


_Part = _Chars | _Place | _Sequence | _Choice | _Repeat


class _Parser:
    """From the left to the right, one character at a time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._fold = text.startswith("(?i)")
        if self._fold:
            self._at = 4

    def parse(self) -> _Part:
        whole = self._choice(0)
        if self._at < len(self._text):
            raise self._error("a group that was opened", "a )")
        return whole

    def _error(self, expected: str, got: str) -> ParameterError:
        return ParameterError(f"$regex: expected {expected}, got {got} at character {self._at} of {self._text!r:.100}")

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else ""

    def _take(self) -> str:
        if self._at >= len(self._text):
            raise self._error("more of the pattern", "its end")
        self._at += 1
        return self._text[self._at - 1]

    def _choice(self, depth: int) -> _Part:
        if depth > _MAX_DEPTH:
            raise self._error(f"at most {_MAX_DEPTH} groups inside each other", "more")
        parts = [self._sequence(depth)]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence(depth))
        return parts[0] if len(parts) == 1 else _Choice(tuple(parts))

    def _sequence(self, depth: int) -> _Part:
        parts: list[_Part] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom(depth)))
        return _Sequence(tuple(parts))

    def _repeated(self, part: _Part) -> _Part:
        times = self._times()
        if times is None:
            return part
        if isinstance(part, _Place):
            raise self._error("something to repeat", "a place in the text")
        if self._peek() == "?":
            self._at += 1  # as few as possible: the same texts match
        if self._peek() in ("*", "+", "?", "{") and self._peek():
            raise self._error("one repetition of a part", "another")
        return _Repeat(part, *times)

    def _times(self) -> tuple[int, int | None] | None:
        mark = self._peek()
        if mark and mark in "*+?":
            self._at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[mark]
        if mark != "{":
            return None
        self._at += 1
        least = self._number()
        most: int | None = least
        if self._peek() == ",":
            self._at += 1
            most = None if self._peek() == "}" else self._number()
        if self._take() != "}" or (most is not None and most < least):
            raise self._error("{m}, {m,} or {m,n} with m up to n", "another repetition")
        return least, most

    def _number(self) -> int:
        begin = self._at
        while self._peek() and self._peek() in "0123456789":
            self._at += 1
        digits = self._text[begin : self._at]
        if not 0 < len(digits) <= 4 or int(digits) > _MAX_TIMES:
            raise self._error(f"a number of times up to {_MAX_TIMES:,}", repr(digits))
        return int(digits)

    def _atom(self, depth: int) -> _Part:
        mark = self._take()
        if mark == "(":
            if self._peek() == "?":
                if self._text[self._at : self._at + 2] != "?:":
                    raise self._error("a group as (...) or (?:...)", "another kind of group")
                self._at += 2
            group = self._choice(depth + 1)
            if self._peek() != ")":
                raise self._error("the end of the group", "the end of the pattern")
            self._at += 1
            return group
        if mark == "[":
            return self._class()
        if mark == ".":
            return _Chars(_complement(((10, 10),)))
        if mark in "^$":
            return _Place("begin" if mark == "^" else "end")
        if mark == "\\":
            if self._peek() and self._peek() in "bB":
                return _Place("word" if self._take() == "b" else "no_word")
            return _Chars(self._escaped())
        if mark in "*+?{":
            raise self._error("something to repeat", repr(mark))
        return _Chars(self._one(mark))

    def _one(self, character: str) -> Ranges:
        ranges = [(ord(character), ord(character))]
        if self._fold:
            others = {character.lower(), character.upper()}
            ranges += [(ord(other), ord(other)) for other in others if len(other) == 1]
        return _merged(ranges)

    def _escaped(self) -> Ranges:
        """After a backslash: a class, or one character."""
        mark = self._take()
        if mark.lower() in _CLASSES:
            ranges = _CLASSES[mark.lower()]
            return ranges if mark.islower() else _complement(ranges)
        if mark in _CONTROLS:
            return self._one(_CONTROLS[mark])
        if mark in "xuU":
            width = {"x": 2, "u": 4, "U": 8}[mark]
            digits = self._text[self._at : self._at + width]
            if len(digits) < width or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise self._error(f"{width} hexadecimal digits after \\{mark}", repr(digits))
            self._at += width
            if int(digits, 16) > _LAST:
                raise self._error("a character of Unicode", repr(digits))
            return self._one(chr(int(digits, 16)))
        if mark in _SPECIAL or not (mark.isalnum() or mark == "_"):
            return self._one(mark)
        raise self._error("an escape that patterns have (docs/filters.md lists them)", repr("\\" + mark))

    def _class(self) -> _Part:
        negated = self._peek() == "^"
        if negated:
            self._at += 1
        ranges: list[tuple[int, int]] = []
        first = True
        while first or self._peek() != "]":
            first = False
            low = self._member()
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._member()
                if len(low) != 1 or len(high) != 1 or low[0][0] != low[0][1] or high[0][0] != high[0][1]:
                    raise self._error("single characters on both sides of - in a class", "others")
                if high[0][0] < low[0][0]:
                    raise self._error("a range from the lower to the higher character", "another")
                ranges.append((low[0][0], high[0][0]))
            else:
                ranges += low
        self._at += 1
        if self._fold:
            ranges += [(low ^ 32, high ^ 32) for low, high in _letters(ranges)]
            ranges += [folded for begin, end in list(ranges) if begin == end for folded in self._one(chr(begin))]
        merged = _merged(ranges)
        return _Chars(_complement(merged) if negated else merged)

    def _member(self) -> Ranges:
        mark = self._take()
        if mark == "\\":
            fold, self._fold = self._fold, False  # the class does it as a whole
            try:
                return self._escaped()
            finally:
                self._fold = fold
        return ((ord(mark), ord(mark)),)


def _letters(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ASCII letters among these, upper and lower case apart."""
    both = ((65, 90), (97, 122))
    cut = [(max(low, begin), min(high, end)) for low, high in ranges for begin, end in both]
    return [(low, high) for low, high in cut if low <= high]


def _merged(ranges: list[tuple[int, int]]) -> Ranges:
    """Ascending, without overlaps."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _complement(ranges: Ranges) -> Ranges:
    others: list[tuple[int, int]] = []
    at = 0
    for low, high in ranges:
        if low > at:
            others.append((at, low - 1))
        at = high + 1
    if at <= _LAST:
        others.append((at, _LAST))
    return tuple(others)


# --- Instructions ----------------------------------------------------------------------------------------------------


def _append(program: list[Instruction], step: Instruction) -> int:
    if len(program) >= MAX_INSTRUCTIONS:
        raise ParameterError(
            f"$regex: expected a pattern of at most {MAX_INSTRUCTIONS} steps, repetitions written out, got more"
        )
    program.append(step)
    return len(program) - 1


def _emit(part: _Part, program: list[Instruction]) -> None:
    if isinstance(part, _Chars):
        _append(program, Instruction("char", ranges=part.ranges))
    elif isinstance(part, _Place):
        _append(program, Instruction(part.name))
    elif isinstance(part, _Sequence):
        for one in part.parts:
            _emit(one, program)
    elif isinstance(part, _Choice):
        jumps: list[int] = []
        for one in part.parts[:-1]:
            split = _append(program, Instruction("split"))
            _emit(one, program)
            jumps.append(_append(program, Instruction("jump")))
            program[split] = Instruction("split", split + 1, len(program))
        _emit(part.parts[-1], program)
        for jump in jumps:
            program[jump] = Instruction("jump", len(program))
    else:
        for _ in range(part.least):
            before = len(program)
            _emit(part.part, program)
            if len(program) == before:
                break  # nothing, however often
        if part.most is None:
            split = _append(program, Instruction("split"))
            _emit(part.part, program)
            _append(program, Instruction("jump", split))
            program[split] = Instruction("split", split + 1, len(program))
        else:
            splits = []
            for _ in range(part.most - part.least):
                splits.append(_append(program, Instruction("split")))
                _emit(part.part, program)
            for split in splits:
                program[split] = Instruction("split", split + 1, len(program))
