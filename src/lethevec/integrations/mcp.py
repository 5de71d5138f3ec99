"""A Model Context Protocol server: an agent's memory that can be made to forget, and can prove it.

Tools: `search`, `remember`, `list_about`, `forget` (in two steps: a preview with a token, then the same call with the
token) and `verify`. A read-only server has neither `remember` nor `forget`. Answers about what was forgotten hold
counts and the number of the receipt, never the text.

What it does not reach: the conversation. What a model was told, it has in its context, and the program that runs it may
log every call and its answer; so may the service behind it.
"""

from __future__ import annotations

import functools
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import lethevec
from lethevec.errors import LethevecError, ParameterError

from ._common import missing, pages, present, similarity
from .embedding import WordEmbedding

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations
except ImportError as error:
    raise missing("mcp", error) from None

__all__ = ["Memory", "make_server"]

F = TypeVar("F", bound=Callable[..., Any])

_SECONDS = 600  # a preview is good for this long
_MOST = 1000  # records that a list shows
_INSTRUCTIONS = """A long-term memory about people. Use `remember` with a subject (a stable name of the person that a
memory is about), so that everything about them can be found and erased. When somebody asks to be forgotten, call
`forget` with their subject, tell the user what the preview says, and call it again with the token once they agree."""


class Embedding(Protocol):
    """What turns texts into vectors."""

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """A vector for each text."""
        ...


@dataclass(frozen=True)
class _Preview:
    """What a token stands for: exactly these records, until a moment."""

    ids: frozenset[Any]
    subject: str | None
    until: float


