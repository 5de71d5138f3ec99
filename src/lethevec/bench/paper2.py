"""Experiment 2 of the paper: precision and recall for 1 to 100 results, with ten true neighbours for each query.

The curve runs over the number of results; a point is the mean precision and the mean recall over all queries. The area
under it is taken by trapezes between its first and its last point, as the paper's figures suggest: nothing is added
at recall 0 or 1. An answer is right when it is as near as the tenth true neighbour.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from . import paper
from .harness import Data, distances
from .paper1 import FAISS, FAMILIES, competitors
from .prepared import Prepared
from .results import Line
from .run import Run
from .turns import Field

F64 = npt.NDArray[np.float64]


def right_answers(data: Data, ids: npt.NDArray[Any], k: int) -> npt.NDArray[np.int64]:
    """How many of the first 1, 2, ... answers are right, at most k, for each query: (queries, answers)."""
    found = distances(data.train, data.test[: len(ids)], ids, data.metric)
    limit = data.nearest[: len(ids), k - 1 : k]
    right = found <= limit + 1e-6 * np.abs(limit) + 1e-9
    return np.minimum(np.cumsum(right, axis=1), k)


def curve(right: npt.NDArray[np.int64], k: int) -> tuple[F64, F64]:
    """Mean precision and mean recall for 1, 2, ... results."""
    results = np.arange(1, right.shape[1] + 1)
    return (right / results).mean(axis=0), (right / k).mean(axis=0)


def area(precision: F64, recall: F64) -> float:
    """The area under the curve, between its first and its last point."""
    return float(((recall[1:] - recall[:-1]) * (precision[1:] + precision[:-1]) / 2).sum())


def experiment(run: Run, prepared: Prepared) -> None:
    """Measure one data set, with the shortest and with the longest codes of the paper's table."""
    values = paper.expansions(prepared.data.name)
    for step, expansion in (("low", values[0]), ("high", values[-1])):

        def measure(field: Field, expansion: int = expansion) -> list[Line]:
            found = []
            # One at a time: nothing is timed, so nobody has to wait for a turn.
            for competitor in competitors(expansion, prepared.data.dim):
                field.enter([competitor])
                if competitor.name not in field.workers:
                    continue
                ids = field.ask(competitor.name, "answers", setting=[], k=paper.RESULTS)
                if ids is not None:
                    right = right_answers(prepared.data, np.array(ids), paper.NEIGHBOURS)
                    precision, recall = curve(right, paper.NEIGHBOURS)
                    line = {"what": "curve", "competitor": competitor.name, "expansion": expansion}
                    about = {"bits": expansion * prepared.data.dim, "area": area(precision, recall)}
                    found.append({**line, **about, "precision": precision.round(6), "recall": recall.round(6)})
                field.close()
            return found

        run.stage("paper2", step, prepared, measure)


#: Whom the paper's rows are about.
ROWS = {FAMILIES["usr"]: "usr", FAMILIES["superbit"]: "superbit", FAISS: "superbit", FAMILIES["simhash"]: "simhash"}
