"""An index whose vectors are in a file equals one in memory, and nothing that it forgot is left in the file.

The file is read here as anybody could read it: by its name, while the index is in use, after calls that worked and
after calls that failed, and after the process was killed.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import lethevec
from lethevec._index.vector_files import MARK, UnsettledError
from lethevec._native import core
from lethevec.errors import FileError, ForkError, IdError, IncompleteWriteError, ParameterError, UnsupportedError
from lethevec.reference.kept_form import packed, rounded

from .test_fork import FINE, REFUSED, in_child

pytestmark = pytest.mark.skipif(not core.FILES_OF_VECTORS, reason="needs Linux")
DIM = 160
HEAD = 1 << 16  # what is before the first vector
SOURCES = {
    "scan": lethevec.Scan(),
    "tables": lethevec.Tables(key_bits=4),
    "pivots": lethevec.Pivots(cell_size=12),
    "refined": lethevec.Pivots(cell_size=12, refine=True),
    "graph": lethevec.Graph(),
    "auto": lethevec.Auto(pivots_from=700),
}
FORMS = [True, "float16", "int8"]


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(8).normal(size=(4000, DIM)).astype(np.float32)


def files_in(folder: Path) -> bytes:
    """What is in all files of a folder."""
    return b"\0".join(path.read_bytes() for path in sorted(folder.iterdir()))


def as_kept(form: bool | str, vectors: np.ndarray) -> list[bytes]:
    """The bytes of vectors as the file has them."""
    if form is True:
        return [vector.tobytes() for vector in vectors]
    return [packed(form, rounded(form, vector[None])) for vector in vectors]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", SOURCES)
def test_any_history_equals_one_in_memory(x, tmp_path, source, form):
    """Adds, updates, forgets and refusals at random, with several chunks that come and go."""
    folder = tmp_path / "files"
    folder.mkdir()
    options = {"metric": "l2", "source": SOURCES[source], "keep_vectors": form}
    index = lethevec.Index(DIM, vectors=folder / "vectors", **options)
    rng = np.random.default_rng(5)
    records: dict[int, int] = {}  # id to row of x
    gone: set[int] = set()
    x = x[:3000]
    unused = list(range(len(x)))
    most = 200 if source == "graph" else 600
    for step in range(11):
        ids = np.array(sorted(records), dtype=np.int64)
        count = int(rng.integers(1, most))
        if (step % 3 == 0 and unused) or not len(ids):
            new, unused = unused[:count], unused[count:]
            added = np.arange(len(new)) + 10_000 * step
            index.add(x[new], ids=added)
            records |= dict(zip(added.tolist(), new, strict=True))
        elif step % 3 == 1 or not unused:
            leaving = rng.choice(ids, size=min(count, len(ids)), replace=False)
            index.forget(leaving)
            gone |= {records.pop(id) for id in leaving.tolist()}
        else:
            some = rng.choice(ids, size=min(count // 4 + 1, len(ids), len(unused)), replace=False)
            new, unused = unused[: len(some)], unused[len(some) :]
            index.update(x[new], ids=some)
            gone |= {records[id] for id in some.tolist()}
            records |= dict(zip(some.tolist(), new, strict=True))
            with pytest.raises(IdError):
                index.add(x[: len(some) + 1], ids=[*range(-len(some), 0), int(some[0])])
        content = files_in(folder)
        some = rng.permutation(np.array(sorted(gone), dtype=np.int64))[:40]
        assert [row for row, kept in zip(some, as_kept(form, x[some]), strict=True) if kept in content] == []
    assert all(kept in content for kept in as_kept(form, x[list(records.values())[:20]]))
    plain = lethevec.Index(DIM, **options)
    ids = list(records)[::-1]
    plain.add(x[[records[id] for id in ids]], ids=ids)
    assert index.digest() == plain.digest()
    index.save(tmp_path / "a")
    plain.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    for how in ({"k": 7}, {"k": 3, "effort": 0.2}, {"k": 5, "allow": ids[:50]}):
        one, other = index.search(x[:40], **how), plain.search(x[:40], **how)
        np.testing.assert_array_equal(one.ids, other.ids)
        np.testing.assert_array_equal(one.distances.view(np.uint32), other.distances.view(np.uint32))
        assert one.work == other.work
    assert index.config == plain.config
    np.testing.assert_array_equal(index.vectors(ids), plain.vectors(ids))
    stats = index.stats()
    assert stats["bytes_vectors"] == 0
    assert stats["bytes_in_file"] == plain.stats()["bytes_vectors"]


def test_what_is_forgotten_is_on_the_disk_before_the_call_returns(x, tmp_path):
    """The calls that wait for the disk, as the system saw them: without one, a power cut would bring bytes back."""
    code = """
