"""What came, as an error says it."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["shown"]


def shown(value: object, most: int = 200, form: Callable[[object], str] = repr) -> str:
    """A value in words, cut off; or its type, where Python has no words for it: a number of thousands of digits, say.

    >>> shown("a"), shown([10**5000])
    ("'a'", 'a list that cannot be shown')
    """
    try:
        return form(value)[:most]
    except Exception:  # of a number, of lists inside lists without end, of an object's own
        return f"a {type(value).__name__} that cannot be shown"
