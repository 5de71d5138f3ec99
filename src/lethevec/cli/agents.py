"""`mcp`: a folder of collections as an agent's memory, over the Model Context Protocol."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import click

import lethevec
from lethevec.errors import ParameterError

from .command import command

__all__ = ["COMMANDS"]

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@command("mcp", "lethevec mcp --check agent-memory")
@click.argument("place", metavar="FOLDER", type=click.Path(file_okay=False))
@click.option("--collection", default="memory", help="Where memories are kept (memory).")
@click.option("--read-only", is_flag=True, help="No remember and no forget; the folder must be there.")
@click.option(
    "--embedding",
    metavar="MODULE:NAME",
    help="What makes an object with embed_documents(texts), as LangChain's embeddings have; else bundled word vectors.",
)
@click.option(
    "--http", "port", type=click.IntRange(1, 65535), help="Serve HTTP on this port instead of stdin and stdout."
)
@click.option("--host", default="127.0.0.1", help="With --http: only this machine's own addresses (127.0.0.1).")
@click.option("--check", is_flag=True, help="Open everything, say what there is, and end.")
def mcp(
    place: str, collection: str, read_only: bool, embedding: str | None, port: int | None, host: str, check: bool
) -> None:
    """Serve FOLDER as a memory that forgets to a program that speaks the Model Context Protocol.

    The tools are search, remember, list_about, forget (a preview first, then a confirmation) and verify. The server
    speaks over stdin and stdout, or with --http over HTTP at /mcp, to this machine alone: it asks nobody who they are.

    One program at a time writes to a folder. Instead of a folder, FOLDER may be the URL of a `lethevec serve` that many
    share; the environment variable LETHEVEC_KEY may hold a key.
    """
    from lethevec.integrations import mcp as adapter

    if host not in _LOOPBACK:
        raise ParameterError(f"--host: expected one of {', '.join(_LOOPBACK)}, since anybody may call it, got {host!r}")
    with _opened(place, read_only) as database:
        made = _embedding(embedding)
        memory = adapter.Memory(database, collection=collection, embedding=made, read_only=read_only)
        server = adapter.make_server(memory, read_only=read_only)
        if check:
            click.echo(f"{place}: {len(database.collection(collection)):,} memories in {collection}", err=True)
        elif port is None:
            server.run("stdio")
        else:
            server.run("streamable-http", host=host, port=port)


def _opened(place: str, read_only: bool) -> lethevec.Database | lethevec.Client:
    if place.startswith(("http://", "https://")):
        return lethevec.Client(place, os.environ.get("LETHEVEC_KEY"))
    return lethevec.connect(Path(place), read_only=read_only)


def _embedding(name: str | None) -> Any:
    if name is None:
        return None
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ParameterError(f"--embedding: expected MODULE:NAME, got {name!r}")
    try:
        return getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError) as error:
        raise ParameterError(f"--embedding: expected something that can be imported, got {name!r}: {error}") from None


COMMANDS = [mcp]
