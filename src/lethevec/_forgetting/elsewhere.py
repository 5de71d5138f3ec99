"""What a caller says of copies outside the store, so that a receipt can state it.

Programs around a store keep copies of their own: a history, a cache, a transcript. Whoever erases there as well says so
with `forget(..., elsewhere={"mem0-history": 3, "chat-logs": None})`: so many entries were erased in a place, or, with
None, it was not erased. The receipt repeats it under the signature. It is what the caller stated: the store has not
looked there, and `verify` says so too.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import Any

from .._shown import shown
from ..errors import ParameterError

__all__ = ["MOST_PLACES", "PLACE", "read_elsewhere"]

#: Places have short names of programs, never anything that a person wrote.
PLACE = re.compile("[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
MOST_PLACES = 100
_MOST = 1 << 62


def read_elsewhere(given: Any) -> list[dict[str, Any]] | None:
    """As a receipt has it: places by name, each with a number of entries, or None where nothing was erased.

    >>> read_elsewhere({"history": 3, "chat-logs": None})
    [{'place': 'chat-logs', 'erased': None}, {'place': 'history', 'erased': 3}]
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise ParameterError(f"elsewhere: expected a mapping of places to numbers, got {type(given).__name__}")
    if len(given) > MOST_PLACES:
        raise ParameterError(f"elsewhere: expected at most {MOST_PLACES} places, got {len(given)}")
    for place, erased in given.items():
        if not isinstance(place, str) or PLACE.fullmatch(place) is None:
            raise ParameterError(
                "elsewhere: expected names of places of at most 40 small letters, digits and hyphens, "
                f"got {shown(place, 60)}"
            )
        if erased is not None and not _is_count(erased):
            raise ParameterError(
                f"elsewhere: expected for {place} how many entries were erased, or None, got {shown(erased, 60)}"
            )
    erased_in = {place: None if erased is None else operator.index(erased) for place, erased in given.items()}
    return [{"place": place, "erased": erased_in[place]} for place in sorted(given)]


def _is_count(value: Any) -> bool:
    """A number of entries; NumPy's integers are integers."""
    try:
        return not isinstance(value, bool) and 0 <= operator.index(value) < _MOST
    except TypeError:
        return False
