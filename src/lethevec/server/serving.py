"""Starting and stopping: one process, or one that writes and several that read.

One process reads and writes with `workers=0`. With more, this program is a supervisor that holds the public socket and
no data: it starts the writer, then the readers, which share the socket, and starts again whichever of them ends.

The processes run with `MALLOC_PERTURB_`, which makes glibc overwrite every block of memory that is freed. Python frees
texts and bodies of requests without wiping them; this way they are gone when they are freed, not when their memory is
used again. For that Python must not keep small blocks for itself (`PYTHONMALLOC=malloc`), nor glibc in caches of each
thread, which it does not overwrite (`GLIBC_TUNABLES`). The small blocks that Python asks for most are then the native
core's, which overwrites them too and is several times quicker (`wipe_objects`).
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

import uvicorn

from lethevec.errors import FileError

from .app import Front, make_app
from .bodies import wipe_objects
from .core import Core
from .logs import Logs
from .processes import WRITER
from .protocol import protocol_of
from .settings import Settings, load_settings

__all__ = ["listen", "run", "run_process", "serve_one"]

_BACKLOG = 1024
_FILES = 4096  # open files beside connections: stores, logs, pipes
_PAUSES = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0)  # before a process that ended is started again
_CALM = 30.0  # seconds after which its earlier ends no longer count


def run(settings: Settings, announce: Callable[[str], None]) -> NoReturn:
    """Serve until told to stop; this process becomes the server, or its supervisor. `announce` gets its address."""
    settings.state_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    public = listen(settings)
    settings = replace(settings, port=public.getsockname()[1])
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    announce(f"{'https' if settings.tls else 'http'}://{host}:{settings.port}")
    if settings.workers:
        sys.exit(_Supervisor(settings, public).run())
    os.set_inheritable(public.fileno(), True)
    command = _command(settings, "writer", public=public.fileno())
    os.execve(command[0], command, _environment())


def _command(settings: Settings, role: str, *, public: int | None = None, together: Path | None = None) -> list[str]:
    given = {name: value for name, value in asdict(settings).items() if value is not None}
    text = json.dumps({name: str(value) if isinstance(value, Path) else value for name, value in given.items()})
    return [
        sys.executable,
        "-m",
        "lethevec.server",
        json.dumps(
            {
                "settings": text,
                "role": role,
                "public": public,
                "together": None if together is None else str(together),
            }
        ),
    ]


def _environment() -> dict[str, str]:
    """What the processes run with, unless the operator's environment says other."""
    given = dict(os.environ)
    tunables = [part for part in given.pop("GLIBC_TUNABLES", "").split(":") if part]
    if not any(part.startswith("glibc.malloc.tcache_count=") for part in tunables):
        tunables.append("glibc.malloc.tcache_count=0")
    return {"MALLOC_PERTURB_": "170", "PYTHONMALLOC": "malloc", **given, "GLIBC_TUNABLES": ":".join(tunables)}


def run_process(words: str) -> None:
    """What a process does that `run` has started: `words` says which it is."""
    wipe_objects()
    given = json.loads(words)
    settings = load_settings(None, json.loads(given["settings"]), {})
    together = None if given["together"] is None else Path(given["together"])
    sockets = [] if given["public"] is None else [socket.socket(fileno=given["public"])]
    role = given["role"]
    if together is not None and role == "writer":
        inside = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        (together / WRITER).unlink(missing_ok=True)
        inside.bind(str(together / WRITER))
        inside.listen(_BACKLOG)
        sockets.append(inside)
    _allow_files(settings.max_connections)
    core = Core(settings, role, together)
    core.logs.event("started", host=settings.host, port=settings.port, keys=core.door.closed, tls=settings.tls)
    serve_one(settings, sockets, core)


def _allow_files(connections: int) -> None:
    """Every connection is an open file, and the usual limit (1,024) leaves few for the collections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, connections + _FILES)
    if soft != resource.RLIM_INFINITY:
        with suppress(OSError, ValueError):
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
            )


def listen(settings: Settings) -> socket.socket:
    """The socket that callers connect to."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((settings.host, settings.port))
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise FileError(f"{settings.host}:{settings.port}: expected a free port, got: {error}") from error
    return made


def configuration(app: Front, settings: Settings) -> uvicorn.Config:
    """uvicorn as we use it: no banner, no access log of its own, no headers that say what runs."""
    app.logs.take_over("uvicorn.error")
    return uvicorn.Config(
        app,
        http=protocol_of(app.known, app.guard),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        timeout_graceful_shutdown=max(1, round(settings.drain)),
        timeout_keep_alive=round(app.guard.keep_alive),
        backlog=_BACKLOG,
    )


def serve_one(settings: Settings, sockets: list[socket.socket], core: Core) -> None:
    """Serve in this process until it is told to stop."""
    uvicorn.Server(configuration(make_app(core), settings)).run(sockets=sockets)


class _Supervisor:
    """Holds the public socket and keeps the processes running."""

    def __init__(self, settings: Settings, public: socket.socket) -> None:
        self._settings = settings
        self._public = public
        self._logs = Logs(settings.log, "supervisor")
        self._together = Path(tempfile.mkdtemp(prefix="lethevec-"))  # mode 0700
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ends: dict[str, list[float]] = {}
        self._stop = False

    def run(self) -> int:
        """Until a signal says stop; the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told)
        roles = ["writer", *(f"reader-{place + 1}" for place in range(self._settings.workers))]
        try:
            self._start("writer")
            self._wait_for_writer()
            while not self._stop:
                for role in roles:
                    self._tend(role)
                time.sleep(0.05)
        finally:
            self._end()
            shutil.rmtree(self._together, ignore_errors=True)
        return 0 if self._stop else 1

    def _told(self, number: int, frame: FrameType | None) -> None:
        self._stop = True

    def _start(self, role: str) -> None:
        public = None if role == "writer" else self._public.fileno()
        command = _command(self._settings, role, public=public, together=self._together)
        pass_fds = () if public is None else (public,)
        self._running[role] = subprocess.Popen(command, env=_environment(), pass_fds=pass_fds, stdin=subprocess.DEVNULL)

    def _wait_for_writer(self) -> None:
        """The writer makes the folder and finishes what a crash has left; readers need both."""
        while not self._stop and not (self._together / "writer.control").exists():
            if self._running["writer"].poll() is not None:
                raise FileError(f"{self._settings.folder}: the process that writes could not start; its log says why")
            time.sleep(0.02)

    def _tend(self, role: str) -> None:
        process = self._running.get(role)
        if process is not None and process.poll() is None:
            return
        now = time.monotonic()
        ends = [then for then in self._ends.get(role, []) if now - then < _CALM]
        if process is not None:
            self._logs.event("ended", role=role, code=process.returncode)
            del self._running[role]
            ends.append(now)
        self._ends[role] = ends
        if not ends or now - ends[-1] >= _PAUSES[min(len(ends), len(_PAUSES)) - 1]:
            self._start(role)

    def _end(self) -> None:
        """Readers first, so that nothing is forwarded to a writer that has gone."""
        readers = [process for role, process in self._running.items() if role != "writer"]
        for group in (readers, [self._running[role] for role in ("writer",) if role in self._running]):
            for process in group:
                with suppress(OSError):
                    process.terminate()
            for process in group:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(self._settings.drain + 5)
                process.kill()  # of one that has ended: nothing
                process.wait()
