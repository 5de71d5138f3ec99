"""What the signed entries of all chains have in common, a store's and a cluster's: a form, and one text of it.

Written down, an entry has one form: `from_json` takes exactly the text that `to_json` gives, with or without a line
break at its end. Another text of the same content (spaces, another order, a key twice) is refused: two programs might
read it differently, and both would find that it verifies.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from ..errors import ReceiptError
from .records import canonical_json

__all__ = ["Signed", "parsed"]

_S = TypeVar("_S", bound="Signed")


class Signed:
    """A signed entry of a chain, read-only. `fields` is what it says; `to_json` is how it is handed out.

    Two are equal when every field is.
    """

    _person: bytes  # of its hash
    _fields: dict[str, Any]

    def __init__(self, fields: Mapping[str, Any]) -> None:
        """Check the form (not the signature: that is `verify`'s)."""
        self._check(fields)
        try:
            text = canonical_json(dict(fields))
            text.encode()
            self._fields = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise ReceiptError(f"receipt: expected plain JSON values, got something else ({error})") from None

    @staticmethod
    def _check(fields: Mapping[str, Any]) -> None:
        """Refuse what is not of the form."""
        raise NotImplementedError

    @classmethod
    def from_json(cls: type[_S], text: str | bytes) -> _S:
        """Read what `to_json` wrote, exactly."""
        text, fields = parsed(text)
        made = cls(fields)
        if made.to_json() != text.removesuffix("\n").removesuffix("\r"):
            raise ReceiptError(
                "receipt: expected the exact text that was issued (canonical JSON), got another text of the same "
                "content: with a key twice, in another order, or with spaces"
            )
        return made

    def to_json(self) -> str:
        """As canonical JSON, one line."""
        return canonical_json(self._fields)

    @property
    def fields(self) -> dict[str, Any]:
        """What it says, as a copy."""
        copy: dict[str, Any] = json.loads(self.to_json())
        return copy

    @property
    def kind(self) -> str:
        """What it is about."""
        return str(self._fields["kind"])

    @property
    def sequence(self) -> int:
        """The place in the chain, from 0."""
        return int(self._fields["sequence"])

    @property
    def signature(self) -> bytes:
        """The Ed25519 signature, 64 bytes."""
        return base64.b64decode(self._fields["signature"])

    def hash(self) -> str:
        """What the next entry names as `previous`."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=32, person=self._person).hexdigest()

    def __getitem__(self, name: str) -> Any:
        """One field."""
        return self._fields[name]

    def __eq__(self, other: object) -> bool:
        """Whether every field is equal."""
        return isinstance(other, Signed) and self._fields == other._fields

    def __hash__(self) -> int:
        """In accordance with equality."""
        return hash(self.to_json())


def parsed(text: str | bytes) -> tuple[str, Any]:
    """A text, and what it says as JSON."""
    if isinstance(text, bytes | bytearray):
        try:
            text = bytes(text).decode()
        except UnicodeDecodeError:
            raise ReceiptError("receipt: expected JSON in UTF-8, got other bytes") from None
    if not isinstance(text, str):
        raise ReceiptError(f"receipt: expected JSON as a text, got {type(text).__name__}")
    try:
        return text, json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReceiptError(f"receipt: expected JSON, got something else ({error})") from None
