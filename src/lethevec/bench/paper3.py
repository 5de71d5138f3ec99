"""Experiment 3 of the paper: the time to delete one point, one at a time; and what deletion does to an index.

* time: the mean over ten points, after a first one that pays for what is made at first use and is kept in the results.
  Ours (in memory, durable), simHash, Super-Bit and USR with the paper's longest codes; ScaNN, Annoy and Faiss IVFPQ
  fast-scan trained anew after each deletion, as the paper does it; and, which it did not measure, the peers' own delete
  where they have one.
* decay: recall (against the truth over the survivors), memory and files after 10 %, 50 % and 90 % of the points were
  deleted, and in how many of some deleted vectors' cases the files still hold pieces of them.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from . import harness, paper, prepared
from .harness import F32, Ids
from .peer import unit
from .prepared import Prepared
from .residue import found_of
from .results import Line
from .run import Run
from .turns import Competitor, Field

POINTS = 10
LEVELS = (0.1, 0.5, 0.9)
LOOKED_FOR = 25  # deleted vectors that are searched for in the files
TARGET = 0.9  # recall before the deletions
PATIENCE = 180.0  # seconds for deleting up to a level; one that takes longer is out, by name


def timed(dim: int, expansion: int) -> list[Competitor]:
    """Who deletes by a call of its own."""
    families = {"simhash": "simHash", "superbit": "Super-Bit", "usr": "USR (T = 17)"}
    made = [Competitor("lethevec, in memory", "index"), Competitor("lethevec, durable", "store")]
    made += [
        Competitor(f"{name}, {expansion * dim} bits", "index", {"family": family, "expansion": expansion})
        for family, name in families.items()
    ]
    return [
        *made,
        Competitor("Faiss IndexLSH, remove_ids", "lsh-ids", {"expansion": expansion}),
        *rivals(),
    ]


def rivals() -> list[Competitor]:
    """The peers that have a delete."""
    return [
        Competitor("Faiss Flat, remove_ids", "flat-ids"),
        Competitor("Faiss IVFPQ fast-scan, remove_ids", "ivfpq-ids"),
        Competitor("hnswlib, mark_deleted", "hnswlib-ids"),
        Competitor("voyager, mark_deleted", "voyager-ids"),
        Competitor("usearch, remove", "usearch-ids"),
        Competitor("turbovec (4 bits), remove", "turbovec-ids"),
        Competitor("ScaNN, delete", "scann-ids"),
    ]


RETRAINED = (
    Competitor("ScaNN, retrained", "scann-retrained"),
    Competitor("Annoy, retrained", "annoy-retrained"),
    Competitor("Faiss IVFPQ fast-scan, retrained", "ivfpq-retrained"),
)


def experiment(run: Run, whole: Prepared) -> None:
    """Measure the first records of one data set: learned rivals are trained again and again here."""
    given = run.first(whole, run.options.delete_records)
    order = np.random.default_rng(10).permutation(len(given.data.train)).tolist()

    def own(field: Field) -> list[Line]:
        expansion = paper.expansions(given.data.name)[-1]
        return [
            {"what": "deletion", "competitor": c.name, "how": "own", "seconds": took[1:], "first": took[0]}
            for c in timed(given.data.dim, expansion)
            if (took := _own(field, c, order[: POINTS + 1])) is not None
        ]

    def again(field: Field) -> list[Line]:
        seconds = 1.0 if run.options.quick else run.options.retrain_seconds
        return [
            {"what": "deletion", "competitor": c.name, "how": "retrained", "seconds": took}
            for c in RETRAINED
            if (took := _retrained(field, c, order[:POINTS], seconds)) is not None
        ]

    run.stage("paper3", "time", given, own)
    run.stage("paper3", "retraining", given, again)
    few = 2_000 if run.options.quick else run.options.decay_records
    run.stage("paper3", "decay", run.first(whole, few), lambda field: decay(run, field))


def _start(field: Field, competitor: Competitor) -> bool:
    """Build one that deletes; False when it is out."""
    missing = competitor.missing()
    if missing is not None:
        field.out(competitor.name, skipped=f"the package {missing!r} is not installed")
        return False
    built = field.first(
        competitor.name, "lethevec.bench.deleting:Deleting", "build", kind=competitor.kind, options=competitor.options
    )
    return built is not None


def _own(field: Field, competitor: Competitor, rows: list[int]) -> list[float] | None:
    took: list[float] | None = None
    if _start(field, competitor):
        took = field.ask(competitor.name, "one_by_one", rows=rows)
        if took is not None:
            field.note(f"  {competitor.name}: {1e6 * float(np.mean(took[1:])):,.1f} us")
    field.close()
    return took


def _retrained(field: Field, competitor: Competitor, rows: list[int], seconds: float) -> list[float] | None:
    missing = competitor.missing()
    if missing is not None:
        field.out(competitor.name, skipped=f"the package {missing!r} is not installed")
        return None
    asked: dict[str, Any] = {"kind": competitor.kind, "options": competitor.options, "rows": rows, "seconds": seconds}
    took: list[float] | None = field.first(competitor.name, "lethevec.bench.deleting:Retraining", "one_by_one", **asked)
    if took is not None:
        field.note(f"  {competitor.name}: {float(np.mean(took)):,.2f} s (mean of {len(took)})")
    field.close()
    return took


# Decay ---------------------------------------------------------------------------------------------------------------


def decay(run: Run, field: Field) -> list[Line]:
    """Delete to each level, and look."""
    data = field.data
    order = np.random.default_rng(11).permutation(len(data.train))
    stay = order[-(10 if run.options.quick else LOOKED_FOR) :].tolist()
    truths = [_survivors(run, field, order, level) for level in LEVELS]
    marks = [round(level * len(order)) for level in (0.0, *LEVELS)]
    chances = [_by_chance(field, order, until, len(stay)) for until in marks]
    lines: list[Line] = []
    for competitor in [Competitor("lethevec, in memory", "index"), Competitor("lethevec, durable", "store"), *rivals()]:
        if _start(field, competitor) and field.ask(competitor.name, "tune", target=TARGET) is not None:
            done = 0
            for place, nearest in enumerate((data.nearest, *truths)):
                line = _at_level(field, competitor, order, (done, marks[place]), nearest)
                files = line and _files(field, competitor.name, order[: marks[place]], chances[place], stay)
                if line is None or files is None:
                    break
                lines.append({**line, **files, "level": (0.0, *LEVELS)[place]})
                _tell(field, lines[-1])
                done = marks[place]
        field.close()
    return lines


def _survivors(run: Run, field: Field, order: Ids, level: float) -> Any:
    """The true distances over those that are left, from the cache."""
    folder = field.folder.with_name(f"{field.folder.name}-without{round(100 * level)}")
    if not (folder / "meta.json").exists():
        run.note(f"  true neighbours without {100 * level:.0f} %")
        left = np.sort(order[round(level * len(order)) :])
        data = field.data
        prepared.write(harness.with_truth(data.name, data.metric, data.train[left], data.test), Path(folder))
    return prepared.read(folder).nearest


def _at_level(field: Field, competitor: Competitor, order: Ids, part: tuple[int, int], nearest: Any) -> Line | None:
    """Delete one part of the order, and look at the answers and the memory."""
    begin, until = part
    took: float | None = 0.0
    if until > begin:
        rows = order[begin:until].tolist()
        took = field.ask(competitor.name, "delete", limit=min(field.limit, PATIENCE), rows=rows)
        if took is None:
            return None
    got = field.ask(competitor.name, "look", k=10)
    if got is None:
        return None
    ids = np.array(got.pop("ids"))
    ghosts = np.isin(ids, order[:until])
    data = field.data
    truth = harness.Data(data.name, data.metric, data.train, data.test, nearest)
    recall = harness.recall(truth, np.where(ghosts, -1, ids))
    line = {"what": "decay", "competitor": competitor.name, "deleted": until, "seconds": took, "recall": recall}
    return {**line, "ghosts": int(ghosts.sum()), **got}


def _tell(field: Field, line: Line) -> None:
    field.note(
        f"  {line['competitor']}, {line['deleted']:,} deleted: recall {line['recall']:.3f}, "
        f"{line['bytes'] / 1e6:.0f} MB in memory, {line['file_bytes'] / 1e6:.1f} MB in files, traces of "
        f"{line['traces']} of {line['looked_for']}"
    )


def _looked_for(field: Field, order: Ids, count: int) -> F32:
    """Those of the deleted that are searched for."""
    return _given(field, order[-count:].tolist())


def _by_chance(field: Field, order: Ids, until: int, count: int) -> list[float]:
    """Of each that is searched for, the share that the survivors have in common with it: runs of zeros, say."""
    if not until:
        return []
    with tempfile.TemporaryDirectory(prefix="lethevec-bench-") as folder:
        left = _given(field, np.sort(order[until:]).tolist())
        (Path(folder) / "survivors").write_bytes(left.tobytes() + bytes(4096))
        return found_of(_looked_for(field, order[:until], count), Path(folder))


def beyond(found: list[float], chance: list[float]) -> int:
    """How many are found in part that the survivors do not explain."""
    return sum(share > expected for share, expected in zip(found, chance, strict=True))


def _files(field: Field, name: str, gone: Ids, chance: list[float], stay: list[int]) -> Line | None:
    """Save, and search the files, here and not in the competitor's process, whose memory is being watched."""
    place = Path(tempfile.mkdtemp(prefix="lethevec-bench-"))
    try:
        saved = field.ask(name, "save", folder=str(place))
        if saved is None:
            return None
        folder = Path(saved)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        left = found_of(_looked_for(field, gone, len(stay)), folder) if len(gone) else []
        # Where the living cannot be found either, finding nothing of the deleted says nothing.
        control = found_of(_given(field, stay[:5]), folder)
    finally:
        shutil.rmtree(place)
    found = {"file_bytes": size, "looked_for": len(left), "traces": beyond(left, chance)}
    whole = sum(share == 1 > expected for share, expected in zip(left, chance, strict=True))
    return {**found, "whole": whole, "control": sum(share == 1 for share in control), "control_of": len(control)}


def _given(field: Field, rows: list[int]) -> F32:
    """As the index was given them: unit vectors under cosine."""
    vectors = np.array(field.data.train[np.array(rows)])
    return unit(vectors) if field.data.metric == "cosine" else vectors
