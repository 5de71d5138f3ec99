"""How speed is measured here, for every benchmark in this package.

* One thread, unless a benchmark says otherwise (set by `process`, before NumPy and the peers are loaded).
* Competitors take turns (A, B, C, A, B, C, ...), so that a machine that slows down slows all of them. A figure is the
  median of its rounds; a ratio is the median of the ratios within a round.
* `--clock cpu` counts the CPU time of the process instead of the time on the wall: for machines that others use too.
* Recall stands beside every timing and is counted from the very answers that were timed, by distance: an answer is
  right when it is as near as the k-th true neighbour, whichever of equal ones it is.
* Every result is a JSON line with machine, commit, versions and parameters: in `lethevec-results`, or in `--out`.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec
from lethevec import datasets

from . import THREAD_VARIABLES

F32 = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
RESULTS = Path("lethevec-results")
PACKAGES = ("lethevec", "numpy", "faiss-cpu", "hnswlib", "usearch", "turbovec", "annoy", "scann", "voyager")


# Data ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """Vectors, queries and the distance of the k-th true neighbour of each query, for k = 1, 2, ..."""

    name: str
    metric: str
    train: F32
    test: F32
    nearest: npt.NDArray[np.float64]  # (queries, at least 10), ascending

    @property
    def dim(self) -> int:
        return int(self.train.shape[1])


def load_data(names: Sequence[str], queries: int = 1000) -> list[Data]:
    """The sets named (files, folders, names of the paper's), else those in LETHEVEC_DATA, else the bundled words."""
    given = list(names) or [path for path in [os.environ.get("LETHEVEC_DATA", "")] if path]
    sets: list[Data] = []
    for name in given:
        path = Path(name).expanduser()
        if path.is_dir():
            sets += [_from_file(file, queries) for file in sorted(path.glob("*.hdf5"))]
        elif path.exists() or name not in datasets.NAMES:
            sets.append(_from_file(path, queries))
        else:
            sets.append(_from_file(datasets.download(name), queries))
    if not sets:
        print(
            "No data set was given (by --data or LETHEVEC_DATA), so this run uses the 20,000 bundled words. They are\n"
            "few: what holds for them need not hold for millions.\n"
        )
        sets = [_bundled(queries)]
    return sets


def _from_file(path: Path, queries: int) -> Data:
    source = datasets.read_benchmark(path)
    test = source.test[:queries]
    if source.neighbors is None or source.neighbors.shape[1] < 10:
        return with_truth(source.name, source.metric, source.train, test)
    nearest = distances(source.train, test, source.neighbors[:queries, :100], source.metric)
    return Data(source.name, source.metric, source.train, test, np.sort(nearest, axis=1))


def _bundled(queries: int) -> Data:
    vectors = datasets.words().vectors
    order = np.random.default_rng(1).permutation(len(vectors))
    return with_truth("bundled-words-20k", "cosine", vectors[order[queries:]], vectors[order[:queries]])


def with_truth(name: str, metric: str, train: F32, test: F32, k: int = 100) -> Data:
    """Find the true neighbours by brute force: candidates in float32 with a margin, distances in float64."""
    base = train / np.linalg.norm(train, axis=1, keepdims=True) if metric == "cosine" else train
    bias = np.einsum("ij,ij->i", base, base) / 2 if metric == "l2" else np.float32(0)
    wide = min(2 * k, len(train))
    near = np.stack([np.argpartition(bias - base @ query, wide - 1)[:wide] for query in test])
    return Data(name, metric, train, test, np.sort(distances(train, test, near, metric), axis=1)[:, :k])


def distances(train: F32, test: F32, ids: npt.NDArray[Any], metric: str) -> npt.NDArray[np.float64]:
    """The true distance of each query to each of its ids, in float64; infinity where the id is -1 (nothing found)."""
    out = np.empty(ids.shape)
    for row, (query, found) in enumerate(zip(test.astype(np.float64), ids, strict=True)):
        vectors = train[found].astype(np.float64)
        if metric == "l2":
            out[row] = np.sqrt(((vectors - query) ** 2).sum(axis=1))
        elif metric == "ip":
            out[row] = -(vectors @ query)
        else:
            out[row] = 1 - vectors @ query / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(query))
    out[ids < 0] = np.inf
    return out


