"""The server: requests a second and latencies at 1, 8 and 64 connections beside `chroma run`, and its CPU a request.

Both servers hold the same vectors and answer the same queries, one after the other on each connection; recall is
counted against the exact answer. The CPU of a request is that of the server's process (from /proc), and what it needs
beyond the search is the difference to the same searches in this process, after each turn anew and on the same core: a
core that others use too is slower now than then. The caller takes CPU too, on the same machine.
`--chroma` is the command of an environment where Chroma is installed; without it, ours is measured alone.

Where `wrk` is installed, it asks: it takes far less CPU than a caller in Python, so the servers are measured and not
the caller. `--cores 1 0` puts the servers on one core and the caller on another.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec

from ..measuring.field import Line
from ..measuring.prepared import Prepared
from .filters import vectors_of
from .run import Run

F32 = npt.NDArray[np.float32]
ROUNDS = 3
K = 10
QUERIES = 200
PART = 2000
ALONE = 0.5  # seconds of CPU for the searches without a server


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    parser.add_argument("--records", type=int, default=50_000, help="how many (50000)")
    parser.add_argument("--dim", type=int, default=384, help="numbers in a vector (384)")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 64], help="at a time (1 8 64)")
    parser.add_argument("--requests", type=int, default=2000, help="in one turn (2000)")
    parser.add_argument("--turn", type=float, default=3.0, help="seconds of one turn, where wrk asks (3)")
    parser.add_argument("--wrk", default=shutil.which("wrk"), help="the command wrk (that of the PATH)")
    parser.add_argument("--cores", type=int, nargs=2, metavar=("SERVER", "CALLER"), help="a core for each")
    parser.add_argument("--chroma", default=shutil.which("chroma"), help="the command chroma (that of the PATH)")


def experiment(run: Run, given: Prepared) -> None:
    """Measure once."""
    run.stage("server", f"{run.options.records}x{run.options.dim}", given, lambda _: measure(run))


@dataclass
class Kind:
    """One way to ask: whose server, and the bytes of each request."""

    name: str
    server: Server
    requests: list[bytes]
    ids: Callable[[Any], list[Any]]


class Server:
    """A server in a process of its own."""

    def __init__(self, command: list[str], port: int, ready: str, folder: Path) -> None:
        """Start it, and wait until it answers."""
        self.port = port
        self.log = open(folder / f"{port}.log", "w")  # noqa: SIM115 (it lives as long as the process)
        self.process = subprocess.Popen(command, cwd=folder, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}{ready}", timeout=5):
                return
            time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"{command[0]} did not start")

    def post(self, path: str, content: Any) -> Any:
        """One request, apart from those that are timed."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", json.dumps(content).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def cpu(self) -> float:
        """Seconds of CPU of all its threads so far."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9

    def move_to(self, core: int) -> None:
        """Keep all its threads on one core."""
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {core})

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


def measure(run: Run) -> list[Line]:
    """Both servers, all ways to ask, in turns."""
    n, dim = run.options.records, run.options.dim
    vectors = vectors_of(n + QUERIES, dim, np.random.default_rng(0))
    records, queries = vectors[:n], vectors[n:]
    truth = np.argsort(-(queries @ records.T), axis=1, kind="stable")[:, :K]
    folder = Path(tempfile.mkdtemp())
    servers: list[Server] = []
    try:
        kinds = _ours(run, servers, folder, records, queries)
        if run.options.chroma:
            kinds.append(_chroma(run, servers, folder, records, queries))
        if run.options.cores:
            for server in servers:
                server.move_to(run.options.cores[0])
            os.sched_setaffinity(0, {run.options.cores[1]})
        with lethevec.connect(folder / "alone") as db:
            docs = db.collection("docs", dim=dim, metric="cosine")
            docs.add(records, ids=[str(id) for id in range(n)])
            alone = _Alone(docs, queries, run.options.cores)
            lines = [_line(run, kind, truth, count, alone) for count in run.options.connections for kind in kinds]
    finally:
        for server in servers:
            if server.process.poll() is None:
                server.stop()
        shutil.rmtree(folder)
    head = ["asked", "connections", "requests/s", "p50 ms", "p99 ms", "recall@10", "server CPU us", "search alone us"]
    head.append("beyond search us")
    names = ["kind", "connections", "per_second", "p50_ms", "p99_ms", "recall", "cpu_us", "search_us"]
    names.append("cpu_beyond_search_us")
    rows = [["" if line[name] is None else line[name] for name in names] for line in lines]
    run.table(f"Servers, {n:,} x {dim}", head, rows)
    return lines


def _ours(run: Run, servers: list[Server], folder: Path, records: F32, queries: F32) -> list[Kind]:
    port = _free_port()
    command = [
        sys.executable,
        "-m",
        "lethevec.cli",
        "serve",
        str(folder / "ours"),
        "--port",
        str(port),
        "--log",
        "none",
    ]
    server = Server(command, port, "/readyz", folder)
    servers.append(server)
    run.note("  ours: loading")
    server.post("/v1/collections", {"name": "docs", "dim": records.shape[1], "metric": "cosine"})
    for begin in range(0, len(records), PART):
        part = records[begin : begin + PART]
        ids = [str(id) for id in range(begin, begin + len(part))]
        server.post("/v1/collections/docs/upsert", {"ids": ids, "vectors": base64.b64encode(part.tobytes()).decode()})
    path, json_kind = "/v1/collections/docs/search", "application/json"
    asked = [{"vector": [round(float(x), 7) for x in query], "k": K} for query in queries]
    packed = [{"vectors": base64.b64encode(query.tobytes()).decode(), "k": K} for query in queries]

    def ids_of(content: Any) -> list[Any]:
        return list(content["ids"][0])

    return [
        Kind("ours, JSON", server, [_http(path, json.dumps(one).encode(), json_kind) for one in asked], ids_of),
        Kind("ours, base64", server, [_http(path, json.dumps(one).encode(), json_kind) for one in packed], ids_of),
        Kind(
            "ours, raw float32",
            server,
            [_http(f"{path}?k={K}", query.tobytes(), "application/octet-stream") for query in queries],
            ids_of,
        ),
    ]


def _chroma(run: Run, servers: list[Server], folder: Path, records: F32, queries: F32) -> Kind:
    port = _free_port()
    settings = folder / "chroma.yaml"
    settings.write_text(f'port: {port}\nlisten_address: "127.0.0.1"\npersist_path: {folder / "chroma"}\n')
    command = [os.path.abspath(run.options.chroma), "run", str(settings)]
    server = Server(command, port, "/api/v2/heartbeat", folder)
    servers.append(server)
    run.note("  chroma: loading")
    base = "/api/v2/tenants/default_tenant/databases/default_database/collections"
    made = server.post(base, {"name": "docs", "configuration": {"hnsw": {"space": "cosine"}}})
    for begin in range(0, len(records), PART):
        part = records[begin : begin + PART]
        content = {
            "ids": [str(id) for id in range(begin, begin + len(part))],
            "embeddings": [base64.b64encode(vector.tobytes()).decode() for vector in part],
        }
        server.post(f"{base}/{made['id']}/add", content)
    bodies = [
        {
            "query_embeddings": [[round(float(x), 7) for x in query]],
            "n_results": K,
            "include": ["metadatas", "distances"],
        }
        for query in queries
    ]
    requests = [_http(f"{base}/{made['id']}/query", json.dumps(body).encode(), "application/json") for body in bodies]
    return Kind("chroma run, JSON", server, requests, lambda content: list(content["ids"][0]))


def _line(run: Run, kind: Kind, truth: npt.NDArray[np.int64], connections: int, alone: _Alone) -> Line:
    """The best-placed of several turns is not taken: medians over turns."""
    found: dict[int, bytes] = {}
    turns = []
    _ask(kind, connections, min(QUERIES, run.options.requests), found)  # to warm up, and for recall
    for _ in range(run.options.rounds or ROUNDS):
        before, begin = kind.server.cpu(), time.perf_counter()
        if run.options.wrk:
            count, rate, p50, p99 = _ask_with_wrk(run.options.wrk, kind, connections, run.options.turn)
        else:
            latencies = _ask(kind, connections, run.options.requests, {})
            count, rate = len(latencies), len(latencies) / (time.perf_counter() - begin)
            p50, p99 = (np.percentile(latencies, [50, 99]) * 1e3).tolist()
        cpu = (kind.server.cpu() - before) / count * 1e6
        search = alone.measure()
        turns.append((rate, p50, p99, cpu, search, cpu - search))
    rate, p50, p99, cpu, search, beyond = np.median(np.array(turns), axis=0).tolist()
    ours = kind.name.startswith("ours")
    hits = [len(set(kind.ids(json.loads(body))) & set(map(str, truth[place]))) for place, body in found.items()]
    return {
        "what": "server",
        "kind": kind.name,
        "connections": connections,
        "per_second": round(rate),
        "p50_ms": round(p50, 2),
        "p99_ms": round(p99, 2),
        "cpu_us": round(cpu, 1),
        "search_us": round(search, 1) if ours else None,
        "cpu_beyond_search_us": round(beyond, 1) if ours else None,
        "recall": round(sum(hits) / (K * len(hits)), 4),
    }


def _ask(kind: Kind, connections: int, count: int, found: dict[int, bytes]) -> list[float]:
    """So many requests over so many connections, each busy all the time; seconds that each took."""
    waiting = selectors.DefaultSelector()
    sent = 0
    latencies: list[float] = []
    state: dict[socket.socket, tuple[int, float, bytearray]] = {}
    try:
        for _ in range(min(connections, count)):
            one = socket.create_connection(("127.0.0.1", kind.server.port))
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            waiting.register(one, selectors.EVENT_READ)
            state[one] = (sent, time.perf_counter(), bytearray())
            one.sendall(kind.requests[sent % len(kind.requests)])
            sent += 1
        while state:
            for key, _ in waiting.select(60):
                one = key.fileobj  # type: ignore[assignment]
                number, begin, got = state[one]
                data = one.recv(1 << 18)
                if not data:
                    raise RuntimeError(f"{kind.name}: the server hung up")
                got += data
                body = _body(got)
                if body is None:
                    continue
                latencies.append(time.perf_counter() - begin)
                if number < len(kind.requests):
                    found[number] = body
                if sent < count:
                    state[one] = (sent, time.perf_counter(), bytearray())
                    one.sendall(kind.requests[sent % len(kind.requests)])
                    sent += 1
                else:
                    waiting.unregister(one)
                    one.close()
                    del state[one]
    finally:
        for one in state:
            one.close()
        waiting.close()
    return latencies


def _ask_with_wrk(wrk: str, kind: Kind, connections: int, seconds: float) -> tuple[int, float, float, float]:
    """How many requests, how many a second, and milliseconds that half and 99 % of them took."""
    lines = ["local asked = {}"]
    for number, request in enumerate(kind.requests, start=1):
        lines.append(f'asked[{number}] = "' + "".join(f"\\{byte:03d}" for byte in request) + '"')
    lines.append("local last = 0\nfunction request() last = last % #asked + 1 return asked[last] end\n")
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write("\n".join(lines))
        script.flush()
        duration = f"{max(1, round(seconds))}s"
        command = [
            wrk,
            "-t",
            "1",
            "-c",
            str(connections),
            "-d",
            duration,
            "--timeout",
            "60s",
            "--latency",
            "-s",
            script.name,
        ]
        said = subprocess.run(
            [*command, f"http://127.0.0.1:{kind.server.port}"], capture_output=True, text=True, check=True
        ).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(f"{kind.name}: expected answers alone, got {said}")
    found = [re.search(pattern, said) for pattern in (r"(\d+) requests in", r"Requests/sec:\s+([\d.]+)")]
    count, rate = (float(match[1]) for match in found if match)
    return int(count), rate, _milliseconds(said, "50%"), _milliseconds(said, "99%")


def _milliseconds(said: str, share: str) -> float:
    match = re.search(share + r"\s+([\d.]+)(us|ms|s)", said)
    assert match is not None
    return float(match[1]) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[match[2]]


def _http(path: str, body: bytes, kind: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _body(got: bytearray) -> bytes | None:
    """The body of an answer, once it is whole."""
    head, mark, body = bytes(got).partition(b"\r\n\r\n")
    if not mark:
        return None
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"expected 200, got {head[:60]!r}")
    match = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    assert match is not None, "both servers say how long an answer is"
    return body if len(body) >= int(match[1]) else None


class _Alone:
    """The same searches in this process."""

    def __init__(self, docs: Any, queries: F32, cores: list[int] | None) -> None:
        self._docs = docs
        self._queries = queries
        self._cores = cores

    def measure(self) -> float:
        """Microseconds of CPU of one search, on the server's core."""
        if self._cores:
            os.sched_setaffinity(0, {self._cores[0]})
        begin, count = time.process_time(), 0
        while time.process_time() - begin < ALONE:
            for query in self._queries:
                self._docs.search(query[None], K)
            count += len(self._queries)
        taken = time.process_time() - begin
        if self._cores:
            os.sched_setaffinity(0, {self._cores[1]})
        return taken / count * 1e6


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        return int(made.getsockname()[1])
