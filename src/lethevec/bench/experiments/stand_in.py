"""Made-up vectors for sizes that nobody can be asked to download: ten million of 96 numbers, as in the paper.

They lie in clusters of uneven sizes, each spread along some directions far more than along others, so that
neighbourhoods have about as many dimensions as in real embeddings. How many is estimated from the distances to the 100
nearest of each query (Levina and Bickel 2004), so that it can be compared with that of real sets. All have length 1.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..measuring import prepared
from ..measuring.data import F64, Data, Queries, distances
from ..measuring.prepared import Prepared
from ..peers.peer import F32

VERSION = 1
CLUSTERS, SHAPES = 2000, 64
BLOCK = 100_000
NEAREST = 100
RECORDS, TIMED, TUNING = 1, 2, 3  # what the seeds are for


def blocks(n: int, dim: int, seed: int) -> Iterator[F32]:
    """Unit vectors in clusters, a block at a time. The first ones are the same for every n."""
    shared = np.random.default_rng(0)
    top = shared.normal(size=(SHAPES, dim))
    shape_of = shared.integers(SHAPES, size=CLUSTERS)
    centres = 0.2 * (top[shape_of] + shared.normal(size=(CLUSTERS, dim)))
    spread = 2.0 / (1.0 + np.arange(dim) / 15.0)
    shapes = [np.linalg.qr(shared.normal(size=(dim, dim)))[0] * spread for _ in range(SHAPES)]
    shares = shared.lognormal(size=CLUSTERS)
    for number, begin in enumerate(range(0, n, BLOCK)):
        rng = np.random.default_rng([seed, number])
        clusters = rng.choice(CLUSTERS, size=BLOCK, p=shares / shares.sum())
        x = centres[clusters]
        noise = rng.normal(size=(BLOCK, dim))
        for shape, directions in enumerate(shapes):
            rows = np.flatnonzero(shape_of[clusters] == shape)
            x[rows] += noise[rows] @ directions.T
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        yield x[: n - begin].astype(np.float32)


def vectors_of(n: int, dim: int, seed: int) -> F32:
    """All of them at once."""
    return np.concatenate(list(blocks(n, dim, seed)))


def stand_in(cache: Path, n: int, dim: int, queries: int, note: Callable[[str], None]) -> Prepared:
    """A set of n vectors with queries to time and as many to choose settings on, and their truth, from the cache."""
    name = f"stand-in-{n}x{dim}"
    key = f"{name}-{queries}-{VERSION}"
    folder = cache / key
    if not (folder / "meta.json").exists():
        note(f"{name}: making the vectors and finding the true neighbours of the queries")
        _write(folder, name, n, dim, queries)
    return Prepared(prepared.read(folder), folder, key)


def _write(folder: Path, name: str, n: int, dim: int, queries: int) -> None:
    """As `prepared.write`, without ever holding all vectors."""
    part = folder.with_name(f"{folder.name}.part{os.getpid()}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    train = np.lib.format.open_memmap(part / "train.npy", mode="w+", dtype=np.float32, shape=(n, dim))
    asked = np.concatenate([vectors_of(queries, dim, TIMED), vectors_of(queries, dim, TUNING)])
    near = Nearest(asked, min(n, 2 * NEAREST))
    for number, block in enumerate(blocks(n, dim, RECORDS)):
        train[number * BLOCK : number * BLOCK + len(block)] = block
        near.see(block, number * BLOCK)
    train.flush()
    truth = np.sort(distances(train, asked, near.rows, "cosine"), axis=1)[:, :NEAREST]
    for kind, begin in (("test", 0), ("tuning", queries)):
        np.save(part / f"{kind}.npy", asked[begin : begin + queries])
        np.save(part / ("nearest.npy" if kind == "test" else "tuning_nearest.npy"), truth[begin : begin + queries])
    (part / "meta.json").write_text(json.dumps({"name": name, "metric": "cosine"}))
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


class Nearest:
    """The rows with the largest inner products with each query, kept while blocks of vectors go by."""

    def __init__(self, queries: F32, count: int) -> None:
        self.queries, self.count = queries, count
        self.products = np.full((len(queries), count), -np.inf, dtype=np.float32)
        self.rows = np.full((len(queries), count), -1, dtype=np.int64)

    def see(self, block: F32, first: int) -> None:
        """Look at further vectors, the first of which is row `first`."""
        products = self.queries @ block.T
        for query, found in enumerate(products):
            better = np.flatnonzero(found > self.products[query].min())
            both = np.concatenate([self.products[query], found[better]])
            rows = np.concatenate([self.rows[query], better + first])
            best = np.argpartition(-both, self.count - 1)[: self.count]
            self.products[query], self.rows[query] = both[best], rows[best]


def local_dimension(nearest: npt.NDArray[np.float64]) -> float:
    """The maximum-likelihood estimate of Levina and Bickel, averaged over its inverse as MacKay and Ghahramani advise,
    from the Euclidean distances of queries to their nearest, ascending."""
    logs = np.log(nearest[:, -1:] / nearest[:, :-1])
    return float(1 / logs.mean())


def dimension_of(data: Data) -> float:
    """The local dimension of a set; under cosine that of its vectors brought to length 1."""
    near: F64 = data.nearest
    if isinstance(data.tuning, Queries):
        near = np.concatenate([near, data.tuning.nearest])
    return local_dimension(np.sqrt(np.maximum(2 * near, 1e-12)) if data.metric == "cosine" else near)
