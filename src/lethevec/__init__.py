"""Nearest-neighbour search that can forget.

`Index` holds records in memory, `open` a durable store of them; `hasher` gives the codes by themselves.
"""

import typing as _typing

from . import errors
from ._native import CpuInfo, cpu_info
from .hashing import Hasher, hasher
from .index import Hits, Index, RadiusHits

if _typing.TYPE_CHECKING:
    from .store import Store, open

__version__ = "0.1.0"
__all__ = [
    "CpuInfo",
    "Hasher",
    "Hits",
    "Index",
    "RadiusHits",
    "Store",
    "__version__",
    "cpu_info",
    "errors",
    "hasher",
    "open",
]


def __getattr__(name: str) -> object:
    """The store brings SQLite along, so it is loaded when it is first asked for."""
    if name in ("Store", "open"):
        from . import store

        return getattr(store, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
