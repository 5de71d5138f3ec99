"""Load on a server from outside, with an oracle: what was acknowledged is there, what was forgotten is not.

    python -m tests.server.load load --seconds 600 --workers 2
    python -m tests.server.load crash --kills 50 --workers 0

`make test-server-load` and `make test-server-crash` run these; the suite runs short versions. All traffic is loopback.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DIM = 8
PATH = "/v1/collections/load"


class Served:
    """`lethevec serve` as a process group of its own."""

    def __init__(self, folder: Path, workers: int = 0, *more: str) -> None:
        self._log = tempfile.NamedTemporaryFile("w+", suffix=".log")  # noqa: SIM115 (it lives as long as this)
        command = [sys.executable, "-m", "lethevec.cli", "serve", str(folder), "--port", "0", "--log", "none"]
        self.process = subprocess.Popen(
            [*command, "--workers", str(workers), *more],
            stdin=subprocess.DEVNULL,
            stderr=self._log,
            start_new_session=True,
        )
        self.port = 0
        end = time.monotonic() + 180  # two or three processes; on a busy machine it has taken more than sixty
        while time.monotonic() < end:
            match = re.search(r"at https?://\S+:(\d+) ", self.log())
            if match and self._answers(int(match[1])):
                self.port = int(match[1])
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        log = self.log()
        self.kill()
        raise AssertionError(f"the server did not start: {log}")

    @staticmethod
    def _answers(port: int) -> bool:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            try:
                connection.request("GET", "/readyz")
                return connection.getresponse().status == 200
            except OSError:
                return False

    def log(self) -> str:
        """What it wrote so far."""
        return Path(self._log.name).read_text()

    def processes(self) -> list[int]:
        """Every process of the server, with data or without."""
        found = [self.process.pid]
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return found + [int(pid) for pid in children.read_text().split()]

    def memory(self) -> int:
        """Bytes of memory that all its processes have to themselves."""
        total = 0
        for pid in self.processes():
            match = re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
            total += int(match[1]) * 1024 if match else 0
        return total

    def stop(self) -> int:
        """End it as an operator does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self._log.close()
        return code

    def kill(self) -> None:
        """kill -9, all of it at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)
        self._log.close()


class Caller:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send JSON; the status and the answer."""
        data = b"" if body is None else json.dumps(body).encode()
        self._connection.request(method, path, data, {"content-type": "application/json"})
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


@dataclass
class Oracle:
    """What the server has acknowledged. Ids are never used twice, so what was forgotten stays so."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    living: dict[str, list[float]] = field(default_factory=dict)
    forgotten: dict[str, list[float]] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)  # sent, and no answer came
    next_subject: int = 0
    searches: int = 0
    receipts: int = 0

    def problem(self, port: int) -> str | None:
        """How the server's records differ from what was acknowledged, or None."""
        caller = Caller(port)
        there: set[str] = set()
        after: Any = None
        while True:
            status, page = caller.call("POST", PATH + "/ids", {} if after is None else {"after": after})
            assert status == 200, page
            there |= set(page["ids"])
            after = page["next"]
            if after is None:
                break
        caller.close()
        lost = [id for id in self.living if id not in there and id not in self.doubtful]
        undone = [id for id in self.forgotten if id in there]
        unknown = there - set(self.living) - self.doubtful
        if lost or undone or unknown:
            return f"{len(lost)} acknowledged writes lost, {len(undone)} erasures undone, {len(unknown)} unknown"
        return None


def prepare(port: int) -> None:
    """Make the collection."""
    caller = Caller(port)
    status, answer = caller.call(
        "POST", "/v1/collections", {"name": "load", "dim": DIM, "metric": "l2", "exist_ok": True}
    )
    assert status in (200, 201), answer
    caller.close()


def write(port: int, oracle: Oracle, stop: threading.Event, seed: int, failures: list[str]) -> None:
    """Add records of new subjects, and forget old ones, until told to stop or cut off."""
    chance = random.Random(seed)
    caller = Caller(port)
    mine: list[tuple[str, list[str]]] = []
    try:
        while not stop.is_set():
            if len(mine) < 5 or chance.random() < 0.55:
                with oracle.lock:
                    oracle.next_subject += 1
                    subject = f"s{oracle.next_subject}"
                ids = [f"{subject}-{n}" for n in range(chance.randint(1, 5))]
                vectors = [[chance.gauss(0, 1) for _ in range(DIM)] for _ in ids]
                with oracle.lock:
                    oracle.doubtful |= set(ids)
                status, answer = caller.call(
                    "POST", PATH + "/upsert", {"ids": ids, "vectors": vectors, "subjects": [subject] * len(ids)}
                )
                if status != 200:
                    failures.append(f"upsert: {status} {answer}")
                    return
                with oracle.lock:
                    oracle.living |= dict(zip(ids, vectors, strict=True))
                    oracle.doubtful -= set(ids)
                mine.append((subject, ids))
            else:
                subject, ids = mine.pop(chance.randrange(len(mine)))
                with oracle.lock:
                    oracle.doubtful |= set(ids)
                body = {"subject": subject} if chance.random() < 0.5 else {"ids": ids}
                status, answer = caller.call("POST", PATH + "/forget", body)
                if status not in (200, 202) or (status == 200 and answer["records"] != len(ids)):
                    failures.append(f"forget: {status} {answer}")
                    return
                with oracle.lock:
                    for id in ids:
                        oracle.forgotten[id] = oracle.living.pop(id)
                    oracle.doubtful -= set(ids)
                    oracle.receipts += status == 200
    except (OSError, http.client.HTTPException, ValueError):
        if not stop.is_set():
            failures.append("a connection was lost")
    finally:
        caller.close()


