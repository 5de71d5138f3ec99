"""`make pictures`: the pictures of docs/hashing.md and docs/graph.md, measured and drawn again. Needs matplotlib.

    steps.svg      what the T steps of USR do: values, error of the code, recall
    families.svg   recall against bits for the families
    probing.svg    how probing goes, and what its order is worth
    graph.svg      a graph in the plane: cells, pools, edges, a search, and what changes when a record is forgotten

The first three on the 10,000 most frequent of the bundled words, 400 of them as queries, seed 0. The same machine
gives the same bytes; another version of matplotlib may not.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lethevec
from lethevec import datasets, reference

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
K = 10
EXPANSIONS = (2, 4, 8)
STEPS = (1, 2, 3, 5, 8, 12, 17, 25, 40)
SHOWN_STEPS = (1, 2, 5, 17)
FAMILIES = ("simhash", "superbit", "usr", "progressive")
BITS = (100, 200, 400, 800, 1600)
KEY_BITS = 10
COLOURS = {"simhash": "#8c8c8c", "superbit": "#4c78a8", "usr": "#54a24b", "progressive": "#d1495b"}
SHADES = ("#a6bddb", "#3690c0", "#034e7b", "#d1495b")


class Data:
    """Words as unit vectors, queries among them, and the true neighbours of those."""

    def __init__(self, words: int, queries: int) -> None:
        """Measure the truth by comparing with everything."""
        vectors = datasets.words().vectors[:words]
        self.vectors: F32 = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        self.rows = np.sort(np.random.default_rng(0).choice(words, queries, replace=False))
        cosine = self.vectors[self.rows] @ self.vectors.T
        cosine[np.arange(queries), self.rows] = -np.inf
        self.true: I64 = np.argsort(-cosine, axis=1, kind="stable")[:, :K]

    def recall(self, family: str, bits: int, ranking: str, **params: Any) -> float:
        """Recall@10 by codes alone; the query itself does not count."""
        index = lethevec.Index(
            dim=100, metric="cosine", family=family, bits=bits, ranking=ranking, keep_vectors=False, **params
        )
        index.add(self.vectors, ids=np.arange(len(self.vectors)))
        # So much effort that every code is compared whole: the family is measured, not the short cuts.
        found = index.search(self.vectors[self.rows], k=K + 1, effort=1e9, threads=None).ids
        own = [answer[answer != row][:K] for answer, row in zip(found, self.rows, strict=True)]
        return float(np.mean([np.isin(a, b).mean() for a, b in zip(own, self.true, strict=True)]))


# --- What is measured ------------------------------------------------------------------------------------------------


def measure_steps(data: Data) -> dict[str, Any]:
    """Values after some steps, and error and recall against steps."""
    x = data.vectors[data.rows]
    values, errors, recalls = {}, {}, {}
    for m in EXPANSIONS:
        for steps in STEPS:
            hasher = lethevec.hasher("usr", dim=100, expansion=m, steps=steps)
            back = hasher.reconstruct(hasher.codes(x))
            cosine = np.einsum("ij,ij->i", back, x) / np.linalg.norm(back, axis=1)
            errors[m, steps] = float(np.degrees(np.arccos(np.clip(cosine, -1, 1))).mean())
            recalls[m, steps] = data.recall("usr", 100 * m, "hamming", steps=steps)
            if m == 4 and steps in SHOWN_STEPS:
                values[steps] = hasher.values(x).ravel()
    return {"values": values, "errors": errors, "recalls": recalls}


def measure_families(data: Data) -> dict[tuple[str, str], list[float]]:
    """Recall of each family under each ranking, for each number of bits."""
    return {
        (family, ranking): [data.recall(family, bits, ranking) for bits in BITS]
        for ranking in ("hamming", "asymmetric")
        for family in FAMILIES
    }


def measure_probing(data: Data) -> dict[str, Any]:
    """The share of true neighbours found after so many buckets of one table, in three orders; and records seen."""
    frame = reference.tables_frame(100, 1, 0)
    values = reference.table_values(frame, data.vectors, "cosine")
    keys = reference.table_keys(values, KEY_BITS)[:, 0].astype(np.int64)
    crowd = np.bincount(keys, minlength=1 << KEY_BITS)
    everything = np.arange(1 << KEY_BITS)
    flips = np.array([int(key).bit_count() for key in everything])
    rng = np.random.default_rng(1)
    found = {name: np.zeros(1 << KEY_BITS) for name in ("by |values|, the query's order", "by number of flips", "any")}
    seen = {name: np.zeros(1 << KEY_BITS) for name in found}
    for row, true in zip(data.rows, data.true, strict=True):
        home = int(keys[row])
        orders = (
            np.array([probe.key for probe in reference.probing(values[row, :, :KEY_BITS])], dtype=np.int64),
            home ^ everything[np.argsort(flips, kind="stable")],
            rng.permutation(everything),
        )
        for name, order in zip(found, orders, strict=True):
            found[name] += np.cumsum(np.bincount(keys[true], minlength=1 << KEY_BITS)[order]) / K
            seen[name] += np.cumsum(crowd[order])
    n = len(data.rows)
    return {
        "found": {name: total / n for name, total in found.items()},
        "seen": {name: total / n / len(keys) for name, total in seen.items()},
    }


def measure_graph(_: Data) -> dict[str, Any]:
    """A small graph in the plane: as it is, a walk through it, and the graph without one of its vertices."""
    rng = np.random.default_rng(5)
    x = np.vstack([c + 0.55 * rng.normal(size=(22, 2)) for c in ((-1.6, 0.6), (0.3, -1.0), (1.5, 0.9))])
    x = x.astype(np.float32)
    frame = reference.make_frame(2, 1, 0, "hadamard")
    settings = reference.GraphSettings(frame, "l2", reference.default_pivot_key(0), cell_size=7, cells=3, pool=12)
    whole = reference.Graph(settings, np.arange(len(x)), x)
    query = np.float32([[1.7, 1.3]])

    def without(vertex: int) -> reference.Graph:
        rest = np.delete(np.arange(len(x)), whole.rows[vertex])
        return reference.Graph(settings, rest, x[rest])

    # Of those that are no pivot, one whose place is taken by as many new edges as any.
    chosen = max(range(len(whole.pivots), len(whole)), key=lambda v: len(_edges(without(v)) - _edges(whole)))
    return {
        "whole": whole,
        "chosen": chosen,
        "without": without(chosen),
        "query": query[0],
        "walk": reference.walk(whole, query, 5)[0],
    }


# --- How it is drawn -------------------------------------------------------------------------------------------------


def draw_steps(plt: Any, measured: dict[str, Any]) -> Any:
    """Three panels."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.4))
    edges = np.linspace(-1, 1, 81)
    for shade, (steps, values) in zip(SHADES, measured["values"].items(), strict=True):
        density, _ = np.histogram(values, edges, density=True)
        left.plot((edges[1:] + edges[:-1]) / 2, density, color=shade, label=f"T = {steps}")
    left.set(title="values y, 400 bits", xlabel="y", ylabel="density", ylim=(0, None))
    for shade, m in zip(SHADES, EXPANSIONS, strict=False):
        middle.plot(
            STEPS, [measured["errors"][m, steps] for steps in STEPS], "o-", ms=3, color=shade, label=f"{100 * m} bits"
        )
        right.plot(
            STEPS, [measured["recalls"][m, steps] for steps in STEPS], "o-", ms=3, color=shade, label=f"{100 * m} bits"
        )
    middle.set(title="angle between x and what its code says", xlabel="T, steps", ylabel="degrees", ylim=(0, None))
    right.set(title="recall@10 by Hamming distance", xlabel="T, steps", ylim=(0.5, 0.85))
    for axes in (middle, right):
        axes.axvline(17, color="#bbbbbb", lw=0.8, zorder=0)
    for axes in (left, middle, right):
        axes.legend(frameon=False, fontsize=8)
    return figure


