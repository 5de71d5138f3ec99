"""What the processes of one server say to each other, over Unix sockets in a folder that only they can enter.

* A reader forwards what it may not do to the writer, as HTTP, and hands back the answer.
* After an erasure the writer asks every reader to take it up, and answers when all have: from then on no process
  holds the records. (That no answer holds them does not depend on it: a reader looks for changes before each read.)
* Whoever is asked for metrics asks the others for theirs.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lethevec.errors import LethevecError

from .calls import Answer, Call, Gone
from .problems import Problem

if TYPE_CHECKING:
    from .core import Core

__all__ = ["Control", "Forwarder", "merged_metrics"]

WRITER = "writer.sock"
_PASSED = (b"authorization", b"x-chroma-token", b"content-type", b"idempotency-key", b"cookie", b"lethevec-console")
_BACK = (b"location", b"retry-after", b"lethevec-receipt", b"lethevec-repeat", b"www-authenticate")
_MAX_HEAD = 64 << 10
_MAX_ANSWER = 1 << 30
_PATIENCE = 10.0  # seconds for another process to answer a word


class Forwarder:
    """Requests from a reader to the writer."""

    def __init__(self, folder: Path) -> None:
        """`folder` holds the writer's socket."""
        self._path = str(folder / WRITER)

    async def __call__(self, call: Call) -> Answer:
        """The writer's answer to this request."""
        try:
            reader, writer = await asyncio.open_unix_connection(self._path, limit=_MAX_HEAD)
        except OSError:
            raise Problem(
                503, "no_writer", "the process that writes is not there yet; nothing was done", retry_after=1
            ) from None
        try:
            await self._send(call, writer)
            return await self._receive(reader)
        except Gone:
            raise
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            raise Problem(
                502,
                "writer_lost",
                "the process that writes went away; repeat the request, with the same Idempotency-Key if it has one",
                retry_after=1,
            ) from None
        finally:
            writer.close()

    async def _send(self, call: Call, writer: asyncio.StreamWriter) -> None:
        scope = call.scope
        target = scope.get("raw_path") or scope["path"].encode()
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        head = [b"%s %s HTTP/1.1" % (scope["method"].encode(), target), b"host: writer", b"connection: close"]
        head += [b"%s: %s" % (name, value) for name, value in scope["headers"] if name in _PASSED]
        writer.write(b"\r\n".join([*head, b"transfer-encoding: chunked", b"", b""]))
        size = 0
        async for part in call.parts():
            size += len(part)
            if size > call.core.settings.max_body and not call.operation.unbounded:
                raise Problem(413, "too_long", f"body: expected at most {call.core.settings.max_body} bytes, got more")
            writer.write(b"%x\r\n%s\r\n" % (len(part), part))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _receive(self, reader: asyncio.StreamReader) -> Answer:
        head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        status = int(head[0].split(b" ", 2)[1])
        headers = {}
        for line in head[1:]:
            name, colon, value = line.partition(b":")
            if colon:
                headers[name.strip().lower()] = value.strip()
        size = int(headers[b"content-length"])
        if not 0 <= size <= _MAX_ANSWER:
            raise ValueError(size)
        body = await reader.readexactly(size)
        back = tuple((name, headers[name]) for name in _BACK if name in headers)
        return Answer(body, status, headers.get(b"content-type", b"application/json"), back)


class Control:
    """One process among the others. Words are single letters: `r` take up what was forgotten, `m` show metrics."""

    def __init__(self, folder: Path, role: str) -> None:
        """`role` names the socket."""
        self._folder = folder
        self._role = role
        self._server: asyncio.AbstractServer | None = None

    async def start(self, core: Core) -> None:
        """Listen to the others."""
        path = self._folder / f"{self._role}.control"
        path.unlink(missing_ok=True)

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, asyncio.IncompleteReadError):
                word = await reader.readexactly(1)
                if word == b"r":
                    try:
                        await core.take_up()
                    except LethevecError as error:  # who asked ends this process: it may hold what was forgotten
                        core.logs.failure(error, "between processes")
                    else:
                        writer.write(b"k")
                elif word == b"m":
                    writer.write(await core.read(None, core.own_metrics))
                await writer.drain()
            writer.close()

        self._server = await asyncio.start_unix_server(answer, path)

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            (self._folder / f"{self._role}.control").unlink(missing_ok=True)

    def _others(self, pattern: str) -> list[Path]:
        return [path for path in sorted(self._folder.glob(pattern)) if path.stem != self._role]

    async def tell_readers(self) -> None:
        """Return when every reader has dropped what was forgotten. One that does not answer is ended, and replaced."""
        await asyncio.gather(*(self._ask_or_end(path) for path in self._others("reader-*.control")))

    async def _ask_or_end(self, path: Path) -> None:
        pid = 0
        try:
            reader, writer = await asyncio.open_unix_connection(path)
        except OSError:
            return  # it has ended, and its memory with it; its successor will read what is there now
        try:
            pid = _peer(writer.get_extra_info("socket"))
            writer.write(b"r")
            if await asyncio.wait_for(reader.read(1), _PATIENCE) == b"k":
                return
        except (OSError, asyncio.TimeoutError):
            pass
        finally:
            writer.close()
        if pid > 1:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    async def others_metrics(self) -> list[bytes]:
        """The metrics of the other processes, as far as they answer."""
        found = await asyncio.gather(*(self._metrics(path) for path in self._others("*.control")))
        return [text for text in found if text]

    async def _metrics(self, path: Path) -> bytes:
        try:
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(b"m")
                return await asyncio.wait_for(reader.read(-1), _PATIENCE)
            finally:
                writer.close()
        except (OSError, asyncio.TimeoutError):
            return b""


def _peer(connection: socket.socket) -> int:
    """The process at the other end, as the kernel knows it; 0 where that cannot be asked."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    pid: int = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    return pid


_FAMILY = re.compile(rb"# (?:HELP|TYPE) (\S+)")


def merged_metrics(texts: list[bytes]) -> bytes:
    """Several expositions as one: every family once, with the samples of all processes.

    >>> one = b"# HELP a x\\n# TYPE a gauge\\na{p=\\"1\\"} 1.0\\n"
    >>> print(merged_metrics([one, one.replace(b"1\\"}", b"2\\"}")]).decode(), end="")
    # HELP a x
    # TYPE a gauge
    a{p="1"} 1.0
    a{p="2"} 1.0
    """
    heads: dict[bytes, list[bytes]] = {}
    samples: dict[bytes, list[bytes]] = {}
    for text in texts:
        family = b""
        for line in text.splitlines():
            match = _FAMILY.match(line)
            if match:
                family = match[1]
                head = heads.setdefault(family, [])
                if line not in head:
                    head.append(line)
            elif line:
                samples.setdefault(family, []).append(line)
    return b"".join(b"\n".join([*head, *samples.get(family, [])]) + b"\n" for family, head in heads.items())
