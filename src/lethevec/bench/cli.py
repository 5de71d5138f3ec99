"""The command line of the benchmarks: `lethevec bench PART [options]`, or `python -m lethevec.bench PART [options]`.

The parts of a run (`all`, or some of them) share their options, their results and the report; the single measurements
have options of their own.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

from ..errors import LethevecError, MissingDependencyError
from . import harness, peers, prepared, process, report
from .prepared import Prepared
from .results import NAME, Results, only_run
from .run import Options, Run, last_cpu

#: Parts of a run, in the order in which they are measured: module and what it is.
PARTS = {
    "paper1": ("paper1", "experiment 1: queries per second against precision@10"),
    "paper2": ("paper2", "experiment 2: precision against recall, area under the curve"),
    "paper3": ("paper3", "experiment 3: time to delete; recall, memory and residue after deletions"),
    "peers": ("peers_part", "every peer at its best: recall against queries per second"),
    "streaming": ("streaming", "a stream of inserts, deletes and searches"),
}

#: Measurements with options of their own: `lethevec bench NAME --help`.
SINGLE = {
    "compare": "peers and ours at equal recall",
    "encode": "how fast vectors become codes",
    "scan": "the scan beside its rivals; adding, forgetting, memory",
    "tables": "hash tables as the source of candidates",
    "pivots": "pivots as the source of candidates, beside ScaNN, hnswlib and IVFPQ",
    "store": "the durable store: adding, opening, forgetting",
    "residue": "what deletion leaves in the files of several libraries",
}


def parser() -> argparse.ArgumentParser:
    """The arguments of a run."""
    parts = "\n".join(f"  {name:10} {what}" for name, (_, what) in PARTS.items())
    single = "\n".join(f"  {name:10} {what}" for name, what in SINGLE.items())
    made = argparse.ArgumentParser(
        prog="lethevec bench",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="The paper's experiments, and lethevec beside its peers, on any data set of ann-benchmarks.",
        epilog=f"parts:\n  all        all of these, and the report\n{parts}\n  report     write the report again\n\n"
        f"single measurements, with options of their own:\n{single}\n\n"
        "a full run, of hours:\n  lethevec bench all --data glove-100-angular --out results --resume\n\n"
        "example, of seconds:\n  lethevec bench paper2 --quick --limit-vectors 2000 --queries 50 --out bench-results",
    )
    made.add_argument("parts", nargs="*", metavar="PART", help="which parts to run; all if none is named")
    made.add_argument("--data", nargs="*", default=[], help="HDF5 files or folders, or names of the paper's sets")
    made.add_argument("--quick", action="store_true", help="few vectors, few settings: about two minutes on two cores")
    made.add_argument("--out", type=Path, default=harness.RESULTS, help="folder for results (default: %(default)s)")
    made.add_argument("--docs", type=Path, help="also write the report, its figures and the results to this folder")
    made.add_argument("--resume", action="store_true", help="keep what an earlier run into --out has measured")
    made.add_argument("--queries", type=int, help="how many queries (default: 1000, or 200 for a quick run)")
    made.add_argument("--limit-vectors", type=int, metavar="N", help="use the first N vectors of each set")
    made.add_argument("--rounds", type=int, help="how often each competitor has its turn (default: 3, quick: 2)")
    made.add_argument("--settings", type=int, help="settings on a curve (default: 12, quick: 6)")
    made.add_argument("--peers", default="", help=f"part 'peers': which, with commas: {','.join(peers.ALL)}")
    made.add_argument("--retrain-seconds", type=float, default=45.0, metavar="S", help="part 'paper3' (default: 45)")
    for name, default in (("delete", 100_000), ("decay", 40_000), ("stream", 100_000)):
        where = "streaming" if name == "stream" else "paper3"
        told = f"part {where!r}: how many of the first vectors (default: {default}; 0: all)"
        made.add_argument(f"--{name}-records", type=int, default=default, metavar="N", help=told)
    made.add_argument("--runbook", help="part 'streaming': a runbook in YAML; by default a sliding window")
    made.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: for machines that others use too")
    made.add_argument("--pin", type=int, metavar="CPU", help="bind timings to this CPU (default: the last one)")
    made.add_argument("--time-limit", type=float, default=900.0, metavar="S", help="for one thing that one peer does")
    return made


def main(argv: list[str] | None = None) -> int:
    """Run what the arguments name; the exit code."""
    given = sys.argv[1:] if argv is None else list(argv)
    if given and given[0] in SINGLE:
        if not process.is_limited():
            return process.run_module("lethevec.bench", given)
        sys.argv[0] = f"lethevec bench {given[0]}"  # the name by which its help calls it
        importlib.import_module(f".{given[0]}", __package__).main(given[1:])
        return 0
    arguments = parser().parse_args(given)
    wanted = arguments.parts or ["all"]
    unknown = [name for name in wanted if name not in (*PARTS, "all", "report")]
    if unknown:
        parser().error(f"expected parts of {', '.join(('all', *PARTS, 'report'))}, got {unknown[0]!r}")
    if not process.is_limited():  # checked before, so that a mistake is told at once
        return process.run_module("lethevec.bench", given)
    try:
        return run(arguments, wanted, given)
    except LethevecError as error:
        print(f"lethevec bench: {error}", file=sys.stderr)
        return 3 if isinstance(error, MissingDependencyError) else 2
    except KeyboardInterrupt:
        print("\nstopped; the same command with --resume goes on from here", file=sys.stderr)
        return 130


def options_of(arguments: argparse.Namespace) -> Options:
    """What the arguments come to."""
    quick = bool(arguments.quick)
    return Options(
        quick=quick,
        rounds=arguments.rounds or (2 if quick else 3),
        settings=arguments.settings or (6 if quick else 12),
        clock=arguments.clock,
        pin=last_cpu() if arguments.pin is None else arguments.pin,
        peers=tuple(name for name in arguments.peers.split(",") if name),
        retrain_seconds=arguments.retrain_seconds,
        delete_records=arguments.delete_records,
        decay_records=arguments.decay_records,
        stream_records=arguments.stream_records,
        runbook=arguments.runbook,
        limit=min(arguments.time_limit, 60.0) if quick else arguments.time_limit,
        out=arguments.out,
    )


def run(arguments: argparse.Namespace, wanted: list[str], given: list[str]) -> int:
    """Measure, part by part and set by set, and write the report."""
    command = "lethevec bench " + " ".join(_shown(given))
    parts = list(PARTS) if "all" in wanted else [name for name in PARTS if name in wanted]
    if parts:
        figures_or_nothing()
        options = options_of(arguments)
        told = {k: v for k, v in vars(options).items() if k not in ("out", "limit")}
        with only_run(arguments.out):
            results = Results(arguments.out, {"command": command, **told}, resume=arguments.resume)
            measure(Run(options, results), sets_of(arguments, options), parts)
    elif not (arguments.out / NAME).exists():
        print(f"lethevec bench report: expected results in {arguments.out / NAME}, got none", file=sys.stderr)
        return 2
    page = report.make(arguments.out, command, arguments.docs)
    print(
        f"\nReport: {page}\nResults: {arguments.out / NAME}" + (f"\nDocuments: {arguments.docs}" * bool(arguments.docs))
    )
    return 0


def sets_of(arguments: argparse.Namespace, options: Options) -> list[Prepared]:
    """The data sets, with their truth, from the cache in --out."""
    queries = arguments.queries or (200 if options.quick else 1000)
    limit = arguments.limit_vectors or (5000 if options.quick else None)
    return prepared.prepare(arguments.data, arguments.out / "cache", queries=queries, limit=limit)


def measure(run: Run, sets: list[Prepared], parts: list[str]) -> None:
    """All parts on one set, then on the next."""
    for place, given in enumerate(sets):
        for number, name in enumerate(parts):
            run.note(
                f"--- {given.data.name}: {name} (part {place * len(parts) + number + 1} of {len(sets) * len(parts)})"
            )
            importlib.import_module(f".{PARTS[name][0]}", __package__).experiment(run, given)


def figures_or_nothing() -> None:
    """Say now, and not after half an hour, that figures cannot be drawn."""
    from .figures import pyplot

    pyplot()


def _shown(given: list[str]) -> list[str]:
    """The arguments, with absolute paths as names alone: where files lie is nobody's business."""
    return [os.path.basename(part) if os.path.isabs(part) else part for part in given]
