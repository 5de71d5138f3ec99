"""Who may do what: keys with roles, in a file that holds their hashes only.

A key is `lv_`, eight hexadecimal digits that name it, and a secret of 256 random bits. It is shown once, when it is
made. The file has mode 0600 and holds the SHA-256 of the secret, which is enough for a secret that nobody can guess.
A running server takes up a changed file within a second.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from lethevec._durable import open_regular, read_regular, replace_secret
from lethevec.errors import FormatError, IncompleteWriteError, InputError, KeysError, ParameterError

__all__ = ["EVERYONE", "ROLES", "Door", "Key", "KeyFile"]

FORMAT = "lethevec-server-keys/1"
FILE = "keys.json"
_MAX_BYTES = 16 << 20
_LOOK = 0.5  # seconds between two looks at the file
_TEXT = re.compile(r"lv_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")

#: What each role may do. `describe` is the names and sizes of collections, which every role needs.
ROLES: dict[str, frozenset[str]] = {
    "reader": frozenset({"describe", "read"}),
    "writer": frozenset({"describe", "write"}),
    "eraser": frozenset({"describe", "erase", "proof"}),
    "auditor": frozenset({"describe", "proof", "audit"}),
    "holder": frozenset({"describe", "hold"}),
    "admin": frozenset({"describe", "read", "write", "erase", "proof", "audit", "hold", "admin"}),
}


@dataclass(frozen=True)
class Key:
    """One key: its name, what it may do, and in which collections (None: in all of them)."""

    id: str
    name: str
    roles: tuple[str, ...]
    collections: tuple[str, ...] | None
    hash: str
    made_at: str
    expires_at: str | None = None
    withdrawn_at: str | None = None
    rights: frozenset[str] = frozenset()

    def allows(self, right: str, collection: str | None) -> bool:
        """Whether it may do this in that collection; None stands for what concerns all collections."""
        return right in self.rights and (
            self.collections is None or (collection is not None and collection in self.collections)
        )

    def sees(self, collection: str) -> bool:
        """Whether it may know that there is such a collection."""
        return self.collections is None or collection in self.collections

    @property
    def live(self) -> bool:
        """Whether it still opens anything."""
        return self.withdrawn_at is None and (self.expires_at is None or _now() < self.expires_at)


#: Who calls a server without keys, which listens on loopback only.
EVERYONE = Key("none", "anybody on this machine", ("admin",), None, "", "", rights=ROLES["admin"])


class KeyFile:
    """The file of a server's keys.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = KeyFile(Path(folder.name))
    >>> text, key = file.make("search page", ["reader"], collections=["books"])
    >>> key.allows("read", "books"), key.allows("read", "people"), key.allows("erase", "books")
    (True, False, False)
    >>> Door(file).check(text) == key, Door(file).check(text[:-1] + "!")
    (True, None)
    >>> folder.cleanup()
    """

    def __init__(self, state: Path) -> None:
        """The file need not be there yet."""
        self.path = state / FILE

    def keys(self) -> list[Key]:
        """All keys, withdrawn ones included, in the order in which they were made."""
        try:
            raw = read_regular(self.path, _MAX_BYTES + 1)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise KeysError(f"{self.path}: the keys could not be read: {error}") from error
        try:
            if len(raw) > _MAX_BYTES:
                raise FormatError(f"more than {_MAX_BYTES} bytes")
            content = json.loads(raw)
            if content["format"] != FORMAT:
                raise FormatError("another format")
            return [_read_key(entry) for entry in content["keys"]]
        except (ValueError, KeyError, TypeError, RecursionError, FormatError) as error:
            raise KeysError(f"{self.path}: expected keys of format {FORMAT}, got something else ({error})") from None

    def make(
        self,
        name: str,
        roles: Sequence[str],
        *,
        collections: Iterable[str] | None = None,
        expires_at: str | None = None,
    ) -> tuple[str, Key]:
        """A new key: the text that its holder sends, which is kept nowhere, and what is kept."""
        for role in roles:
            if role not in ROLES:
                raise ParameterError(f"role: expected one of {', '.join(ROLES)}, got {role!r:.80}")
        if not roles:
            raise ParameterError(f"role: expected at least one of {', '.join(ROLES)}, got none")
        if not name or len(name) > 200:
            raise ParameterError(f"name: expected a text of 1 to 200 characters, got {len(name)}")
        if expires_at is not None:
            expires_at = _check_time(expires_at)
        secret = secrets.token_urlsafe(32)
        key = Key(
            id=secrets.token_hex(4),
            name=name,
            roles=tuple(dict.fromkeys(roles)),
            collections=None if collections is None else tuple(dict.fromkeys(collections)),
            hash=_hash(secret),
            made_at=_now(),
            expires_at=expires_at,
            rights=_rights(roles),
        )
        with self._alone():
            self._write([*self.keys(), key])
        return f"lv_{key.id}_{secret}", key

    def withdraw(self, id: str) -> Key:
        """Make a key useless for good. Its hash goes, its name stays so that the audit log can be read."""
        if any(key.id == id for key in self.keys()):  # a call that is refused leaves no lock behind
            with self._alone():
                keys = self.keys()
                for place, key in enumerate(keys):
                    if key.id == id:
                        if key.withdrawn_at is None:
                            keys[place] = replace(key, hash="", withdrawn_at=_now())
                            self._write(keys)
                        return keys[place]
        raise InputError(f"key: expected the id of a key (`lethevec keys list`), got {id!r:.80}")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else changes the file meanwhile: the server and the command line may both be asked to."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = open_regular(self.path.with_name(FILE + ".lock"), os.O_RDWR | os.O_CREAT, alone=True)
        except OSError as error:
            raise KeysError(f"{self.path}: the keys could not be read: {error}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _write(self, keys: list[Key]) -> None:
        content = {
            "format": FORMAT,
            "keys": [
                {
                    "id": key.id,
                    "name": key.name,
                    "roles": list(key.roles),
                    "collections": None if key.collections is None else list(key.collections),
                    "hash": key.hash,
                    "made_at": key.made_at,
                    "expires_at": key.expires_at,
                    "withdrawn_at": key.withdrawn_at,
                }
                for key in keys
            ],
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_secret(self.path, json.dumps(content, indent=1) + "\n")
        except OSError as error:
            raise IncompleteWriteError(f"{self.path}: the keys could not be written: {error}") from error


class Door:
    """Looks at the keys that callers show. Without any key in the file, everybody on this machine may do everything."""

    def __init__(self, file: KeyFile) -> None:
        """Read the file, and again when it changes."""
        self._file = file
        self._stamp: tuple[int, int, int] | None = None
        self._looked = -1.0
        self._live: dict[str, Key] = {}
        self.closed = False  # whether a key is needed
        self._look()

    def _look(self) -> None:
        self._looked = time.monotonic()
        try:
            facts = self._file.path.stat()
            stamp = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
        except OSError:
            stamp = None
        if stamp == self._stamp and self._live:
            return
        if stamp is None and self.closed:
            self._live = {}  # the file was taken away: nobody comes in until it is back
            return
        keys = self._file.keys()
        self._live = {key.id: key for key in keys if key.live}
        self.closed = self.closed or bool(keys)
        self._stamp = stamp

    def look_again(self) -> None:
        """The file was changed by this process."""
        self._look()

    def live(self, id: str) -> Key | None:
        """The key of this id, if it still opens anything."""
        if time.monotonic() - self._looked > _LOOK:
            self._look()
        key = self._live.get(id)
        return key if key is not None and key.live else None

    def check(self, text: str) -> Key | None:
        """The live key that this text is, or None. It takes as long for a wrong secret as for an unknown key."""
        if time.monotonic() - self._looked > _LOOK:
            self._look()
        match = _TEXT.fullmatch(text)
        if match is None:
            return None
        key = self._live.get(match[1])
        same = hmac.compare_digest(_hash(match[2]), key.hash if key is not None else _NOBODY)
        return key if same and key is not None and (key.expires_at is None or key.live) else None


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


_NOBODY = _hash(secrets.token_urlsafe(32))


def _rights(roles: Iterable[str]) -> frozenset[str]:
    return frozenset().union(*(ROLES[role] for role in roles))


def _read_key(entry: dict[str, Any]) -> Key:
    collections = entry["collections"]
    roles = tuple(entry["roles"])
    if not re.fullmatch(r"[0-9a-f]{8}", entry["id"]) or not re.fullmatch(r"([0-9a-f]{64})?", entry["hash"]):
        raise FormatError("a key without an id or a hash")
    return Key(
        id=entry["id"],
        name=str(entry["name"]),
        roles=roles,
        collections=None if collections is None else tuple(map(str, collections)),
        hash=entry["hash"],
        made_at=str(entry["made_at"]),
        expires_at=entry["expires_at"],
        withdrawn_at=entry["withdrawn_at"],
        rights=_rights(roles),
    )


def _check_time(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ParameterError(f"expires: expected a date such as 2030-01-31, got {text!r:.80}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return moment.astimezone(timezone.utc).isoformat(timespec="seconds")


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
