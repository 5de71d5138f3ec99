"""A browser, a server, and somebody who uses the one to look at the other.

`make test-console` installs what this needs. Without a browser every test here is skipped, and says so; where
LETHEVEC_BROWSER is set, as in CI, that is a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import httpx
import numpy as np
import pytest
import uvicorn

import lethevec
from lethevec.server.app import make_app
from lethevec.server.core import Core
from lethevec.server.keys import KeyFile
from lethevec.server.serving import configuration, listen
from lethevec.server.settings import Settings

REQUIRED = bool(os.environ.get("LETHEVEC_BROWSER"))

try:
    from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

    if REQUIRED:
        import axe_playwright_python  # noqa: F401 (a test of the screens needs it)
except ImportError:  # the tests themselves say that it is missing
    if REQUIRED:
        raise
else:
    expect.set_options(timeout=30_000)  # a busy machine is slow

PATIENCE = 180  # seconds for what takes one or two, and on a busy machine has taken more than sixty
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]


def missing(what: str) -> NoReturn:
    """Skip, by the name of what is missing; where a browser must be there, fail."""
    if REQUIRED:
        pytest.fail(what)
    pytest.skip(what)


def chromium() -> str | None:
    """The browser of this machine, if it has one."""
    given = os.environ.get("LETHEVEC_CHROMIUM")
    return given or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests; each test has a window of its own that remembers nothing."""
    path = chromium()
    if path is None:
        missing("the console's tests need chromium: sudo apt install chromium")
    with sync_playwright() as running:
        started = running.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


class Served:
    """A server that can be stopped and come back on the same port; with `process`, as people run it."""

    def __init__(self, folder: Path, *, process: bool = False, **settings: Any) -> None:
        self.folder = folder
        self.process = process
        self._here: tuple[uvicorn.Server, threading.Thread] | None = None
        self.admin = ""
        self.state = folder.with_name(folder.name + "-server")
        self.log = folder.with_name(folder.name + ".log")
        self.settings = {"expire_every": 0, **settings}
        # Kept while the server is away, so that nobody else is given the port. Linux lets a server listen at a port
        # that a silent socket has, if both say so.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port = self._reserved.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.console = f"{self.url}/console"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Served:
        """Until it is ready."""
        if not self.process:
            self._start_here()
            return self
        others = [f"--set={name}={value}" for name, value in self.settings.items()]
        command = [sys.executable, "-m", "lethevec.cli", "serve", str(self.folder), "--port", str(self.port), *others]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder.parent)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                if httpx.get(f"{self.url}/readyz").status_code == 200:
                    return self
            except httpx.TransportError:
                assert self._process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError("it did not become ready")

    def _start_here(self) -> None:
        """In a thread of this process, which takes a tenth of the time."""
        given = {"log": "none", **self.settings}
        settings = Settings(folder=self.folder, port=self.port, **given)
        settings.check()
        made = uvicorn.Server(configuration(make_app(Core(settings)), settings))
        thread = threading.Thread(target=made.run, kwargs={"sockets": [listen(settings)]}, daemon=True)
        thread.start()
        end = time.monotonic() + PATIENCE
        while not made.started:
            assert time.monotonic() < end
            time.sleep(0.005)
        self._here = made, thread

    def stop(self) -> None:
        """As an operator would."""
        if self._here is not None:
            server, thread = self._here
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()
            self._here = None
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE)
            self._process = None

    def close(self) -> None:
        """For good."""
        self.stop()
        self._reserved.close()

    def key(self, *roles: str, name: str = "test", **options: Any) -> str:
        """A key, which counts within a second."""
        return KeyFile(self.state).make(name, roles, **options)[0]

    def call(self, key: str, path: str, body: Any = None, method: str = "POST") -> Any:
        """What a program would send."""
        content = None if method == "GET" else body or {}
        headers = {"authorization": f"Bearer {key}"}
        answer = httpx.request(method, self.url + path, json=content, headers=headers, timeout=600)
        answer.raise_for_status()
        return answer.json()


