"""What the adapters share: how they ask a store, and how fields are named in its filters.

A store here is anything with the calls of `lethevec.Store`: a store, a collection of a folder, or a server's client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lethevec import Record
from lethevec.errors import MissingDependencyError, ParameterError, UnknownIdError

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "both",
    "lists_for_tuples",
    "missing",
    "pages",
    "prefixed",
    "present",
    "similarity",
    "spread_out",
    "subject_of",
]

#: Filters that no record passes, and that every record passes.
NOTHING: dict[str, Any] = {"lethevec:nothing": {"$exists": True}}
EVERYTHING: dict[str, Any] = {"$not": NOTHING}
_PART = 1000  # ids asked for at once


def missing(module: str, error: ImportError) -> MissingDependencyError:
    """The error of an adapter whose framework is not installed."""
    package = (error.name or "").split(".")[0]
    return MissingDependencyError(
        f"lethevec.integrations.{module} needs the package {package!r}, which is not installed: "
        f"pip install 'lethevec[{module}]'"
    )


def present(store: Any, ids: Iterable[int | str]) -> list[Record]:
    """Those of the records that are there, in the order asked for; each once."""
    wanted = list(dict.fromkeys(ids))
    found: list[Record] = []
    for start in range(0, len(wanted), _PART):
        part = wanted[start : start + _PART]
        try:
            found += store.get(part)
        except UnknownIdError:
            there = [id for id in part if id in store]
            found += store.get(there) if there else []
    return found


def pages(store: Any, where: Mapping[str, Any] | None = None) -> Iterator[Record]:
    """All records that a filter lets through, a page at a time."""
    after = None
    while page := store.get(where=where, limit=_PART, after=after):
        yield from page
        after = page[-1].id


def prefixed(where: Mapping[str, Any], prefix: str | None) -> dict[str, Any]:
    """A filter over the fields of an object inside the payload."""
    if not isinstance(where, Mapping):
        raise ParameterError(f"filter: expected a mapping of fields to conditions, got {type(where).__name__}")
    if prefix is None:
        return dict(where)
    out: dict[str, Any] = {}
    for key, value in where.items():
        if key in ("$and", "$or"):
            if not isinstance(value, Sequence) or isinstance(value, str):
                raise ParameterError(f"filter: expected a list of conditions for {key}, got {type(value).__name__}")
            out[key] = [prefixed(part, prefix) for part in value]
        elif key == "$not":
            out[key] = prefixed(value, prefix)
        else:
            out[key if str(key).startswith("$") else f"{prefix}.{key}"] = value
    return out


def both(*conditions: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A filter that holds where all of these do; None where there is none."""
    given = [dict(one) for one in conditions if one]
    return None if not given else given[0] if len(given) == 1 else {"$and": given}


def lists_for_tuples(value: Any) -> Any:
    """The same with lists where there are tuples, which JSON does not have: splitters and loaders write some."""
    if isinstance(value, Mapping):
        return {key: lists_for_tuples(one) for key, one in value.items()}
    return [lists_for_tuples(one) for one in value] if isinstance(value, list | tuple) else value


def subject_of(metadata: Mapping[str, Any], key: str | None) -> str | None:
    """Whose data a record is, by a field of its metadata."""
    value = None if key is None else metadata.get(key)
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ParameterError(f"{key}: expected a text or a whole number that says whose data it is, got {value!r:.60}")


def similarity(metric: str, distance: float) -> float:
    """A number that grows with likeness: the cosine, the inner product, or 1 / (1 + Euclidean distance)."""
    if metric == "cosine":
        return 1.0 - distance
    return -distance if metric == "ip" else 1.0 / (1.0 + distance)


def spread_out(
    query: npt.ArrayLike, vectors: Sequence[npt.NDArray[np.float32] | None], k: int, weight: float
) -> list[tuple[int, float]]:
    """Maximal marginal relevance: places of vectors near the query and far from each other, with their scores.

    Likeness is the cosine; `weight` is 1 for nearness to the query alone, and 0 for distance from each other alone.
    """
    if not vectors or k < 1:
        return []
    x = np.stack([vector for vector in vectors if vector is not None]).astype(np.float64)
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-30)
    q = np.asarray(query, dtype=np.float64).ravel()
    near = x @ (q / max(float(np.linalg.norm(q)), 1e-30))
    alike = np.full(len(x), -np.inf)
    chosen: list[tuple[int, float]] = []
    free = np.ones(len(x), dtype=np.bool_)
    for _ in range(min(k, len(x))):
        scores = weight * near - (1 - weight) * (alike if chosen else 0.0)
        best = int(np.where(free, scores, -np.inf).argmax())
        chosen.append((best, float(scores[best])))
        free[best] = False
        alike = np.maximum(alike, x @ x[best])
    return chosen
