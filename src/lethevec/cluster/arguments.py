"""Checks of plain arguments; those of records and ids are the store's."""

from __future__ import annotations

from typing import Any

from .._shown import shown
from ..errors import ParameterError

__all__ = ["boolean", "whole"]


def boolean(name: str, value: Any) -> bool:
    """True or False, and nothing that is like it."""
    if not isinstance(value, bool):
        raise ParameterError(f"{name}: expected True or False, got {shown(value, 80)}")
    return value


def whole(name: str, value: Any, most: int) -> int:
    """A whole number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ParameterError(f"{name}: expected a whole number from 0 to {most}, got {shown(value, 80)}")
    return value
