"""Measure what the choice of rotation does to search, and print the tables of docs/hashing.md.

    python tools/measure_rotations.py [dims] [families] [faiss] [--seeds 5]

    dims      recall@10 of Super-Bit with 2 dim bits at dims next to and between powers of two: hadamard, svd, and
              hadamard without the signs and the butterfly that mend it there
    families  PR-AUC and recall@10 of the families and their rotations at 200, 800 and 2,000 bits
    faiss     recall@10 of Super-Bit beside faiss.IndexLSH

All three by default. The data are the bundled words, scaled to length 1. Queries are words taken at equal steps and
left out of what is searched; the true neighbours are the 10 by cosine; the ranking is by Hamming distance, ties by
position. Figures are the mean and the standard deviation over seeds 0, 1, ...
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec
from lethevec import datasets, reference
from lethevec.reference import rotations

F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]

TRUE = 10  # neighbours of a query
SHOWN = 100  # results looked at
DIMS = (100, 127, 128, 129, 384)
Codes = Callable[[F32], U8]


@dataclass(frozen=True)
class Problem:
    """What is searched, the queries, and the true neighbours of each."""

    base: F32
    queries: F32
    truth: I64

    def placed(self, dim: int, turn: F32 | None) -> Problem:
        """The same in other coordinates and with zeros behind them: every angle and so every neighbour stays."""
        both = [np.zeros((len(x), dim), dtype=np.float32) for x in (self.base, self.queries)]
        for out, x in zip(both, (self.base, self.queries), strict=True):
            out[:, : x.shape[1]] = x if turn is None else x @ turn
        return Problem(both[0], both[1], self.truth)

    def principal_axes(self) -> F32:
        """The basis in which the first coordinate has the most energy, the second the next, and so on."""
        energy = self.base.T.astype(np.float64) @ self.base.astype(np.float64)
        axes: F32 = np.linalg.eigh(energy)[1][:, ::-1].astype(np.float32)
        return axes


def words_problem(words: int, queries: int) -> Problem:
    """A problem on the most frequent of the bundled words."""
    x = datasets.words().vectors[:words]
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    asked = np.arange(queries) * (words // queries)
    held = np.ones(words, dtype=bool)
    held[asked] = False
    base, own = x[held], x[asked]
    return Problem(base, own, np.argsort(-(own @ base.T), axis=1, kind="stable")[:, :TRUE])


def ranked(problem: Problem, codes: Codes, bits: int) -> I64:
    """The first SHOWN of every query by Hamming distance."""
    b, q = (
        np.unpackbits(codes(x), axis=1, count=bits, bitorder="little").astype(np.float32) * 2 - 1
        for x in (problem.base, problem.queries)
    )
    differing = ((bits - q @ b.T) / 2).astype(np.int64)  # sums of +-1 are exact in float32
    keys = differing * len(b) + np.arange(len(b))
    first: I64 = np.sort(np.partition(keys, SHOWN, axis=1)[:, :SHOWN], axis=1) % len(b)
    return first


def recall(problem: Problem, found: I64) -> float:
    """The part of the true neighbours among as many results."""
    return float((found[:, :TRUE, None] == problem.truth[:, None, :]).any(axis=2).mean())


def pr_auc(problem: Problem, found: I64) -> float:
    """The area under the curve of mean precision over mean recall for 1 to SHOWN results."""
    hits = (found[:, :, None] == problem.truth[:, None, :]).any(axis=2).cumsum(axis=1).mean(axis=0)
    precision = hits / np.arange(1, found.shape[1] + 1)
    precision = np.concatenate([precision[:1], precision])
    steps = np.diff(np.concatenate([[0.0], hits / TRUE]))
    return float(((precision[1:] + precision[:-1]) / 2 * steps).sum())


def figure(values: Iterable[float]) -> str:
    """Mean and standard deviation."""
    numbers = np.array(list(values))
    return f"{numbers.mean():.3f} ± {numbers.std(ddof=1):.3f}"


def table(*rows: Iterable[object]) -> None:
    """As Markdown, a row at a time because they take their time."""
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)


def bare_codes(dim: int, seed: int) -> Codes:
    """Super-Bit with 2 dim bits by rounds of signs and two transforms, with nothing between these and nothing after."""
    p = rotations.power_below(dim)
    scale = np.float32(1 / np.sqrt(p))

    def codes(x: F32) -> U8:
        blocks = []
        for t in range(rotations.FIRST_ROUNDS + 1):
            x = x * reference.signs(seed, t, dim)
            x = np.concatenate([reference.fwht(x[:, :p] * scale), x[:, p:]], axis=1)
            if p < dim:
                x = np.concatenate([x[:, : dim - p], reference.fwht(x[:, dim - p :] * scale)], axis=1)
            blocks.append(x)
        return reference.pack(np.concatenate(blocks[-2:], axis=1))

    return codes


def measure_dims(seeds: range) -> None:
    """At each dim in two bases: as the words come, and with most of the energy in the first coordinates."""
    problem = words_problem(20_000, 300)
    axes = problem.principal_axes()
    table(("dim", "coordinates", "`hadamard`", "`svd`", "`hadamard` without either"), ["---"] * 5)
    for dim in DIMS:
        for name, turn in (("as they are", None), ("principal axes", axes)):
            placed = problem.placed(dim, turn)
            columns: list[list[Codes]] = [
                [lethevec.hasher("superbit", dim=dim, expansion=2, seed=s, rotation=rotation).codes for s in seeds]
                for rotation in ("hadamard", "svd")
            ]
            columns.append([bare_codes(dim, s) for s in seeds])
            figures = [figure(recall(placed, ranked(placed, c, 2 * dim)) for c in column) for column in columns]
            table((dim, name, *figures))


def measure_families(seeds: range) -> None:
    """The paper's comparison, with the rotations beside each other."""
    problem = words_problem(10_000, 400)
    table(("bits", "family", "rotation", "PR-AUC", "recall@10"), ["---"] * 5)
    for bits in (200, 800, 2000):
        kinds: list[tuple[str, str | None]] = [("simhash", None)]
        kinds += [(family, rotation) for family in ("superbit", "usr") for rotation in ("hadamard", "svd")]
        for family, rotation in kinds:
            own: dict[str, Any] = {} if rotation is None else {"rotation": rotation}
            hashers = [lethevec.hasher(family, dim=100, bits=bits, seed=s, **own) for s in seeds]
            found = [ranked(problem, h.codes, bits) for h in hashers]
            scores = [figure(score(problem, f) for f in found) for score in (pr_auc, recall)]
            table((f"{bits:,}", f"`{family}`", "" if rotation is None else f"`{rotation}`", *scores))