def search(port: int, oracle: Oracle, stop: threading.Event, seed: int, failures: list[str]) -> None:
    """Search near what was forgotten: nothing that was gone when a search began may be in its answer."""
    chance = random.Random(seed)
    caller = Caller(port)
    try:
        while not stop.is_set():
            if chance.random() < 0.05:  # perhaps another worker
                caller.close()
                caller = Caller(port)
            with oracle.lock:
                gone = list(oracle.forgotten.items())
            vector = gone[-1 - chance.randrange(min(5, len(gone)))][1] if gone else [0.0] * DIM
            status, answer = caller.call("POST", PATH + "/search", {"vector": vector, "k": 10})
            if status != 200:
                failures.append(f"search: {status} {answer}")
                return
            back = set(answer["ids"][0]) & {id for id, _ in gone}
            if back:
                failures.append(f"{len(back)} forgotten records in an answer")
                return
            with oracle.lock:
                oracle.searches += 1
    except (OSError, http.client.HTTPException, ValueError):
        if not stop.is_set():
            failures.append("a connection was lost")
    finally:
        caller.close()


def run_load(
    folder: Path, seconds: float, workers: int, *, writers: int = 2, searchers: int = 3, least: int = 0
) -> dict[str, Any]:
    """Adds, forgets and searches at once; what came of it. It goes on, for a minute at most, until `least` records are
    forgotten and ten times as many searches were answered."""
    server = Served(folder, workers)
    oracle = Oracle()
    stop = threading.Event()
    failures: list[str] = []
    try:
        prepare(server.port)
        threads = [
            threading.Thread(target=act, args=(server.port, oracle, stop, seed, failures), daemon=True)
            for act, count in ((write, writers), (search, searchers))
            for seed in range(count)
        ]
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        memory = []

        def enough() -> bool:
            with oracle.lock:
                return len(oracle.forgotten) >= least and oracle.searches >= 10 * least

        while not failures and (time.monotonic() < end or (time.monotonic() < end + 60 and not enough())):
            time.sleep(min(1.0, seconds / 20))
            memory.append(server.memory())
        stop.set()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
        problem = oracle.problem(server.port)
        if problem:
            failures.append(problem)
    finally:
        stop.set()
        code = server.stop()
    if code not in (0, -signal.SIGTERM):
        failures.append(f"the server ended with {code}")
    quarter = memory[len(memory) // 4] if memory else 0
    return {
        "seconds": seconds,
        "workers": workers,
        "searches": oracle.searches,
        "written": len(oracle.living) + len(oracle.forgotten),
        "forgotten": len(oracle.forgotten),
        "memory_after_a_quarter": quarter,
        "memory_at_the_end": memory[-1] if memory else 0,
        "failures": failures,
    }


def run_crash(folder: Path, kills: int, seed: int = 0, workers: int = 0) -> dict[str, Any]:
    """kill -9 under load, again and again; after each, what was acknowledged is there and what was forgotten is not."""
    chance = random.Random(seed)
    oracle = Oracle()
    failures: list[str] = []
    for kill in range(kills):
        server = Served(folder, workers)
        try:
            prepare(server.port)
            problem = oracle.problem(server.port)
            if problem:
                failures.append(f"after kill {kill}: {problem}")
            oracle.doubtful = settle(server.port, oracle)
            stop = threading.Event()
            threads = [
                threading.Thread(target=act, args=(server.port, oracle, stop, kill * 10 + place, failures), daemon=True)
                for place, act in enumerate((write, write, search))
            ]
            for thread in threads:
                thread.start()
            time.sleep(chance.uniform(0.05, 0.6))
            stop.set()
        finally:
            server.kill()
        for thread in threads:
            thread.join(60)
        if failures:
            break
    server = Served(folder, workers)
    try:
        problem = oracle.problem(server.port)
        if problem:
            failures.append(f"at the end: {problem}")
    finally:
        server.stop()
    return {
        "kills": kills,
        "workers": workers,
        "written": len(oracle.living) + len(oracle.forgotten),
        "forgotten": len(oracle.forgotten),
        "searches": oracle.searches,
        "failures": failures,
    }


def settle(port: int, oracle: Oracle) -> set[str]:
    """Find out what became of the requests that got no answer; none is in doubt after that."""
    caller = Caller(port)
    for id in sorted(oracle.doubtful):
        status, answer = caller.call("POST", PATH + "/get", {"ids": [id], "include": ["vectors"]})
        if status == 200:
            oracle.living[id] = answer["vectors"][0]
        elif id in oracle.living:
            oracle.forgotten[id] = oracle.living.pop(id)
    caller.close()
    return set()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["load", "crash"])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "people"
        if given.what == "load":
            result = run_load(place, given.seconds, given.workers)
            grown = result["memory_at_the_end"] / max(1, result["memory_after_a_quarter"])
            if grown > 1.25:
                result["failures"].append(f"memory grew to {grown:.2f} times what it was after a quarter of the time")
        else:
            result = run_crash(place, given.kills, workers=given.workers)
    print(json.dumps(result, indent=1))
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
