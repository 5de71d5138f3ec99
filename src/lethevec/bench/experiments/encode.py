"""How fast vectors become codes, on one thread.

Ours against (a) the same family in NumPy, by the same rotations as dense matrices (so the codes agree but for rounding,
and that is checked), and (b) Faiss's IndexLSH with as many bits, `sa_encode` and `add`. Encoding has no branch that
depends on the data, so random vectors serve as well as real ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec

from ..measuring.field import Field, Line
from ..measuring.prepared import Prepared
from ..measuring.timing import Timing, Turn, ratio, take_turns, task
from ..peers.faiss import FaissLSH, faiss_module
from ..peers.peer import F32, unit
from .run import Run

ROUNDS = 5
SIZES = ((96, 768), (128, 1024))
FAMILIES = ("superbit", "progressive", "usr")
Codes = npt.NDArray[np.uint8]

# What a family promises: how many times faster than which rival, for a batch and for a vector alone.
GOALS = {
    ("usr", "batch", "numpy"): 5.0,
    ("usr", "alone", "numpy"): 20.0,
    ("superbit", "batch", "sa_encode"): 2.0,
    ("superbit", "batch", "add"): 2.0,
    ("progressive", "batch", "sa_encode"): 2.0,
    ("progressive", "batch", "add"): 2.0,
}


def options(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment alone."""
    parser.add_argument("--batch", type=int, default=10_000, help="vectors in a batch (10000)")


def experiment(run: Run, given: Prepared) -> None:
    """Measure all families at each size."""
    for dim, bits in SIZES:
        run.stage("encode", f"dim {dim}", given, partial(at_size, run, dim, bits))


def at_size(run: Run, dim: int, bits: int, _: Field) -> list[Line]:
    """One table."""
    lines: list[Line] = []
    rows = []
    for family in FAMILIES:
        timings, equal = compare(run, family, dim, bits)
        run.note(f"  {family}, dim {dim}, {bits} bits: {100 * equal:.3f} % of the bits equal those of NumPy")
        for key, timing in timings.items():
            rival, kind = key.split()
            goal = GOALS.get((family, kind, rival))
            faster = ratio(timings[f"lethevec {kind}"], timing)
            against = "" if rival == "lethevec" else f"{faster:.1f}"
            rows.append((family, kind, rival, f"{timing.micros:.2f}", against, f"{goal:g}" if goal else ""))
            about = {"what": "encoding", "competitor": key, "family": family, "dim": dim, "bits": bits}
            lines.append({**about, "equal_bits_with_numpy": equal, "ratio": faster, **timing.line()})
    head = ("family", "vectors", "by", "us per vector", "lethevec is faster by", "goal")
    run.table(f"Encoding, dim {dim}, {bits} bits, one thread, batch of {run.options.batch:,}", head, rows)
    return lines


