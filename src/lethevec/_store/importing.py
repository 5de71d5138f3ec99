"""Where records come from that are loaded: files, tables and frames, which `lethevec.datasets` reads, or batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .. import datasets
from ..errors import InputError, ParameterError

__all__ = ["check_batch", "read_source"]

_NAMES = {"vectors", "ids", "subjects", "payloads", "expires"}


def read_source(
    source: Any, key: object, clock: Callable[[], float], batch: int = 10_000
) -> tuple[Iterator[Any], int | None]:
    """Batches with the arguments of `add`, and how many records there will be, where that is known."""
    if key is not None and not isinstance(key, str):
        raise ParameterError(f"key: expected the name of a column, got {type(key).__name__}")
    if datasets.is_source(source):
        return datasets.iter_batches(source, batch=batch, key=key, clock=clock), datasets.size_of(source, key)
    if key is not None:
        raise ParameterError(f"key: expected only with a file, a table or a frame, got {type(source).__name__}")
    try:
        if isinstance(source, Mapping | bytes):
            raise TypeError
        return iter(source), None
    except TypeError:  # an array without dimensions calls itself iterable and is not
        raise InputError(
            f"source: expected a file, a table, a frame, or batches with vectors and ids, got {type(source).__name__}"
        ) from None


def check_batch(given: Any) -> Mapping[str, Any]:
    """A batch that a caller made: the arguments of `add`."""
    if isinstance(given, Mapping) and {"vectors", "ids"} <= set(given) <= _NAMES:
        return given
    got = sorted(map(str, given)) if isinstance(given, Mapping) else type(given).__name__
    raise InputError(f"batches: expected vectors, ids and perhaps subjects, payloads and expires, got {got!r:.200}")
