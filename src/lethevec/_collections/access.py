"""Access: everything that is held of a person, in every collection, with what the folder knows about it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from .._durable import as_path, sync_folder
from .._forgetting.receipts import Receipt
from .._record import Record
from ..errors import FileError, IncompleteWriteError
from .rights import Hold

__all__ = ["Access", "Held"]

FORMAT = "lethevec-access/1"


@dataclass(frozen=True)
class Held:
    """How much a folder holds of one subject: what `Access` has, with the number of records in their place."""

    collections: dict[str, int]  # of each collection that has some
    receipts: list[Receipt]
    holds: list[Hold]
    blocked_since: str | None

    @property
    def records(self) -> int:
        """How many records."""
        return sum(self.collections.values())


@dataclass(frozen=True)
class Access:
    """What a folder holds of one subject; `len` counts the records, `export` writes it for the person."""

    subject: str
    asked_at: str
    collections: dict[str, list[Record]]  # of each collection that has some: its records, in the order of ids
    receipts: list[Receipt]  # entries of the chain that are about the subject
    holds: list[Hold]
    blocked_since: str | None

    def __len__(self) -> int:
        """How many records."""
        return sum(map(len, self.collections.values()))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: vectors as lists, times as text."""
        return {
            "format": FORMAT,
            "subject": self.subject,
            "asked_at": self.asked_at,
            "collections": {name: [_plain(record) for record in kept] for name, kept in self.collections.items()},
            "receipts": [receipt.fields for receipt in self.receipts],
            "holds": [{"hold": hold.id, "reason": hold.reason, "since": hold.since} for hold in self.holds],
            "blocked_since": self.blocked_since,
        }

    def to_json(self) -> str:
        """As one JSON object: structured, commonly used and machine-readable."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=1)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON to a new file that only its owner can read."""
        place = as_path(path)
        try:
            with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(self.to_json() + "\n")
                file.flush()
                os.fsync(file.fileno())
            sync_folder(place.absolute().parent)
        except FileExistsError:
            raise FileError(f"{place}: expected a new file for the export, got one that is there already") from None
        except OSError as error:
            place.unlink(missing_ok=True)
            raise IncompleteWriteError(f"{place}: the export could not be written: {error}") from error


def _plain(record: Record) -> dict[str, Any]:
    vector = None if record.vector is None else [float(value) for value in record.vector]
    expires = None if record.expires is None else record.expires.isoformat()
    return {"id": record.id, "vector": vector, "payload": record.payload, "expires": expires}
