"""Small files that are there as a whole or not at all: what the registry and the members must not lose."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .._durable import mode_to_keep, open_regular, sync_folder
from ..errors import FileError, FormatError, IncompleteWriteError

__all__ = ["read_json", "write_json"]

_MOST = 1 << 28


def write_json(path: Path, content: Any, *, erase_old: bool = False) -> None:
    """Write a file again: the old content or the new one, whatever happens in between.

    With `erase_old` the bytes of the old one are overwritten where they lie, because they said something in words.
    """
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    temporary = path.with_name(path.name + ".new")
    try:
        mode_to_keep(path)
        temporary.unlink(missing_ok=True)  # of one that died
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        old = open_regular(path, os.O_WRONLY) if erase_old and path.exists() else None
        try:
            os.replace(temporary, path)
            sync_folder(path.parent)
            if old is not None:
                os.pwrite(old, bytes(os.fstat(old).st_size), 0)
                os.fsync(old)
        finally:
            if old is not None:
                os.close(old)
    except OSError as error:
        raise IncompleteWriteError(f"{path}: it could not be written: {error}") from error


def read_json(path: Path) -> Any:
    """What `write_json` wrote; None if there is nothing."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST + 1)
        if len(content) > _MOST:
            raise FormatError(f"{path}: expected at most {_MOST:,} bytes, got more")
        return json.loads(content)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileError(f"{path}: it could not be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: expected JSON, got something else ({error})") from None
