"""A member's ledger: which erasures it has begun and which it has done, by number.

    erasures/N.json    {"begun": entries in the member's own chain then, "receipts": its receipts, or null}

An erasure that is asked for again gives the same receipts. One that a crash has cut off after the store had signed is
found in the store's own chain: everything that was signed since the erasure was begun is its own, because a member
erases one thing at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._forgetting.receipts import Receipt
from .keeping import read_json, write_json

__all__ = ["Ledger"]


class Ledger:
    """The ledger in a folder. The caller takes turns."""

    def __init__(self, folder: Path) -> None:
        """Open it, or make it."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def run(
        self, number: int, chain: Callable[[], list[Receipt]], erase: Callable[[], list[Receipt]]
    ) -> list[dict[str, Any]]:
        """The receipts of an erasure: those that are there, or those of carrying it out now."""
        path = self._folder / f"{number:012d}.json"
        kept = read_json(path)
        if kept is not None and kept["receipts"] is not None:
            done: list[dict[str, Any]] = kept["receipts"]
            return done
        if kept is None:
            kept = {"begun": len(chain()), "receipts": None}
            write_json(path, kept)
        erase()
        receipts = [receipt.fields for receipt in chain()[kept["begun"] :] if receipt.erases]
        write_json(path, {**kept, "receipts": receipts})
        return receipts

    def done(self) -> int:
        """How many erasures were done."""
        return sum(1 for _ in self._folder.glob("*.json"))