import sys, numpy as np, lethevec
x = np.random.default_rng(8).normal(size=(4000, 160)).astype(np.float32)
index = lethevec.Index(160, vectors=sys.argv[1])
mark = lambda text: print(text, flush=True)
mark("add"); index.add(x, ids=range(4000))
mark("forget"); index.forget(7)
mark("update"); index.update(x[:1] + 1, ids=[9])
mark("many"); index.forget(range(100, 3000))
mark("end"); del index
"""
    command = ["strace", "-f", "-e", "trace=msync,fdatasync,ftruncate,unlink,write", "-o", str(tmp_path / "trace")]
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs strace: {error}")
    run = [*command, sys.executable, "-c", code, str(tmp_path / "v")]
    subprocess.run(run, check=True, capture_output=True)
    steps: dict[str, list[str]] = {}
    name = ""
    for line in (tmp_path / "trace").read_text().splitlines():
        call = line.split(maxsplit=1)[1]
        if call.startswith("write(1"):
            text = call.split('"')[1].removesuffix("\\n")
            if text:
                name = text
                steps[name] = []
        elif name and not call.startswith(("write", "+")):
            steps[name].append(call.split("(")[0])
    assert "msync" not in steps["add"]
    assert "msync" in steps["forget"]
    assert "msync" in steps["update"]
    assert steps["many"].index("msync") < steps["many"].index("ftruncate")
    assert steps["end"][-2:] == ["fdatasync", "unlink"]


def test_a_failed_change_leaves_nothing_in_the_file(x, tmp_path):
    index = lethevec.Index(DIM, metric="l2", vectors=tmp_path / "v", source=lethevec.Pivots(cell_size=12))
    index.add(x[:300], ids=range(300))
    before = index.digest()
    # The second half of a piece-wise call fails: what came first is taken back.
    with pytest.raises(IdError):
        index.add(x[300:700], ids=[*range(300, 699), 5])
    with pytest.raises(IdError):
        index.update(x[700:702], ids=[3, 10**9])
    assert index.digest() == before
    content = files_in(tmp_path)
    assert not any(vector.tobytes() in content for vector in x[300:702])
    assert x[5].tobytes() in content


def test_the_file_is_for_its_owner_and_goes_with_the_index(x, tmp_path):
    path = tmp_path / "v"
    index = lethevec.Index(DIM, vectors=path)
    index.add(x, ids=range(len(x)))
    found = path.lstat()
    assert stat.S_IMODE(found.st_mode) == 0o600
    held = os.open(path, os.O_RDONLY)  # the file without its name
    try:
        assert x[17].tobytes() in path.read_bytes()
        del index
        gc.collect()
        assert not path.exists()
        assert os.pread(held, found.st_size, 0).strip(b"\0") == b""
    finally:
        os.close(held)


def test_it_shrinks_with_the_records(x, tmp_path):
    path = tmp_path / "v"
    index = lethevec.Index(512, vectors=path)
    wide = np.tile(x, (1, 4))[:, :512]
    index.add(wide, ids=range(len(wide)))
    full = path.stat().st_size
    index.forget(range(100, len(wide)))
    assert path.stat().st_size < full / 2
    index.add(wide[100:], ids=range(100, len(wide)))
    assert path.stat().st_size == full
    assert index.search(wide[3000], k=1).ids.tolist() == [[3000]]


def test_several_of_one_name_do_not_meet(x, tmp_path):
    path = tmp_path / "v"
    one, two = (lethevec.Index(DIM, vectors=path) for _ in range(2))
    one.add(x[:100], ids=range(100))
    two.add(x[100:200], ids=range(100))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["v", "v-2"]
    del one
    three = lethevec.Index(DIM, vectors=path)
    assert two.search(x[150], k=1).ids.tolist() == [[50]]
    del two, three
    assert list(tmp_path.iterdir()) == []


def test_copies_and_snapshots_may_have_one_or_none(x, tmp_path):
    index = lethevec.Index(DIM, vectors=tmp_path / "v")
    index.add(x[:100], ids=range(100))
    plain, other = index.copy(), index.copy(vectors=tmp_path / "w")
    index.save(tmp_path / "s")
    loaded = lethevec.Index.load(tmp_path / "s", vectors="file")
    assert {index.digest(), plain.digest(), other.digest(), loaded.digest()} == {index.digest()}
    in_file = [one.stats()["bytes_in_file"] for one in (index, plain, other, loaded)]
    assert in_file == [100 * 4 * DIM, 0, 100 * 4 * DIM, 100 * 4 * DIM]
    used = Path(os.fsdecode(loaded._native.file_path()))
    assert used.exists()
    del loaded
    assert not used.exists()


KILLED = """
import os, signal, sys, numpy as np, lethevec
x = np.random.default_rng(8).normal(size=(4000, 160)).astype(np.float32)
index = lethevec.Index(160, vectors=sys.argv[1])
index.add(x, ids=range(4000))
print("there", flush=True)
if sys.argv[2] == "kill":
    sys.stdin.readline()
