"""Nearest-neighbour search that can forget.

`Index` holds records in memory, `open` a durable store of them; `hasher` gives the codes by themselves.

>>> index = Index(dim=2, metric="l2")
>>> index.add([[0, 1], [0, 5]], ids=[1, 2])
>>> index.search([0, 0], k=1)[0]
[Hit(id=1, distance=1.0, subject=None, payload=None)]
"""

import typing as _typing

from . import errors
from ._hashing import Hasher, hasher
from ._hits import Hit, Hits, Work
from ._index import Auto, Config, Graph, Index, Pivots, Scan, Tables, Tuning
from ._native import CpuInfo, cpu_info
from ._record import KEEP, Record

if _typing.TYPE_CHECKING:
    from ._client import AsyncClient, Client
    from ._collections import Access, Database, Held, Hold, connect, restore
    from ._forgetting.anchors import Anchor
    from ._forgetting.receipts import Receipt
    from ._forgetting.verify import Verification, verify, verify_chain
    from ._store import Preview, Store, open

__version__ = "0.2.0"
__all__ = [
    "KEEP",
    "Access",
    "Anchor",
    "AsyncClient",
    "Auto",
    "Client",
    "Config",
    "CpuInfo",
    "Database",
    "Graph",
    "Hasher",
    "Held",
    "Hit",
    "Hits",
    "Hold",
    "Index",
    "Pivots",
    "Preview",
    "Receipt",
    "Record",
    "Scan",
    "Store",
    "Tables",
    "Tuning",
    "Verification",
    "Work",
    "__version__",
    "connect",
    "cpu_info",
    "errors",
    "hasher",
    "open",
    "restore",
    "verify",
    "verify_chain",
]

#: The store brings SQLite along and receipts bring hashes and dates, so they are loaded when they are first asked for.
_LATER = {
    "Access": "_collections",
    "Anchor": "_forgetting.anchors",
    "AsyncClient": "_client",
    "Client": "_client",
    "Database": "_collections",
    "Held": "_collections",
    "Hold": "_collections",
    "Preview": "_store",
    "Receipt": "_forgetting.receipts",
    "Store": "_store",
    "Verification": "_forgetting.verify",
    "connect": "_collections",
    "open": "_store",
    "restore": "_collections",
    "verify": "_forgetting.verify",
    "verify_chain": "_forgetting.verify",
}


def __getattr__(name: str) -> object:
    if name in _LATER:
        import importlib
        import os

        if os.name == "nt" and _LATER[name] in ("_client", "_collections", "_store"):
            raise errors.UnsupportedError(
                f"lethevec.{name}: expected a POSIX system, such as Linux or macOS, got Windows, where stores cannot "
                "be locked and erased as they promise; lethevec.Index works here"
            )
        return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
