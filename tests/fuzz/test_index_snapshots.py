"""Thousands of damaged and forged snapshots: `load` may refuse them with FormatError, and do nothing else.

A forged file has its checksum made right, so that what lies behind the checksum is tried too. What loads must be a
whole index: it can be searched, gives numbers, and saves to the very bytes it was read from. All of it happens in
processes of their own, whose memory is limited: a crash, or an allocation by a number from the file, fails the test.
LETHEVEC_FUZZ=20 tries 20 times as many.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent.parent / "golden"
TIMES = int(os.environ.get("LETHEVEC_FUZZ", "1"))
BASES = ["vectors", "codes", "usr", "cut", "empty", "graph", "float16", "int8"]

DRIVER = r"""
import hashlib, json, random, resource, struct, sys, tempfile, warnings
from pathlib import Path
import numpy as np
import lethevec
from lethevec.errors import FormatError

base, seed, rounds, forged = Path(sys.argv[1]).read_bytes(), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "forged"
warnings.simplefilter("error")
random.seed(seed)
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (256 << 20), now + (256 << 20)))

(config_size,) = struct.unpack_from("<I", base, 12)
COUNT_AT = 16 + config_size
NUMBERS = [0, 1, 2, 7, 8, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1]
VALUES = [
    0, 1, -1, 2, 3, 11, 13, 24, 100, 2**20, 2**31, 2**63, 2**64, 10**30, 0.5, 1.0, -0.0, 1e308, None, True, False, [],
    {}, "", "l2", "ip", "cosine",
    "usr", "simhash", "superbit", "progressive", "faiss-lsh", "hamming", "asymmetric", "scan",
    [["sweeps", 1]], [["steps", 2]], [["gain", 1.5]], [["gain", 1]], [["mean_norm", 2.0]], [["seed", 1]], [["x", []]],
    [["family", "usr"]], [[]], [["a"]], ["ab"], "ab", {"a": 1},
]


def flip(data):
    for _ in range(random.choice([1, 1, 1, 2, 8])):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def put(data):
    at = random.randrange(len(data))
    data[at : at + 1] = bytes([random.randrange(256)])


def number(data):
    somewhere = random.randrange(len(data))
    size, at = random.choice([(4, 8), (4, 12), (8, COUNT_AT), (4, somewhere), (8, somewhere)])
    value = random.choice(NUMBERS) % (1 << 8 * size)
    data[at : at + size] = value.to_bytes(size, "little")


def cut(data):
    del data[random.randrange(len(data)) :]


def extend(data):
    data += random.randbytes(random.choice([1, 4, 8, 32, 56, 1000]))


def insert(data):
    at = random.randrange(len(data))
    data[at:at] = random.randbytes(random.choice([1, 4, 8, 56]))


def remove(data):
    at = random.randrange(len(data))
    del data[at : at + random.choice([1, 4, 8, 56])]


