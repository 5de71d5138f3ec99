"""LanceDB: a table. Its older versions can be read back, so what was deleted can be counted exactly."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._extras import need
from .._vectors import as_vectors
from ..errors import FormatError, ParameterError
from ._left_behind import bytes_by_file, files_below
from ._source import UNKNOWN_METRIC, Batch, Residue, Source, as_id, choose

__all__ = ["LanceSource"]


class LanceSource(Source):
    """A table: one column of vectors, one of ids, and the rest as payload."""

    def __init__(
        self, location: str, table: str | None, metric: str | None, vector_field: str | None, id_field: str | None
    ) -> None:
        """Open the table and find its columns."""
        lancedb = need("lancedb", "lancedb", "reading a database of LanceDB")
        database = lancedb.connect(location)
        listed = database.list_tables() if hasattr(database, "list_tables") else database.table_names()
        names = [str(name) for name in getattr(listed, "tables", listed)]
        self.name = choose(names, table, location, "table")
        self._location, self._table = location, database.open_table(self.name)
        schema = self._table.schema
        vectors = {name: _numbers_of(schema.field(name).type) for name in schema.names}
        self._vector = choose(
            [name for name, size in vectors.items() if size], vector_field, location, "column of vectors"
        )
        self.dim = int(vectors[self._vector] or 0)
        if id_field is not None and id_field not in schema.names:
            raise ParameterError(f"{location}: expected a column named {id_field!r}, got {', '.join(schema.names)}")
        self._id = id_field if id_field is not None else "id" if "id" in schema.names else None
        known = metric or self._index_metric()
        self.metric = known or "l2"  # what LanceDB searches by where nothing is said
        if known is None:
            self.remarks = (UNKNOWN_METRIC,)
        if self._id is None:
            self.remarks += ("no column of ids was named and none is called id, so records are numbered from 0",)

    def _index_metric(self) -> str | None:
        """Of an index on the vectors, where there is one."""
        for index in self._table.list_indices():
            if self._vector in getattr(index, "columns", []):
                stats = self._table.index_stats(index.name)
                known = {"l2": "l2", "cosine": "cosine", "dot": "ip"}
                distance = str(getattr(stats, "distance_type", "") or "").lower()
                if distance in known:
                    return known[distance]
        return None

    def count(self) -> int:
        """Rows of the newest version."""
        return int(self._table.count_rows())

    def batches(self, size: int) -> Iterator[Batch]:
        """In the order of the table."""
        number = 0
        for part in self._table.search().to_batches(size):
            yield self._batch(part, number)
            number += part.num_rows

    def _batch(self, part: Any, first: int) -> Batch:
        present = part.column(self._vector).is_valid()
        whole = part.filter(present) if not all(present.to_pylist()) else part
        self.without_vector += part.num_rows - whole.num_rows
        rest = [name for name in whole.schema.names if name not in (self._vector, self._id)]
        columns = {name: whole.column(name).to_pylist() for name in rest}
        if self._id is None:
            ids: list[int | str] = list(range(first, first + whole.num_rows))
        else:
            ids = [as_id(id) for id in whole.column(self._id).to_pylist()]
        payloads = [
            _plain({name: values[place] for name, values in columns.items() if values[place] is not None}) or None
            for place in range(whole.num_rows)
        ]
        if not whole.num_rows:
            return Batch([], np.empty((0, self.dim), dtype=np.float32), [])
        return Batch(ids, as_vectors(whole.column(self._vector), self.dim, name=self.name), payloads)

    def residue(self) -> Residue:
        """Vectors of older versions that the newest one does not have, as read through LanceDB itself."""
        versions = sorted(int(one["version"]) for one in self._table.list_versions())
        living = self._rows()
        gone: dict[bytes, Any] = {}
        try:
            for version in versions[:-1]:
                self._table.checkout(version)
                if self._vector in self._table.schema.names:
                    gone |= {key: vector for key, vector in self._rows().items() if key not in living}
        finally:
            self._table.checkout_latest()
        if not gone:
            return Residue(0, 0, f"no deleted vectors in the {len(versions)} versions that are kept")
        vectors = np.stack(list(gone.values()))
        folder = Path(self._location)
        places = bytes_by_file(vectors, files_below(folder)) if folder.is_dir() else {}
        return Residue(
            len(gone),
            vectors.nbytes,
            f"{len(gone):,} deleted or replaced records can be read back from older versions of the table "
            f"({len(versions)} are kept); optimize(cleanup_older_than=...) removes them",
            places,
        )

    def _rows(self) -> dict[bytes, Any]:
        """The vectors of the version that is checked out, by their bytes."""
        found: dict[bytes, Any] = {}
        for part in self._table.search().select([self._vector]).to_batches(10_000):
            column = part.column(self._vector).drop_null()
            if len(column):
                for vector in as_vectors(column, self.dim, name=self.name):
                    found[vector.tobytes()] = vector.copy()
        return found


def _numbers_of(type: Any) -> int | None:
    """How many numbers a column's vectors have; None where it has no vectors."""
    size = getattr(type, "list_size", None)
    return size if size and str(type.value_type) in ("halffloat", "float", "double") else None


def _plain(payload: dict[str, Any]) -> dict[str, Any]:
    """As JSON has it: dates and other types of Arrow become text, and NaN is left out as a null is."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(_without_nan(payload), default=str, allow_nan=False))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"expected columns that JSON can hold, got others: {error}") from None
    return plain


def _without_nan(value: Any) -> Any:
    """pandas writes NaN where a number is missing. Infinities are texts, as PostgreSQL has them in JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items() if not _is_nan(one)}
    return [_without_nan(one) for one in value] if isinstance(value, list) else value


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
