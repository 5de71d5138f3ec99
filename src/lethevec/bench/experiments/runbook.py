"""Runbooks: the steps of a stream, in the format of the streaming track of big-ann-benchmarks.

A YAML file with one mapping for each data set, from step numbers to operations, and a few further keys:

    words:
      max_pts: 10000
      1:
        operation: "insert"
        start: 0
        end: 5000
      2:
        operation: "search"
      3:
        operation: "delete"
        start: 0
        end: 1000

`start` to `end` (not included) are rows of the data set, and their ids. `replace` gives the ids `tags_start` to
`tags_end` the vectors of the rows `ids_start` to `ids_end`. This much YAML is read here and no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lethevec.errors import FormatError

OPERATIONS = ("insert", "delete", "search", "replace")


@dataclass(frozen=True)
class Step:
    """One operation: on ids `start` to `end`, with the vectors of as many rows from `rows` on (None for a search)."""

    operation: str
    start: int = 0
    end: int = 0
    rows: int = 0


def read(path: Path, data: str) -> list[Step]:
    """The steps for a data set, by number. A file with one data set serves any."""
    whole = _parse(path)
    name = data if data in whole else next(iter(whole)) if len(whole) == 1 else None
    if name is None:
        raise FormatError(f"{path}: expected steps for {data!r}, got those for {', '.join(map(repr, whole))}")
    steps = []
    for number in sorted(int(key) for key in whole[name] if key.isdigit()):
        fields = whole[name][str(number)]
        if not isinstance(fields, dict):
            raise FormatError(f"{path}, step {number}: expected an operation, got {fields!r}")
        steps.append(_step(f"{path}, step {number}", fields))
    if not steps:
        raise FormatError(f"{path}: expected numbered steps for {name!r}, got none")
    return steps


def _step(where: str, fields: dict[str, str]) -> Step:
    operation = fields.get("operation")
    if operation not in OPERATIONS:
        raise FormatError(f"{where}: expected an operation of {', '.join(OPERATIONS)}, got {operation!r}")
    if operation == "search":
        return Step("search")

    def number(key: str) -> int:
        value = fields.get(key, "")
        if not value.isdigit():
            raise FormatError(f"{where}: expected {key} to be a row number, got {value!r}")
        return int(value)

    if operation == "replace":
        step = Step("replace", number("tags_start"), number("tags_end"), number("ids_start"))
        if number("ids_end") - step.rows != step.end - step.start:
            raise FormatError(f"{where}: expected as many rows as ids, got other numbers of them")
        return step
    step = Step(operation, number("start"), number("end"), number("start"))
    if step.end <= step.start:
        raise FormatError(f"{where}: expected end to be greater than start={step.start}, got {step.end}")
    return step


def _parse(path: Path) -> dict[str, dict[str, dict[str, str] | str]]:
    """Data set, then key, then a scalar or the fields of a step; the depth of a line is told by its indentation."""
    sets: dict[str, dict[str, dict[str, str] | str]] = {}
    outer: dict[str, dict[str, str] | str] = {}
    inner: dict[str, str] = {}
    depths: list[int] = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = text.split(" #")[0].rstrip()
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        depth = len(line) - len(line.lstrip())
        key, colon, value = line.strip().partition(":")
        key, value = key.strip().strip("\"'"), value.strip().strip("\"'")
        while depths and depth < depths[-1]:
            depths.pop()
        if not depths or depth > depths[-1]:
            depths.append(depth)
        level = len(depths)
        if not colon or depth != depths[-1] or level > 3 or (level == 1) != (depth == 0) or (level == 1 and value):
            raise FormatError(f"{path}, line {number}: expected 'key: value' of a runbook, got {text.strip()!r}")
        if level == 1:
            outer = sets.setdefault(key, {})
        elif level == 2:
            inner = {}
            outer[key] = value or inner
        else:
            inner[key] = value
    return sets


def make(records: int, *, rounds: int = 8) -> list[Step]:
    """A sliding window: half of the records at first; then, in each round, insert some, delete the oldest, search."""
    window = records // 2
    each = (records - window) // rounds
    steps = [Step("insert", 0, window, 0), Step("search")]
    for turn in range(rounds):
        first = window + turn * each
        steps.append(Step("insert", first, first + each, first))
        steps.append(Step("delete", turn * each, (turn + 1) * each, turn * each))
        steps.append(Step("search"))
    return steps


def write(path: Path, data: str, steps: Iterable[Step]) -> None:
    """Write steps so that the streaming track reads them too."""
    steps = list(steps)
    highest = max((step.end for step in steps), default=0)
    lines = [f"{data}:", f"  max_pts: {highest}"]
    for number, step in enumerate(steps, 1):
        lines += [f"  {number}:", f'    operation: "{step.operation}"']
        if step.operation == "replace":
            lines += [f"    tags_start: {step.start}", f"    tags_end: {step.end}"]
            lines += [f"    ids_start: {step.rows}", f"    ids_end: {step.rows + step.end - step.start}"]
        elif step.operation != "search":
            lines += [f"    start: {step.start}", f"    end: {step.end}"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
