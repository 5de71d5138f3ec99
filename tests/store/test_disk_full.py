"""No space left, by RLIMIT_FSIZE in a process of its own: every file of it may grow to a limit and no further.

SQLite sees a failed write, as on a full disk. What was acknowledged stays, what failed is gone as a whole, forgetting
says whether it is done, and everything goes on when there is space again.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

LAYOUTS = pytest.mark.parametrize("layout", ["plain", "sealed"])
CODE = """
    import json, resource, signal, sys
    from pathlib import Path
    import numpy as np
    from lethevec.errors import ErasureIncompleteError, IncompleteWriteError
    from lethevec._store import open
    from lethevec._store.files import FileSource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write then fails instead of killing the process

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    path = Path(sys.argv[1])
    data = np.random.default_rng(1).normal(size=(3000, 32)).astype(np.float32)
    encrypt = sys.argv[2] == "sealed"
    db = open(path, 32, "l2", encrypt=encrypt)
    db.add(data[:1000], ids=range(1000), subjects="many")
    db.forget([0])
    size = path.stat().st_size
    out = {"size": size}

    def attempt(name, call):
        try:
            call()
            out[name] = "done"
        except (IncompleteWriteError, ErasureIncompleteError) as error:
            out[name] = type(error).__name__ + ": " + str(error)

    before = db.digest()
    limit(100_000)
    attempt("add", lambda: db.add(data[1000:], ids=range(1000, 3000)))
    out["unchanged"] = db.digest() == before and len(db) == 999 and 1000 not in db
    out["not found"] = bool((db.search(data[1000:1010], k=1).ids < 1000).all())
    attempt("update", lambda: db.update(ids=range(1, 900), vectors=data[1001:1900]))
    out["old vectors"] = bool(np.array_equal(db.get([5])[0].vector, data[5])) and db.digest() == before
    out["old answers"] = db.search(data[5], k=1).ids.tolist()
    attempt("forget", lambda: db.forget(subject="many"))
    out["records after a refused forget"] = len(db)
    out["found after a refused forget"] = db.search(data[5], k=1).ids.tolist()

    # The log may grow and the database may not: committed, but not erased.
    limit(resource.RLIM_INFINITY)
    db.add(data[1000:1200], ids=range(1000, 1200))
    limit(path.stat().st_size)
    attempt("small forget", lambda: db.forget([7]))
    out["gone"] = 7 not in db and 7 not in db.search(data[7], k=5).ids
    out["pending"] = db.pending_erasures()
    limit(resource.RLIM_INFINITY)
    db.complete_erasures()
    out["pending after"] = db.pending_erasures()
    attempt("forget with space", lambda: db.forget(subject="many"))
    attempt("add with space", lambda: db.add(data[1200:], ids=range(1200, 3000)))
    out["receipts"] = [r.records for r in db.receipts()]
    db.close()
    with open(path) as db:
        out["reopened"] = len(db)
    limit(4096)
    attempt("create", lambda: open(str(path) + "-2", 32, encrypt=encrypt))
    attempt("backup", lambda: open(path).backup(str(path) + "-3"))
    out["no half files"] = not Path(str(path) + "-2").exists() and not Path(str(path) + "-3").exists()
    print(json.dumps(out))
"""


@LAYOUTS
def test_no_space_left(tmp_path: Path, layout: str):
    command = [sys.executable, "-c", textwrap.dedent(CODE), str(tmp_path / "s.lethe"), layout]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    out = json.loads(result.stdout)
    assert out["add"].startswith("IncompleteWriteError")
    assert "what was there before is unharmed" in out["add"]
    assert out["unchanged"]
    assert out["not found"]
    assert out["update"].startswith("IncompleteWriteError")
    assert out["old vectors"]
    assert out["old answers"] == [[5]]
    assert out["forget"].startswith("IncompleteWriteError")
    assert out["records after a refused forget"] == 999
    assert out["found after a refused forget"] == [[5]]
    assert out["small forget"].startswith(("ErasureIncompleteError", "done"))
    assert out["gone"]
    assert out["pending after"] == 0
    assert out["forget with space"] == out["add with space"] == "done"
    assert out["receipts"][0] == out["receipts"][1] == 1
    assert out["reopened"] == 2000
    assert out["create"].startswith("IncompleteWriteError")
    assert out["backup"].startswith("IncompleteWriteError")
    assert out["no half files"]


FULL = """
    import json, os, subprocess, sys
    from pathlib import Path
    import numpy as np
    from lethevec.errors import LethevecError
    from lethevec._store import open
    folder = Path(sys.argv[1])
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]).returncode:
        sys.exit(77)
    data = np.random.default_rng(1).normal(size=(8000, 64)).astype(np.float32)
    out = {}
    db = open(folder / "s.lethe", 64, "l2", encrypt=sys.argv[2] == "sealed")
    db.add(data, ids=range(8000))
    db.forget([0])
    out["reserve"] = (folder / "s.lethe-reserve").stat().st_size
    with (folder / "ballast").open("wb", buffering=0) as ballast:
        for size in (1 << 16, 4096, 1):
            try:
                while True:
                    ballast.write(bytes(size))
            except OSError:
                pass
    left = os.statvfs(folder)
    out["free"] = left.f_bavail * left.f_bsize
    try:
        db.add(data[:1] + 1, ids=[9000])
    except LethevecError as error:
        out["add"] = type(error).__name__
    receipt = db.forget(range(1, 1000, 99))
    out["forgotten"] = receipt.records
    out["verified"] = bool(db.verify(receipt, vectors=data[1:1000:99]))
    out["reserve again"] = (folder / "s.lethe-reserve").exists()
    try:
        db.forget(range(2, 8000, 3), ignore_unknown=True)
    except LethevecError as error:
        out["too large"] = type(error).__name__
        out["untouched"] = len(db) == 7988
    (folder / "ballast").unlink()
    out["later"] = db.forget(range(2, 8000, 3), ignore_unknown=True).records > 2000
    out["reserve in the end"] = (folder / "s.lethe-reserve").exists()
    db.close()
    print(json.dumps(out))
"""


@LAYOUTS
def test_a_disk_that_is_really_full(tmp_path: Path, layout: str):
    """On a tmpfs of 16 MB, in a mount namespace of its own: a record can be forgotten though nothing can be added."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    command = ["unshare", "-rm", sys.executable, "-c", textwrap.dedent(FULL), str(tmp_path), layout]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if result.returncode == 77 or "unshare" in result.stderr:
        pytest.skip("no mount namespace can be made here")
    assert result.returncode == 0, result.stderr[-3000:]
    out = json.loads(result.stdout)
    assert out["reserve"] == 1 << 20
    assert out["free"] == 0
    assert out["add"] == "IncompleteWriteError"
    assert out["forgotten"] == 11
    assert out["verified"]
    assert out["too large"] == "IncompleteWriteError"
    assert out["untouched"]
    assert out["later"]
    assert out["reserve in the end"]
