"""The whole memory of every process of a server: what was forgotten is nowhere in it when the answer arrives.

Records come as JSON and as base64, are read, searched for and forgotten; then another process reads every page that can
be written to. Other records are there before and after, so that the search is known to find what is there.
"""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest

from .load import PATH, Caller, Served

pytestmark = pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux's /proc")
GONE, STAYS = 77, 78


def memory_of(pid):
    """Every page that the process can write to."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            where, rights, *_ = line.split()
            if rights.startswith("rw"):
                begin, end = (int(edge, 16) for edge in where.split("-"))
                try:
                    memory.seek(begin)
                    yield memory.read(end - begin)
                except OSError:  # it was given back meanwhile
                    continue


def texts(number):
    return f"identity-{number:05d}-secret", f"subject-{number:05d}-person", f"payload-{number:05d}-text"


def needles(number, vector):
    """What a record is made of: texts, and the first and the last of its numbers."""
    id, subject, payload = texts(number)
    raw = vector.tobytes()
    return {
        "id": id.encode(),
        "subject": subject.encode(),
        "payload": payload.encode(),
        "first numbers": raw[:24],
        "last numbers": raw[-24:],
        "numbers in JSON": repr(float(vector[3])).encode()[:14],
    }


def found(server, wanted):
    """Which of the needles are in the memory of some process."""
    seen = set()
    for pid in server.processes():
        for part in memory_of(pid):
            seen |= {name for name, needle in wanted.items() if needle in part}
    return seen


@pytest.mark.parametrize(("dim", "workers"), [(16, 0), (384, 0), (16, 1)])
def test_nothing_that_was_forgotten_is_left_in_memory(tmp_path, dim, workers):
    server = Served(tmp_path / "people", workers)
    try:
        caller = Caller(server.port)
        made = caller.call("POST", "/v1/collections", {"name": "load", "dim": dim, "metric": "l2"})
        assert made[0] in (200, 201)
        vectors = np.random.default_rng(5).standard_normal((130, dim)).astype(np.float32)
        for number, vector in enumerate(vectors[:120]):
            id, subject, payload = texts(number)
            as_json = [vector.tolist()] if number % 2 else base64.b64encode(vector.tobytes()).decode()
            content = {"ids": [id], "vectors": as_json, "subjects": [subject], "payloads": [{"note": payload}]}
            assert caller.call("POST", PATH + "/upsert", content)[0] == 200
        for number in (GONE, STAYS):
            id, subject, _ = texts(number)
            for _ in range(3):
                content = {"vector": vectors[number].tolist(), "k": 3}
                assert caller.call("POST", PATH + "/search", content)[0] == 200
                assert caller.call("POST", PATH + "/search", {**content, "subject": subject})[0] == 200
                included = {"ids": [id], "include": ["vectors", "payloads", "subjects"]}
                assert caller.call("POST", PATH + "/get", included)[0] == 200
        assert found(server, needles(GONE, vectors[GONE])) >= {"id", "subject", "payload", "first numbers"}
        status, _ = caller.call("POST", PATH + "/forget", {"subject": texts(GONE)[1]})
        assert status == 200
        assert found(server, needles(GONE, vectors[GONE])) == set()
        assert "first numbers" in found(server, needles(STAYS, vectors[STAYS]))
        caller.close()
    finally:
        server.stop()