def fill(folder: Path, count: int = 120) -> None:
    """`notes` and `photos`: records of a few people, with payloads, some of them due one day."""
    random = np.random.default_rng(7)
    vectors = random.normal(size=(count, 8)).astype("f4")
    people = ["ann@example.org", "bob@example.org", "cyd@example.org", None]
    soon = [None, "2031-01-01", "2030-05-05", "2033-03-03"]
    with lethevec.connect(folder) as db:
        notes = db.collection("notes", dim=8)
        notes.add(
            vectors,
            ids=[f"note-{place}" for place in range(count)],
            subjects=[people[place % 4] for place in range(count)],
            payloads=[
                {"title": f"Title {place}", "year": 1990 + place % 30, "place": "Rome"} for place in range(count)
            ],
            expires=[_moment(soon[place // 4 % 4]) for place in range(count)],
        )
        db.collection("photos", dim=8, metric="l2").add(
            vectors[:9], ids=range(9), subjects=["ann@example.org"] * 5 + ["dan@example.org"] * 4
        )


def _moment(text: str | None) -> Any:
    from datetime import datetime, timezone

    return None if text is None else datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Servers of the test; they are stopped at its end."""
    running: list[Served] = []

    def begin(*, keys: bool = True, **settings: Any) -> Served:
        made = Served(tmp_path / "people", **settings)
        fill(made.folder)
        made.admin = made.key("admin", name="data protection") if keys else ""
        running.append(made)  # first: one that does not become ready in time is stopped as well
        return made.start()

    yield begin
    for one in running:
        one.close()


class Visitor:
    """Somebody at the browser. `problems` are errors of the page, and breaches of its own rules."""

    def __init__(self, context: BrowserContext, server: Served) -> None:
        self.context = context
        self.server = server
        self.page: Page = context.new_page()
        self.problems: list[str] = []
        self.addresses: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._said)
        self.page.on("request", lambda request: self.addresses.append(request.url))

    def _said(self, message: Any) -> None:
        harmless = "Failed to load resource" in message.text or "net::ERR" in message.text
        if message.type == "error" and not harmless:
            self.problems.append(message.text)

    def come(self, key: str | None = None, screen: str = "") -> Visitor:
        """To the console, through the door if there is a key."""
        self.page.goto(self.server.console + (f"#/{screen}" if screen else ""))
        if key is not None:
            self.sign_in(key)
            expect(self.page.locator(".frame")).to_be_attached()
        return self

    def sign_in(self, key: str) -> None:
        self.page.get_by_label("Key", exact=True).fill(key)
        self.page.get_by_role("button", name="Sign in").click()

    def go(self, screen: str) -> None:
        """To a screen, once the page has left the one before."""
        self.page.evaluate(
            """screen => new Promise((done) => {
                if (location.hash === `#/${screen}`) return done();
                addEventListener("hashchange", () => done(), {once: true});
                location.hash = `#/${screen}`;
            })""",
            screen,
        )

    def click(self, name: str | re.Pattern[str], **options: Any) -> None:
        self.page.get_by_role("button", name=name, **options).first.click()

    def look_up(self, name: str) -> None:
        self.page.get_by_label("Person", exact=True).fill(name)
        self.click("Look up")

    def sees(self, text: str | re.Pattern[str], wait: float = 30) -> None:
        expect(self.page.get_by_text(text).filter(visible=True).first).to_be_visible(timeout=wait * 1000)

    def sees_what_is_held(self) -> None:
        """The answer about a person: the screen itself has words like these from the beginning."""
        expect(self.page.get_by_role("heading", name="What is held", exact=True)).to_be_visible()

    def poll(self, condition: Callable[[], bool], wait: float = 30) -> None:
        """Until the test itself has seen something, while the page goes on."""
        end = time.monotonic() + wait
        while not condition():
            assert time.monotonic() < end, "it did not come to pass in time"
            self.page.wait_for_timeout(20)

    def erase(self, name: str) -> None:
        """The whole way, as far as the last question."""
        self.click(re.compile("^Erase…"))
        self.click("Go on")
        self.page.get_by_label("Type the name of the person once more").fill(name)
        self.page.get_by_role("button", name=re.compile("^Erase [0-9]")).click()

    def kept(self) -> str:
        """Everything that the browser keeps and that scripts can read, and where the page is."""
        kept = "document.cookie, {...localStorage}, {...sessionStorage}, location.href, document.title"
        found: str = self.page.evaluate(f"() => JSON.stringify([{kept}])")
        databases = self.page.evaluate(
            "async () => (await indexedDB.databases()).length + (await caches.keys()).length"
        )
        assert databases == 0
        return found


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visitor]]:
    """Windows of the test; none of them may have had an error."""
    visitors: list[Visitor] = []

    def begin(server: Served, **options: Any) -> Visitor:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        visitors.append(Visitor(context, server))
        return visitors[-1]

    yield begin
    for one in visitors:
        one.context.close()
        assert one.problems == []


def held_open(path: Path) -> sqlite3.Connection:
    """Another program in the middle of reading a file."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    connection.execute("SELECT count(*) FROM receipts").fetchone()
    return connection


def stores(folder: Path) -> list[Path]:
    """The database files of the collections."""
    return sorted(folder.glob("*.lethe"))
