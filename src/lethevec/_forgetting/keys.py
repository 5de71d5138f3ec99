"""The keys of a store: one signs receipts, one hides what they are about.

* The **signing key** (Ed25519) makes receipts checkable by anybody who has the public key.
* The **audit key** (32 random bytes) turns ids, subjects and digests into tags: BLAKE2b-128, keyed. Without it a tag
  tells nothing, however few ids there are to guess from; with it an auditor can ask "is this id in that receipt".

They live in a JSON file of their own with mode 0600, never in the database, so that they can be kept apart from it.
Rotation makes a new pair; old private signing keys are destroyed, old audit keys are kept (to check old receipts)
unless they are given up on purpose, which makes the tags of old receipts meaningless for good.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._durable import read_regular, replace_secret
from ..errors import FormatError, IncompleteWriteError, KeysError, MissingDependencyError

__all__ = ["KeyRing", "key_id", "verify_signature"]

FORMAT = "lethevec-keys/1"
_MAX_BYTES = 1 << 20  # a key file is about 500 bytes; more is not ours
_TAG_BYTES = 16


@dataclass(frozen=True)
class AuditKey:
    """32 random bytes and the name by which receipts refer to them."""

    id: str
    secret: bytes

    def tag(self, purpose: str, content: bytes) -> str:
        """The keyed hash of some content; tags of different purposes never meet.

        >>> key = AuditKey("a", bytes(32))
        >>> key.tag("id", b"7") == key.tag("subject", b"7")
        False
        """
        person = f"lethevec-{purpose}".encode()
        return hashlib.blake2b(content, digest_size=_TAG_BYTES, key=self.secret, person=person).hexdigest()

    def tag_id(self, id: int | str) -> str:
        """The tag of a record's id; the int 7 and the string "7" differ."""
        return self.tag("id", (b"s" + id.encode()) if isinstance(id, str) else b"i%d" % id)

    def tag_subject(self, subject: str) -> str:
        """The tag of a subject."""
        return self.tag("subject", subject.encode())

    def tag_digest(self, digest: str) -> str:
        """The tag of a digest: receipts must not let anybody test guesses of what a store once held."""
        return self.tag("digest", digest.encode())


class KeyRing:
    """The keys in use, and the audit keys of the past."""

    def __init__(self, store: str, private: bytes, audit: list[AuditKey]) -> None:
        """Take keys as they are; `create` and `load` are the usual ways."""
        self.store = store
        self.audit_keys = {key.id: key for key in audit}
        self.audit = audit[-1]
        self.successor: KeyRing | None = None  # of a rotation that was begun and perhaps not finished
        self._private_bytes = private
        self._private = _ed25519().Ed25519PrivateKey.from_private_bytes(private)
        self.public: bytes = self._private.public_key().public_bytes_raw()
        self.signing_id = key_id(self.public)

    @classmethod
    def create(cls) -> KeyRing:
        """New random keys for a new store."""
        return cls(secrets.token_hex(16), secrets.token_bytes(32), [_new_audit_key()])

    def rotated(self, *, keep_audit_keys: bool = True) -> KeyRing:
        """A ring of the same store with a new pair of keys in use."""
        old = list(self.audit_keys.values()) if keep_audit_keys else []
        return KeyRing(self.store, secrets.token_bytes(32), [*old, _new_audit_key()])

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature of a message, 64 bytes."""
        signature: bytes = self._private.sign(message)
        return signature

    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            "format": FORMAT,
            "store": self.store,
            "signing": {
                "id": self.signing_id,
                "private": _to_text(self._private_bytes),
                "public": _to_text(self.public),
            },
            "audit": [{"id": key.id, "key": _to_text(key.secret)} for key in self.audit_keys.values()],
        }
        if self.successor is not None:
            content["successor"] = self.successor._content()
        return content

    def save(self, path: Path) -> None:
        """Write the key file: readable by its owner alone, complete or not at all."""
        try:
            replace_secret(path, json.dumps(self._content(), indent=1) + "\n")
        except OSError as error:
            raise IncompleteWriteError(f"{path}: the key file could not be written: {error}") from error

    @classmethod
    def load(cls, path: Path) -> KeyRing:
        """Read a key file; everything in it is checked."""
        try:
            raw = read_regular(path, _MAX_BYTES + 1)
        except FileNotFoundError:
            raise KeysError(f"{path}: expected the key file of the store, got nothing there") from None
        except OSError as error:
            raise KeysError(f"{path}: the key file could not be read: {error}") from error
        try:
            return cls._parse(raw)
        except (ValueError, KeyError, TypeError, RecursionError, FormatError) as error:
            raise KeysError(f"{path}: expected a key file of format {FORMAT}, got something else ({error})") from None

    @classmethod
    def _parse(cls, raw: bytes) -> KeyRing:
        if len(raw) > _MAX_BYTES:
            raise FormatError(f"more than {_MAX_BYTES} bytes")
        return cls._from_content(json.loads(raw))

    @classmethod
    def _from_content(cls, content: Any) -> KeyRing:
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise FormatError("another format")
        store = content["store"]
        if not isinstance(store, str) or len(bytes.fromhex(store)) != 16:
            raise FormatError("a store name that is not 32 hexadecimal digits")
        audit = [
            AuditKey(_audit_id(secret), secret) for secret in (_secret(entry["key"]) for entry in content["audit"])
        ]
        if not audit:
            raise FormatError("no audit key")
        ring = cls(store, _secret(content["signing"]["private"]), audit)
        if _secret(content["signing"]["public"]) != ring.public:
            raise FormatError("a public key that does not belong to the private one")
        if "successor" in content:
            ring.successor = cls._from_content(content["successor"])
        return ring


def key_id(public: bytes) -> str:
    """The name of a public key: 16 hexadecimal digits of its hash."""
    return hashlib.blake2b(public, digest_size=8, person=b"lethevec-signing").hexdigest()


def verify_signature(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the signature is that of the message under the public key."""
    module = _ed25519()
    try:
        module.Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except Exception as error:
        # InvalidSignature lives in another lazily imported module; a key that is not a point raises ValueError.
        if type(error).__name__ == "InvalidSignature" or isinstance(error, ValueError):
            return False
        raise
    return True


def _new_audit_key() -> AuditKey:
    secret = secrets.token_bytes(32)
    return AuditKey(_audit_id(secret), secret)


def _audit_id(secret: bytes) -> str:
    return hashlib.blake2b(secret, digest_size=8, person=b"lethevec-auditid").hexdigest()


def _to_text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _secret(text: Any) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError) as error:
        raise FormatError(f"a key that is not base64 ({error})") from None
    if len(value) != 32:
        raise FormatError(f"a key of {len(value)} bytes instead of 32")
    return value


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingDependencyError(
            "receipts are signed with Ed25519, which needs the package cryptography; "
            "install it with: pip install 'lethevec[store]'"
        ) from None
    return ed25519
