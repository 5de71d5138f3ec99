"""A server on a full disk: answers that say so, and an audit log that is whole when there is space again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

pytest.importorskip("uvicorn")

from lethevec.errors import IncompleteWriteError
from lethevec.server import audit
from lethevec.server.audit import AuditLog, Signer, check_logs, read_log
from lethevec.server.settings import Settings

from ..server.conftest import Running
from .small_disk import PAGE, SmallDisk

X = np.random.default_rng(2).normal(size=(400, 8)).round(3)


@pytest.mark.parametrize("pages", range(6))
def test_a_log_on_a_full_disk_is_whole_afterwards(small_disk: Callable[..., SmallDisk], pages: int):
    disk = small_disk(1)
    log = AuditLog(disk.folder, "writer", Signer.open(disk.folder))
    disk.fill(pages * PAGE)
    failed = 0
    for n in range(300):
        log.note("k", "search", "books", 200, {"queries": n, "words": "x" * (n % 50)})
        try:
            log.flush(sync=n % 3 == 0)
        except IncompleteWriteError:
            failed += 1
        if n == 200:
            disk.empty()
    assert failed > 100
    log.close()
    (check,) = check_logs(disk.folder, Signer.open(disk.folder).public)
    assert check.problem is None
    assert check.unsealed == 0
    assert [e["queries"] for e in read_log(disk.folder) if e.get("do") == "search"] == list(range(300))


def test_a_log_that_ends_on_a_full_disk_can_be_gone_on_with(small_disk: Callable[..., SmallDisk]):
    disk = small_disk(1)
    log = AuditLog(disk.folder, "writer", Signer.open(disk.folder))
    log.flush(sync=True)
    disk.fill(PAGE)
    for _ in range(100):
        log.note("k", "search", "books", 200, {"words": "x" * 90})
    with pytest.raises(IncompleteWriteError):
        log.flush()
    with pytest.raises(IncompleteWriteError):
        log.close()
    with suppress(IncompleteWriteError):  # what is cut off at the end may make room for the next beginning
        AuditLog(disk.folder, "writer", Signer.open(disk.folder)).close()
    disk.empty()
    AuditLog(disk.folder, "writer", Signer.open(disk.folder)).close()
    (check,) = check_logs(disk.folder, Signer.open(disk.folder).public)
    assert check.problem is None


def test_a_log_does_not_grow_in_memory_for_ever(small_disk: Callable[..., SmallDisk], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(audit, "_MOST_WAITING", 10_000)
    disk = small_disk(1)
    log = AuditLog(disk.folder, "writer", Signer.open(disk.folder))
    disk.fill()
    log.note("k", "search", "books", 200, {"words": "x" * 5000})  # more than the rest of the last page
    for _ in range(3):
        with pytest.raises(IncompleteWriteError, match="could not be written"):
            log.flush()
    log.note("k", "search", "books", 200, {"words": "x" * 20_000})
    with pytest.raises(IncompleteWriteError, match="nothing more is answered"):
        log.note("k", "search", "books", 200)
    disk.empty()
    log.flush(sync=True)
    log.note("k", "search", "books", 200)
    log.close()
    (check,) = check_logs(disk.folder, Signer.open(disk.folder).public)
    assert check.problem is None


@pytest.mark.parametrize("pages", [0, 3, 8, 16, 40])
def test_a_server_on_a_full_disk(small_disk: Callable[..., SmallDisk], pages: int):
    disk = small_disk(12)
    server = Running(Settings(folder=disk.folder / "people", port=0, log="none", expire_every=0.0))
    try:
        made = {"name": "books", "dim": 8, "metric": "l2"}
        server.call("POST", "/v1/collections", made).raise_for_status()
        first = {
            "ids": list(range(100)),
            "vectors": X[:100].tolist(),
            "subjects": [f"person {n % 10}" for n in range(100)],
        }
        server.post("/v1/collections/books/add", first).raise_for_status()
        there, people = set(range(100)), {f"person {n}" for n in range(10)}
        disk.fill(pages * PAGE)
        seen = set()

        def post(path: str, content: Any) -> int:
            status = server.post(path, content, headers={"idempotency-key": f"{path} {len(seen)} {content!r:.60}"})
            seen.add(status.status_code)
            assert status.status_code in (200, 201, 202, 507), status.text
            if status.status_code == 507:
                assert "storage_full" in status.text
            return status.status_code

        if post("/v1/collections/books/add", {"ids": [200], "vectors": X[200:201].tolist()}) < 300:
            there.add(200)
        if post("/v1/collections/books/add", {"ids": list(range(201, 400)), "vectors": X[201:].tolist()}) < 300:
            there |= set(range(201, 400))
        found = server.post("/v1/collections/books/search", {"vectors": X[:1].tolist(), "k": 1})
        assert found.status_code == 200
        unsure = set()
        for person in ("person 3", "person 4"):
            gone = {n for n in range(100) if f"person {n % 10}" == person}
            status = post("/v1/forget", {"subject": person})
            if status < 300:
                there -= gone
                people.discard(person)
            else:  # the log may be what had no space
                unsure |= gone
        disk.empty()
        ids = server.post("/v1/collections/books/ids", {})
        assert set(ids.json()["ids"]) - unsure == there - unsure
        assert post("/v1/forget", {"subject": "person 5"}) == 200
    finally:
        server.stop()
    state = disk.folder / "people" / ".server"
    state = next(path.parent for path in disk.folder.rglob("audit")) if not state.exists() else state
    assert all(check.problem is None and check.unsealed == 0 for check in check_logs(state, Signer.open(state).public))
    assert pages or 507 in seen
