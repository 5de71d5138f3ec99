"""Planning a cluster: how many machines so many records take, and what latency a hedged fan-out has.

    python -m lethevec.cluster.planning --records 1e9 --dim 384 --samples FILE --erasing 0.3

Sizes are arithmetic. Latency is a simulation: each shard's time is drawn from measured times of one member, a second
member is asked when the first takes too long, and a query takes as long as its slowest shard. `FILE` has measured
times of one member, in milliseconds, one in a line: `python -m lethevec.bench.experiments.cluster` writes it, and says
how many seconds an erasure takes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .._shown import shown
from ..errors import ParameterError

__all__ = ["Plan", "erasure_seconds", "plan", "simulate"]

F64 = npt.NDArray[np.float64]

GIB = 1 << 30
#: Bytes for each record beside vector and code: id, row, norm, factor, and what maps one to another.
OVERHEAD = 48
#: Part of a machine's memory that records may take: the rest is for the system, Ray, SQLite's cache and growth.
USABLE = 0.7
VECTORS = ("float32", "int8", "disk")


@dataclass(frozen=True)
class Plan:
    """What a number of records takes."""

    records: int
    dim: int
    vectors: str
    bytes_each: int
    shards: int
    replicas: int
    machines: int
    memory_gib: float
    disk_gib: float

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"{self.records:,} records, dim {self.dim}, vectors in {self.vectors}: {self.bytes_each} bytes each in "
            f"memory, {self.shards} shards x {self.replicas}, {self.machines} machines, {self.memory_gib:,.0f} GiB of "
            f"memory and {self.disk_gib:,.0f} GiB of disk in all"
        )


def plan(
    records: float,
    dim: int,
    *,
    vectors: str = "float32",
    replicas: int = 2,
    machine_gib: float = 128,
    code_bits: int = 2,
) -> Plan:
    """How many machines: one member of one shard on each, records in memory as `vectors` says.

    >>> made = plan(1e9, 384, machine_gib=256)
    >>> made.shards, made.machines
    (9, 18)
    """
    if vectors not in VECTORS:
        raise ParameterError(f"vectors: expected one of {', '.join(VECTORS)}, got {shown(vectors, 40)}")
    if records < 1 or dim < 1 or replicas < 1 or machine_gib <= 0:
        raise ParameterError("plan: expected positive numbers of records, dimensions, replicas and memory")
    kept = {"float32": 4 * dim, "int8": dim + 4, "disk": 0}[vectors]
    each = kept + math.ceil(code_bits * dim / 8) + OVERHEAD
    shards = math.ceil(records * each / (machine_gib * GIB * USABLE))
    on_disk = 4 * dim + 200  # a row of the store: vector, id, subject, payload, pages
    return Plan(
        int(records),
        dim,
        vectors,
        each,
        shards,
        replicas,
        shards * replicas,
        shards * replicas * machine_gib,
        records * on_disk * replicas * 1.2 / GIB,
    )


def simulate(
    samples: Sequence[float] | F64, shards: int, *, hedge: float | None = None, queries: int = 20_000, seed: int = 0
) -> F64:
    """Times of queries over so many shards, drawn from times of one member; `hedge` is when a second one is asked.

    >>> times = np.concatenate([np.full(99, 1.0), [100.0]])
    >>> float(np.percentile(simulate(times, 1), 50))
    1.0
    >>> bool(np.mean(simulate(times, 50) > 50) > 0.3), bool(np.mean(simulate(times, 50, hedge=2.0) > 50) < 0.02)
    (True, True)
    """
    given = np.asarray(samples, dtype=np.float64)
    if given.ndim != 1 or not len(given) or not np.isfinite(given).all() or (given < 0).any():
        raise ParameterError("samples: expected times, got none or others")
    rng = np.random.default_rng(seed)
    slowest = np.zeros(queries)
    for _ in range(shards):
        first = rng.choice(given, queries)
        if hedge is not None:
            second = hedge + rng.choice(given, queries)
            first = np.where(first > hedge, np.minimum(first, second), first)
        np.maximum(slowest, first, out=slowest)
    return slowest


def erasure_seconds(each: float, members: int, *, spread: float = 0.3, lease: float = 3.0, away: bool = False) -> float:
    """About how long `forget` takes: the slowest of so many members, whose times spread by a factor, and if one is away
    also its lease, after which the call says that it is incomplete. A process that hangs is found out later than
    one that is gone: some 5 seconds more."""
    slowest = each * math.exp(spread * math.sqrt(2 * math.log(max(2, members))))
    return slowest + (lease if away else 0.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a plan."""
    parser = argparse.ArgumentParser(prog="python -m lethevec.cluster.planning", description=__doc__)
    parser.add_argument("--records", type=float, default=1e9)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--machine-gib", type=float, default=256)
    parser.add_argument("--samples", type=Path, help="measured times of one member, in ms, one in a line")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="multiply the measured times: a larger shard takes longer"
    )
    parser.add_argument("--erasing", type=float, help="seconds that one member takes to erase a person, measured")
    parser.add_argument("--lease", type=float, default=3.0, help="the cluster's lease, in seconds")
    given = parser.parse_args(arguments)
    for vectors in VECTORS:
        made = plan(given.records, given.dim, vectors=vectors, replicas=given.replicas, machine_gib=given.machine_gib)
        print(made)
        if given.samples is not None:
            times = given.scale * np.loadtxt(given.samples)
            hedge = float(np.percentile(times, 95))
            for word, at in (("one member asked", None), ("hedged", hedge)):
                found = np.percentile(simulate(times, made.shards, hedge=at), [50, 99, 99.9])
                print(f"  {word}: median {found[0]:.1f} ms, 99 % {found[1]:.1f} ms, 99.9 % {found[2]:.1f} ms")
        if given.erasing is not None:
            whole, without = (
                erasure_seconds(given.erasing, made.machines, lease=given.lease, away=away) for away in (False, True)
            )
            print(f"  erasing a person: {whole:.1f} s; with one member down, incomplete after {without:.1f} s")


if __name__ == "__main__":
    main()
