"""What the store asks of the index in memory, and how it gets one from its configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .._index import Index
from .._index.config import Config, parse_config
from .._index.kept import KeptCodes, worth_keeping
from .._index.sources import default_key, key_of
from .._index.tuning import Tuning
from ..errors import FormatError, ParameterError

__all__ = ["Engine", "Factory", "Found", "IndexFactory", "Keeper", "new_configuration", "read_configuration"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class Found(Protocol):
    """A search's result: ids (n, k), -1 where there are fewer than k; distances (n, k), +inf there."""

    @property
    def ids(self) -> I64:
        """The numbers that `add` was given."""
        ...

    @property
    def distances(self) -> F32:
        """Ascending in each line; ties by ascending id."""
        ...


class Engine(Protocol):
    """An index in memory whose answers depend on its configuration, the store's key and its records alone."""

    def add(self, vectors: F32, ids: I64) -> object:
        """Add records."""
        ...

    def update(self, vectors: F32, ids: I64) -> object:
        """Replace the vectors of records."""
        ...

    def forget(self, ids: I64) -> object:
        """Forget records."""
        ...

    def search(
        self, queries: npt.ArrayLike, k: int, *, effort: float = ..., threads: int = ..., allow: I64 | None = ...
    ) -> Found:
        """The k nearest, among `allow` only if it is given."""
        ...

    def tune(
        self, queries: npt.ArrayLike, target_recall: float = ..., k: int = ..., *, threads: int | None = ...
    ) -> Tuning:
        """The least effort that reaches a recall."""
        ...

    def __len__(self) -> int:
        """How many records there are."""
        ...

    def __contains__(self, id: object) -> bool:
        """Whether there is a record with this id."""
        ...


class Keeper(Protocol):
    """Who packs an engine's codes for the table `codes`, and fills an engine from it (see `index.kept`)."""

    @property
    def gain(self) -> float:
        """When this moves, all codes are others."""
        ...

    def pack(self, vectors: F32, ids: I64) -> list[bytes]:
        """What is to be kept of these records."""
        ...

    def restore(self, vectors: F32, ids: I64, kept: Sequence[bytes | None]) -> npt.NDArray[np.bool_]:
        """Add records with what was kept; which of them had to be encoded. To be followed by `settle`."""
        ...

    def settle(self) -> bool:
        """Whether the gain of all records is another than was kept."""
        ...

    def moves(self, ids: I64) -> bool:
        """Whether the gain would move if these were forgotten."""
        ...

    def codes(self, vectors: F32) -> list[bytes]:
        """The codes of vectors, without what else is kept."""
        ...

    def differing(self, vectors: F32, ids: I64, kept: Sequence[bytes | None]) -> int:
        """How many of these are there and not what the vectors give."""
        ...


class Factory(Protocol):
    """How a store gets its engine: the configuration is a JSON object in a text, kept and hashed as it is."""

    def describe(self, dim: int, metric: str, options: dict[str, Any]) -> str:
        """The configuration of a new store, every default filled in; what cannot be is refused."""
        ...

    def draws_key(self, configuration: str) -> bool:
        """Whether an engine of that configuration can use a key that the store draws (see `source_key`)."""
        ...

    def make(self, configuration: str, key: bytes | None = None) -> Engine:
        """An empty engine of that configuration; with the store's key, if it has drawn one."""
        ...

    def keeps_codes(self, configuration: str) -> bool:
        """Whether codes of that configuration are worth keeping."""
        ...

    def keeper(self, engine: Engine) -> Keeper | None:
        """Who keeps the codes of this engine; None if they are not worth it."""
        ...


class IndexFactory:
    """The real index."""

    def describe(self, dim: int, metric: str, options: dict[str, Any]) -> str:
        """As `Index` describes itself, so that a later change of its defaults changes no store."""
        if "source" not in options:
            # Filing a million records in cells takes far longer than reading them, and a store must open in seconds.
            options = {**options, "source": "scan"}
        return Index(dim, metric, **options).config.canonical().decode()

    def draws_key(self, configuration: str) -> bool:
        """Whether it has a key for pivots, and that is the one which follows from the seed: no other was chosen."""
        try:
            config = parse_config(configuration.encode())
        except FormatError:
            return False  # `make` says what is wrong with it
        return key_of(config.source) == default_key(config.seed)

    def make(self, configuration: str, key: bytes | None = None) -> Engine:
        """An index made anew from its description; one that would not be the same is refused."""
        config = parse_config(configuration.encode())
        return Index._of(config if key is None else config.with_key(key))

    def keeps_codes(self, configuration: str) -> bool:
        """As the index says."""
        return worth_keeping(parse_config(configuration.encode()))

    def keeper(self, engine: Engine) -> Keeper | None:
        """Where codes are worth keeping."""
        return KeptCodes(engine) if isinstance(engine, Index) and worth_keeping(engine.config) else None


def new_configuration(factory: Factory, dim: int | None, metric: str | None, options: dict[str, Any] | None) -> str:
    """The configuration of a new store."""
    if dim is None:
        raise ParameterError("dim: expected the number of dimensions to create a new store, got None")
    return factory.describe(dim, "cosine" if metric is None else metric, options or {})


def read_configuration(text: str, path: object) -> Config:
    """The configuration that a store was made with."""
    try:
        return parse_config(text.encode())
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
