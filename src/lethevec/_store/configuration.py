"""The configuration of a store: that of its index, as canonical JSON, kept and hashed as it is."""

from __future__ import annotations

from typing import Any

from .._hashing.parameters import integer
from .._index import Config, Index
from .._index.config import SETUP_PER_BYTE, parse_config, refuse_costly, setup_cost
from .._index.sources import default_key, key_of
from ..errors import FormatError, InputError, ParameterError

__all__ = [
    "check_max_setup",
    "draws_key",
    "index_options",
    "new_configuration",
    "read_configuration",
    "refuse_costly_creation",
    "refuse_costly_store",
]

_SMALLEST, _LARGEST = 16 << 10, 1 << 40  # bytes of a store; an empty one has more
_PASSES = 16  # times as much as in a snapshot may pass through the encoder: the longest codes of the paper need it


def index_options(options: object, optimize: str | None) -> dict[str, Any] | None:
    """The options of a new store's index as they were given; `optimize` is for the source "auto"."""
    if options is not None and not isinstance(options, dict):
        raise InputError(f"index: expected a dict of options, got {type(options).__name__}")
    if options is not None and "vectors" in options:
        raise ParameterError("index: expected options that belong to the store, got vectors, which is one of open()")
    if optimize is None:
        return options
    return {"source": "auto", **(options or {}), "optimize": optimize}


def new_configuration(dim: int | None, metric: str | None, options: dict[str, Any] | None) -> Config:
    """The configuration of a new store, every default filled in, so that a later change of defaults changes no store.

    What an index would refuse is refused.
    """
    if dim is None:
        raise ParameterError("dim: expected the number of dimensions to create a new store, got None")
    return Index(dim, "cosine" if metric is None else metric, **(options or {})).config


def read_configuration(text: str, path: object) -> Config:
    """The configuration that a store was made with."""
    try:
        return parse_config(text.encode())
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def check_max_setup(given: object) -> int:
    """How many numbers the configuration of a store may ask for, beside what its size allows, checked."""
    return integer("max_setup", given, 0, 1 << 62)


def refuse_costly_store(config: Config, size: int, max_setup: int, path: object) -> None:
    """Refuse a configuration that asks for much more than a store whose files have so many bytes should."""
    try:
        refuse_costly(config, size // (4 * config.dim * _PASSES), size, max_setup)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def refuse_costly_creation(config: Config, max_setup: int) -> None:
    """Refuse to make a store that could not be opened again with the same limit, small as it is or when it has grown.

    What is asked for and what is allowed both grow in proportion to its files, so their two ends decide.
    """
    grown = setup_cost(config, _LARGEST // (4 * config.dim * _PASSES)) - SETUP_PER_BYTE * _LARGEST
    needed = max(setup_cost(config, 0) - SETUP_PER_BYTE * _SMALLEST, grown)
    if needed > max_setup:
        raise ParameterError(
            f"index: expected settings that ask for at most max_setup={max_setup} numbers, got some that ask for "
            f"{needed}; max_setup={needed} lets them pass, here and whenever this is opened again"
        )


def draws_key(config: Config) -> bool:
    """Whether the store draws a key for its pivots (see `source_key`): it can have some, and nobody chose a key."""
    return key_of(config.source) == default_key(config.seed)