"""


def test_what_a_killed_process_left_is_overwritten(x, tmp_path):
    path = tmp_path / "v"
    command = [sys.executable, "-c", KILLED, str(path), "kill"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"there\n"
        # In use by somebody else: the next one has another name.
        beside = lethevec.Index(DIM, vectors=path)
        assert sorted(file.name for file in tmp_path.iterdir()) == ["v", "v-2"]
        child.kill()
    del beside
    assert x[17].tobytes() in path.read_bytes()
    held = os.open(path, os.O_RDONLY)
    try:
        index = lethevec.Index(DIM, vectors=path)
        index.add(x[:1], ids=[1])
        assert len(index) == 1
        assert os.pread(held, 1 << 30, 0).strip(b"\0") == b""
        assert x[17].tobytes() not in files_in(tmp_path)
    finally:
        os.close(held)


def test_a_process_that_ends_leaves_nothing(tmp_path):
    """Also where the index is in a global variable, which is collected late or never."""
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "v"), "end"], capture_output=True, check=True)
    assert ended.stdout == b"there\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"somebody's notes", b"", MARK[:5], MARK])
def test_a_file_that_is_not_ours_is_not_touched(x, tmp_path, content):
    path = tmp_path / "v"
    path.write_bytes(content)
    if content == MARK:  # what a process leaves that was killed as soon as it had made one
        lethevec.Index(DIM, vectors=path).add(x[:9], ids=range(9))
        return
    with pytest.raises(IncompleteWriteError, match="not a file of ours"):
        lethevec.Index(DIM, vectors=path)
    assert path.read_bytes() == content
    path.rename(tmp_path / "w-2")  # not the name that is asked for
    index = lethevec.Index(DIM, vectors=tmp_path / "w")
    index.add(x[:9], ids=range(9))
    assert (tmp_path / "w-2").read_bytes() == content


def test_where_every_file_has_a_name(x, tmp_path, monkeypatch):
    """Not every file system has files without one, which get theirs when they have their mark."""

    def refused(*_, **__):
        raise OSError(errno.EOPNOTSUPP, "no such files here")

    monkeypatch.setattr(os, "link", refused)
    one, two = (lethevec.Index(DIM, vectors=tmp_path / "v") for _ in range(2))
    one.add(x[:9], ids=range(9))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["v", "v-2"]
    assert (tmp_path / "v").read_bytes().startswith(MARK)
    del one, two
    assert list(tmp_path.iterdir()) == []


def test_links_and_devices_are_refused(tmp_path):
    target = tmp_path / "target"
    target.write_bytes(MARK)
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "second").hardlink_to(target)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "second", "pipe"):
        with pytest.raises(IncompleteWriteError, match="expected a regular file"):
            lethevec.Index(DIM, vectors=tmp_path / name)
    assert target.read_bytes() == MARK


def test_bad_arguments(tmp_path):
    for bad in (None, 3, b"v", True):
        with pytest.raises(ParameterError, match="'memory', 'file' or the path"):
            lethevec.Index(DIM, vectors=bad)
    with pytest.raises(UnsupportedError, match="keep_vectors=False"):
        lethevec.Index(DIM, keep_vectors=False, vectors="file")
    with pytest.raises(FileError, match="folder is not there"):
        lethevec.Index(DIM, vectors=tmp_path / "nowhere" / "v")
    index = lethevec.Index(DIM)
    index.save(tmp_path / "s")
    with pytest.raises(ParameterError, match="'memory', 'file' or the path"):
        lethevec.Index.load(tmp_path / "s", vectors=7)
    with pytest.raises(ParameterError, match="'memory', 'file' or the path"):
        index.copy(vectors=7)


def test_a_forked_child_has_no_part_in_it(x, tmp_path):
    path = tmp_path / "v"
    index = lethevec.Index(DIM, vectors=path)
    index.add(x[:100], ids=range(100))
    calls = [
        lambda: index.search(x[3], k=1),
        lambda: index.search(x[:3], k=1, allow=[1]),
        lambda: index.search_radius(x[3], 1.0),
        lambda: index.vectors([3]),
        lambda: index.digest(),
        lambda: index.forget(3),
        lambda: index.add(x[:1], ids=[1000]),
        lambda: index._native.forget_one(3),
    ]
    assert [in_child(call) for call in calls] == [REFUSED] * len(calls)

    def look():
        with pytest.raises(ForkError, match="vectors lie in a file"):
            index.digest()
        assert len(index) == 100

    assert in_child(look) == FINE

    def drop():
        nonlocal index
        del index
        gc.collect()
        assert path.exists()
        # The name is free as soon as the parent is gone: the child holds no lock.
        made = lethevec.Index(DIM, vectors=tmp_path / "w")
        made.add(x[:9], ids=range(9))

    assert in_child(drop) == FINE
    assert x[3].tobytes() in path.read_bytes()
    assert index.search(x[3], k=1).ids.tolist() == [[3]]


def test_searches_on_other_threads_while_it_grows_and_shrinks(x, tmp_path):
    index = lethevec.Index(512, metric="l2", vectors=tmp_path / "v")
    wide = np.tile(x, (1, 4))[:, :512]
    index.add(wide[:200], ids=range(200))
    stop, wrong = threading.Event(), []

    def search():
        while not stop.is_set():
            hits = index.search(wide[:20], k=1)
            if hits.ids[:, 0].tolist() != list(range(20)) or hits.distances.any():
                wrong.append(hits)

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(8):
        index.add(wide[200:3000], ids=range(200, 3000))
        index.forget(range(200, 3000))
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


MEASURED = """
import sys, numpy as np, lethevec
def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))
rng = np.random.default_rng(1)
dim, count, part = 384, 60_000, 2_000
index = lethevec.Index(dim, source=sys.argv[2], vectors=sys.argv[1])
index.add(rng.normal(size=(part, dim)).astype(np.float32), ids=range(part))  # what comes once
before = anonymous()
for at in range(part, count, part):
    index.add(rng.normal(size=(part, dim)).astype(np.float32), ids=range(at, at + part))