class Dense:
    """A family in NumPy over dense rotations, with BLAS for the products and buffers that are made once."""

    def __init__(self, hasher: Any) -> None:
        self.family = hasher.family
        self.dim, self.bits = hasher.dim, hasher.bits
        self.expansion = self.bits // self.dim
        self.wide = np.ascontiguousarray(hasher.frame)  # R_1 ... R_m side by side, (dim, bits)
        self.tall = np.ascontiguousarray(self.wide.T)
        # For progressive codes: x is turned by R_1, what is left of it from the coordinates of R_i to those of R_{i+1}.
        blocks = [self.wide[:, i : i + self.dim] for i in range(0, self.bits, self.dim)]
        self.turns = [blocks[0]] + [np.ascontiguousarray(a.T @ b) for a, b in pairwise(blocks)]
        if self.family == "usr":
            self.gain, self.steps = np.float32(hasher.gain), hasher.steps
        self.weights = lethevec.reference.plane_weights(self.dim, self.expansion)

    def codes(self, vectors: F32) -> Codes:
        return np.packbits(getattr(self, self.family)(vectors) >= 0, axis=1, bitorder="little")

    def superbit(self, x: F32) -> F32:
        return np.asarray(x @ self.wide)

    def progressive(self, x: F32) -> F32:
        rest = x / np.linalg.norm(x, axis=1, keepdims=True)
        values = np.empty((len(x), self.bits), dtype=np.float32)
        for i, (turn, weight) in enumerate(zip(self.turns, self.weights, strict=True)):
            rest = rest @ turn
            values[:, i * self.dim : (i + 1) * self.dim] = rest
            rest -= np.copysign(weight, rest)
        return values

    def usr(self, x: F32) -> F32:
        """y <- tanh(y + W^T (alpha x - W y)); the 1/sqrt(m) of both W's is moved into alpha and into 1/m."""
        given = x * (self.gain / np.float32(np.sqrt(self.expansion)))
        y = np.tanh(given @ self.wide)
        lifted, seen = np.empty_like(y), np.empty_like(given)
        for _ in range(1, self.steps):
            np.matmul(y, self.tall, out=seen)
            seen *= np.float32(-1 / self.expansion)
            seen += given
            np.matmul(seen, self.wide, out=lifted)
            lifted += y
            np.tanh(lifted, out=y)
        return np.asarray(y)

    def in_blocks(self, vectors: F32, rows: int) -> Codes:
        """Block by block, so that what the steps touch stays in the cache."""
        return np.concatenate([self.codes(vectors[i : i + rows]) for i in range(0, len(vectors), rows)])


def best_block(dense: Dense, vectors: F32) -> int:
    """The fastest block size: the rival should be as good as it can be."""
    sizes = (32, 64, 128, 256, 512, 1024, len(vectors))
    tasks = {str(rows): task(len(vectors), partial(dense.in_blocks, vectors, rows)) for rows in sizes}
    timings = take_turns(tasks, rounds=2, least=1, seconds=20)
    return min(sizes, key=lambda rows: min(timings[str(rows)].seconds))


def _each(function: Callable[[F32], Any], vectors: F32) -> Callable[[], list[Any]]:
    rows = [vectors[i : i + 1] for i in range(len(vectors))]
    return lambda: [function(row) for row in rows]


def agreement(a: Codes, b: Codes) -> float:
    """The share of equal bits."""
    return 1 - float(np.unpackbits(a ^ b).mean())


def compare(run: Run, family: str, dim: int, bits: int) -> tuple[dict[str, Timing], float]:
    """One family at one size: a round holds batches and single vectors of all rivals."""
    batch = run.options.batch
    vectors = unit(np.random.default_rng(dim).standard_normal((batch, dim)).astype(np.float32))
    single = vectors[: min(batch, 300)]
    ours = lethevec.hasher(family, dim=dim, bits=bits, **({"steps": 17} if family == "usr" else {}))
    dense = Dense(ours)
    rows = best_block(dense, vectors[:2048])
    tasks: dict[str, Callable[[], Turn]] = {
        "lethevec batch": task(batch, lambda: ours.codes(vectors, threads=1)),
        "numpy batch": task(batch, lambda: dense.in_blocks(vectors, rows)),
        "lethevec alone": task(len(single), _each(lambda row: ours.codes(row, threads=1), single)),
        "numpy alone": task(len(single), _each(dense.codes, single)),
    }
    if FaissLSH.missing() is None:
        lsh = faiss_module().IndexLSH(dim, bits)
        lsh.train(vectors)

        def add() -> None:
            lsh.reset()
            lsh.add(vectors)

        tasks["sa_encode batch"] = task(batch, lambda: lsh.sa_encode(vectors))
        tasks["add batch"] = task(batch, add)
        tasks["sa_encode alone"] = task(len(single), _each(lsh.sa_encode, single))
    else:
        run.note("  Faiss IndexLSH: skipped: the package 'faiss-cpu' is not installed")
    with run.pinned:
        timings = take_turns(tasks, **run.turns)
    return timings, agreement(timings["lethevec batch"].answer, timings["numpy batch"].answer)