def floats(data):
    at = COUNT_AT + 8 + 4 * random.randrange(max(1, (len(data) - COUNT_AT - 8) // 4))
    value = random.choice([0.0, -0.0, 1e-45, 1e38, -1e38, 3.4e38, 1e19, float("nan"), float("inf"), -1.0])
    data[at : at + 4] = struct.pack("<f", value)


def zeros(data):
    at = random.randrange(len(data))
    size = random.choice([4, 8, 48, 400])
    data[at : at + size] = bytes(len(data[at : at + size]))


def config(data):
    fields = json.loads(base[16:COUNT_AT])
    for _ in range(random.choice([1, 1, 2, 3])):
        what = random.random()
        name = random.choice(list(fields))
        if what < 0.8:
            fields[name] = random.choice(VALUES)
        elif what < 0.9:
            del fields[name]
        else:
            fields[random.choice(["extra", "Dim", ""])] = random.choice(VALUES)
        if not fields:
            break
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    if random.random() < 0.1:
        quoted = text.replace('"', "'")
        text = random.choice([text + " ", text[:-1], "[" + text + "]", text * 2, quoted, "\ufeff" + text, "null"])
    data[16:COUNT_AT] = text.encode()
    data[12:16] = struct.pack("<I", len(text.encode()))


edits = [flip, put, number, cut, extend, insert, remove, floats, zeros, config, config]
loaded = 0
with tempfile.TemporaryDirectory() as folder:
    path, again = Path(folder) / "a", Path(folder) / "b"
    for round in range(rounds):
        data = bytearray(base[:-32] if forged else base)
        done = [random.choice(edits) for _ in range(random.choice([1, 1, 2]))]
        for edit in done:
            if len(data) > COUNT_AT + 8:
                edit(data)
        if forged:
            data += hashlib.blake2b(data, digest_size=32).digest()
        path.write_bytes(data)
        what = f"round {round}: {[edit.__name__ for edit in done]}"
        try:
            index = lethevec.Index.load(path)
        except FormatError as error:
            assert "expected" in str(error), what
            continue
        except BaseException as error:
            sys.exit(f"{what}: {type(error).__name__}: {error}")
        loaded += 1
        if not forged and bytes(data) != base:
            sys.exit(f"{what}: damage was not noticed")
        index.save(again)
        if again.read_bytes() != data:
            sys.exit(f"{what}: it loads, but saves to other bytes")
        query = np.ones(index.dim, dtype=np.float32)
        for hits in (index.search(query, k=max(1, len(index)), effort=1e9), index.search_radius(query, 1.0)):
            if len(index) and not np.isfinite(hits.distances).all():
                sys.exit(f"{what}: a distance is not a number")
        index.digest()
        if len(index):
            index.forget(index.ids()[:1])
print(loaded)
"""


def run(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.parametrize("name", BASES)
def test_damaged_files(name):
    """Every change of a byte is noticed."""
    run(DRIVER, GOLDEN / f"index-v1-{name}.snapshot", 1, 300 * TIMES, "damaged")


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", BASES)
def test_forged_files(name, seed):
    """Some load, and are then whole; the rest are refused."""
    loaded = int(run(DRIVER, GOLDEN / f"index-v1-{name}.snapshot", seed, 250 * TIMES, "forged"))
    assert loaded > 0


def test_every_truncation(tmp_path):
    """Of a small file, at every length."""
    import lethevec
    from lethevec.errors import FormatError

    data = (GOLDEN / "index-v1-cut.snapshot").read_bytes()
    path = tmp_path / "cut"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError):
            lethevec.Index.load(path)


def forge(name, change=None, body=None):
    """A golden file with another configuration, or other bytes after it, and the right checksum."""
    data = (GOLDEN / f"index-v1-{name}.snapshot").read_bytes()
    (size,) = struct.unpack_from("<I", data, 12)
    config, rest = data[16 : 16 + size], bytearray(data[16 + size : -32])
    if isinstance(change, dict):
        config = json.dumps({**json.loads(config), **change}, sort_keys=True, separators=(",", ":")).encode()
    elif change is not None:
        config = change
    if body is not None:
        body(rest)
    data = data[:12] + struct.pack("<I", len(config)) + config + bytes(rest)
    return data + hashlib.blake2b(data, digest_size=32).digest()


def set_floats(at, *values):
    def change(rest):
        struct.pack_into(f"<{len(values)}f", rest, at, *values)

    return change


IDS_END = 8 + 8 * 40
SCAN = {"source": {"name": "scan"}}


def costly(**change):
    """An index without records whose configuration asks for much."""
    own = {"params": {}} if change.get("family") == "simhash" else {}
    return forge("empty", {**SCAN, **own, **change})


FORGERIES = {
    "deeply nested JSON": forge("vectors", b"[" * 60_000),
    "a huge integer": forge("usr", {"params": [["gain", 10**400]], "gain_follows": False}),
    "an endless integer": forge("usr", b'{"dim":' + b"9" * 60_000 + b"}"),
    "a huge float": forge("usr", {"params": [["gain", 1e308]], "gain_follows": False}),
    "not UTF-8": forge("vectors", b"\xff\xfe{}"),
    "a zero vector under cosine": forge("vectors", {"metric": "cosine"}, set_floats(IDS_END, *[0.0] * 12)),
    "a vector of huge norm": forge("vectors", None, set_floats(IDS_END, 1e19)),
    "a vector of almost infinite norm": forge("vectors", None, set_floats(IDS_END, *[3.4e38] * 12)),
    "a huge norm beside a code": forge("cut", None, set_floats(IDS_END, 3.4e38)),
    "a huge factor beside a code": forge("cut", None, set_floats(IDS_END + 4 * 40, 3.4e38)),
    "huge norm and factor": forge(
        "cut", None, lambda r: (set_floats(IDS_END, 3e38)(r), set_floats(IDS_END + 160, 3e38)(r))
    ),
    "a zero norm under cosine": forge("codes", None, set_floats(IDS_END, 0.0)),
    "minus zero as norm": forge("cut", None, set_floats(IDS_END, -0.0)),
    "an unknown source": forge("vectors", {"source": "memory"}),
    "a source of the wrong type": forge("vectors", {"source": ["scan"]}),
    "minus zero as factor": forge("cut", None, set_floats(IDS_END + 4 * 40, -0.0)),
    "a factor where codes have none": forge(
        "cut", {"ranking": "hamming", **SCAN}, set_floats(IDS_END + 4 * 40, *[2.0] * 40)
    ),
    "a matrix of 256 GB": costly(family="simhash", dim=65_536, bits=1 << 20, ranking="hamming"),
    "a matrix of 8 GB": costly(family="simhash", dim=65_536, bits=32_768),
    "a matrix of 0.5 GB": costly(family="simhash", dim=16_384, bits=8_192),
    "rotations of 16 GB": costly(family="superbit", dim=65_536, bits=65_536, params={"rotation": "svd"}),
    "rotations of 4 GB": costly(family="superbit", dim=32_768, bits=32_768, params={"rotation": "gram-schmidt"}),
    "rotations of a minute": costly(family="superbit", dim=11_585, bits=11_585, params={"rotation": "svd"}),
    "rotations of half a minute": costly(family="superbit", dim=3_000, bits=3_000, params={"rotation": "svd"}),
    "tables of 32 million buckets": costly(
        dim=64, bits=128, source={"expected": 100_000, "key_bits": 20, "name": "tables", "probes": 112, "tables": 32}
    ),
    "many steps for a record": forge(
        "usr", {"params": {"gain": 0.5, "rotation": "hadamard", "steps": 10_000}, "gain_follows": False}
    ),
}

ONE = r"""
import resource, sys, warnings
import numpy as np
import lethevec
from lethevec.errors import FormatError

warnings.simplefilter("error")
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (512 << 20), now + (512 << 20)))
try:
    index = lethevec.Index.load(sys.argv[1])