def measure_faiss(seeds: range) -> None:
    """Faiss draws its matrix from a seed of its own, which its transform takes."""
    try:
        import faiss
    except ImportError:
        sys.exit("the comparison with Faiss needs it: pip install faiss-cpu")
    problem = words_problem(10_000, 400)
    table(("bits", "`superbit`", "`faiss.IndexLSH`"), ["---"] * 3)
    for bits in (50, 100, 200, 800):
        ours = [lethevec.hasher("superbit", dim=100, bits=bits, seed=s).codes for s in seeds]
        theirs = []
        for seed in seeds:
            index = faiss.IndexLSH(100, bits)
            index.rrot.init(seed + 1)
            theirs.append(index.sa_encode)
        table((bits, *(figure(recall(problem, ranked(problem, c, bits)) for c in codes) for codes in (ours, theirs))))


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    measures = {"dims": measure_dims, "families": measure_families, "faiss": measure_faiss}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="table", help=f"of {', '.join(measures)}; all by default")
    parser.add_argument("--seeds", type=int, default=5, help="how many, at least 2 (5)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.tables if name not in measures]
    if unknown or options.seeds < 2:
        wanted = f"of {', '.join(measures)}, got {unknown[0]}" if unknown else f"at least 2 seeds, got {options.seeds}"
        parser.error(f"expected {wanted}")
    for name in options.tables or measures:
        measures[name](range(options.seeds))
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
