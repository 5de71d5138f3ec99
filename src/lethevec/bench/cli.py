"""The command line of the benchmarks: `lethevec bench PART [options]`, or `python -m lethevec.bench PART [options]`."""

from __future__ import annotations

import importlib
import sys

from . import process

#: Parts that measure one thing each, and have options of their own.
SINGLE = {
    "compare": "peers and ours at equal recall",
    "encode": "how fast vectors become codes",
    "scan": "the scan beside its rivals; adding, forgetting, memory",
    "tables": "hash tables as the source of candidates",
    "store": "the durable store: adding, opening, forgetting",
    "residue": "what deletion leaves in the files of several libraries",
}


def short_run(given: list[str]) -> int:
    """A short run of encoding and of the scan."""
    from . import encode, scan

    encode.main(["--rounds", "3", "--seconds", "20", *given])
    scan.main(["--rounds", "3", "--seconds", "30", "--sizes", "10000", "200000", *given])
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run the part that the arguments name; the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if not process.is_limited():
        return process.run_module("lethevec.bench", arguments)
    if arguments and arguments[0] in SINGLE:
        importlib.import_module(f".{arguments[0]}", __package__).main(arguments[1:])
        return 0
    return short_run(arguments)