except FormatError as error:
    assert "expected" in str(error)
    sys.exit(0)
index.save(sys.argv[1] + ".again")
assert open(sys.argv[1] + ".again", "rb").read() == open(sys.argv[1], "rb").read(), "saves to other bytes"
k = max(1, len(index))
for hits in (index.search(np.ones(index.dim), k=k, effort=1e9), index.search(np.ones(index.dim), k=1, effort=0.01)):
    assert not len(index) or np.isfinite(hits.distances).all(), "a distance is not a number"
"""


@pytest.mark.parametrize("case", FORGERIES)
def test_forgeries_thought_of(tmp_path, case):
    """Each is refused, or is a whole index; in 512 MB and a minute, whatever the numbers in it say."""
    (tmp_path / "forged").write_bytes(FORGERIES[case])
    run(ONE, tmp_path / "forged")


@pytest.mark.parametrize("case", [case for case in FORGERIES if "GB" in case or "minute" in case or "million" in case])
def test_what_asks_for_much_is_refused_at_once(tmp_path, case):
    """And for that reason, not for another: the configurations are those of an index that could be made."""
    import lethevec
    from lethevec.errors import FormatError

    (tmp_path / "forged").write_bytes(FORGERIES[case])
    began = time.process_time()
    with pytest.raises(FormatError, match=r"max_setup=|expected a table of at most"):
        lethevec.Index.load(tmp_path / "forged")
    assert time.process_time() - began < 5


def test_a_limit_that_can_be_raised(tmp_path):
    import lethevec
    from lethevec.errors import FormatError

    path = tmp_path / "costly"
    index = lethevec.Index(4_200, family="simhash", bits=4_096)
    index.save(path)
    with pytest.raises(FormatError, match=r"max_setup=(\d+) lets it pass") as refused:
        lethevec.Index.load(path)
    (needed,) = map(int, re.findall(r"max_setup=(\d+)", str(refused.value)))
    assert lethevec.Index.load(path, max_setup=needed).digest() == index.digest()
    for wrong in (-1, 1.5, None, "x"):
        with pytest.raises(lethevec.errors.ParameterError, match="max_setup"):
            lethevec.Index.load(path, max_setup=wrong)
