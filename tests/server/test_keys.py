"""Keys: what is kept, what each role may, and who is let in."""

from __future__ import annotations

import json
import os
import time

import pytest

from lethevec.errors import InputError, KeysError, ParameterError
from lethevec.server.keys import EVERYONE, ROLES, Door, KeyFile

from .conftest import fill


def test_the_file_holds_hashes_only_and_is_private(tmp_path):
    file = KeyFile(tmp_path / "state")
    text, key = file.make("search", ["reader"])
    raw = file.path.read_text()
    assert text.split("_", 2)[2] not in raw
    assert key.hash in raw
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_a_withdrawn_key_stays_withdrawn_after_a_power_cut(tmp_path, monkeypatch):
    """The new file is on the disk before it gets its name, and the name is before the call returns."""
    file = KeyFile(tmp_path)
    _, key = file.make("search", ["reader"])
    done, sync, replace = [], os.fsync, os.replace
    names = {tmp_path.stat().st_ino: "folder"}

    def fsync(descriptor):
        done.append(names.get(os.fstat(descriptor).st_ino, "file"))
        sync(descriptor)

    def rename(old, new):
        done.append("name")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", rename)
    file.withdraw(key.id)
    assert done == ["file", "name", "folder"]


def test_a_key_opens_until_it_is_withdrawn(tmp_path):
    file = KeyFile(tmp_path)
    text, key = file.make("search", ["reader"])
    door = Door(file)
    assert door.check(text) == key
    file.withdraw(key.id)
    assert Door(file).check(text) is None
    time.sleep(0.6)
    assert door.check(text) is None
    kept = file.keys()[0]
    assert kept.hash == ""
    assert not kept.live
    assert kept.name == "search"


def test_an_expired_key_opens_nothing(tmp_path):
    text, _ = KeyFile(tmp_path).make("old", ["admin"], expires_at="2020-01-01")
    assert Door(KeyFile(tmp_path)).check(text) is None


@pytest.mark.parametrize("wrong", ["", "lv_", "lv_00000000_" + "a" * 43, "x" * 10_000, "lv_\x00", "Bearer x"])
def test_what_is_no_key_is_refused(tmp_path, wrong):
    KeyFile(tmp_path).make("search", ["reader"])
    assert Door(KeyFile(tmp_path)).check(wrong) is None


def test_the_door_stays_closed_when_the_file_goes(tmp_path):
    file = KeyFile(tmp_path)
    text, _ = file.make("search", ["reader"])
    door = Door(file)
    file.path.unlink()
    time.sleep(0.6)
    assert door.check(text) is None
    assert door.closed


@pytest.mark.parametrize(
    "damage", [b"", b"[]", b"{", b'{"format":"other","keys":[]}', b'{"format":"lethevec-server-keys/1"}']
)
def test_a_damaged_file_is_refused(tmp_path, damage):
    file = KeyFile(tmp_path)
    file.path.write_bytes(damage)
    with pytest.raises(KeysError, match="expected keys of format"):
        file.keys()


def test_bad_arguments_are_refused_and_nothing_is_written(tmp_path):
    file = KeyFile(tmp_path)
    with pytest.raises(ParameterError, match="expected one of reader"):
        file.make("x", ["reder"])
    with pytest.raises(ParameterError, match="at least one"):
        file.make("x", [])
    with pytest.raises(ParameterError, match="1 to 200 characters"):
        file.make("", ["reader"])
    with pytest.raises(ParameterError, match="expected a date"):
        file.make("x", ["reader"], expires_at="soon")
    with pytest.raises(InputError, match="expected the id of a key"):
        file.withdraw("nobody")
    assert not file.path.exists()


def test_a_file_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "state").write_text("in the way")
    with pytest.raises(KeysError, match="could not be read"):
        KeyFile(tmp_path / "state").make("x", ["reader"])


def test_every_right_belongs_to_the_admin_and_no_other_role_has_all():
    everything = frozenset().union(*ROLES.values())
    assert ROLES["admin"] == everything
    assert EVERYONE.rights == everything
    assert all(ROLES[role] < everything for role in ROLES if role != "admin")


