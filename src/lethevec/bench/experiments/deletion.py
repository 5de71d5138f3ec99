"""What deletion does to an index: recall, memory, files and residue after 10 %, 50 % and 90 % of the points are gone.

Recall is against the truth over the survivors. For some of the deleted vectors the files are searched for pieces of
them. Also here: who can delete.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..measuring import prepared
from ..measuring.data import F64, nearest_of, recall
from ..measuring.field import Competitor, Field, Line
from ..measuring.residue import beyond, found_of
from ..peers.peer import F32, Ids, as_given
from .run import Run

LEVELS = (0.1, 0.5, 0.9)
LOOKED_FOR = 25  # deleted vectors that are searched for in the files
TARGET = 0.9  # recall before the deletions
PATIENCE = 180.0  # seconds for deleting up to a level; one that takes longer is out, by name
OURS = (
    Competitor("lethevec, in memory", "lethevec", {"source": None}),
    Competitor("lethevec, durable", "store"),
)


def rivals() -> list[Competitor]:
    """The peers that have a delete."""
    return [
        Competitor("Faiss Flat, remove_ids", "flat", {"deletes": True}),
        Competitor("Faiss IVFPQ fast-scan, remove_ids", "ivfpq", {"refined": False}),
        Competitor("hnswlib, mark_deleted", "hnswlib", {"deletes": True}),
        Competitor("voyager, mark_deleted", "voyager"),
        Competitor("usearch, remove", "usearch"),
        Competitor("turbovec (4 bits), remove", "turbovec", {"deletes": True}),
        Competitor("ScaNN, delete", "scann", {"deletes": True}),
        Competitor("RaBitQ IVF, remove", "rabitq-ivf", {"deletes": True}),
        Competitor("Zvec, delete", "zvec"),
    ]


def measure(run: Run, field: Field) -> list[Line]:
    """Delete to each level, and look."""
    data = field.data
    order = np.random.default_rng(11).permutation(len(data.train))
    stay = order[-(10 if run.options.quick else LOOKED_FOR) :]
    truths = [_survivors(run, field, order, level) for level in LEVELS]
    marks = [round(level * len(order)) for level in (0.0, *LEVELS)]
    chances = [by_chance(field, order[until:], order[:until][-len(stay) :]) for until in marks]
    lines: list[Line] = []
    for competitor in [*OURS, *rivals()]:
        field.enter([competitor])
        if field.workers and field.ask(competitor.name, "tune", target=TARGET) is not None:
            done = 0
            for place, nearest in enumerate((data.nearest, *truths)):
                line = _at_level(field, competitor, order, (done, marks[place]), nearest)
                gone = order[: marks[place]][-len(stay) :]
                files = line and in_files(field, competitor.name, gone, chances[place], stay)
                if line is None or files is None:
                    break
                lines.append({**line, **files, "level": (0.0, *LEVELS)[place]})
                _tell(field, lines[-1])
                done = marks[place]
        field.close()
    return lines


def _survivors(run: Run, field: Field, order: Ids, level: float) -> F64:
    """The true distances over those that are left, from the cache."""

    def compute() -> F64:
        run.note(f"  true neighbours without {100 * level:.0f} %")
        left = np.sort(order[round(level * len(order)) :])
        return nearest_of(field.data.metric, field.data.train[left], field.data.test)

    folder = field.given.folder
    return prepared.kept(folder.with_name(f"{folder.name}-without{round(100 * level)}.npy"), compute)


def _at_level(field: Field, competitor: Competitor, order: Ids, part: tuple[int, int], nearest: F64) -> Line | None:
    """Delete one part of the order, and look at the answers and the memory."""
    begin, until = part
    took: float | None = 0.0
    if until > begin:
        rows = order[begin:until].tolist()
        took = field.ask(competitor.name, "delete", limit=min(field.limit, PATIENCE), rows=rows)
        if took is None:
            return None
    got = field.ask(competitor.name, "answers", k=10)
    if got is None:
        return None
    ids = np.array(got.pop("ids"))
    ghosts = np.isin(ids, order[:until])
    found = recall(replace(field.data, nearest=nearest), np.where(ghosts, -1, ids))
    line = {"what": "decay", "competitor": competitor.name, "deleted": until, "seconds": took, "recall": found}
    return {**line, "ghosts": int(ghosts.sum()), **got}


def _tell(field: Field, line: Line) -> None:
    field.note(
        f"  {line['competitor']}, {line['deleted']:,} deleted: recall {line['recall']:.3f}, "
        f"{line['bytes'] / 1e6:.0f} MB in memory, {line['file_bytes'] / 1e6:.1f} MB in files, traces of "
        f"{line['traces']} of {line['looked_for']}"
    )


def by_chance(field: Field, living: Ids, gone: Ids) -> list[float]:
    """Of each that is searched for, the share that the living have in common with it: runs of zeros, say."""
    if not len(gone):
        return []
    with tempfile.TemporaryDirectory(prefix="lethevec-bench-") as folder:
        left = _given(field, np.sort(living))
        (Path(folder) / "living").write_bytes(left.tobytes() + bytes(4096))
        return found_of(_given(field, gone), Path(folder))


def in_files(field: Field, name: str, gone: Ids, chance: list[float], stay: Ids) -> Line | None:
    """Save, and search the files for the rows that are gone and, as a control, for some that stay.

    This is done here and not in the competitor's process, whose memory is being watched.
    """
    place = Path(tempfile.mkdtemp(prefix="lethevec-bench-"))
    try:
        saved = field.ask(name, "save", folder=str(place))
        if saved is None:
            return None
        folder = Path(saved)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        left = found_of(_given(field, gone), folder) if len(gone) else []
        # Where the living cannot be found either, finding nothing of the deleted says nothing.
        control = found_of(_given(field, stay[:5]), folder)
    finally:
        shutil.rmtree(place)
    found = {"file_bytes": size, "looked_for": len(left), "traces": beyond(left, chance)}
    whole = sum(share == 1 > expected for share, expected in zip(left, chance, strict=True))
    return {**found, "whole": whole, "control": sum(share == 1 for share in control), "control_of": len(control)}


def _given(field: Field, rows: Ids) -> F32:
    """Vectors as the index was given them."""
    return as_given(field.data.train[rows], field.data.metric)
