"""A console to look at, in one command: a store with the bundled words, a server, its address and a key.

`make console-demo` runs it; Ctrl-C ends it. The words belong to a few hundred people, some are due one day, somebody
has been erased already, and a legal hold is in force, so that every screen has something to show.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lethevec
from lethevec import datasets
from lethevec.cli import main
from lethevec.server.keys import KeyFile

LANGUAGES = ("en", "de", "fr", "it", "pl", "tr")
NAMES = (
    "ada", "ahmed", "aiko", "alma", "boris", "carla", "chen", "dora", "emil", "fatima", "george", "hana",
    "ines", "ivan", "jana", "kofi", "lena", "marta", "noah", "olga", "paula", "quim", "rosa", "sami",
)  # fmt: skip


def person(number: int) -> str:
    """Few have much and many have little, as everywhere."""
    rank = int(len(NAMES) * 12 * (number / 7919 % 1) ** 3)
    return f"{NAMES[rank % len(NAMES)]}{rank // len(NAMES) or ''}@example.org"


def fill(folder: Path, count: int | None = None) -> None:
    """Load the words, unless they are there; `count` of them, or all."""
    words, vectors = datasets.words()
    words, vectors = words[:count], vectors[:count]
    with lethevec.connect(folder) as db:
        if "words" in db:
            return
        names = [str(word) for word in words]
        today = datetime.now(timezone.utc)
        db.collection("words", dim=vectors.shape[1]).add(
            vectors,
            ids=names,
            subjects=[person(place * 5417 % 7919) if place % 9 else None for place in range(len(names))],
            payloads=[
                {
                    "rank": rank,
                    "letters": len(word),
                    "language": LANGUAGES[sum(map(ord, word)) % 6],
                    "seen": rank % 3 == 0,
                }
                for rank, word in enumerate(names)
            ],
            expires=[
                today + timedelta(days=20 + (place * 37 % 700) ** 1.02) if place % 4 else None
                for place in range(len(names))
            ],
        )
        half = len(names) // 10
        db.collection("letters", dim=vectors.shape[1], encrypt=True, expires=timedelta(days=730)).add(
            vectors[:half],
            ids=range(half),
            subjects=[person(place * 31 % 7919) for place in range(half)],
            payloads=[{"subject": f"About {names[place]}", "pages": 1 + place % 7} for place in range(half)],
        )
        for name in ("quim@example.org", "rosa@example.org", "sami@example.org"):
            db.forget(subject=name, ignore_unknown=True)
        db.hold("paula@example.org", "Case 2026-114: the letters are evidence")
        db.block("rosa@example.org", "asked not to be contacted again")


def run(folder: Path, *arguments: str) -> None:
    """Fill, make a key, and serve."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    fill(folder)
    key, _ = KeyFile(folder.with_name(folder.name + "-server")).make("demo", ["admin"])
    port = arguments[arguments.index("--port") + 1] if "--port" in arguments else "8765"
    print(f"\n  The console:  http://127.0.0.1:{port}/console\n  Your key:     {key}\n", flush=True)
    sys.argv = ["lethevec", "serve", str(folder), "--log", "errors", *arguments]
    main()


if __name__ == "__main__":
    run(Path(sys.argv[1]), *sys.argv[2:])
