"""A member's ledger: which erasures it has begun and which it has done, by number.

    erasures/N.json    {"begun": entries in the member's own chain then, "receipts": its receipts, or null,
                        "hidden": true where the records are in no answer and bytes of them are still in a file}

An erasure that is asked for again gives the same receipts. One that was cut off after the store had signed is found in
the store's own chain: what was signed since the erasure was begun is its own, unless another number has it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._forgetting.receipts import Receipt
from ..errors import ErasureIncompleteError
from .keeping import read_json, write_json

__all__ = ["Ledger"]


class Ledger:
    """The ledger in a folder. The caller takes turns."""

    def __init__(self, folder: Path) -> None:
        """Open it, or make it."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def run(
        self,
        number: int,
        chain: Callable[[], list[Receipt]],
        erase: Callable[[], list[Receipt]],
        complete: Callable[[], object],
    ) -> list[dict[str, Any]]:
        """The receipts of an erasure: those that are there, or those of carrying it out now.

        Where bytes are still in a file, `complete` is asked the next time. Nothing is looked for again: by then the
        same ids and subjects may have been added anew.
        """
        path = self._path(number)
        kept = read_json(path)
        if kept is not None and kept["receipts"] is not None:
            done: list[dict[str, Any]] = kept["receipts"]
            return done
        first = kept is None
        if kept is None:
            kept = {"begun": len(chain()), "receipts": None}
            write_json(path, kept)
        receipts: list[dict[str, Any]] = []
        try:
            if kept.get("hidden"):
                complete()
                receipts = self._signed_since(kept["begun"], chain, number)
            if not receipts:
                made = erase()
                receipts = [one.fields for one in made] if first else self._signed_since(kept["begun"], chain, number)
        except ErasureIncompleteError:
            write_json(path, {**kept, "hidden": True})
            raise
        write_json(path, {**kept, "receipts": receipts})
        return receipts

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}.json"

    def _signed_since(self, begun: int, chain: Callable[[], list[Receipt]], number: int) -> list[dict[str, Any]]:
        """What was signed since and erases, without what belongs to another erasure."""
        others: set[int] = set()
        for path in self._folder.glob("*.json"):
            if path != self._path(number):
                others.update(int(one["sequence"]) for one in (read_json(path) or {}).get("receipts") or ())
        return [one.fields for one in chain()[begun:] if one.erases and one.sequence not in others]

    def done(self) -> int:
        """How many erasures were done."""
        return sum(1 for _ in self._folder.glob("*.json"))