index.search(rng.normal(size=(5, dim)), k=10)
print(anonymous() - before, index.stats()["bytes_total"])
"""


@pytest.mark.parametrize("source", ["scan", "pivots"])
def test_memory_grows_by_codes_alone(tmp_path, source):
    """What the process takes of its own, measured from the system: 1,536 bytes a record are in the file."""
    command = [sys.executable, "-c", MEASURED, str(tmp_path / "v"), source]
    child = subprocess.run(command, capture_output=True, text=True, check=True)
    grown, told = map(float, child.stdout.split())
    assert told < 60_000 * 900  # codes, and the map of ids; with pivots the cells
    assert 0.8 * told < grown < told + 60_000 * 300  # vectors would be 60,000 x 1,536
    assert not list(tmp_path.iterdir())


def test_a_signal_while_it_is_made_again_leaves_no_file(x, tmp_path):
    """An automatic source makes another index, with a file of its own, which goes if the call is interrupted."""
    index = lethevec.Index(DIM, vectors=tmp_path / "v", source=lethevec.Auto(pivots_from=700))
    index.add(x[:600], ids=range(600))
    before = index.digest()

    def change():
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        while True:
            index.add(x[600:], ids=range(600, len(x)))
            index.forget(range(600, len(x)))

    old = signal.signal(signal.SIGALRM, lambda *_: 1 // 0)
    try:
        with pytest.raises(ZeroDivisionError):
            change()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    index.forget(range(600, len(x)), ignore_unknown=True)
    assert index.digest() == before
    gc.collect()
    assert len(list(tmp_path.iterdir())) == 1


AFTER_THE_END = """
import atexit, os, sys
def last():
    calls = {
        "search": lambda: index.search(x[3], k=1),
        "search_radius": lambda: index.search_radius(x[3], 1.0),
        "vectors": lambda: index.vectors([3]),
        "digest": index.digest,
        "copy": index.copy,
        "save": lambda: index.save(sys.argv[2]),
        "add": lambda: index.add(x[:1], ids=[1000]),
        "update": lambda: index.update(x[:1], ids=[3]),
        "forget": lambda: index.forget(3),
    }
    for name, call in calls.items():
        try:
            call()
        except lethevec.errors.FileError as error:
            print(name, "the process ends" in str(error))
        else:
            print(name, "gave an answer")
    print(len(index), 3 in index, os.path.exists(sys.argv[1]))
