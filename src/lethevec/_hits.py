"""What a search gives back, from an index or from a store.

The arrays always have one row for each query, also for a single query. In a row, answers come by ascending distance,
then by ascending id. One padding rule: where a query has fewer answers than the arrays have columns, the rest of its
row is id -1 at distance +inf (and subject and payload None). Distances of answers are always finite, so it is the
distance that tells padding from a record whose id happens to be -1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._extras import need
from .errors import IdError

__all__ = ["Hit", "Hits", "Work"]


class Work(NamedTuple):
    """What a search did, summed over its queries.

    `scanned` records had their first bits looked at, `refined` the rest of their code, `reranked` their vector.
    `bytes_read` is what that amounts to. With pivots, the codes that say how near the nearest are count twice.

    >>> Work(scanned=100, refined=20, reranked=10, bytes_read=5440).reranked
    10
    """

    scanned: int
    refined: int
    reranked: int
    bytes_read: int


class Hit(NamedTuple):
    """One answer: the id of a record, its distance from the query, and in a store its subject and payload.

    >>> Hit(7, 0.25)
    Hit(id=7, distance=0.25, subject=None, payload=None)
    """

    id: int | str
    distance: float
    subject: str | None = None
    payload: dict[str, Any] | None = None


class Hits:
    """The answers to n queries: arrays for all of them, or a list of `Hit` for each.

    `ids` and `distances` are (n, k); the ids of an index are int64, those of a store are an object array of int and
    str; distances are float32. A store also fills `subjects` and `payloads`, (n, k) object arrays, which are None for
    an index. Where a query has fewer than k answers, the id is -1 and the distance +inf. `work` is what the search
    did. For a radius search, k is the number of answers to the query that has most.

    `hits[i]`, and iteration, give the answers to a query as a list of `Hit`, without padding. `to_pandas`, `to_polars`
    and `to_arrow` give all answers as one table, and what reads Arrow streams reads hits themselves.

    >>> hits = Hits(np.array([[4, 9], [9, -1]]), np.array([[0.5, 2.0], [0.25, np.inf]]), Work(4, 4, 3, 96))
    >>> len(hits)
    2
    >>> hits[1]
    [Hit(id=9, distance=0.25, subject=None, payload=None)]
    >>> [[hit.id for hit in answers] for answers in hits]
    [[4, 9], [9]]
    """

    # Not a dataclass: making a frozen one takes as long as checking a query. native/bind/search.cpp makes the same.
    __slots__ = ("distances", "ids", "payloads", "subjects", "work")

    def __init__(
        self,
        ids: npt.NDArray[Any],
        distances: npt.NDArray[np.float32],
        work: Work,
        subjects: npt.NDArray[np.object_] | None = None,
        payloads: npt.NDArray[np.object_] | None = None,
    ) -> None:
        self.ids = ids
        self.distances = distances
        self.work = work
        self.subjects = subjects
        self.payloads = payloads

    def __repr__(self) -> str:
        return f"Hits(ids={self.ids!r}, distances={self.distances!r})"

    def __len__(self) -> int:
        """The number of queries."""
        return len(self.ids)

    def __getitem__(self, query: int) -> list[Hit]:
        """The answers to one query, without padding."""
        distances: list[float] = self.distances[query].tolist()
        count = len(distances)
        while count and math.isinf(distances[count - 1]):
            count -= 1
        columns = [self.ids[query].tolist(), distances]
        if self.subjects is not None and self.payloads is not None:
            columns += [self.subjects[query].tolist(), self.payloads[query].tolist()]
        return [Hit(*values) for values in zip(*(column[:count] for column in columns), strict=True)]

    def __iter__(self) -> Iterator[list[Hit]]:
        """The answers to each query in turn."""
        return (self[query] for query in range(len(self)))

    # --- As tables ---------------------------------------------------------------------------------------------------

    def to_pandas(self) -> Any:
        """A pandas frame with a row for each answer: `query` (its place), `id`, `distance`; from a store also `subject`
        and `payload`.
        """
        return need("pandas", "frames", "to_pandas").DataFrame(self._columns())

    def to_polars(self) -> Any:
        """A Polars frame with the same columns; payloads are JSON texts. Ids must be all numbers or all texts."""
        polars = need("polars", "frames", "to_polars")
        columns = self._columns_of_one_kind()
        frame = polars.DataFrame(
            {name: values for name, values in columns.items() if name not in ("subject", "payload")}
        )
        texts = [
            polars.Series(name, columns[name], dtype=polars.String)
            for name in ("subject", "payload")
            if name in columns
        ]
        return frame.with_columns(texts)

    def to_arrow(self) -> Any:
        """An Arrow table with the same columns; payloads are JSON texts. Ids must be all numbers or all texts."""
        pa = need("pyarrow", "frames", "to_arrow")
        columns = self._columns_of_one_kind()
        for name in ("subject", "payload"):
            if name in columns:
                columns[name] = pa.array(columns[name], type=pa.string())
        return pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow PyCapsule interface: what reads streams of Arrow data reads hits as the table of `to_arrow`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _columns(self) -> dict[str, Any]:
        """A row for each answer, without padding."""
        found = np.isfinite(self.distances)
        columns: dict[str, Any] = {
            "query": np.nonzero(found)[0].astype(np.int64),
            "id": self.ids[found],
            "distance": self.distances[found].astype(np.float32),
        }
        if self.subjects is not None and self.payloads is not None:
            columns["subject"] = self.subjects[found].tolist()
            columns["payload"] = self.payloads[found].tolist()
        return columns

    def _columns_of_one_kind(self) -> dict[str, Any]:
        """The same where a column has one type: ids are all numbers or all texts, and payloads are JSON."""
        columns = self._columns()
        if columns["id"].dtype == object:
            ids = columns["id"].tolist()
            texts = [id for id in ids if isinstance(id, str)]
            if texts and len(texts) < len(ids):
                raise IdError("ids: expected numbers alone or texts alone in a column, got both; to_pandas has both")
            columns["id"] = ids if texts else np.array(ids, dtype=np.int64)
        if "payload" in columns:
            columns["payload"] = [
                None if payload is None else json.dumps(payload, ensure_ascii=False) for payload in columns["payload"]
            ]
        return columns
