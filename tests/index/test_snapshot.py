"""Snapshots: the same bytes for the same records whatever the history, whole or not there at all."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lethevec
from lethevec._index import snapshot
from lethevec.errors import FormatError, IncompleteWriteError, ParameterError
from lethevec.reference.kept_form import packed

DIM = 10
CONFIGURATIONS = {
    "vectors": {},
    "l2": {"metric": "l2", "bits": 3 * DIM, "seed": 9, "sweeps": 1},
    "usr l2": {"metric": "l2", "family": "usr", "bits": 2 * DIM, "steps": 4},
    "codes": {"keep_vectors": False},
    "int8": {"keep_vectors": "int8"},
    "float16 ip": {"keep_vectors": "float16", "metric": "ip"},
    "codes ip": {"keep_vectors": False, "metric": "ip", "family": "superbit", "bits": 27},
    "hamming codes": {"keep_vectors": False, "ranking": "hamming", "family": "simhash", "bits": 33},
}


@pytest.fixture(params=CONFIGURATIONS)
def arguments(request):
    return {"dim": DIM, **CONFIGURATIONS[request.param]}


def saved(index, folder: Path, name="snapshot") -> bytes:
    index.save(folder / name)
    return (folder / name).read_bytes()


@pytest.mark.parametrize("n", [0, 1, 300])
def test_there_and_back(tools, tmp_path, arguments, n):
    x, ids = tools.data(max(n, 1), DIM)
    index = lethevec.Index(**arguments)
    if n:
        index.add(x, ids=ids)
    index.save(tmp_path / "a")
    again = lethevec.Index.load(tmp_path / "a")
    assert again.config == index.config
    assert again.digest() == index.digest()
    assert again.stats() == index.stats()
    assert saved(again, tmp_path, "b") == (tmp_path / "a").read_bytes()
    for effort in (0.1, 1.0):
        a, b = index.search(x[:5], k=4, effort=effort), again.search(x[:5], k=4, effort=effort)
        np.testing.assert_array_equal(a.ids, b.ids)
        assert tools.same_floats(a.distances, b.distances)
        assert a.work == b.work
    again.add(np.ones(DIM), ids=[10**6])
    again.forget([10**6])
    assert again.digest() == index.digest()


def test_the_same_bytes_whatever_the_history(tools, tmp_path, arguments):
    x, ids = tools.data(300, DIM)
    plain = tools.build(arguments, x, ids)
    order = np.random.default_rng(1).permutation(300)
    index = lethevec.Index(**arguments)
    index.add(50 * x[:200], ids=np.arange(10**6, 10**6 + 200))
    index.add(-x[order[:150]], ids=ids[order[:150]])
    for part in np.array_split(order[150:], 7):
        index.add(x[part], ids=ids[part], threads=2)
    index.forget(np.arange(10**6, 10**6 + 200))
    index.save(tmp_path / "between")
    index = lethevec.Index.load(tmp_path / "between")
    index.update(x[order[:150]], ids=ids[order[:150]])
    assert saved(index, tmp_path, "a") == saved(plain, tmp_path, "b")


def test_ids_that_are_far_apart(tmp_path, arguments):
    """Their differences do not fit int64."""
    ids = [-(1 << 63), -(1 << 62) - 5, 0, (1 << 62) + 5, (1 << 63) - 1]
    index = lethevec.Index(**arguments)
    index.add(np.random.default_rng(0).normal(size=(5, DIM)), ids=ids)
    index.save(tmp_path / "snapshot")
    assert list(lethevec.Index.load(tmp_path / "snapshot")) == ids


def test_the_layout_is_the_documented_one(tools, tmp_path, arguments):
    """Read back by hand, from the description in the module."""
    x, ids = tools.data(50, DIM)
    index = tools.build(arguments, x, ids)
    data = saved(index, tmp_path)
    assert data[:8] == b"LETHEVEC"
    version, length = struct.unpack_from("<II", data, 8)
    assert version == 1
    config = json.loads(data[16 : 16 + length])
    assert (config["dim"], config["keep_vectors"]) == (DIM, index.config.keep_vectors)
    at = 16 + length
    (n,) = struct.unpack_from("<Q", data, at)
    assert n == 50
    at += 8
    np.testing.assert_array_equal(np.frombuffer(data, "<i8", n, at), np.sort(ids))
    at += 8 * n
    if index.config.form.small:
        kept = packed(index.config.keep_vectors, index.vectors(np.sort(ids)))
        assert data[at : at + len(kept)] == kept
        at += len(kept)
    elif index.config.keep_vectors:
        np.testing.assert_array_equal(np.frombuffer(data, "<f4", n * DIM, at).reshape(n, DIM), x[np.argsort(ids)])
        at += 4 * n * DIM
    else:
        codes, norms, factors = tools.stored(index, np.sort(ids))
        np.testing.assert_array_equal(np.frombuffer(data, "<f4", n, at), norms)
        np.testing.assert_array_equal(np.frombuffer(data, "<f4", n, at + 4 * n), factors)
        np.testing.assert_array_equal(np.frombuffer(data, "u1", codes.size, at + 8 * n).reshape(codes.shape), codes)
        at += 8 * n + codes.size
    assert data[at:] == hashlib.blake2b(data[:at], digest_size=32).digest()


def test_a_forgotten_vector_is_not_in_the_next_snapshot(tools, tmp_path):
    x, ids = tools.data(100, DIM)
    x[40] = np.random.default_rng(3).normal(size=DIM)  # no other record has it
    index = tools.build({"dim": DIM}, x, ids)
    assert x[40].tobytes() in saved(index, tmp_path)
    index.forget(ids[40])
    assert x[40].tobytes() not in saved(index, tmp_path)


@pytest.mark.parametrize("form", [str, Path, "relative"])
def test_paths(tools, tmp_path, monkeypatch, form):
    monkeypatch.chdir(tmp_path)
    path = "snapshot" if form == "relative" else form(tmp_path / "snapshot")
    index = tools.build({"dim": DIM}, *tools.data(5, DIM))
    index.save(path)
    assert lethevec.Index.load(path).digest() == index.digest()
    assert [p.name for p in tmp_path.iterdir()] == ["snapshot"]


# --- Loading what is not a snapshot ----------------------------------------------------------------------------------


FOREIGN = {
    "empty": b"",
    "one byte": b"L",
    "magic alone": b"LETHEVEC",
    "text": b"hello, world\n" * 20,
    "zeros": bytes(4096),
    "numpy": b"\x93NUMPY\x01\x00" + bytes(200),
    "sqlite": b"SQLite format 3\x00" + bytes(4096),
    "zip": b"PK\x03\x04" + bytes(300),
    "faiss": b"IxFI" + bytes(300),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_foreign_files(tmp_path, case):
    (tmp_path / "file").write_bytes(FOREIGN[case])
    with pytest.raises(FormatError, match="expected") as caught:
        lethevec.Index.load(tmp_path / "file")
    assert str(tmp_path / "file") in str(caught.value)


def test_a_newer_version_is_named(tools, tmp_path):
    data = bytearray(saved(tools.build({"dim": DIM}, *tools.data(5, DIM)), tmp_path))
    data[8] = 2
    data[-32:] = hashlib.blake2b(data[:-32], digest_size=32).digest()
    (tmp_path / "newer").write_bytes(data)
    with pytest.raises(FormatError, match=r"version 1, got 2; a newer version of lethevec may read it"):
        lethevec.Index.load(tmp_path / "newer")


@pytest.mark.parametrize("case", ["missing", "a folder", "no permission"])
def test_what_cannot_be_read(tmp_path, case):
    path = tmp_path if case == "a folder" else tmp_path / "file"
    if case == "no permission":
        if os.geteuid() == 0:
            pytest.skip("root may read everything")
        (tmp_path / "file").write_bytes(b"")
        (tmp_path / "file").chmod(0)
    with pytest.raises(FormatError):
        lethevec.Index.load(path)


# --- Writes that fail ------------------------------------------------------------------------------------------------


def test_no_folder(tools, tmp_path):
    index = tools.build({"dim": DIM}, *tools.data(5, DIM))
    with pytest.raises(IncompleteWriteError, match="could not be written"):
        index.save(tmp_path / "nowhere" / "snapshot")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_its_place(tools, tmp_path):
    index = tools.build({"dim": DIM}, *tools.data(5, DIM))
    (tmp_path / "snapshot").mkdir()
    with pytest.raises(IncompleteWriteError):
        index.save(tmp_path / "snapshot")
    assert [p.name for p in tmp_path.iterdir()] == ["snapshot"]


def test_a_null_byte(tools, tmp_path):
    index = tools.build({"dim": DIM}, *tools.data(5, DIM))
    with pytest.raises(ParameterError, match="null byte"):
        index.save(f"{tmp_path}/a\0b")
    with pytest.raises(ParameterError, match="null byte"):
        lethevec.Index.load(f"{tmp_path}/a\0b")


def run(code: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)


FULL_DISK = """
import resource, signal, sys
import numpy as np
import lethevec
from lethevec.errors import IncompleteWriteError

