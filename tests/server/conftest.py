"""A server in a thread of the test's process, on a free port of loopback, and a caller of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from lethevec.server.app import make_app
from lethevec.server.core import Core
from lethevec.server.keys import KeyFile
from lethevec.server.serving import configuration, listen
from lethevec.server.settings import Settings


class Running:
    """One server. `call` sends JSON and gives the answer."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.core = Core(settings)
        self._socket = listen(settings)
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        front = make_app(self.core)
        self.known = front.known
        self._server = uvicorn.Server(configuration(front, settings))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        end = time.monotonic() + 120  # on a busy machine
        while not self._server.started:
            assert time.monotonic() < end
            time.sleep(0.005)
        self.http = httpx.Client(base_url=self.url, timeout=30)

    def call(self, method: str, path: str, json: Any = None, *, key: str | None = None, **more: Any) -> httpx.Response:
        headers = {**more.pop("headers", {}), **({"authorization": f"Bearer {key}"} if key else {})}
        return self.http.request(method, path, json=json, headers=headers, **more)

    def post(self, path: str, json: Any = None, **more: Any) -> httpx.Response:
        return self.call("POST", path, {} if json is None else json, **more)

    def stop(self) -> None:
        self.http.close()
        self._server.should_exit = True
        self._thread.join(20)  # a second stop finds it ended
        assert not self._thread.is_alive()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start servers with settings of the test's own; they are stopped at its end."""
    running: list[Running] = []

    def begin(**settings: Any) -> Running:
        given = {"folder": tmp_path / "people", "port": 0, "log": "none", "expire_every": 0.0, **settings}
        running.append(Running(Settings(**given)))
        return running[-1]

    yield begin
    for one in running:
        one.stop()


@pytest.fixture
def server(start: Callable[..., Running]) -> Running:
    """A server without keys, with one collection of five records of three people."""
    made = start()
    fill(made)
    return made


def fill(server: Running, key: str | None = None) -> None:
    """The collection `books`: five records of three people, in two dimensions."""
    server.call("POST", "/v1/collections", {"name": "books", "dim": 2, "metric": "l2"}, key=key).raise_for_status()
    content = {
        "ids": [1, 2, 3, "four", "five"],
        "vectors": [[0, 1], [0, 2], [0, 3], [4, 0], [5, 0]],
        "subjects": ["alice", "alice", "bob", "carol", None],
        "payloads": [{"year": 1990}, {"year": 1991}, {"year": 1992, "tags": ["red"]}, {"year": 1993}, None],
    }
    server.call("POST", "/v1/collections/books/upsert", content, key=key).raise_for_status()


@pytest.fixture
def make_key(tmp_path: Path) -> Callable[..., str]:
    """A key of the server of this test, made before it starts."""

    def make(*roles: str, collections: list[str] | None = None, expires_at: str | None = None) -> str:
        file = KeyFile(tmp_path / "people-server")
        return file.make("test", roles, collections=collections, expires_at=expires_at)[0]

    return make
