"""Looking into a store: records by id, iteration, subjects, search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .._index.tuning import Tuning
from ..errors import FormatError, IdError
from . import rows
from .base import StoreBase
from .connection import translated
from .hits import Hits
from .ids import check_ids
from .rows import Record, Stored
from .where import compile_where

__all__ = ["ReadingStore"]

_PART = 2000  # records held at once by an iteration
_ATTEMPTS = 100  # searches that lose a race against a forget before a damaged file is the likelier cause


class ReadingStore(StoreBase):
    """The operations that change nothing."""

    def __len__(self) -> int:
        """The number of records."""
        with self._session.guard:
            self._refresh()
            return self._session.row.digest.count

    def __contains__(self, id: object) -> bool:
        """Whether there is a record with this id."""
        try:
            ids, _ = check_ids([id])
        except IdError:
            return False
        with self._session.guard, translated(self.path):
            self._refresh()
            return rows.locate(self._session.connection, ids)[0] is not None

    def get(self, ids: Any) -> list[Record]:
        """The records with these ids, in this order; an unknown one is refused."""
        checked, _ = check_ids(ids)
        with self._session.guard, translated(self.path):
            for _ in range(_ATTEMPTS):
                self._refresh()
                slots = self._known_slots(checked)
                found = {record.slot: record.record() for record in self._session.tables.read_slots(slots)}
                if len(found) == len(slots):
                    return [found[slot] for slot in slots]
                # Another process took a record between the two steps.
        raise FormatError(f"{self.path}: expected every record in both tables, got some that are in one")

    def __iter__(self) -> Iterator[Record]:
        """Every record by ascending row (see `ids`), read in parts: what changes meanwhile may or may not be seen."""
        row = 0
        while part := self._read_part(row):
            for stored in part:
                yield stored.record()
            row = part[-1].row + 1

    def _read_part(self, row: int) -> list[Stored]:
        with self._session.guard, translated(self.path):
            self._refresh()
            return self._session.tables.read_from_row(row, _PART)

    def subjects(self) -> dict[str, int]:
        """Every subject with the number of its records, by code point."""
        sql = "SELECT subject, count(*) FROM records WHERE subject IS NOT NULL GROUP BY subject ORDER BY subject"
        with self._session.guard, translated(self.path):
            self._refresh()
            return dict(self._session.connection.execute(sql).fetchall())

    def digest(self) -> str:
        """The digest of configuration and records: the same for every history that ends in the same records."""
        with self._session.guard:
            self._refresh()
            return self._session.row.digest.digest()

    def search(
        self,
        queries: npt.ArrayLike,
        k: int = 10,
        *,
        where: Mapping[str, Any] | None = None,
        effort: float = 1.0,
        threads: int = 1,
    ) -> Hits:
        """The k nearest records to each query, among those that `where` allows (see `where`)."""
        condition = None if where is None else compile_where(where)
        for _ in range(_ATTEMPTS):
            with self._session.guard, translated(self.path):
                self._settle()
                allow = None if condition is None else self._allowed(*condition)
            found = self._mirror.engine.search(queries, k, effort=effort, threads=threads, allow=allow)
            with self._session.guard, translated(self.path):
                hits = self._describe(found.ids, found.distances)
            if hits is not None:
                return hits
            # A record went between the two steps: the answer would have a hole, so search again.
        raise FormatError(f"{self.path}: expected every record of the index in the tables, got some that are not there")

    def tune(
        self, queries: npt.ArrayLike, target_recall: float = 0.9, k: int = 10, *, threads: int | None = None
    ) -> Tuning:
        """The least effort whose recall on these queries reaches the target (see `Index.tune`); changes nothing."""
        self._settle()
        return self._mirror.engine.tune(queries, target_recall, k, threads=threads)

    def _allowed(self, condition: str, parameters: list[Any]) -> npt.NDArray[np.int64]:
        found = self._session.connection.execute(f"SELECT row FROM records WHERE {condition}", parameters).fetchall()
        return np.fromiter((row for (row,) in found), dtype=np.int64, count=len(found))

    def _describe(self, numbers: npt.NDArray[np.int64], distances: npt.NDArray[np.float32]) -> Hits | None:
        """Rows as ids with subjects and payloads; None if one of them is gone by now."""
        wanted = np.unique(numbers[numbers >= 0]).tolist()
        self._session.require_open()
        known = rows.describe(self._session.connection, wanted)
        if len(known) != len(wanted):
            self._refresh()
            return None
        parts = [np.full(numbers.shape, None, dtype=object) for _ in range(3)]
        for place in np.argwhere(numbers >= 0).tolist():
            at = tuple(place)
            for part, value in zip(parts, known[int(numbers[at])], strict=True):
                part[at] = value
        return Hits(parts[0], distances, parts[1], parts[2])
