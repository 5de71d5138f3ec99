"""The paper's three experiments at the paper's own size, on made-up vectors (see `stand_in`), one thread.

* codes: simHash, Super-Bit (ours and Faiss's) and USR (T = 17) with the shortest and the longest codes that the paper
  has for its largest set: encoding and memory; all codes ranked by Hamming distance, queries per second against
  precision@10 (experiment 1); precision against recall for 1 to 100 results (experiment 2); and with the longest codes
  the time to delete one point (experiment 3).
* rivals: ScaNN, Annoy and Faiss IVFPQ fast-scan, built again without one point, as the paper trains them again after
  each deletion; SymphonyQG, which cannot delete at all; their search at the recall asked for; their own delete where
  they have one. Beside them our index with its defaults.

Each is one stage in a process of its own, so a run that was stopped goes on with the next.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .. import paper
from ..measuring.data import recall
from ..measuring.field import Competitor, Field, Line
from ..report.figures import pyplot
from ..report.results import NAME, read, results_of
from .paper1 import competitors
from .paper2 import area, curve, right_answers
from .run import Run
from .stand_in import dimension_of, stand_in

K = 10
QUERIES = 100
POINTS = 10  # that are deleted, one at a time, after a first one
EXPANSIONS = (paper.SETS["deep"].expansions[0], paper.SETS["deep"].expansions[-1])
PART = "scale"
#: Options that say which stages there are, and that no figure of one depends on; and those that rivals alone have.
ASIDE = ("sizes", "graph_records", "store_records", "changes")
OF_RIVALS = ("annoy_trees", "retrains")


def measure(run: Run) -> None:
    """All sizes, one after the other."""
    o = run.options
    for n in o.sizes:
        given = stand_in(run.cache, n, o.dim, QUERIES, run.note)
        run.stage(PART, "about", given, partial(_about, run), aside=(*ASIDE, *OF_RIVALS))
        short, long = EXPANSIONS
        plan = [(one, long) for one in competitors(long, o.dim)] + [(one, 0) for one in _rivals(run, n)]
        for one, expansion in [*plan, *((one, short) for one in competitors(short, o.dim))]:
            if expansion:
                step = f"{one.name}, {expansion * o.dim} bits"
                run.stage(PART, step, given, partial(_codes, run, one, expansion), aside=(*ASIDE, *OF_RIVALS))
            else:
                run.stage(PART, one.name, given, partial(_rival, run, one), aside=ASIDE)


def _about(run: Run, field: Field) -> list[Line]:
    dimension = dimension_of(field.data)
    run.note(f"  local dimension {dimension:.1f}")
    return [{"what": "about", "local_dimension": dimension}]


# Codes ---------------------------------------------------------------------------------------------------------------


def _codes(run: Run, one: Competitor, expansion: int, field: Field) -> list[Line]:
    """Encoding, experiments 1 and 2, and with the longest codes experiment 3."""
    field.enter([one])
    if not field.workers:
        return []
    built = field.lines[-1]
    told: Line = {"what": "codes", "competitor": one.name, "bits": expansion * run.options.dim}
    told |= {"build_s": built["cpu"], "bytes": built["bytes"]}
    timed = _search(run, field, one.name)
    got = field.ask(one.name, "answers", k=paper.RESULTS) if timed else None
    if timed is None or got is None:
        return []
    right = right_answers(field.data, np.array(got["ids"]), paper.NEIGHBOURS)
    precision, found = curve(right, paper.NEIGHBOURS)
    told |= {**timed, "area": area(precision, found), "precision": precision.round(6), "recalls": found.round(6)}
    # Faiss's codes can be deleted with ids of their own; they are timed in `paper3`.
    if expansion == EXPANSIONS[-1] and one.kind == "paper":
        rows = _last_rows(field, POINTS + 1)
        told["deletes"] = field.ask(one.name, "delete_alone", rows=rows, clock=run.options.clock)
    run.note(f"  {told['search_us']:,.0f} us/query, precision@10 {told['recall']:.3f}, area {told['area']:.3f}")
    return [told]


def _search(run: Run, field: Field, name: str) -> Line | None:
    """Microseconds of a query, asked one by one, and the recall of these answers."""
    got = field.ask(name, "time", k=K)
    if got is None:
        return None
    took = 1e6 * got["wall" if run.options.clock == "wall" else "cpu"] / got["count"]
    return {"search_us": took, "recall": recall(field.data, np.array(got["ids"]), K), "setting": got["setting"]}


def _last_rows(field: Field, count: int) -> list[int]:
    """Points that are deleted. The vectors are drawn independently, so the last are as good as any."""
    return [len(field.data.train) - 1 - i for i in range(count)]


# Rivals --------------------------------------------------------------------------------------------------------------


def _rivals(run: Run, n: int) -> list[Competitor]:
    trees = run.options.annoy_trees
    made = [
        Competitor("lethevec, in memory", "lethevec", {"source": "auto"}),
        Competitor("Faiss IVFPQ fast-scan", "ivfpq", {"refined": False}),
        Competitor("ScaNN", "scann", {"retrained": True, "deletes": True}),
        Competitor(f"Annoy, {trees} trees", "annoy", {"retrained": True, "trees": trees}),
    ]
    if n <= run.options.graph_records:
        made.append(Competitor("SymphonyQG", "symqg"))
    if n <= run.options.store_records:
        made.append(Competitor("lethevec, durable", "store"))
    return made


def _rival(run: Run, one: Competitor, field: Field) -> list[Line]:
    """Ours is built once, the others again after each deletion; then a search, and a delete of their own."""
    o, ours = run.options, one.kind in ("lethevec", "store")
    told: Line = {"what": "rival", "competitor": one.name}
    if ours:
        field.enter([one])
        if not field.workers:
            return []
        told |= {"build_s": field.lines[-1]["cpu"], "retrained": []}
        deleting = _last_rows(field, POINTS + 1)
    else:
        asked: dict[str, Any] = {"kind": one.kind, "options": one.options, "seconds": 0.0, "clock": o.clock}
        took = field.begin(one, "rebuild", **asked, rows=_last_rows(field, o.retrains))
        if took is None:
            return []
        told |= {"build_s": float(np.mean(took)), "retrained": took}
        deleting = _last_rows(field, o.retrains + POINTS + 1)[o.retrains :]
    if one.kind == "store":
        told["search_us"] = told["recall"] = None
    elif field.ask(one.name, "tune", target=o.target) is None or (timed := _search(run, field, one.name)) is None:
        return [told]
    else:
        told |= timed
    got = field.ask(one.name, "answers", k=K)
    told["bytes"] = got["bytes"] if got else None
    if ours or one.kind in ("ivfpq", "scann"):
        told["deletes"] = field.ask(one.name, "delete_alone", rows=deleting, clock=o.clock)
    run.note(f"  {one.name}: " + ", ".join(f"{key} {value}" for key, value in told.items() if key not in ("what",)))
    return [told]


# What is told of all sizes -------------------------------------------------------------------------------------------


def tell(run: Run) -> list[Line]:
    """Tables and pictures, from the results so far."""
    lines = results_of(read(run.options.out / NAME), PART)
    about = {line["data"]: line for line in lines if line.get("what") == "about"}
    seen = sorted(about, key=lambda name: about[name]["records"])
    codes = _of(lines, "codes", seen)
    rivals = _of(lines, "rival", seen)
    run.table(
        "the paper's codes, all of them ranked by Hamming distance, one thread",
        ["records", "by", "bits", "encoding, s", "MB", "ms/query", "precision@10", "PR-AUC", "us to delete one"],
        [
            [
                f"{line['records']:,}",
                line["competitor"],
                line["bits"],
                f"{line['build_s']:,.1f}",
                f"{line['bytes'] / 1e6:,.0f}",
                f"{line['search_us'] / 1e3:,.2f}",
                f"{line['recall']:.3f}",
                f"{line['area']:.3f}",
                _micros(line.get("deletes")),
            ]
            for line in codes
        ],
    )
    run.table(
        f"the rivals trained again after a deletion, and tuned to a recall of {run.options.target}, one thread",
        ["records", "by", "to build once more, s", "times", "MB", "us/query", "recall@10", "us, its own delete of one"],
        [
            [
                f"{line['records']:,}",
                line["competitor"],
                f"{line['build_s']:,.1f}",
                len(line["retrained"]) or "-",
                "-" if line.get("bytes") is None else f"{line['bytes'] / 1e6:,.0f}",
                "-" if line.get("search_us") is None else f"{line['search_us']:,.0f}",
                "-" if line.get("recall") is None else f"{line['recall']:.3f}",
                _micros(line.get("deletes")),
            ]
            for line in rivals
        ],
    )
    if codes:  # with --resume, the largest size may have none yet
        _curves(run, [line for line in codes if line["data"] == codes[-1]["data"]])
    _deleting(run, codes, rivals, seen)
    return []


def _of(lines: list[Line], what: str, seen: list[str]) -> list[Line]:
    found = [line for line in lines if line.get("what") == what and line["data"] in seen]
    return sorted(found, key=lambda line: seen.index(line["data"]))


def _micros(deletes: list[float] | None) -> str:
    """The mean after the first."""
    return "-" if not deletes else f"{1e6 * float(np.mean(deletes[1:])):,.1f}"


def _curves(run: Run, codes: list[Line]) -> None:
    """Precision against recall at the largest size."""
    n = codes[0]["records"]
    figure, both = pyplot().subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
    rows = []
    for axes, bits in zip(both, sorted({line["bits"] for line in codes}), strict=False):
        for line in (line for line in codes if line["bits"] == bits):
            axes.plot(line["recalls"], line["precision"], label=f"{line['competitor']}: {line['area']:.2f}")
            pairs = zip(line["recalls"], line["precision"], strict=True)
            rows += [(line["competitor"], bits, at, found, right) for at, (found, right) in enumerate(pairs, 1)]
        axes.set(xlabel="recall", ylabel="precision", title=f"{bits} bits")
        axes.legend(title="area under the curve", fontsize=8)
    title = f"{n:,} made-up vectors: precision against recall for 1 to 100 results"
    head = ("by", "bits", "results", "recall", "precision")
    run.figure(
        figure, "paper-size-curves", title, "All codes are ranked by Hamming distance, as in the paper.", head, rows
    )


def _deleting(run: Run, codes: list[Line], rivals: list[Line], seen: list[str]) -> None:
    """Seconds to delete one point against the number of records."""
    figure, axes = pyplot().subplots(figsize=(7, 4.6), layout="constrained")
    rows: list[tuple[str, int, float]] = []
    for line in [*codes, *rivals]:
        n, name = line["records"], line["competitor"]
        if line.get("deletes"):
            ours = line["what"] == "codes" or name.startswith("lethevec")
            rows.append((name if ours else f"{name}, own delete", n, float(np.mean(line["deletes"][1:]))))
        if line.get("retrained"):
            rows.append((f"{name}, built again", n, line["build_s"]))
    for name in dict.fromkeys(row[0] for row in rows):
        points = [(n, seconds) for other, n, seconds in rows if other == name]
        dashed = name.endswith("built again")
        axes.plot(*zip(*points, strict=True), marker="o", linestyle="--" if dashed else "-", label=name)
    axes.set(xscale="log", yscale="log", xlabel="records", ylabel="seconds to delete one point, one thread")
    axes.legend(fontsize=7, ncols=2)
    title = "The time to delete one point, up to the paper's size"
    caption = (
        "Dashed: trained or built again without the point, as in the paper. Its own delete where a library has one."
    )
    run.figure(figure, "paper-size-deletion", title, caption, ("by", "records", "seconds"), rows)
