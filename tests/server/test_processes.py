"""A server as people run it: `lethevec serve`, with one process or several, under load, killed, and stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lethevec
from lethevec.errors import LethevecError
from lethevec.server.audit import Signer, check_logs
from lethevec.server.health import answers

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


def test_a_folder_is_backed_up_beside_a_running_server(tmp_path):
    """As docs/how-to/run-a-server.md says; who was forgotten since does not come back with it."""
    server = Served(tmp_path / "people", 1)
    try:
        prepare(server.port)
        caller = Caller(server.port)
        record = {"ids": ["a", "b"], "vectors": [[1.0] * 8, [2.0] * 8], "subjects": ["ann", "bob"]}
        assert caller.call("POST", PATH + "/upsert", record)[0] == 200
        with lethevec.connect(tmp_path / "people", read_only=True) as db:
            db.backup(tmp_path / "monday")
        assert caller.call("POST", PATH + "/forget", {"subject": "ann"})[0] == 200
        with lethevec.connect(tmp_path / "people", read_only=True) as db:
            chain = db.receipts(all_kinds=True)
        caller.close()
    finally:
        server.stop()
    keys = tmp_path / "people" / "lethevec.catalog-keys"
    receipt = lethevec.restore(tmp_path / "monday", tmp_path / "again", receipts=chain, keys=keys)
    assert receipt is not None
    with lethevec.connect(tmp_path / "again", keys=keys) as db:
        assert db.collection("load").ids() == ["b"]


def certificate(folder):
    """One for this machine, made for the test."""
    command = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    if subprocess.run([*command.split(), *names], cwd=folder, capture_output=True, check=False).returncode:
        pytest.skip("there is no openssl")


def test_the_example_of_a_proxy_works(tmp_path):
    """nginx with the configuration of docs/how-to/run-a-server.md: other places and another port, nothing else."""
    nginx = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if nginx is None:
        pytest.skip("there is no nginx")
    certificate(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "run-a-server.md").read_text(encoding="utf-8")
    text = page.partition("```nginx\n")[2].partition("```")[0]
    server = Served(tmp_path / "people", 0, "--behind-proxy")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for old, new in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/letsencrypt/live/vectors.example.org/fullchain.pem", str(tmp_path / "cert.pem")),
        ("/etc/letsencrypt/live/vectors.example.org/privkey.pem", str(tmp_path / "key.pem")),
        ("127.0.0.1:8765", f"127.0.0.1:{server.port}"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    kept = "".join(
        f"{name}_temp_path {tmp_path}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{\naccess_log {tmp_path}/access.log;\n{kept}{text}}}\n"
    )
    command = [nginx, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-e", str(tmp_path / "error.log")]
    proxy = subprocess.Popen([*command, "-g", "daemon off;"])
    try:
        trusted = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        with lethevec.Client(f"https://localhost:{port}", verify=trusted, timeout=60) as client:
            for _ in range(100):
                try:
                    notes = client.collection("notes", dim=300, metric="l2")
                    break
                except LethevecError:
                    time.sleep(0.05)
            vectors = [[float(n % 7)] * 300 for n in range(5000)]  # more than nginx would keep in memory
            notes.add(vectors, ids=[f"secret-{n}" for n in range(5000)], subjects=["zebedee"] * 5000)
            assert notes.search(vectors[3], 1).distances[0][0] == 0
            assert client.forget(subject="zebedee").records == 5000
            assert len(notes) == 0
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert (tmp_path / "access.log").stat().st_size > 200
        assert not [path for path in files if b"zebedee" in path.read_bytes() or b"secret-1" in path.read_bytes()]
    finally:
        proxy.terminate()
        proxy.wait(30)
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
        assert answers(server.port)
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


def test_the_health_check_of_a_container_sees_that_nobody_answers(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # and does not listen
        assert not answers(free.getsockname()[1])
        environment = {**os.environ, "LETHEVEC_SERVER_PORT": str(free.getsockname()[1])}
        command = [sys.executable, "-m", "lethevec.server.health"]
        assert subprocess.run(command, env=environment, check=False).returncode == 1


def test_tls(tmp_path):
    import urllib.request

    certificate(tmp_path)
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
                assert answers(int(url.rsplit(":", 1)[1]))
                break
            except OSError:
                time.sleep(0.05)
        else:
            pytest.fail("no answer")
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()
