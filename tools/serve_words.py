"""A server on the demo's data, in one command: 20,000 words of 26 people. `make serve` runs it; Ctrl-C ends it."""

from __future__ import annotations

import sys
from pathlib import Path

import lethevec
from lethevec import datasets
from lethevec.cli import main

PEOPLE = ["paula", "ahmed", "chen", "dora", "emil", "fatima", "george", "hana"]


def fill(folder: Path) -> None:
    """Load the words, each of which belongs to somebody, unless they are there."""
    with lethevec.connect(folder) as db:
        if "words" in db:
            return
        words, vectors = datasets.words()
        names = [str(word) for word in words]
        db.collection("words", dim=vectors.shape[1]).add(
            vectors,
            ids=names,
            subjects=[f"{PEOPLE[hash_of(word) % len(PEOPLE)]}@example.org" for word in names],
            payloads=[{"rank": rank, "letters": len(word)} for rank, word in enumerate(names)],
        )


def hash_of(word: str) -> int:
    """The same in every run, unlike `hash`."""
    return sum(place * ord(letter) for place, letter in enumerate(word, 1))


if __name__ == "__main__":
    place = Path(sys.argv[1])
    fill(place)
    sys.argv = ["lethevec", "serve", str(place), *sys.argv[2:]]
    main()
