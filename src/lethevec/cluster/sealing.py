"""Sealing: what passes through Ray is encrypted under keys that Ray never sees.

Ray keeps what passes through it: in shared memory, in heaps of its processes, in spill files. Nobody can erase it
there. So every message is sealed with AES-256-GCM under the key of a *session* between two ends, and when the session
ends both forget the key; what Ray still holds is noise from then on. Sessions end with every erasure, and after a
minute.

A session begins with one exchange of X25519 public keys (which Ray may see), authenticated under the cluster's
*secret*: 32 bytes in a file that the operator puts on every node. The secret alone opens nothing that was ever sent:
that takes one of the two private keys, which were never written down and are gone with the session.

    hello   = version, public key (32), nonce (16), HMAC of all that and both names
    welcome = session (16), public key (32), HMAC of hello and all that
    keys    = HKDF-SHA256(X25519, salt: the secret, info: hello and welcome), 32 bytes for each direction
    sealed  = session (16), counter (8), AES-GCM(content) with the counter as nonce; associated data: the session, and
              in an answer the counter of what it answers

A message is opened once: who sees it pass can neither let it happen again nor give it as the answer to another
question.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import threading
import time
from pathlib import Path
from typing import Any

from .._durable import open_regular, sync_folder
from ..errors import IncompleteWriteError, KeysError, MissingDependencyError
from .wiping import wipe

__all__ = ["HEAD", "SESSION_SECONDS", "Hello", "SealError", "Secret", "Session", "welcome"]

SESSION_SECONDS = 60.0
_VERSION = b"lethevec-cluster-session/2"
_PUBLIC, _NONCE, _MAC, _NAME, _COUNTER = 32, 16, 32, 16, 8
HEAD = _NAME + _COUNTER  # bytes that a sealed message begins with
_FIRST = b"\2"  # byte of a hello
_HELLO = 1 + _PUBLIC + _NONCE + _MAC
_WELCOME = _NAME + _PUBLIC + _MAC
_LATE = 4096  # messages that another one may overtake
_TEXT = 64  # hexadecimal digits of a secret


class SealError(Exception):
    """A message that was not sealed for this session, or was changed on its way."""


class Secret:
    """The 32 bytes that every node of a cluster and its drivers share."""

    def __init__(self, content: bytes) -> None:
        """Take the bytes."""
        if len(content) != 32:
            raise KeysError(f"secret: expected 32 bytes, got {len(content)}")
        self._content = content

    def mac(self, *parts: bytes) -> bytes:
        """A keyed hash of parts, each with its length."""
        total = hmac.new(self._content, _VERSION, hashlib.sha256)
        for part in parts:
            total.update(len(part).to_bytes(8, "little") + part)
        return total.digest()

    def derive(self, shared: bytes, about: bytes) -> bytes:
        """64 bytes of keys from what an exchange gave."""
        hkdf, hashes = _primitives("kdf.hkdf"), _primitives("hashes")
        derived: bytes = hkdf.HKDF(hashes.SHA256(), 64, self._content, _VERSION + about).derive(shared)
        return derived

    @classmethod
    def load(cls, path: Path) -> Secret:
        """Read the file: 64 hexadecimal digits, readable by its owner alone."""
        try:
            descriptor = open_regular(path, os.O_RDONLY) if not path.is_symlink() else os.open(path, os.O_RDONLY)
            with os.fdopen(descriptor, "rb") as file:
                text = file.read(4096).decode("ascii").strip()
            if len(text) != _TEXT:
                raise ValueError(f"{len(text)} characters")
            return cls(bytes.fromhex(text))
        except FileNotFoundError:
            raise KeysError(
                f"{path}: expected the secret of the cluster, got nothing there; every node and every driver needs a "
                "copy of the file that `lethevec cluster secret` makes"
            ) from None
        except (OSError, ValueError) as error:
            raise KeysError(f"{path}: expected the secret of a cluster, 64 hexadecimal digits, got: {error}") from None

    @classmethod
    def create(cls, path: Path) -> Secret:
        """Draw one and write it to a new file, or take the one that is there."""
        content = secrets.token_bytes(32)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(content.hex() + "\n")
                file.flush()
                os.fsync(file.fileno())
            sync_folder(path.absolute().parent)
        except FileExistsError:
            return cls.load(path)
        except OSError as error:
            raise IncompleteWriteError(f"{path}: the secret could not be written: {error}") from error
        return cls(content)


class Session:
    """One end of a session. Threads may share it."""

    def __init__(self, name: bytes, send: bytes, receive: bytes) -> None:
        """Take the keys of both directions; the caller wipes its copies."""
        aead = _primitives("ciphers.aead")
        self.name = name
        self.since = time.monotonic()
        self._send = aead.AESGCM(send)
        self._receive = aead.AESGCM(receive)
        self._counter = 0
        self._newest = 0  # counter of what was opened
        self._opened = 0  # a bit for each of the last ones, the newest first
        self._lock = threading.Lock()

    def older_than(self, lives: float) -> bool:
        """Whether it has lasted so many times as long as a session may."""
        return time.monotonic() - self.since > lives * SESSION_SECONDS

    def seal(self, content: bytearray | bytes, answers: bytes = b"") -> bytes:
        """A message for the other end; `answers` is the sealed message that it answers, or the head of it. What it was
        made of is wiped if it can be changed."""
        with self._lock:
            self._counter += 1
            counter = self._counter.to_bytes(_COUNTER, "big")
        sealed: bytes = self._send.encrypt(bytes(4) + counter, content, self.name + answers[_NAME:HEAD])
        if isinstance(content, bytearray):
            wipe(content)
        return self.name + counter + sealed

    def open(self, sealed: bytes, answers: bytes = b"") -> bytes:
        """The message that the other end sealed, once; `answers` is the message of ours that it answers."""
        if len(sealed) < HEAD or sealed[:_NAME] != self.name:
            raise SealError("a message of another session")
        counter = sealed[_NAME:HEAD]
        try:
            content: bytes = self._receive.decrypt(bytes(4) + counter, sealed[HEAD:], self.name + answers[_NAME:HEAD])
        except Exception as error:  # InvalidTag lives in a module that is imported late
            raise SealError(type(error).__name__) from None
        if not self._is_new(int.from_bytes(counter, "big")):
            wipe(content)
            raise SealError("a message that came before")
        return content

    def _is_new(self, counter: int) -> bool:
        """Whether nothing with this counter was opened yet; from now on there was."""
        with self._lock:
            ahead = counter - self._newest
            if ahead > 0:
                self._opened = (self._opened << min(ahead, _LATE) | 1) & ((1 << _LATE) - 1)
                self._newest = counter
                return True
            if -ahead >= _LATE or self._opened >> -ahead & 1:
                return False
            self._opened |= 1 << -ahead
            return True


class Hello:
    """The end that begins: `content` is sent, and `finish` makes the session of the answer."""

    def __init__(self, secret: Secret, cluster: str, target: str) -> None:
        """Draw a key pair for this session alone."""
        self._secret = secret
        self._place = cluster.encode(), target.encode()
        self._private = _primitives("asymmetric.x25519").X25519PrivateKey.generate()
        body = _FIRST + self._private.public_key().public_bytes_raw() + secrets.token_bytes(_NONCE)
        self.content = body + secret.mac(b"hello", *self._place, body)

    def finish(self, answer: bytes) -> Session:
        """The session, if the answer is that of somebody who knows the secret."""
        if len(answer) != _WELCOME:
            raise SealError(f"an answer of {len(answer)} bytes")
        body, mac = answer[:-_MAC], answer[-_MAC:]
        if not hmac.compare_digest(mac, self._secret.mac(b"welcome", *self._place, self.content, body)):
            raise SealError("an answer of somebody who does not know the secret")
        return _session(self._secret, self._private, self.content, body, begins=True)


def welcome(secret: Secret, cluster: str, target: str, hello: bytes) -> tuple[bytes, Session]:
    """The end that is called: what to answer, and the session."""
    place = cluster.encode(), target.encode()
    if len(hello) != _HELLO or hello[:1] != _FIRST:
        raise SealError(f"a hello of {len(hello)} bytes")
    if not hmac.compare_digest(hello[-_MAC:], secret.mac(b"hello", *place, hello[:-_MAC])):
        raise SealError("a hello of somebody who does not know the secret")
    private = _primitives("asymmetric.x25519").X25519PrivateKey.generate()
    body = secrets.token_bytes(_NAME) + private.public_key().public_bytes_raw()
    answer = body + secret.mac(b"welcome", *place, hello, body)
    return answer, _session(secret, private, hello, body, begins=False)


def _session(secret: Secret, private: Any, hello: bytes, body: bytes, *, begins: bool) -> Session:
    theirs = body[_NAME:] if begins else hello[1 : 1 + _PUBLIC]
    try:
        shared = private.exchange(_primitives("asymmetric.x25519").X25519PublicKey.from_public_bytes(theirs))
    except ValueError as error:
        raise SealError(f"a public key that is none: {error}") from None
    keys = secret.derive(shared, hello + body)
    forth, back = keys[:32], keys[32:]
    session = Session(body[:_NAME], forth if begins else back, back if begins else forth)
    for key in (shared, keys, forth, back):
        wipe(key)
    return session


def _primitives(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"cryptography.hazmat.primitives.{name}")
    except ImportError:
        raise MissingDependencyError(
            "a cluster seals what it sends, which needs the package cryptography; "
            "install it with: pip install 'lethevec[ray]'"
        ) from None
