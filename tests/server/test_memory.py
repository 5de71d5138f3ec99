"""The whole memory of every process of a server: what was forgotten is nowhere in it when the answer arrives.

Records come as JSON and as base64, are read, searched for and forgotten; then another process reads every page that can
be written to. Other records are there before and after, so that the search is known to find what is there.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import subprocess
import sys
from contextlib import closing
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


def ask(port, path, content, kind="application/json"):
    """A request whose answer is no matter of JSON."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", path, content, {"content-type": kind})
        answer = connection.getresponse()
        return answer.status, answer.read()


def by_access(caller, port, vectors):
    assert caller.call("POST", "/v1/access", {"subject": texts(GONE)[1]})[1]["collections"]
    assert caller.call("POST", "/v1/held", {"subject": texts(GONE)[1]})[0] == 200


def by_load(caller, port, vectors):
    pa = pytest.importorskip("pyarrow")
    given = [texts(number) for number in (GONE, STAYS)]
    table = pa.table(
        {
            "id": [f"loaded-{id}" for id, _, _ in given],
            "vector": pa.array([vectors[number].tolist() for number in (GONE, STAYS)], pa.list_(pa.float32())),
            "subject": [subject for _, subject, _ in given],
            "payload": [json.dumps({"note": payload}) for _, _, payload in given],
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    status, answer = ask(port, PATH + "/load", sink.getvalue().to_pybytes(), "application/vnd.apache.arrow.stream")
    assert status == 200, answer


def by_chroma(caller, port, vectors):
    base = "/api/v2/tenants/default_tenant/databases/default_database/collections"
    made = caller.call("POST", base, {"name": "docs"})[1]
    path = f"{base}/{made['id']}"
    for number in (GONE, STAYS):
        id, _, payload = texts(number)
        body = {"ids": [f"more-{id}"], "embeddings": [vectors[number].tolist()], "documents": [payload]}
        assert caller.call("POST", path + "/add", body)[0] in (200, 201)
        body = {"query_embeddings": [vectors[number].tolist()], "n_results": 3, "include": ["documents", "embeddings"]}
        assert caller.call("POST", path + "/query", body)[0] == 200
        body = {"ids": [f"more-{id}"], "include": ["embeddings", "documents"]}
        assert caller.call("POST", path + "/get", body)[0] == 200
    assert caller.call("POST", path + "/delete", {"ids": [f"more-{texts(GONE)[0]}"]})[0] == 200


@pytest.mark.parametrize("way", [by_access, by_load, by_chroma])
def test_nothing_is_left_of_what_went_in_or_out_another_way(tmp_path, way):
    server = Served(tmp_path / "people", 0)
    try:
        caller = Caller(server.port)
        made = caller.call("POST", "/v1/collections", {"name": "load", "dim": 16, "metric": "l2"})
        assert made[0] in (200, 201)
        vectors = np.random.default_rng(5).standard_normal((130, 16)).astype(np.float32)
        for number, vector in enumerate(vectors[:120]):
            id, subject, payload = texts(number)
            content = {
                "ids": [id],
                "vectors": [vector.tolist()],
                "subjects": [subject],
                "payloads": [{"note": payload}],
            }
            assert caller.call("POST", PATH + "/upsert", content)[0] == 200
        way(caller, server.port, vectors)
        assert caller.call("POST", PATH + "/forget", {"subject": texts(GONE)[1]})[0] == 200
        assert found(server, needles(GONE, vectors[GONE])) == set()
        assert "first numbers" in found(server, needles(STAYS, vectors[STAYS]))
        caller.close()
    finally:
        server.stop()


#: Texts of all the sizes of small blocks, made of parts that this file does not hold together; freed, cut short and
#: made longer. What is left of them is counted in the memory of the process.
OBJECTS = """
import sys
from lethevec.server.bodies import wipe_objects
assert wipe_objects() is (sys.argv[1] == "yes"), sys.argv
assert wipe_objects() is (sys.argv[1] == "yes")

def text(number):
    return b"".join([b"se", b"cret-%05d-" % number, b"x" * (number % 600)])

kept = [text(number) for number in range(3000)]
del kept[::2]
longer = [bytearray(text(number)) for number in range(3000, 3600)]
for one in longer:
    one *= 2
for one in longer:
    del one[3:]
tables = [{text(number): [number] * number for number in range(many, many + 3)} for many in range(5000, 5500, 10)]
assert all(len(one[text(many)]) == many for many, one in zip(range(5000, 5500, 10), tables, strict=True))
del tables, one, longer
assert kept == [text(number) for number in range(1, 3000, 2)]
needle = b"".join([b"se", b"cret-"])
found = set()
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in maps.readlines():
        where, rights, *_ = line.split()
        if rights.startswith("rw") and "[stack]" not in line:
            begin, end = (int(edge, 16) for edge in where.split("-"))
            memory.seek(begin)
            part = memory.read(end - begin)
            place = part.find(needle)
            while place >= 0:
                digits = part[place + 7 : place + 12]
                if digits.isdigit():
                    found.add(int(digits))
                place = part.find(needle, place + 1)
            del part
print(len([number for number in found if number % 2 == 0 or number >= 3000]), len(found))
"""


@pytest.mark.parametrize("python", ["malloc", "pymalloc"])
def test_small_objects_are_overwritten_when_they_are_freed(python):
    """And not where Python was told to keep small blocks for itself, which shows that the search finds what is left."""
    given = {"PYTHONMALLOC": python, "MALLOC_PERTURB_": "170", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    ours = "yes" if python == "malloc" else "no"
    command = [sys.executable, "-c", OBJECTS, ours]
    done = subprocess.run(command, env={**os.environ, **given}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    left, found = map(int, done.stdout.split())
    assert found >= 1500
    assert (left == 0) is (python == "malloc"), left
