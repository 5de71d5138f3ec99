"""The MCP server, through the protocol's own client: in memory, over stdin and stdout, and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the MCP package is not installed: make test-mcp")

from mcp import Client, StdioServerParameters

import lethevec
from lethevec.errors import InputError, ParameterError
from lethevec.integrations import mcp as adapter
from lethevec.integrations.mcp import Memory, make_server

COMMAND = [sys.executable, "-m", "lethevec.cli", "mcp"]
SECRET = "Ann has told her doctor about the rash on her left arm"


@pytest.fixture(params=["folder", "server"])
def database(tmp_path, request):
    if request.param == "folder":
        with lethevec.connect(tmp_path / "memory") as db:
            yield db
    else:
        with lethevec.Client(request.getfixturevalue("server")) as client:
            yield client
            for name in client.collections():
                client.drop(name)


@asynccontextmanager
async def in_process(folder: Path, *options: str):
    with lethevec.connect(folder, read_only=bool(options)) as db:
        async with Client(make_server(Memory(db), read_only=bool(options))) as client:
            yield client


@asynccontextmanager
async def over_stdio(folder: Path, *options: str):
    asked = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], str(folder), *options], env=dict(os.environ))
    async with Client(asked) as client:
        yield client


@contextmanager
def http_server(folder: Path, *options: str):
    """Its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([*COMMAND, str(folder), "--http", str(port), *options], stderr=subprocess.PIPE)
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None, server.stderr.read()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.terminate()
        server.communicate(timeout=30)


@asynccontextmanager
async def over_http(folder: Path, *options: str):
    with http_server(folder, *options) as address:
        async with Client(address) as client:
            yield client


async def call(client: Client, name: str, **arguments):
    """What a tool answers, or the text of its refusal."""
    result = await client.call_tool(name, arguments)
    text = "".join(part.text for part in result.content)
    return text if result.is_error else json.loads(text)