folder, room = sys.argv[1], int(sys.argv[2])
index = lethevec.Index.load(folder + "/snapshot")
digest = index.digest()
index.add(np.ones((4000, index.dim)), ids=range(10**7, 10**7 + 4000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
try:
    index.save(folder + "/snapshot")
except IncompleteWriteError as error:
    assert "unharmed" in str(error), error
else:
    raise SystemExit("the write should have failed")
assert len(index) == 4100
assert lethevec.Index.load(folder + "/snapshot").digest() == digest
"""


@pytest.mark.parametrize("room", [0, 1, 30, 1000, 5000, 100_000])
def test_a_full_disk_harms_nothing(tools, tmp_path, room):
    index = tools.build({"dim": DIM}, *tools.data(100, DIM))
    before = saved(index, tmp_path)
    done = run(FULL_DISK, str(tmp_path), str(room))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "snapshot").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["snapshot"]


def test_a_folder_that_may_not_be_written(tools, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    index = tools.build({"dim": DIM}, *tools.data(100, DIM))
    before = saved(index, tmp_path)
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(IncompleteWriteError):
            index.save(tmp_path / "snapshot")
        assert (tmp_path / "snapshot").read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["snapshot"]
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("step", ["fsync", "replace", "mkstemp"])
def test_every_step_may_fail(tools, tmp_path, monkeypatch, step):
    """A read-only folder, a broken disk: as seen by root, who is not stopped by permissions."""
    import tempfile

    index = tools.build({"dim": DIM}, *tools.data(100, DIM))
    before = saved(index, tmp_path)
    index.forget(index.ids()[:3])

    def fail(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(
        *{"fsync": (os, "fsync"), "replace": (os, "replace"), "mkstemp": (tempfile, "mkstemp")}[step], fail
    )
    with pytest.raises(IncompleteWriteError, match="Read-only file system"):
        index.save(tmp_path / "snapshot")
    monkeypatch.undo()
    assert (tmp_path / "snapshot").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["snapshot"]
    assert len(index) == 97


def test_an_interrupt_leaves_no_file(tools, tmp_path, monkeypatch):
    index = tools.build({"dim": DIM}, *tools.data(100, DIM))

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        index.save(tmp_path / "snapshot")
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
import numpy as np
import lethevec
index = lethevec.Index(dim=8, metric="l2")
index.add(np.load(sys.argv[2]), ids=range(20))
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
index.save(sys.argv[1])
"""


def test_what_a_killed_save_has_left_goes_with_the_next(tmp_path):
    x = np.random.default_rng(4).normal(size=(20, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    folder = tmp_path / "snapshots"
    folder.mkdir()
    target = folder / "s"
    subprocess.run([sys.executable, "-c", KILLED, str(target), str(tmp_path / "x.npy")], check=False)
    (left,) = folder.iterdir()
    assert x[3].tobytes() in left.read_bytes()
    index = lethevec.Index(dim=8, metric="l2")
    index.add(x, ids=range(20))
    index.forget(3)
    index.save(folder / "other")  # not its own
    assert left.exists()
    handle, going_on = snapshot._temporary(target)
    mine = folder / ".s.notes.tmp"
    mine.write_text("not one of ours")
    index.save(target)
    assert sorted(folder.iterdir()) == sorted([target, folder / "other", going_on, mine])
    assert not any(x[3].tobytes() in path.read_bytes() for path in folder.iterdir())
    os.close(handle)


def test_it_is_synced_before_it_is_renamed(tools, tmp_path, monkeypatch):
    """File, then name, then folder: the order that survives a power cut."""
    steps = []
    sync, replace = os.fsync, os.replace

    def noted_sync(descriptor):
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        steps.append(f"sync {kind}")
        sync(descriptor)

    def noted_replace(*names):
        steps.append("rename")
        replace(*names)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    tools.build({"dim": DIM}, *tools.data(100, DIM)).save(tmp_path / "snapshot")
    assert steps == ["sync file", "rename", "sync folder"]


def special(path, kind, tmp_path):
    """Something that is no regular file, at `path`."""
    if kind == "link":
        (tmp_path / "elsewhere").write_bytes(b"somebody needs it")
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "dangling link":
        path.symlink_to(tmp_path / "nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder", "socket"])
def test_what_is_no_regular_file_is_not_replaced(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    index = lethevec.Index(3)
    index.add([[1, 2, 3]], ids=[1])
    path = Path("saved")
    special(path, kind, tmp_path)
    before = os.lstat(path)
    with pytest.raises(IncompleteWriteError, match="expected a regular file or none, got a"):
        index.save(path)
    assert os.lstat(path).st_ino == before.st_ino
    assert os.lstat(path).st_mode == before.st_mode
    assert sorted(os.listdir(tmp_path)) == sorted(["saved"] + (["elsewhere"] if kind == "link" else []))
    if kind == "link":
        assert path.read_bytes() == b"somebody needs it"


@pytest.mark.parametrize("kind", ["dangling link", "pipe", "folder"])
def test_what_is_no_regular_file_is_not_read(kind, tmp_path):
    """A named pipe, which nobody writes to, would keep a reader waiting for ever."""
    special(tmp_path / "saved", kind, tmp_path)
    with pytest.raises(FormatError):
        lethevec.Index.load(tmp_path / "saved")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o444])
def test_a_file_keeps_its_mode(mode, tmp_path):
    index = lethevec.Index(3)
    path = tmp_path / "saved"
    index.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(mode)
    index.add([[1, 2, 3]], ids=[1])
    index.save(path)
    assert path.stat().st_mode & 0o777 == mode
    assert len(lethevec.Index.load(path)) == 1


def test_a_link_with_the_name_of_an_unfinished_save_is_left_alone(tmp_path):
    (tmp_path / "needed").write_bytes(b"somebody needs it")
    (tmp_path / ".saved.abcdefgh.tmp").symlink_to(tmp_path / "needed")
    os.mkfifo(tmp_path / ".saved.abcdefg2.tmp")
    lethevec.Index(3).save(tmp_path / "saved")
    assert (tmp_path / "needed").read_bytes() == b"somebody needs it"
    assert (tmp_path / ".saved.abcdefgh.tmp").is_symlink()
