"""The audit log: every change to it is noticed, and it says nothing that it should not."""

from __future__ import annotations

import errno
import json
import os

import pytest

from lethevec.errors import IncompleteWriteError
from lethevec.server import audit
from lethevec.server.audit import AuditLog, Signer, check_logs, read_log

from .conftest import fill


@pytest.fixture
def state(tmp_path):
    log = AuditLog(tmp_path, "writer", Signer.open(tmp_path))
    for place in range(5):
        log.note("k", "search", "books", 200, {"queries": place})
        if place % 2:
            log.flush()
    log.close()
    return tmp_path


def the_file(state):
    (path,) = (state / "audit").glob("*.jsonl")
    return path


def problem(state):
    (check,) = check_logs(state, Signer.open(state).public)
    return check.problem


def test_a_log_is_whole_and_sealed_to_its_end(state):
    (check,) = check_logs(state, Signer.open(state).public)
    assert check.problem is None
    assert check.unsealed == 0
    assert check.entries == 8  # the head, start, five searches, stop
    assert [entry.get("do") for entry in read_log(state)] == [None, "start", *["search"] * 5, "stop"]


def test_it_goes_on_after_a_restart(state):
    AuditLog(state, "writer", Signer.open(state)).close()
    (check,) = check_logs(state, Signer.open(state).public)
    assert check.problem is None
    assert check.entries == 10


@pytest.mark.parametrize("place", range(0, 12, 2))
def test_a_changed_line_is_noticed(state, place):
    lines = the_file(state).read_bytes().splitlines(keepends=True)
    line = lines[place]
    lines[place] = line[:-3] + bytes([line[-3] ^ 1]) + line[-2:]
    the_file(state).write_bytes(b"".join(lines))
    assert problem(state) is not None


@pytest.mark.parametrize("place", range(11))
def test_a_line_that_was_taken_out_is_noticed(state, place):
    lines = the_file(state).read_bytes().splitlines(keepends=True)
    sealed = lines[place].startswith(b'{"seal"')
    del lines[place]
    the_file(state).write_bytes(b"".join(lines))
    if sealed and place < len(lines):
        assert problem(state) is None  # a later seal covers the same entries
    else:
        assert problem(state) is not None


def test_lines_in_another_order_are_noticed(state):
    lines = the_file(state).read_bytes().splitlines(keepends=True)
    places = [place for place, line in enumerate(lines) if b'"search"' in line]
    lines[places[0]], lines[places[1]] = lines[places[1]], lines[places[0]]
    the_file(state).write_bytes(b"".join(lines))
    assert problem(state) is not None


def test_another_key_is_noticed(state, tmp_path_factory):
    other = Signer.open(tmp_path_factory.mktemp("other")).public
    (check,) = check_logs(state, other)
    assert "not signed by this server" in (check.problem or "")


def test_half_a_line_after_a_crash_is_cut_off_and_the_log_goes_on(state):
    with open(the_file(state), "ab") as file:
        file.write(b'{"n":8,"at":"20')
    assert problem(state) is not None
    AuditLog(state, "writer", Signer.open(state)).close()
    assert problem(state) is None


def test_entries_without_a_seal_are_counted(state):
    log = AuditLog(state, "writer", Signer.open(state))
    log.note("k", "search", "books", 200)
    log.flush()
    lines = the_file(state).read_bytes().splitlines(keepends=True)
    assert lines[-1].startswith(b'{"seal"')
    the_file(state).write_bytes(b"".join(lines[:-1]))  # as if it had been killed in between
    (check,) = check_logs(state, Signer.open(state).public)
    assert check.problem is None
    assert check.unsealed == 1


def test_a_full_disk_leaves_no_half_line_and_loses_no_entry(state, monkeypatch):
    log = AuditLog(state, "writer", Signer.open(state))
    write = os.write
    left = [60]

    def full(descriptor, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = data[: left[0]]
        left[0] -= len(part)
        return write(descriptor, part)

    log.note("k", "search", "books", 200)
    monkeypatch.setattr(os, "write", full)
    for _ in range(2):
        with pytest.raises(IncompleteWriteError):
            log.flush()
        log.note("k", "forget", "books", 200)
    monkeypatch.undo()
    log.close()
    (check,) = check_logs(state, Signer.open(state).public)
    assert (check.problem, check.unsealed) == (None, 0)
    assert [entry.get("do") for entry in read_log(state)][-5:] == ["start", "search", "forget", "forget", "stop"]


def test_full_files_are_followed_by_new_ones_that_continue_them(tmp_path, monkeypatch):
    monkeypatch.setattr(audit, "_FULL", 2000)
    log = AuditLog(tmp_path, "writer", Signer.open(tmp_path))
    for _ in range(50):
        log.note("k", "search", "books", 200)
        log.flush()
    log.close()
    checks = check_logs(tmp_path, Signer.open(tmp_path).public)
    assert len(checks) > 3
    assert all(check.problem is None for check in checks)
    checks[1].path.unlink()
    assert [check.problem for check in check_logs(tmp_path, Signer.open(tmp_path).public)].count(None) < len(checks) - 1


def test_tags_tell_ints_from_texts_and_need_the_secret(tmp_path, tmp_path_factory):
    signer = Signer.open(tmp_path)
    assert signer.tag("id", 7) != signer.tag("id", "7")
    assert signer.tag("id", "a") != signer.tag("subject", "a")
    assert signer.tag("id", 7) == Signer.open(tmp_path).tag("id", 7)
    assert signer.tag("id", 7) != Signer.open(tmp_path_factory.mktemp("b")).tag("id", 7)


def test_the_server_writes_down_who_did_what_and_names_nobody(start, make_key, tmp_path):
    key = make_key("admin")
    server = start()
    fill(server, key)
    server.post("/v1/collections/books/search", {"vector": [0, 1], "subject": "alice"}, key=key).raise_for_status()
    server.post("/v1/collections/books/get", {"ids": ["four"]}, key=key).raise_for_status()
    server.post("/v1/collections/books/forget", {"subject": "carol"}, key=key).raise_for_status()
    assert server.post("/v1/collections/books/forget", {"subject": "carol"}, key=key).status_code == 404
    state = tmp_path / "people-server"
    # An erasure is sealed and on the disk before its answer: no waiting here.
    entries = list(read_log(state))
    done = [(entry["do"], entry["status"]) for entry in entries if entry.get("key") == key.split("_")[1]]
    assert done[:5] == [("make", 201), ("upsert", 200), ("search", 200), ("get", 200), ("forget", 200)]
    forgotten = next(entry for entry in entries if entry.get("do") == "forget")
    signer = Signer.open(state)
    assert forgotten["subject"] == signer.tag("subject", "carol")
    assert forgotten["records"] == 1
    assert next(e for e in entries if e.get("do") == "get")["ids"] == [signer.tag("id", "four")]
    raw = b"".join(path.read_bytes() for path in (state / "audit").iterdir())
    for personal in (b"alice", b"carol", b"four", key.encode()):
        assert personal not in raw
    server.stop()
    assert [check.problem for check in check_logs(state, signer.public)] == [None]


def test_the_log_can_be_read_by_an_auditor(start, make_key):
    admin, auditor = make_key("admin"), make_key("auditor")
    server = start()
    fill(server, admin)
    server.core.audit.flush()
    lines = server.call("GET", "/v1/audit", key=auditor).text.splitlines()
    assert {"make", "upsert"} <= {json.loads(line).get("do") for line in lines}