def held_in_files(folder: Path, text: str) -> bool:
    return any(text.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("connected", [in_process, over_stdio, over_http])
def test_a_memory_is_made_found_forgotten_and_proved(connected, tmp_path):
    async def run():
        folder = tmp_path / "memory"
        async with connected(folder) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {"search", "remember", "list_about", "forget", "verify"}
            assert tools["forget"].annotations.destructive_hint is True
            assert tools["search"].annotations.read_only_hint is True
            assert tools["remember"].annotations.destructive_hint is True
            ann = await call(client, "remember", text=SECRET, subject="ann")
            await call(client, "remember", text="Bob collects stamps from Norway", subject="bob")
            await call(client, "remember", text="The office closes at six")
            found = await call(client, "search", query="what does the doctor know?", k=1)
            assert found["memories"][0]["id"] == ann["id"]
            assert found["memories"][0]["text"] == SECRET
            assert (await call(client, "search", query="doctor", subject="bob"))["memories"][0]["subject"] == "bob"
            assert (await call(client, "list_about", subject="ann"))["records"] == 1
            assert held_in_files(folder, SECRET)
            preview = await call(client, "forget", subject="ann")
            assert preview["records"] == 1
            assert held_in_files(folder, SECRET)  # nothing has happened yet
            done = await call(client, "forget", subject="ann", token=preview["token"])
            assert done["forgotten"] == 1
            assert SECRET not in json.dumps([preview, done])
            assert not held_in_files(folder, SECRET)
            assert (await call(client, "list_about", subject="ann"))["memories"] == []
            assert (await call(client, "verify", receipt=done["receipt"]))["holds"] is True
            assert "token" in await call(client, "forget", subject="bob", token=preview["token"])
            assert "expected the number of a receipt" in await call(client, "verify", receipt=99)
        async with connected(folder, "--read-only") as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {"search", "list_about", "verify"}
            assert len((await call(client, "search", query="stamps"))["memories"]) == 2
            assert (await call(client, "verify", receipt=done["receipt"]))["holds"] is True

    asyncio.run(run())


def test_a_token_stands_for_the_records_of_its_preview(database, monkeypatch):
    memory = Memory(database)
    first = memory.remember("one", subject="ann")["id"]
    token = memory.forget(subject="ann")["token"]
    memory.remember("two", subject="ann")
    with pytest.raises(ParameterError, match="others"):
        memory.forget(subject="ann", token=token)
    with pytest.raises(ParameterError, match="preview"):
        memory.forget(subject="ann", token=token)  # a token is good for one try
    token = memory.forget(ids=[first])["token"]
    with pytest.raises(ParameterError, match="others"):
        memory.forget(subject="ann", token=token)
    token = memory.forget(ids=[first, "never there"])["token"]
    assert memory.forget(ids=[first, "never there"], token=token)["forgotten"] == 1
    token = memory.forget(subject="ann")["token"]
    later = time.monotonic() + 601
    monkeypatch.setattr(adapter.time, "monotonic", lambda: later)
    with pytest.raises(ParameterError, match="ten minutes"):
        memory.forget(subject="ann", token=token)
    assert memory.forget(subject="nobody")["token"] is None
    for asked in ({}, {"ids": [], "subject": "a"}):
        with pytest.raises(ParameterError, match="either ids or subject"):
            memory.forget(**asked)


def test_a_subject_is_forgotten_in_all_collections(database):
    memory = Memory(database)
    memory.remember("one", subject="ann")
    database.collection("photos", dim=2).add([[1, 0], [0, 1]], ids=["a", "b"], subjects=["ann", "bob"])
    preview = memory.forget(subject="ann")
    assert (preview["records"], preview["collections"]) == (2, 2)
    assert memory.list_about("ann")["records"] == 2
    assert memory.forget(subject="ann", token=preview["token"])["forgotten"] == 2
    assert (memory.list_about("ann")["records"], memory.list_about("bob")["records"]) == (0, 1)


def test_a_memory_that_is_replaced_is_erased_and_stays_a_persons(database, request, tmp_path):
    memory = Memory(database)
    first = memory.remember(SECRET, subject="ann", id="arm")
    assert first == {"id": "arm"}
    again = memory.remember("Ann is well again", id="arm")
    assert memory.verify(again["receipt"])["holds"]
    assert [one["text"] for one in memory.list_about("ann")["memories"]] == ["Ann is well again"]
    remote = isinstance(database, lethevec.Client)
    assert not held_in_files(request.getfixturevalue("served") if remote else tmp_path, SECRET)
    memory.remember("Bob is well", subject="bob", id="arm")
    assert (memory.list_about("ann")["records"], memory.list_about("bob")["records"]) == (0, 1)


def test_pages_from_elsewhere_are_refused(tmp_path):
    """A browser on this machine reaches the server too, with pages of others."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    plain = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with http_server(tmp_path / "memory") as address:
        for header in ({"Origin": "http://elsewhere.example"}, {"Host": "elsewhere.example"}, {"Origin": "null"}):
            request = urllib.request.Request(address, json.dumps(asked).encode(), plain | header)
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=30)
            assert refused.value.code in (403, 421)
            refused.value.close()


def test_what_is_refused(database):
    memory = Memory(database)
    with pytest.raises(ParameterError, match="nothing"):
        memory.remember("  ")
    with pytest.raises(ParameterError, match="1 to 1000"):
        memory.list_about("ann", limit=0)

    class Other:
        def embed_documents(self, texts):
            return [[1.0, 2.0]] * len(texts)

    with pytest.raises(InputError, match="dim=100"):
        Memory(database, embedding=Other())
    assert Memory(database, collection="small", embedding=Other()).search("x")["memories"] == []


def test_the_command_over_a_server(server, tmp_path):
    def run(*options):
        return subprocess.run([*COMMAND, server, *options], capture_output=True, text=True, check=False, cwd=tmp_path)

    with lethevec.Client(server) as client:
        assert run("--check", "--read-only").returncode == 1  # no collection is there yet
        assert f"{server}: 0 memories in memory" in run("--check").stderr
        Memory(client).remember("one", subject="ann")
        assert "1 memories" in run("--check", "--read-only").stderr
        client.drop("memory")
    assert list(tmp_path.iterdir()) == []


def test_the_command(tmp_path):
    def run(*options):
        return subprocess.run([*COMMAND, *options], capture_output=True, text=True, check=False, cwd=tmp_path)

    assert "0 memories in memory" in run("--check", "new").stderr
    assert run("--check", "--read-only", "none").returncode == 1
    refused = run("new", "--http", "8000", "--host", "0.0.0.0")
    assert (refused.returncode, "anybody may call it" in refused.stderr) == (1, True)
    for name in ("nothing", "lethevec:nothing", "no.module:x"):
        assert run("--check", "new", "--embedding", name).returncode == 1
    assert run("--check", "new", "--embedding", "lethevec.integrations.embedding:WordEmbedding").returncode == 0