atexit.register(last)  # before the package's own, so it is called after it
import numpy as np, lethevec
x = np.random.default_rng(8).normal(size=(100, 160)).astype(np.float32)
index = lethevec.Index(160, metric="l2", vectors=sys.argv[1], source=sys.argv[3])
index.add(x, ids=range(100))
index.save(sys.argv[2])
"""


@pytest.mark.parametrize("source", ["scan", "pivots", "graph"])
def test_after_the_end_it_refuses_and_gives_no_zeros(tmp_path, source):
    """Whoever still has the index when its file is overwritten at the exit: a good snapshot is not replaced."""
    x = np.random.default_rng(8).normal(size=(100, 160)).astype(np.float32)
    expected = lethevec.Index(160, metric="l2", source=source)
    expected.add(x, ids=range(100))
    command = [sys.executable, "-c", AFTER_THE_END, str(tmp_path / "v"), str(tmp_path / "s"), source]
    lines = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    assert [line for line in lines[:-1] if not line.endswith(" True")] == []
    assert len(lines) == 10
    assert lines[-1] == "100 True False"
    assert lethevec.Index.load(tmp_path / "s").digest() == expected.digest()


def test_what_crosses_a_threshold_leaves_the_file_at_once(x, tmp_path):
    """An automatic source makes the index again. The old one, and its file, may be in use by a search for long."""
    index = lethevec.Index(DIM, metric="l2", vectors=tmp_path / "v", source=lethevec.Auto(pivots_from=700))
    index.add(x[:800], ids=range(800))
    searched = index._native
    index.forget(range(150))
    assert index._native is not searched
    content = files_in(tmp_path)
    assert x[300].tobytes() in content
    assert [row for row in range(150) if x[row].tobytes() in content] == []
    del searched
    index.add(x[800:850], ids=range(800, 850))
    searched = index._native
    index.forget(300)
    assert index._native is not searched
    assert x[300].tobytes() not in files_in(tmp_path)
    assert searched.search(x[301:302], 1, 1.0, None, 1, np.empty((1, 1), np.int64), np.empty((1, 1), np.float32))


def unsettled(monkeypatch, call):
    """From now on the core's call does its work, and then the disk does not confirm it."""
    real = getattr(core.Index, call)

    def change(self, *args):
        real(self, *args)
        raise UnsettledError("the disk does not confirm it")

    monkeypatch.setattr(core.Index, call, change)


def test_a_threshold_is_crossed_even_if_the_disk_does_not_confirm_it(x, tmp_path, monkeypatch):
    index = lethevec.Index(DIM, metric="l2", vectors=tmp_path / "v", source=lethevec.Auto(pivots_from=700))
    index.add(x[:800], ids=range(800))
    with monkeypatch.context() as patch:
        unsettled(patch, "forget")
        with pytest.raises(FileError, match="does not confirm"):
            index.forget(range(150))
    plain = lethevec.Index(DIM, metric="l2", source=lethevec.Auto(pivots_from=700))
    plain.add(x[150:800], ids=range(150, 800))
    assert index.digest() == plain.digest()
    assert index.stats()["pivots"] == plain.stats()["pivots"] == 0


