"""A member's ledger: which erasures it has begun and which it has done, by number.

    erasures/N.json    {"begun": entries in the folder's own chain then,
                        "others": requests of the folder that waited then, which are not its own,
                        "hidden": its own requests, where all of its records are in no answer and bytes of them are
                                  still in a file; or null,
                        "signed": with these, the receipts that it had by then,
                        "receipts": its receipts, or null}

An erasure that is asked for again gives the same receipts. One that was cut off after the folder had signed is found in
the folder's own chain: what was signed since the erasure was begun is its own, unless another number has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .._collections.database import Database
from .._forgetting.receipts import Receipt
from ..errors import ErasureIncompleteError, FileError
from .keeping import read_json, write_json

__all__ = ["Ledger"]

_SOON = 0.2  # seconds that an erasure which could not end is given each time


class Ledger:
    """The ledger in a folder, of a member's database. The caller takes turns."""

    def __init__(self, folder: Path, db: Database) -> None:
        """Open it, or make it."""
        self._folder = folder
        self._db = db
        folder.mkdir(parents=True, exist_ok=True)

    def newest(self) -> int:
        """The highest number of an erasure that is done; 0 if there is none."""
        for path in sorted(self._folder.glob("*.json"), reverse=True):
            if read_json(path)["receipts"] is not None:
                return int(path.stem)
        return 0

    def begun(self, after: int) -> dict[int, bool]:
        """The erasures with higher numbers that were begun, and whether each is done."""
        numbers = sorted(int(path.stem) for path in self._folder.glob("*.json"))
        return {n: read_json(self._path(n))["receipts"] is not None for n in numbers if n > after}

    def run(self, number: int, erase: Callable[[], list[Receipt]]) -> list[dict[str, Any]]:
        """The receipts of an erasure: those that are there, or those of carrying it out now.

        `ErasureIncompleteError` means: all of its records are in no answer, and bytes of them are still in a file. From
        then on, nothing is looked for again, because the same ids and subjects may be added anew.
        What waits is finished.
        """
        path = self._path(number)
        kept = read_json(path)
        if kept is not None and kept["receipts"] is not None:
            done: list[dict[str, Any]] = kept["receipts"]
            return done
        first = kept is None
        if kept is None:
            begun, others = len(self._chain()), sorted(self._db.waiting_requests())
            kept = {"begun": begun, "others": others, "hidden": None, "signed": [], "receipts": None}
            write_json(path, kept)
        if kept["hidden"] is not None:
            receipts = kept["signed"] + self._finish(number, kept["hidden"])
        else:
            try:
                made = erase()
            except ErasureIncompleteError as error:
                self._note_hidden(path, kept, number, error)
                raise
            receipts = [one.fields for one in made] if first else self._signed_since(kept, number)
        write_json(path, {**kept, "receipts": receipts})
        return receipts

    def _note_hidden(self, path: Path, kept: Mapping[str, Any], number: int, error: ErasureIncompleteError) -> None:
        """Note which requests of the folder are its own; `FileError` if one has not deleted all that it is to."""
        without = self._of_others(kept, number)
        own = {id: begun for id, begun in self._db.waiting_requests().items() if id not in without}
        if not own or not all(own.values()):
            raise FileError(f"erasure {number}: expected all of its records to be deleted, got {error}") from error
        write_json(path, {**kept, "hidden": sorted(own), "signed": self._signed_since(kept, number)})

    def _finish(self, number: int, hidden: list[str]) -> list[dict[str, Any]]:
        """Finish these requests; their receipts. Nobody waits for long: it is asked for again."""
        waiting: ErasureIncompleteError | None = None
        try:
            self._db.complete_erasures(timeout=_SOON)
        except ErasureIncompleteError as error:  # about another one, perhaps
            waiting = error
        found = [self._db.receipt_of_request(id) for id in hidden]
        receipts = [one.fields for one in found if one is not None]
        if len(receipts) < len(hidden):
            raise waiting or ErasureIncompleteError(f"erasure {number}: expected a receipt for each request, got none")
        return receipts

    def _chain(self) -> list[Receipt]:
        return self._db.receipts(all_kinds=True)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}.json"

    def _rest(self, number: int) -> Iterator[dict[str, Any]]:
        """What is kept of the other erasures."""
        for path in self._folder.glob("*.json"):
            if path != self._path(number):
                yield read_json(path)

    def _of_others(self, kept: Mapping[str, Any], number: int) -> set[str]:
        """The requests that belong to other erasures, or to none."""
        return set(kept["others"]).union(*(rest["hidden"] or () for rest in self._rest(number)))

    def _signed_since(self, kept: Mapping[str, Any], number: int) -> list[dict[str, Any]]:
        """What was signed since it was begun and erases, without what belongs to another erasure."""
        signed = (self._db.receipt_of_request(id) for id in self._of_others(kept, number))
        others = {one.sequence for one in signed if one is not None}
        for rest in self._rest(number):
            others.update(int(one["sequence"]) for one in [*rest["signed"], *(rest["receipts"] or ())])
        return [one.fields for one in self._chain()[kept["begun"] :] if one.erases and one.sequence not in others]
