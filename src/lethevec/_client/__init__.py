"""A server's collections from Python: `Client`, and `AsyncClient` for programs that wait for many things at once.

| file | what it does |
|---|---|
| `requests` | what each call sends, and how its answer is read |
| `sending` | what is tried again, and which error each answer is |
| `client`, `aio` | the same calls, to be waited for or awaited |
"""

from .aio import AsyncClient, AsyncCollection
from .client import Client, RemoteCollection

__all__ = ["AsyncClient", "AsyncCollection", "Client", "RemoteCollection"]