def recall(data: Data, ids: Ids, k: int = 10) -> float:
    """The share of the first k answers that are as near as the k-th true neighbour. A repeated id counts once.

    The margin covers rounding alone (ground truth of float32 files), so that equal distances count and others do not.
    """
    ids = np.asarray(ids)[:, :k]
    found = distances(data.train, data.test[: len(ids)], ids, data.metric)
    limit = data.nearest[: len(ids), k - 1 : k]
    right = found <= limit + 1e-6 * np.abs(limit) + 1e-9
    repeated = np.array([[i in row[:j] for j, i in enumerate(row)] for row in ids.tolist()], dtype=bool)
    return float((right & ~repeated).sum() / (len(ids) * k))


CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
_clock: list[str] = ["wall"]  # what `start` was told


def now() -> float:
    """Seconds on the chosen clock."""
    return CLOCKS[_clock[0]]()


# Timing --------------------------------------------------------------------------------------------------------------


@dataclass
class Timing:
    """The rounds of one competitor: seconds for each, and the work done in a round (queries, vectors, ...)."""

    name: str
    work: int
    seconds: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)  # the same rounds on the wall, whatever the clock
    answer: Any = None  # of the last round

    @property
    def rate(self) -> float:
        """Work per second, the median of the rounds."""
        return self.work / float(np.median(self.seconds))

    @property
    def micros(self) -> float:
        """Microseconds for one unit of work, the median of the rounds."""
        return 1e6 / self.rate

    @property
    def spread(self) -> float:
        """(slowest - fastest) / median: how far the rounds lie apart."""
        return float((max(self.seconds) - min(self.seconds)) / np.median(self.seconds))


def interleave(
    tasks: Mapping[str, tuple[int, Callable[[], Any]]], *, rounds: int = 5, seconds: float = 60.0, least: int = 3
) -> dict[str, Timing]:
    """Run each task (its amount of work, and a function that does it) once in each round, in turn.

    Ends after `rounds`, or after the first round past `seconds`, but never before `least` rounds.
    """
    timings = {name: Timing(name, work) for name, (work, _) in tasks.items()}
    begin = time.perf_counter()
    gc.collect()
    gc.disable()
    try:
        for done in range(rounds):
            if done >= least and time.perf_counter() - begin > seconds:
                break
            for name, (_, run) in tasks.items():
                wall, start = time.perf_counter(), now()
                answer = run()
                timings[name].seconds.append(now() - start)
                timings[name].wall.append(time.perf_counter() - wall)
                timings[name].answer = answer
    finally:
        gc.enable()
    return timings


def ratio(ours: Timing, theirs: Timing) -> float:
    """How many times faster `ours` is: the median over the rounds of the ratio within a round."""
    return float(
        np.median([(b / theirs.work) / (a / ours.work) for a, b in zip(ours.seconds, theirs.seconds, strict=True)])
    )


def one_by_one(search: Callable[[F32, int], Ids], queries: F32, k: int) -> Callable[[], Ids]:
    """A task that asks for each query alone, as a server would, and gives all answers of shape (n, k)."""

    def run() -> Ids:
        return pad([search(query, k) for query in queries], k)

    return run


def pad(answers: Iterable[npt.NDArray[Any]], k: int) -> Ids:
    """Answers of any length as one array; -1 where there was none."""
    rows = list(answers)
    out = np.full((len(rows), k), -1, dtype=np.int64)
    for row, answer in zip(out, rows, strict=True):
        row[: min(k, len(answer))] = answer[:k]
    return out


