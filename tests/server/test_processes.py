"""A server as people run it: `lethevec serve`, with one process or several, under load, killed, and stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lethevec.server.audit import Signer, check_logs

from .load import PATH, Caller, Served, prepare, run_crash, run_load

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it looks into /proc")


@pytest.mark.parametrize("workers", [0, 2])
def test_nothing_is_lost_and_nothing_forgotten_is_returned_under_load(tmp_path, workers):
    result = run_load(tmp_path / "people", 3, workers, least=6)
    assert result["failures"] == []
    assert result["searches"] > 50
    assert result["forgotten"] > 5
    checks = check_logs(tmp_path / "people-server", Signer.open(tmp_path / "people-server").public)
    assert len(checks) == workers + 1
    assert all(check.problem is None and check.unsealed == 0 for check in checks)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_killed_server_has_lost_nothing_that_was_acknowledged(tmp_path, workers):
    result = run_crash(tmp_path / "people", 2, seed=1, workers=workers)
    assert result["failures"] == []
    assert result["written"] > 0


def test_a_read_after_a_forget_never_finds_the_record_on_any_worker(tmp_path):
    server = Served(tmp_path / "people", 3)
    try:
        prepare(server.port)
        writer = Caller(server.port)
        readers = [Caller(server.port) for _ in range(12)]  # connections spread over the workers
        seen = set()
        for turn in range(15):
            vector = [float(turn)] * 8
            status, _ = writer.call("POST", PATH + "/upsert", {"ids": [turn], "vectors": [vector], "subjects": ["x"]})
            assert status == 200
            for reader in readers:
                assert reader.call("POST", PATH + "/search", {"vector": vector, "k": 1})[1]["ids"] == [[turn]]
            assert writer.call("POST", PATH + "/forget", {"subject": "x"})[0] == 200
            for reader in readers:
                assert reader.call("POST", PATH + "/search", {"vector": vector, "k": 1})[1]["ids"] == [[]]
                assert reader.call("POST", PATH + "/get", {"ids": [turn]})[0] == 404
        for reader in readers:
            reader._connection.request("GET", "/metrics")
            text = reader._connection.getresponse().read().decode()
            seen |= {line.split('process="')[1].split('"')[0] for line in text.splitlines() if 'process="' in line}
        assert seen == {"writer", "reader-1", "reader-2", "reader-3"}
        for caller in (writer, *readers):
            caller.close()
    finally:
        server.stop()


def test_processes_that_end_are_started_again(tmp_path):
    server = Served(tmp_path / "people", 2)
    try:
        prepare(server.port)
        caller = Caller(server.port)
        assert caller.call("POST", PATH + "/upsert", {"ids": [1], "vectors": [[1.0] * 8]})[0] == 200
        before = set(server.processes()) - {server.process.pid}
        assert len(before) == 3
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                caller.close()
                caller = Caller(server.port)
                status, answer = caller.call("POST", PATH + "/upsert", {"ids": [2], "vectors": [[2.0] * 8]})
                if status == 200:
                    break
                assert status in (502, 503), answer
            except OSError:
                pass
            time.sleep(0.05)
        assert caller.call("POST", PATH + "/count", {})[1] == {"records": 2}
        assert not before & set(server.processes())
        caller.close()
    finally:
        server.stop()
    assert subprocess.run(["pgrep", "-g", str(server.process.pid)], capture_output=True, check=False).stdout == b""


def test_a_second_writer_and_a_taken_port_are_refused(tmp_path):
    server = Served(tmp_path / "people")
    try:
        command = [sys.executable, "-m", "lethevec.cli", "serve"]
        taken = subprocess.run(
            [*command, str(tmp_path / "other"), "--port", str(server.port)], capture_output=True, text=True, check=False
        )
        assert taken.returncode == 1
        assert "expected a free port" in taken.stderr
        far = subprocess.run(
            [*command, str(tmp_path / "other"), "--host", "0.0.0.0"], capture_output=True, text=True, check=False
        )
        assert far.returncode == 1
        assert "while there are no keys" in far.stderr
        second = subprocess.run(
            [*command, str(tmp_path / "people"), "--port", "0"], capture_output=True, text=True, check=False, timeout=60
        )
        assert second.returncode != 0
        assert "Traceback" not in second.stderr
    finally:
        server.stop()


def test_tls(tmp_path):
    import ssl
    import urllib.request

    command = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    done = subprocess.run([*command.split(), *names], cwd=tmp_path, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("there is no openssl")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "lethevec.cli", "serve", str(tmp_path / "people"), "--port", "0", "--log", "none"),
            *("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        url = next(line for line in process.stderr if " at http" in line).split(" at ")[1].split()[0]
        assert url.startswith("https://")
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        for _ in range(200):
            try:
                with urllib.request.urlopen(url + "/healthz", context=context) as answer:
                    assert json.load(answer) == {"status": "ok"}
                    assert answer.headers["strict-transport-security"]
                break
            except OSError:
                time.sleep(0.05)
        else:
            pytest.fail("no answer")
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()