def draw_families(plt: Any, measured: dict[tuple[str, str], list[float]]) -> Any:
    """Two panels with one scale."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    titles = {"hamming": "codes against codes (Hamming)", "asymmetric": "codes against the query (asymmetric)"}
    for axes, (ranking, title) in zip(panels, titles.items(), strict=True):
        for family in FAMILIES:
            axes.plot(BITS, measured[family, ranking], "o-", ms=4, color=COLOURS[family], label=family)
        axes.set_xscale("log", base=2)
        axes.set_xticks(BITS, [str(bits) for bits in BITS])
        axes.set(title=title, xlabel="bits a vector", ylim=(0, 1))
        axes.grid(axis="y", color="#eeeeee")
    panels[0].set_ylabel("recall@10")
    panels[0].legend(frameon=False)
    return figure


def draw_probing(plt: Any, measured: dict[str, Any]) -> Any:
    """The idea in two dimensions, and what it is worth in a hundred."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.6))
    query = np.array([0.25, 0.6], dtype=np.float32)
    corners = {3: (0.5, 0.88), 2: (-0.5, 0.88), 1: (0.5, -0.88), 0: (-0.5, -0.88)}
    for place, probe in enumerate(reference.probing(query[None]), 1):
        left.text(
            *corners[probe.key], f"{place}.  key {probe.key:02b}\nscore {probe.score:.2f}", ha="center", va="center"
        )
    left.axhline(0, color="black", lw=1)
    left.axvline(0, color="black", lw=1)
    left.plot(*query, "o", color=COLOURS["progressive"])
    left.annotate("query", query, xytext=(6, -4), textcoords="offset points")
    left.plot([0, query[0]], [query[1]] * 2, ":", color="#888888")
    left.plot([query[0]] * 2, [0, query[1]], ":", color="#888888")
    left.set(title="two bits: the nearer side first", xlim=(-1, 1), ylim=(-1.1, 1.1), xticks=[], yticks=[])
    shades = (COLOURS["progressive"], SHADES[1], COLOURS["simhash"])
    for shade, (name, found) in zip(shades, measured["found"].items(), strict=True):
        middle.plot(np.arange(1, len(found) + 1), found, color=shade, label=name)
        right.plot(measured["seen"][name], found, color=shade)
    middle.set_xscale("log", base=2)
    middle.set(
        title=f"one table, {KEY_BITS} bits", xlabel="buckets looked into", ylabel="true neighbours found", ylim=(0, 1)
    )
    middle.legend(frameon=False, fontsize=8)
    right.set(title="the same against records seen", xlabel="share of all records", xlim=(0, 1), ylim=(0, 1))
    return figure


