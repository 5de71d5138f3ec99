"""Parameters of the families, checked: every message names the parameter, its range and what came."""

from __future__ import annotations

import math
import numbers
from typing import SupportsInt, TypeGuard

import numpy as np

from .._shown import shown
from ..errors import ParameterError

MAX_DIM = 65_536
MAX_BITS = 1 << 20
SMALLEST, LARGEST = 1e-18, 1e18
#: Numbers in a dense table: more take gigabytes.
MAX_TABLE = 1 << 27


def integer(name: str, value: object, low: int, high: int) -> int:
    """An integer from low to high; NumPy's integers are integers, booleans are not."""
    if type(value) is int and low <= value <= high:
        return value
    if not is_integer(value) or not low <= int(value) <= high:
        raise ParameterError(f"{name}: expected an integer from {low} to {high}, got {shown(value)}")
    return int(value)


def is_integer(value: object) -> TypeGuard[SupportsInt]:
    """Whether it is an integer. NumPy's are; booleans are not, nor are spans of time, which NumPy counts as such."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool | np.timedelta64)


def boolean(name: str, value: object) -> bool:
    """True or False, and nothing that only counts as one of them."""
    if not isinstance(value, bool):
        raise ParameterError(f"{name}: expected True or False, got {shown(value)}")
    return value


def positive(name: str, value: object) -> float:
    """A number above zero that float32 can hold with room to spare."""
    if type(value) is float and SMALLEST <= value <= LARGEST:
        return value
    number = as_float(value)
    if not SMALLEST <= number <= LARGEST:
        raise ParameterError(f"{name}: expected a number from {SMALLEST:g} to {LARGEST:g}, got {shown(value)}")
    return number


def real(name: str, value: object) -> float:
    """A real number, not NaN."""
    number = as_float(value)
    if math.isnan(number):
        raise ParameterError(f"{name}: expected a number, got {shown(value)}")
    return number


def as_float(value: object) -> float:
    """As a float; NaN for what is no real number, or one beyond any float."""
    if isinstance(value, bool | np.timedelta64):
        return math.nan
    try:
        return float(value) if isinstance(value, numbers.Real) else math.nan
    except OverflowError:
        return math.nan


def choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in allowed:
        raise ParameterError(f"{name}: expected one of {', '.join(map(repr, allowed))}, got {shown(value)}")
    return value


def seed_of(value: object) -> int:
    """A seed: any 64-bit word."""
    return integer("seed", value, 0, (1 << 64) - 1)


def whole_expansion(family: str, dim: int, bits: int) -> int:
    """m = bits/dim for the families whose code is whole blocks of dim bits."""
    if bits % dim:
        below = max(1, bits // dim) * dim
        raise ParameterError(
            f"bits: {family} expected a multiple of dim={dim} (such as {below} or {below + dim}), got {bits}"
        )
    return bits // dim
