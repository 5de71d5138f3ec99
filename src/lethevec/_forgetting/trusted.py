"""What an outsider holds: a public key, a receipt, a chain, each in whatever form they got it.

A public key is 32 bytes, 64 hexadecimal digits, a PEM text (`-----BEGIN PUBLIC KEY-----`), or a file with one of these.
A receipt is a `Receipt`, its fields, its JSON, or a file with it. A chain is a list of receipts in any of these forms,
or a file with one receipt in a line.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ..errors import FileError, KeysError, ReceiptError
from .receipts import Receipt
from .signed import Signed

__all__ = [
    "ChainLike",
    "KeyLike",
    "ReceiptLike",
    "public_key_pem",
    "read_chain",
    "read_public_key",
    "read_receipt",
    "read_signed",
]

KeyLike: TypeAlias = "bytes | str | os.PathLike[str]"
ReceiptLike: TypeAlias = "Receipt | Mapping[str, Any] | str | bytes | os.PathLike[str]"
ChainLike: TypeAlias = "Iterable[ReceiptLike] | os.PathLike[str]"

_S = TypeVar("_S", bound=Signed)
_T = TypeVar("_T")

_MAX_KEY = 1 << 14  # bytes of a file with a public key
_MAX_RECEIPTS = 1 << 30  # bytes of a file with receipts
# RFC 8410: the 12 bytes that stand before the 32 of an Ed25519 key in its DER form.
_DER = bytes.fromhex("302a300506032b6570032100")
_PEM = re.compile(r"\s*-----BEGIN PUBLIC KEY-----\s+([A-Za-z0-9+/=\s]+?)\s+-----END PUBLIC KEY-----\s*")
_EXPECTED = "a public key as 32 bytes, 64 hexadecimal digits, PEM, or a file with one of these"


def read_public_key(given: KeyLike) -> bytes:
    """The 32 bytes of a public key.

    >>> read_public_key("00" * 32) == bytes(32)
    True
    >>> read_public_key(public_key_pem(bytes(32))) == bytes(32)
    True
    """
    if isinstance(given, bytes | bytearray):
        return _key_from_bytes(bytes(given), "key")
    if isinstance(given, str):
        found = _key_from_text(given)
        if found is not None:
            return found
        if "\n" in given or not _is_file(given):
            raise KeysError(f"key: expected {_EXPECTED}, got {given!r:.80}")
    elif not isinstance(given, os.PathLike):
        raise KeysError(f"key: expected {_EXPECTED}, got {type(given).__name__}")
    return _key_from_bytes(_read_file(Path(given), _MAX_KEY), str(given))


def _key_from_bytes(content: bytes, where: str) -> bytes:
    if len(content) == 32:
        return content
    try:
        found = _key_from_text(content.decode("ascii"))
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise KeysError(f"{where}: expected {_EXPECTED}, got {len(content)} other bytes")
    return found


def _key_from_text(text: str) -> bytes | None:
    if re.fullmatch(r"\s*[0-9a-fA-F]{64}\s*", text, re.ASCII):
        return bytes.fromhex(text.strip())
    pem = _PEM.fullmatch(text)
    if pem is None:
        return None
    try:
        der = base64.b64decode("".join(pem[1].split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(der) != len(_DER) + 32 or not der.startswith(_DER):
        raise KeysError("key: expected the PEM of an Ed25519 public key, got that of another kind")
    return der[len(_DER) :]


def public_key_pem(public: bytes) -> str:
    """The PEM text of a public key, as OpenSSL writes it."""
    return f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(_DER + public).decode()}\n-----END PUBLIC KEY-----\n"


def read_receipt(given: ReceiptLike) -> Receipt:
    """One receipt, in whatever form it came."""
    return given if isinstance(given, Receipt) else read_signed(given, Receipt, Receipt.from_json)


def read_signed(given: Any, from_fields: Callable[[Any], _S], from_json: Callable[[str | bytes], _S]) -> _S:
    """A signed entry from its fields, its JSON, or a file with it."""
    if isinstance(given, Mapping):
        return from_fields(given)
    if isinstance(given, bytes | bytearray):
        return from_json(bytes(given))
    if isinstance(given, str) and (given.lstrip().startswith(("{", "[")) or not _is_file(given)):
        return from_json(given)
    if not isinstance(given, str | os.PathLike):
        raise ReceiptError(f"receipt: expected a receipt, its JSON or a file with it, got {type(given).__name__}")
    path = Path(given)
    return _placed(path, lambda: from_json(_read_file(path, _MAX_RECEIPTS)))


def read_chain(given: ChainLike) -> list[Receipt]:
    """The receipts of a chain, in the order in which they came; whether they are one is for `verify_chain` to say."""
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        content = _read_file(path, _MAX_RECEIPTS)
        return _placed(path, lambda: [Receipt.from_json(line) for line in content.split(b"\n") if line.strip()])
    if isinstance(given, bytes | Mapping | Receipt) or not isinstance(given, Iterable):
        raise ReceiptError(f"chain: expected a list of receipts or a file with them, got {type(given).__name__}")
    try:
        several = list(given)
    except TypeError as error:  # such as an array without dimensions
        raise ReceiptError(f"chain: expected a list of receipts or a file with them, got no list: {error}") from None
    return [read_receipt(one) for one in several]


def _placed(path: Path, read: Callable[[], _T]) -> _T:
    """Read, and say in which file it was if that fails."""
    try:
        return read()
    except ReceiptError as error:
        raise ReceiptError(f"{path}: {error}") from None


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False


def _read_file(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: could not be read: {error}") from None
    if len(content) > limit:
        raise FileError(f"{path}: expected at most {limit:,} bytes, got more")
    return content