#: For each role: calls that it may make, among those of the next test.
MAY = {
    "reader": {"describe", "search", "get", "count", "export", "access"},
    "writer": {"describe", "upsert"},
    "eraser": {"describe", "forget", "receipts", "digest"},
    "auditor": {"describe", "receipts", "digest", "audit"},
    "holder": {"describe", "hold"},
    "admin": {
        *("describe", "search", "get", "count", "export", "access", "upsert", "forget", "receipts", "digest"),
        *("audit", "hold"),
    },
}
CALLS = {
    "describe": ("GET", "/v1/collections/books", None),
    "search": ("POST", "/v1/collections/books/search", {"vector": [0, 1]}),
    "get": ("POST", "/v1/collections/books/get", {"ids": [3]}),
    "count": ("POST", "/v1/collections/books/count", {}),
    "export": ("POST", "/v1/collections/books/export", {}),
    "access": ("POST", "/v1/access", {"subject": "bob"}),
    "upsert": ("POST", "/v1/collections/books/upsert", {"ids": [9], "vectors": [[1, 1]]}),
    "forget": ("POST", "/v1/collections/books/forget", {"ids": [9], "ignore_unknown": True}),
    "receipts": ("GET", "/v1/receipts", None),
    "digest": ("GET", "/v1/collections/books/digest", None),
    "audit": ("GET", "/v1/audit", None),
    "hold": ("POST", "/v1/hold", {"subject": "carol", "reason": "case 7"}),
}


def test_each_role_may_do_what_it_may_and_nothing_else(start, make_key):
    keys = {role: make_key(role) for role in ROLES}
    server = start()
    fill(server, keys["admin"])
    for role, key in keys.items():
        for name, (method, path, body) in CALLS.items():
            answer = server.call(method, path, body, key=key)
            if name in MAY[role]:
                assert answer.status_code == 200, (role, name, answer.text)
                if name == "hold":
                    hold = answer.json()["receipt"]["hold"]
                    server.post("/v1/lift", {"hold": hold, "reason": "closed"}, key=key).raise_for_status()
            else:
                assert answer.status_code == 403, (role, name)
                assert answer.json()["error"]["code"] == "role"


def test_without_a_key_nothing_but_health_is_open(start, make_key):
    key = make_key("admin")
    server = start()
    assert server.call("GET", "/healthz").status_code == 200
    assert server.call("GET", "/readyz").status_code == 200
    assert server.call("GET", "/openapi.json").status_code == 200
    for method, path in (("GET", "/v1/collections"), ("GET", "/metrics"), ("POST", "/v1/collections/x/search")):
        for wrong in (None, "lv_00000000_" + "a" * 43, key[:-1] + ("A" if key[-1] != "A" else "B")):
            answer = server.call(method, path, key=wrong)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
    assert server.call("GET", "/v1/collections", key=key).status_code == 200


def test_a_key_for_some_collections_sees_those_alone(start, make_key):
    admin = make_key("admin")
    key = make_key("reader", "writer", "eraser", collections=["mine"])
    server = start()
    fill(server, admin)
    server.post("/v1/collections", {"name": "mine", "dim": 2}, key=key).raise_for_status()
    assert server.post("/v1/collections", {"name": "other", "dim": 2}, key=key).status_code == 403
    names = [one["name"] for one in server.call("GET", "/v1/collections", key=key).json()["collections"]]
    assert names == ["mine"]
    server.post("/v1/collections/mine/count", key=key).raise_for_status()
    for path in ("/v1/collections/books/count", "/v1/collections/absent/count"):  # no telling which of them is there
        assert server.post(path, key=key).status_code == 403
    assert server.post("/v1/forget", {"subject": "alice"}, key=key).status_code == 403
    assert server.post("/v1/access", {"subject": "alice"}, key=key).status_code == 403
    assert server.post("/v1/collections/mine/rename", {"name": "books2"}, key=key).status_code == 403


def test_keys_work_for_chroma_paths_in_either_header(start, make_key):
    key = make_key("admin")
    server = start()
    path = "/api/v2/tenants/default_tenant/databases/default_database/collections"
    assert server.call("GET", path).json()["error"] == "AuthError"
    assert server.call("GET", path, key=key).json() == []
    assert server.call("GET", path, headers={"x-chroma-token": key}).json() == []
    assert server.call("GET", path, headers={"x-chroma-token": f"Bearer {key}"}).json() == []


def test_a_running_server_takes_up_a_withdrawal(start, make_key, tmp_path):
    key = make_key("reader")
    make_key("admin")
    server = start()
    assert server.call("GET", "/v1/collections", key=key).status_code == 200
    KeyFile(tmp_path / "people-server").withdraw(key.split("_")[1])
    time.sleep(0.7)
    assert server.call("GET", "/v1/collections", key=key).status_code == 401


def test_the_key_file_reads_what_it_wrote(tmp_path):
    file = KeyFile(tmp_path)
    made = [file.make(f"k{n}", [role], collections=["a", "b"] if n % 2 else None)[1] for n, role in enumerate(ROLES)]
    assert file.keys() == made
    assert len(json.loads(file.path.read_text())["keys"]) == len(ROLES)