# Reports -------------------------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """What the figures depend on, besides the code."""
    info = lethevec.cpu_info()
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "pinned": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "load": os.getloadavg()[0],
        "clock": _clock[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "isa": info.isa,
        "threads": {name: os.environ.get(name) for name in THREAD_VARIABLES},
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
        "commit": _commit(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    names = {name.strip(): value.strip() for name, value in fields.items()}
    model = names.get("model name", platform.processor())
    return f"{model} (family {names.get('cpu family', '?')}, model {names.get('model', '?')})"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + (" with changes" if git("status", "--porcelain") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


class Report:
    """Collects results: JSON lines to a file, tables to the terminal."""

    def __init__(self, benchmark: str, parameters: Mapping[str, Any], folder: Path | None = None) -> None:
        self.benchmark = benchmark
        self.when = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        self.context = {"benchmark": benchmark, "when": self.when, "parameters": dict(parameters), "machine": machine()}
        folder = RESULTS if folder is None else folder
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{benchmark}-{self.when}.jsonl"

    def add(self, **result: Any) -> None:
        """Append one result, with everything it depends on."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**self.context, **result}, default=plain) + "\n")

    def add_timing(self, timing: Timing, **result: Any) -> None:
        """Append one competitor's figures, its rounds included."""
        clock = {"seconds": timing.seconds, "wall": timing.wall}
        self.add(competitor=timing.name, work=timing.work, rate=timing.rate, **clock, **result)

    def note(self, text: str) -> None:
        """A line for the reader, at once: some of this takes minutes."""
        print(text, flush=True)

    def table(self, title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print a Markdown table."""
        print(f"\n### {title}\n\n{markdown(head, rows)}\n", flush=True)


def markdown(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table with aligned columns: text to the left, numbers to the right."""
    body = [[str(cell) for cell in row] for row in rows]
    columns = list(zip(head, *body, strict=True))
    widths = [max(map(len, column)) for column in columns]
    lines = [
        " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [list(head), *body]
    ]
    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])])


def plain(value: Any) -> Any:
    """What JSON can hold, for `json.dumps(default=...)`."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else str(value)


# The command line ----------------------------------------------------------------------------------------------------


def parser(description: str) -> argparse.ArgumentParser:
    """Arguments that all benchmarks have."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    made.add_argument(
        "--data", nargs="*", default=[], help="HDF5 files or folders in the ann-benchmarks layout, or names"
    )
    made.add_argument("--queries", type=int, default=1000, help="how many distinct queries")
    made.add_argument("--rounds", type=int, default=5, help="how often each competitor has its turn")
    made.add_argument("--seconds", type=float, default=60.0, help="about how long one comparison may take")
    made.add_argument("--clock", choices=sorted(CLOCKS), default="wall", help="what is counted: see harness.py")
    made.add_argument("--pin", type=int, default=None, metavar="CPU", help="stay on this CPU (Linux)")
    made.add_argument("--out", type=Path, help=f"folder for the results; {RESULTS} here if not given")
    return made


def start(arguments: argparse.Namespace) -> None:
    """Apply what the command line says about the clock and the machine."""
    _clock[0] = arguments.clock
    if arguments.pin is not None:
        if not hasattr(os, "sched_setaffinity"):
            sys.exit("--pin: this system cannot bind a process to a CPU")
        os.sched_setaffinity(0, {arguments.pin})


Part = Callable[["Report", Data, argparse.Namespace], None]


def run_parts(name: str, cli: argparse.ArgumentParser, command: list[str] | None, parts: dict[str, Part]) -> None:
    """Run the parts that --parts names, all unless it is given, on each data set; the report is called `name`."""
    cli.add_argument("--parts", default=",".join(parts), help="which, with commas")
    cli.add_argument("--figures", type=Path, help="folder for the figures; as --out if not given")
    arguments = cli.parse_args(command)
    start(arguments)
    arguments.figures = arguments.figures or arguments.out or RESULTS
    report = Report(name, vars(arguments), arguments.out)
    wanted = arguments.parts.split(",")
    for data in load_data(arguments.data, arguments.queries):
        for part, measure in parts.items():
            if part in wanted:
                measure(report, data, arguments)
    report.note(f"Results: {report.path}")