class Memory:
    """What the tools do, over a folder of collections or a server's client; usable without the protocol.

    Memories are in one collection; `forget` of a subject goes through all collections of the folder.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with lethevec.connect(folder.name + "/memory") as db:
    ...     memory = Memory(db)
    ...     _ = memory.remember("Ann likes red wine", subject="ann")
    ...     found = memory.search("wine")["memories"][0]["text"]
    ...     preview = memory.forget(subject="ann")
    ...     done = memory.forget(subject="ann", token=preview["token"])
    >>> found, preview["records"], done["forgotten"], done["receipt"]
    ('Ann likes red wine', 1, 1, 1)
    >>> folder.cleanup()
    """

    def __init__(
        self,
        database: lethevec.Database | lethevec.Client,
        *,
        collection: str = "memory",
        embedding: Embedding | None = None,
        read_only: bool = False,
    ) -> None:
        """Open the collection, or make it with the dimension of the embedding; with `read_only` it must be there."""
        self._database = database
        self._embedding = WordEmbedding() if embedding is None else embedding
        dim = len(self._embed("dimension"))
        given = read_only or getattr(database, "read_only", False)
        self._store: Any = database.collection(collection, None if given else dim)
        if self._store.dim != dim:
            raise ParameterError(
                f"embedding: expected vectors of {self._store.dim} numbers, as in {collection}, got {dim}"
            )
        self._previews: dict[str, _Preview] = {}
        self._guard = threading.Lock()

    def _embed(self, text: str) -> list[float]:
        return list(self._embedding.embed_documents([text])[0])

    def search(self, query: str, k: int = 5, subject: str | None = None) -> dict[str, Any]:
        """The memories nearest to a text, the nearest first; those about one subject, if it is given."""
        hits = self._store.search([self._embed(query)], k, subject=subject)[0]
        return {
            "memories": [
                {
                    "id": hit.id,
                    "text": (hit.payload or {}).get("text", ""),
                    "subject": hit.subject,
                    "similarity": round(similarity(self._store.metric, hit.distance), 4),
                }
                for hit in hits
            ]
        }

    def remember(self, text: str, subject: str | None = None, id: str | None = None) -> dict[str, Any]:
        """Keep a text. `subject` says whom it is about. `id` replaces a memory, whose old text is erased."""
        if not text.strip():
            raise ParameterError("text: expected something to remember, got nothing")
        old = present(self._store, [id]) if id is not None else []
        name = str(uuid.uuid4()) if id is None else id
        # An agent that says nothing of the subject does not mean that the memory is about nobody any more.
        whom = subject if subject is not None or not old else old[0].subject
        given: dict[str, Any] = {"ids": [name], "subjects": [whom], "payloads": [{"text": text}]}
        receipt = self._store.upsert([self._embed(text)], **given, erase_old=bool(old))
        return {"id": name} | ({} if receipt is None else {"receipt": receipt.sequence})

    def list_about(self, subject: str, limit: int = 100) -> dict[str, Any]:
        """All memories about a subject, by id, and how many there are in all collections."""
        if not 1 <= limit <= _MOST:
            raise ParameterError(f"limit: expected 1 to {_MOST}, got {limit}")
        records = self._store.get(subject=subject, limit=limit)
        return {
            "records": sum(self._database.collection(name).count(subject=subject) for name in self._collections()),
            "memories": [{"id": record.id, "text": (record.payload or {}).get("text", "")} for record in records],
        }

    def forget(
        self, ids: list[str] | None = None, subject: str | None = None, token: str | None = None
    ) -> dict[str, Any]:
        """Without a token: what would be forgotten, and a token. With it: forget it, and give the receipt's number."""
        if (ids is None) == (subject is None):
            raise ParameterError("forget: expected either ids or subject")
        found = self._found(ids, subject)
        if token is None:
            return self._preview(found, subject)
        with self._guard:
            preview = self._previews.pop(token, None)
        if preview is None or preview.until < time.monotonic():
            raise ParameterError("token: expected one of a preview of the last ten minutes; ask for a new preview")
        if (preview.ids, preview.subject) != (found, subject):
            raise ParameterError("token: expected the records of the preview, got others; ask for a new preview")
        if subject is not None:
            receipt = self._database.forget(subject=subject, ignore_unknown=True)
        else:
            receipt = self._store.forget([id for _, id in found], ignore_unknown=True)
        return {"forgotten": receipt.records, "receipt": receipt.sequence}

    def _found(self, ids: list[str] | None, subject: str | None) -> frozenset[Any]:
        """The records that are meant, as they are now: pairs of collection and id."""
        if ids is not None:
            return frozenset(("", record.id) for record in present(self._store, ids))
        return frozenset(
            (name, record.id)
            for name in self._collections()
            for record in pages(self._database.collection(name), {"$subject": subject})
        )

    def _collections(self) -> list[str]:
        return self._database.collections()

    def _preview(self, found: frozenset[Any], subject: str | None) -> dict[str, Any]:
        if not found:
            return {"records": 0, "token": None, "note": "there is nothing to forget"}
        token = secrets.token_urlsafe(16)
        now = time.monotonic()
        with self._guard:
            self._previews = {key: one for key, one in self._previews.items() if one.until >= now}
            self._previews[token] = _Preview(found, subject, now + _SECONDS)
        return {
            "records": len(found),
            "collections": len({name for name, _ in found}),
            "token": token,
            "note": "nothing is forgotten yet; call forget again with the same arguments and this token to confirm",
        }

    def verify(self, receipt: int) -> dict[str, Any]:
        """Check a receipt, by its number, against the folder as it is now."""
        known = {one.sequence: one for one in self._database.receipts()}
        if receipt not in known:
            raise ParameterError(f"receipt: expected the number of a receipt, got {receipt}; there are {len(known)}")
        result = self._database.verify(known[receipt])
        return {
            "holds": bool(result),
            "records": known[receipt].records,
            "checks": {check.name: bool(check.passed) for check in result.checks},
        }


def make_server(memory: Memory, *, read_only: bool = False) -> MCPServer:
    """An MCP server with the tools of a memory."""
    # Warnings alone: what is logged about calls must not hold what people are told about.
    server = MCPServer("lethevec", instructions=_INSTRUCTIONS, version=lethevec.__version__, log_level="WARNING")
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    # Destructive, because an id that is there already is replaced.
    writes = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
    erases = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
    tools: list[tuple[Callable[..., Any], ToolAnnotations]] = [
        (memory.search, reads),
        (memory.list_about, reads),
        (memory.verify, reads),
    ]
    if not read_only:
        tools += [(memory.remember, writes), (memory.forget, erases)]
    for function, hints in tools:
        server.add_tool(_told(function), annotations=hints)
    return server


def _told(function: F) -> F:
    """The same, with our errors as answers of the tool instead of traces in a log."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except LethevecError as error:
            raise ToolError(str(error)) from None

    return call  # type: ignore[return-value]