@pytest.mark.parametrize("call", ["add", "update", "forget"])
def test_the_gain_follows_what_the_disk_does_not_confirm(x, tmp_path, monkeypatch, call):
    options = {"metric": "l2", "family": "usr", "source": "scan"}
    index = lethevec.Index(DIM, vectors=tmp_path / "v", **options)
    x = np.concatenate([x[:200], 50 * x[200:300]])
    index.add(x[:250], ids=range(250))
    changes = {
        "add": (lambda: index.add(x[250:], ids=range(250, 300)), {id: id for id in range(300)}),
        "update": (
            lambda: index.update(x[250:], ids=range(50)),
            {id: id + 250 if id < 50 else id for id in range(250)},
        ),
        "forget": (lambda: index.forget(range(200, 250)), {id: id for id in range(200)}),
    }
    change, left = changes[call]
    before = index.stats()["mean_norm"]
    with monkeypatch.context() as patch:
        unsettled(patch, call)
        with pytest.raises(FileError, match="does not confirm"):
            change()
    plain = lethevec.Index(DIM, **options)
    plain.add(x[list(left.values())], ids=list(left))
    for _ in range(2):
        assert index.stats()["mean_norm"] == plain.stats()["mean_norm"] != before
        assert index.digest() == plain.digest()
        one, other = (i.search(x[:20], k=5, effort=0.2) for i in (index, plain))
        np.testing.assert_array_equal(one.ids, other.ids)
        np.testing.assert_array_equal(one.distances, other.distances)
        # What is counted is what is there: it can all go, and something else come.
        for one_index in (index, plain):
            one_index.forget(one_index.ids())
            assert one_index.stats()["mean_norm"] == 1.0
            one_index.add(x[:10] * 9, ids=range(10))


def test_others_go_on_while_a_file_is_overwritten(x, tmp_path):
    """Another thread sees it half done; and the mark, by which it is known if the process is killed now, is there."""
    path = tmp_path / "v"
    wide = np.tile(x, (1, 20))
    seen, wrong = [], []

    def watch(held, stop):
        while not stop.is_set():
            overwritten = os.pread(held, 4, HEAD) == bytes(4)
            if overwritten and path.exists():
                seen.append(True)
            if os.pread(held, len(MARK), 0) != MARK and path.exists():
                wrong.append(True)

    for _ in range(30):  # the machine may be busy with something else, but not each time
        index = lethevec.Index(wide.shape[1], source="scan", vectors=path)
        index.add(wide, ids=range(len(wide)))
        held, stop = os.open(path, os.O_RDONLY), threading.Event()
        thread = threading.Thread(target=watch, args=(held, stop))
        thread.start()
        del index
        stop.set()
        thread.join()
        os.close(held)
        assert not path.exists()
        if seen:
            break
    assert seen
    assert not wrong


NOT_CONFIRMED = """
import os, sys, numpy as np, lethevec
path = sys.argv[1]
def dirty():
    inode, total, here = f" {os.stat(path).st_ino} ", 0, False
    for line in open("/proc/self/smaps"):
        words = line.split()
        if not words[0].endswith(":"):
            here = inode in line
        elif here and words[0] in ("Shared_Dirty:", "Private_Dirty:"):
            total += int(words[1]) << 10
    return total
x = np.random.default_rng(8).normal(size=(4000, 160)).astype(np.float32)
index = lethevec.Index(160, vectors=path, source="scan")
index.add(x, ids=range(4000))
other = os.open(path, os.O_RDWR)
os.fsync(other)
def change(*ids):
    try:
        index.forget(ids, ignore_unknown=True)
    except lethevec.errors.FileError:
        print("failed", end=" ")
    print(dirty(), len(index))
print(dirty(), len(index))
change(7)
os.fsync(other)  # from now on the system takes the pages for written, as after an error of the disk
print(dirty(), len(index))
change(10**9)
change(10**9)
"""


def test_what_the_disk_has_refused_is_written_again(tmp_path):
    """The system tells once that it could not write a page, and does not try again by itself."""
    command = ["strace", "-f", "-e", "trace=msync", "-e", "inject=msync:error=EIO:when=1..2", "-o", "/dev/null"]
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"needs strace: {error}")
    run = [*command, sys.executable, "-c", NOT_CONFIRMED, str(tmp_path / "v")]
    ended = subprocess.run(run, check=True, capture_output=True, text=True)
    clean, first, written, second, third = (line.split() for line in ended.stdout.splitlines())
    if clean[0] != "0" or written[0] != "0":
        pytest.skip("this file system does not tell what is written")
    assert first[0] == second[0] == "failed"
    assert int(first[1]) > 0
    assert int(second[1]) >= 4 * 160 * 3999 // 4  # a whole piece of the file at least
    assert third == ["0", "3999"]