def _edges(graph: reference.Graph) -> set[frozenset[tuple[float, ...]]]:
    """Pairs of points, so that graphs with other numbers can be compared."""
    point = [tuple(map(float, one)) for one in graph.z]
    return {frozenset((point[x], point[y])) for x, some in enumerate(graph.kept) for y in some.tolist()}


def _lines(axes: Any, pairs: set[frozenset[tuple[float, ...]]], **style: Any) -> None:
    for a, b in sorted(map(sorted, pairs)):
        axes.plot([a[0], b[0]], [a[1], b[1]], **style)


def draw_graph(plt: Any, measured: dict[str, Any]) -> Any:
    """Four panels."""
    figure, panels = plt.subplots(1, 4, figsize=(13, 3.5))
    graph, chosen, query = measured["whole"], measured["chosen"], measured["query"]
    z, usual, others = graph.z, _edges(graph), _edges(measured["without"])
    titles = ("cells, and one pool", "what pruning keeps", "a search", "one is forgotten")
    for axes, title in zip(panels, titles, strict=True):
        axes.set(title=title, xticks=[], yticks=[], aspect="equal")
        axes.axis("off")
        axes.plot(*z.T, "o", ms=3, color="#8c8c8c", zorder=2)
    cells, kept, search, forgotten = panels
    for x, near in enumerate(graph.near):
        cells.plot(*z[[x, near[0]]].T, color="#cccccc", lw=0.7)
    cells.plot(*z[graph.pivots].T, "s", ms=5, color="#4c78a8")
    cells.plot(*z[graph.pools[chosen]].T, "o", ms=4, color="#d1495b")
    cells.plot(*z[chosen], "o", ms=6, color="#000000")
    _lines(kept, usual, color="#bbbbbb", lw=0.8)
    for y in graph.kept[chosen]:
        kept.plot(*z[[chosen, y]].T, color="#d1495b", lw=1.6)
    kept.plot(*z[chosen], "o", ms=6, color="#000000")
    _lines(search, usual, color="#dddddd", lw=0.7)
    walk = measured["walk"]
    search.plot(*z[walk].T, "-", lw=1, color="#54a24b")
    search.plot(*z[walk].T, "o", ms=4, color="#54a24b")
    search.plot(*query, "*", ms=11, color="#d1495b")
    _lines(forgotten, usual & others, color="#dddddd", lw=0.7)
    _lines(forgotten, usual - others, color="#d1495b", lw=1.2, ls=":")
    _lines(forgotten, others - usual, color="#54a24b", lw=1.6)
    forgotten.plot(*z[chosen], "x", ms=8, color="#d1495b")
    return figure


PICTURES = {
    "steps.svg": (measure_steps, draw_steps),
    "families.svg": (measure_families, draw_families),
    "probing.svg": (measure_probing, draw_probing),
    "graph.svg": (measure_graph, draw_graph),
}


def main() -> None:
    """Measure and draw; the numbers are printed, too."""
    parser = argparse.ArgumentParser(description="The pictures of the documents.")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--words", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=400)
    arguments = parser.parse_args()

    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    # Ids from a fixed salt, letters as outlines: the same picture is the same file, and looks the same everywhere.
    plt.rcParams.update(
        {"svg.hashsalt": "lethevec", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    data = Data(arguments.words, arguments.queries)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, (measure, draw) in PICTURES.items():
        measured = measure(data)
        figure = draw(plt, measured)
        figure.tight_layout()
        figure.savefig(arguments.folder / name, metadata={"Date": None, "Creator": None})
        print(name)
        if name == "families.svg":
            for (family, ranking), recalls in measured.items():
                print(f"  {family:<12} {ranking:<11} " + "  ".join(f"{r:.3f}" for r in recalls))
        if name == "steps.svg":
            for m in EXPANSIONS:
                print(
                    f"  recall, {100 * m} bits: " + "  ".join(f"T={s} {measured['recalls'][m, s]:.3f}" for s in STEPS)
                )
                print(f"  angle,  {100 * m} bits: " + "  ".join(f"T={s} {measured['errors'][m, s]:.1f}" for s in STEPS))
        if name == "probing.svg":
            for order, found in measured["found"].items():
                shown = "  ".join(
                    f"{n}: {found[n - 1]:.3f} ({measured['seen'][order][n - 1]:.3f})" for n in (1, 16, 64, 256)
                )
                print(f"  {order}: {shown}")


if __name__ == "__main__":
    main()
