"""The table `records` by id, number and order: the same in memory and in the file.

Questions are put to the view `alive`, which leaves out what has expired (see `retention`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from ..errors import FormatError, UnknownIdError
from .batch import read_payload
from .ids import STRING_NUMBERS, Id, number_of

__all__ = [
    "describe",
    "expired",
    "ids_in",
    "ids_of",
    "in_order",
    "in_parts",
    "known_slots",
    "locate",
    "marks",
    "occupied",
]

_IN = 500  # parameters of one statement; every SQLite allows 999


def locate(connection: sqlite3.Connection, ids: Sequence[Id], table: str = "alive") -> list[int | None]:
    """The slot of each id, None for those that are not there; with the table `records`, of expired ones too."""
    found: dict[int, tuple[int, str | None]] = {}
    numbers = [number_of(id) for id in ids]
    for part in in_parts(numbers):
        sql = f"SELECT number, slot, name FROM {table} WHERE number IN ({marks(part)})"
        found.update((number, (slot, name)) for number, slot, name in connection.execute(sql, part))
    slots: list[int | None] = []
    for id, number in zip(ids, numbers, strict=True):
        slot, name = found.get(number, (None, None))
        slots.append(slot if name == (id if isinstance(id, str) else None) else None)
    return slots


def known_slots(connection: sqlite3.Connection, ids: Sequence[Id], table: str = "alive") -> list[int]:
    """The slot of each id; one that is not there is refused."""
    found = locate(connection, ids, table)
    missing = [id for id, slot in zip(ids, found, strict=True) if slot is None]
    if missing:
        raise UnknownIdError(
            f"ids: expected ids that are in the store, got {missing[0]!r}, which is not ({len(missing)} are not)"
        )
    return [slot for slot in found if slot is not None]


def in_order(connection: sqlite3.Connection, after: Id | None, limit: int) -> list[tuple[int, Id]]:
    """Up to `limit` slots and ids in the order of ids (see `ids`): those after one, which need not be there."""
    found: list[tuple[int, Id]] = []
    keys = [] if after is None else [(isinstance(after, str), after)]
    if not isinstance(after, str):
        least = -1 if after is None else after
        for condition in (
            f"number > ? AND number < {STRING_NUMBERS}",
            f"number > ? AND number >= {STRING_NUMBERS} AND name IS NULL",
        ):
            sql = f"SELECT slot, number FROM alive WHERE {condition} ORDER BY number LIMIT ?"
            found += connection.execute(sql, (least, limit - len(found))).fetchall()
        after = ""
    sql = "SELECT slot, name FROM alive WHERE name IS NOT NULL AND name > ? ORDER BY name LIMIT ?"
    found += connection.execute(sql, (after, limit - len(found))).fetchall()
    # Who reads on after the last one of them must come to an end.
    keys += [(type(id) is str, id) for _, id in found]
    if not {type(id) for _, id in found} <= {int, str} or any(b <= a for a, b in pairwise(keys)):
        raise FormatError("records: expected ids in their order, got others: the file is damaged")
    return found


def ids_in(connection: sqlite3.Connection, slots: Sequence[int]) -> list[Id]:
    """The ids of the records in these slots."""
    found: list[Id] = []
    for part in in_parts(slots):
        sql = f"SELECT ifnull(name, number) FROM records WHERE slot IN ({marks(part)})"
        found += [id for (id,) in connection.execute(sql, part)]
    return found


def ids_of(connection: sqlite3.Connection, numbers: Sequence[int]) -> list[tuple[int, Id]]:
    """Slots and ids of these numbers, as far as they are there."""
    found: list[tuple[int, Id]] = []
    for part in in_parts(numbers):
        sql = f"SELECT slot, ifnull(name, number) FROM alive WHERE number IN ({marks(part)})"
        found += connection.execute(sql, part).fetchall()
    return found


def occupied(connection: sqlite3.Connection, numbers: Sequence[int]) -> list[int]:
    """Those of the numbers that some record has, whichever id it goes by."""
    taken: list[int] = []
    for part in in_parts(numbers):
        sql = f"SELECT number FROM records WHERE number IN ({marks(part)})"
        taken.extend(number for (number,) in connection.execute(sql, part))
    return taken


def expired(connection: sqlite3.Connection, numbers: Sequence[int]) -> list[int]:
    """The slots of those of the numbers whose records have expired."""
    slots: list[int] = []
    for part in in_parts(numbers):
        sql = f"SELECT slot FROM records WHERE number IN ({marks(part)}) AND expires <= (SELECT now FROM temp.clock)"
        slots.extend(slot for (slot,) in connection.execute(sql, part))
    return slots


def describe(
    connection: sqlite3.Connection, numbers: Sequence[int]
) -> dict[int, tuple[Id, str | None, dict[str, Any] | None]]:
    """Id, subject and payload of these numbers, as far as they are there."""
    found: dict[int, tuple[Id, str | None, dict[str, Any] | None]] = {}
    for part in in_parts(numbers):
        sql = f"SELECT number, name, subject, payload FROM alive WHERE number IN ({marks(part)})"
        for number, name, subject, payload in connection.execute(sql, part):
            id = number if name is None else name
            found[number] = (id, subject, read_payload(payload))
    return found


def in_parts(values: Sequence[int]) -> Iterator[Sequence[int]]:
    """As many values at a time as one statement takes."""
    for start in range(0, len(values), _IN):
        yield values[start : start + _IN]


def marks(part: Sequence[int]) -> str:
    """A question mark for each value."""
    return ",".join("?" * len(part))
