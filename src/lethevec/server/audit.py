"""The audit log: who searched, read, wrote, exported and erased, and when. Signed, and checkable with a public key.

A log is a file of JSON lines. Each entry has a number; a running hash goes over all lines; and a seal, which is a line
as well, signs the hash at least once a second while there is something to sign. So no line can be changed, dropped or
put in without the next seal failing. What concerns a person (an export, an erasure, a hold) is written, sealed and
synced before its answer leaves; searches are written within a second.

Ids and subjects are tags, keyed hashes under a secret of this server: whoever has the secret (`lethevec audit`) can
ask who looked at a person, and nobody else can test guesses.

Each process has a log of its own (`writer-000001.jsonl`, `reader-1-000001.jsonl`), and a new file is begun when one
is full; its first line holds the last hash of the file before.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from lethevec._durable import open_regular, read_regular
from lethevec.errors import FormatError, IncompleteWriteError, KeysError, MissingDependencyError

from .clock import now

__all__ = ["AuditLog", "LogCheck", "Signer", "check_logs", "read_log"]

FORMAT = "lethevec-audit/1"
_SECRETS = "signing.json"
_FULL = 64 << 20  # bytes after which a new file is begun
_START = bytes(32)
_MAX_TAGS = 100  # of ids in one entry; beyond, their number alone
_MAX_LINE = 1 << 20
_MANY = 1000  # kinds of entries whose text is remembered
_MOST_WAITING = 16 << 20  # bytes of entries that wait for a disk that takes none


class Signer:
    """The server's own keys: one signs the log, one makes tags."""

    def __init__(self, private: bytes, tag_key: bytes) -> None:
        """Take keys as they are; `open` is the usual way."""
        self._private = _ed25519().Ed25519PrivateKey.from_private_bytes(private)
        self._tag_key = tag_key
        self.public: bytes = self._private.public_key().public_bytes_raw()

    @classmethod
    def open(cls, state: Path, *, make: bool = True) -> Signer:
        """The keys of a state folder; they are made when there are none, unless one only wants to look."""
        path = state / _SECRETS
        try:
            if make:
                state.mkdir(parents=True, exist_ok=True, mode=0o700)
            if make and not path.exists():
                content = {"private": secrets.token_hex(32), "tags": secrets.token_hex(32)}
                temporary = state / f"{_SECRETS}.{secrets.token_hex(8)}"
                try:
                    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                        json.dump(content, file)
                        file.flush()
                        os.fsync(file.fileno())
                    os.link(temporary, path)  # the first one wins if two begin at once
                except FileExistsError:
                    pass
                finally:
                    temporary.unlink(missing_ok=True)
            found = json.loads(read_regular(path, _MAX_LINE))
            return cls(bytes.fromhex(found["private"]), bytes.fromhex(found["tags"]))
        except OSError as error:
            raise IncompleteWriteError(f"{path}: the server's keys could not be read or made: {error}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise KeysError(f"{path}: expected the server's keys, got something else ({error})") from None

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature, 64 bytes."""
        signature: bytes = self._private.sign(message)
        return signature

    def tag(self, kind: str, value: object) -> str:
        """The keyed hash of an id or a subject; the int 7 and the string "7" differ."""
        content = f"{kind}\0{type(value).__name__}\0{value}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(content, digest_size=12, key=self._tag_key).hexdigest()


class AuditLog:
    """The log of one process. Entries are cheap; `flush` makes them last."""

    def __init__(self, state: Path, name: str, signer: Signer) -> None:
        """Go on where the last process stopped; half a line that a crash has left is cut off."""
        self._folder = state / "audit"
        self._name = name
        self._signer = signer
        self._lock = threading.Lock()
        self._lines: list[bytes] = []  # entries that wait for a seal
        self._waiting = b""  # sealed, and not in the file yet
        self._stuck = 0  # bytes that wait since a write has failed
        self._rests: dict[tuple[str, str, str | None, int], bytes] = {}  # what entries of the same kind share, as JSON
        self._hash = hashlib.blake2b(_START, digest_size=32)
        self._number = 0
        self._size = 0  # of the file
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file_number = 1
            old = sorted(self._folder.glob(f"{name}-[0-9]*.jsonl"))
            if old:
                self._file_number = int(old[-1].stem.rpartition("-")[2])
                self._resume(old[-1])
            self._descriptor = self._open_file(self._file_number)
        except (OSError, ValueError) as error:
            raise IncompleteWriteError(f"{self._folder}: the audit log could not be opened: {error}") from error
        if not self._size:
            self._begin(_START.hex())
        self.note("none", "start", None, 0)
        try:
            self.flush(sync=True)
        except IncompleteWriteError:
            os.close(self._descriptor)
            raise

    def _open_file(self, number: int) -> int:
        path = self._folder / f"{self._name}-{number:06d}.jsonl"
        return open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, alone=True)

    def _resume(self, path: Path) -> None:
        with open(open_regular(path, os.O_RDWR, alone=True), "r+b") as file:
            whole = 0
            for line in iter(lambda: file.readline(_MAX_LINE), b""):
                if not line.endswith(b"\n"):
                    file.truncate(whole)
                    break
                whole += len(line)
                if line.startswith(b'{"seal"'):
                    continue
                self._hash.update(line)
                self._number += 1
            self._size = whole

    def _begin(self, previous: str) -> None:
        head = {
            "n": 0,
            "format": FORMAT,
            "log": self._name,
            "file": self._file_number,
            "previous": previous,
            "public_key": self._signer.public.hex(),
        }
        self._append(orjson.dumps(head) + b"\n")

    def _append(self, line: bytes) -> None:
        self._lines.append(line)
        self._number += 1
        self._stuck += len(line) if self._stuck else 0

    def note(
        self, key: str, action: str, collection: str | None, status: int, facts: Mapping[str, Any] | None = None
    ) -> None:
        """One entry. What `facts` hold must be numbers, our own words, or tags."""
        kind = (key, action, collection, status)
        rest = self._rests.get(kind)
        if rest is None:
            rest = orjson.dumps({"key": key, "do": action, "in": collection, "status": status})[1:-1]
            if len(self._rests) > _MANY:
                self._rests.clear()
            self._rests[kind] = rest
        more = b"," + orjson.dumps(facts)[1:] if facts else b"}"
        with self._lock:
            if self._stuck > _MOST_WAITING:
                raise IncompleteWriteError(
                    f"{self._folder}: the audit log could not be written for so long that nothing more is answered"
                )
            self._append(b'{"n":%d,"at":"%b",%b%b\n' % (self._number, now().encode(), rest, more))

    def subject(self, subject: str) -> str:
        """The tag of a subject."""
        return self._signer.tag("subject", subject)

    def ids(self, ids: Sequence[Any]) -> list[str]:
        """The tags of ids, of the first hundred."""
        return [self._signer.tag("id", id) for id in ids[:_MAX_TAGS]]

    def flush(self, *, sync: bool = False) -> None:
        """Write and seal what waits; with `sync` it is on the disk when this returns."""
        with self._lock:
            if self._lines:
                together = b"".join(self._lines)  # hashed in one call, and not by those who note
                self._lines = []
                self._hash.update(together)
                seal = self._hash.digest()
                signature = self._signer.sign(_sealed(self._name, self._file_number, self._number, seal))
                line = {
                    "seal": seal.hex(),
                    "entries": self._number,
                    "signature": base64.b64encode(signature).decode(),
                }
                self._waiting += together + orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
            try:
                self._write()
                if sync:
                    os.fsync(self._descriptor)
                if self._size > _FULL:
                    self._turn()
                self._stuck = 0
            except OSError as error:
                self._stuck = max(1, len(self._waiting))
                raise IncompleteWriteError(f"{self._folder}: the audit log could not be written: {error}") from error

    def _write(self) -> None:
        """Write all that waits, or nothing: half a line would be taken for a change by somebody else."""
        data = self._waiting
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(self._waiting)
        self._waiting = b""

    def _turn(self) -> None:
        following = self._open_file(self._file_number + 1)
        os.close(self._descriptor)
        self._descriptor = following
        previous = self._hash.hexdigest()
        self._hash = hashlib.blake2b(_START, digest_size=32)
        self._file_number += 1
        self._number = self._size = 0
        self._begin(previous)

    def close(self) -> None:
        """Write what waits, and close."""
        try:
            with suppress(IncompleteWriteError):  # of a log that is stuck: the flush says so
                self.note("none", "stop", None, 0)
            self.flush(sync=True)
        finally:
            os.close(self._descriptor)


@dataclass(frozen=True)
class LogCheck:
    """What was found out about one file: None in `problem` is good; `unsealed` entries at its end have no seal yet."""

    path: Path
    entries: int
    unsealed: int
    problem: str | None


def read_log(state: Path) -> Iterator[dict[str, Any]]:
    """Every entry of every log, file by file, without the seals."""
    for path in sorted((state / "audit").glob("*.jsonl")):
        with open(path, "rb") as file:
            for line in iter(lambda: file.readline(_MAX_LINE), b""):
                if not line.endswith(b"\n") or line.startswith(b'{"seal"'):
                    continue
                try:
                    entry = orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue  # `check_logs` says so
                if isinstance(entry, dict):
                    yield entry


def check_logs(state: Path, public: bytes) -> list[LogCheck]:
    """Check every log of a state folder against the public key of the server."""
    checks: list[LogCheck] = []
    last: dict[str, tuple[int, str]] = {}
    for path in sorted((state / "audit").glob("*.jsonl")):
        name, _, number = path.stem.rpartition("-")
        check, final = _check_file(path, name, int(number) if number.isdecimal() else -1, public, last.get(name))
        checks.append(check)
        last[name] = (int(number) if number.isdecimal() else -1, final)
    return checks


def _check_file(
    path: Path, name: str, number: int, public: bytes, before: tuple[int, str] | None
) -> tuple[LogCheck, str]:
    key = _ed25519().Ed25519PublicKey.from_public_bytes(public)
    running = hashlib.blake2b(_START, digest_size=32)
    entries = sealed = 0
    problem: str | None = None
    with open(path, "rb") as file:
        for line in iter(lambda: file.readline(_MAX_LINE), b""):
            try:
                if not line.endswith(b"\n"):
                    raise FormatError("half a line")
                content = orjson.loads(line)
                if not line.startswith(b'{"seal"'):
                    if content["n"] != entries:
                        raise FormatError(f"expected entry {entries}, got {content['n']!r:.20}")
                    if not entries:
                        _check_head(content, name, number, before)
                    running.update(line)
                    entries += 1
                    continue
                if content["entries"] != entries or content["seal"] != running.hexdigest():
                    raise FormatError(f"the seal after entry {entries - 1} is of other entries")
                signature = base64.b64decode(content["signature"], validate=True)
                try:
                    key.verify(signature, _sealed(name, number, entries, running.digest()))
                except Exception:
                    raise FormatError(f"the seal after entry {entries - 1} is not signed by this server") from None
                sealed = entries
            except (FormatError, ValueError, KeyError, TypeError) as error:
                problem = str(error) or type(error).__name__
                break
    if problem is None and not entries:
        problem = "nothing in it"
    return LogCheck(path, entries, entries - sealed, problem), running.hexdigest()


def _check_head(head: dict[str, Any], name: str, number: int, before: tuple[int, str] | None) -> None:
    if head.get("format") != FORMAT or head.get("log") != name or head.get("file") != number:
        raise FormatError("the first line belongs to another file")
    if number == 1 and head.get("previous") != _START.hex():
        raise FormatError("the first file names one before it")
    if before is not None and (before[0] != number - 1 or head.get("previous") != before[1]):
        raise FormatError("it does not continue the file before it")


def _sealed(name: str, number: int, entries: int, digest: bytes) -> bytes:
    return f"{FORMAT}\n{name}\n{number}\n{entries}\n".encode() + digest


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingDependencyError(
            "the audit log is signed with Ed25519, which needs cryptography: pip install 'lethevec[server]'"
        ) from None
    return ed25519
