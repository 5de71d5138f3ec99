"""Experiment 2 of the paper: precision and recall for 1 to 100 results, with ten true neighbours for each query.

The curve runs over the number of results; a point is the mean precision and the mean recall over all queries. The area
under it is computed by trapezes between its first and its last point, as the paper's figures suggest: nothing is added
at recall 0 or 1. An answer is right when it is as near as the tenth true neighbour.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import paper
from ..measuring.data import F64, Data, right
from ..measuring.field import Field, Line
from ..measuring.prepared import Prepared
from .paper1 import competitors
from .run import Run


def right_answers(data: Data, ids: npt.NDArray[Any], k: int) -> npt.NDArray[np.int64]:
    """How many of the first 1, 2, ... answers are right, at most k, for each query: (queries, answers)."""
    return np.minimum(np.cumsum(right(data, ids, k), axis=1), k)


def curve(right: npt.NDArray[np.int64], k: int) -> tuple[F64, F64]:
    """Mean precision and mean recall for 1, 2, ... results."""
    results = np.arange(1, right.shape[1] + 1)
    return (right / results).mean(axis=0), (right / k).mean(axis=0)


def area(precision: F64, recall: F64) -> float:
    """The area under the curve, between its first and its last point."""
    return float(((recall[1:] - recall[:-1]) * (precision[1:] + precision[:-1]) / 2).sum())


def experiment(run: Run, given: Prepared) -> None:
    """Measure one data set, with the shortest and with the longest codes of the paper's table."""
    values = paper.expansions(given.data.name)
    for step, expansion in (("low", values[0]), ("high", values[-1])):

        def measure(field: Field, expansion: int = expansion) -> list[Line]:
            found = []
            # One at a time: nothing is timed, so nobody has to wait for a turn.
            for competitor in competitors(expansion, given.data.dim):
                field.enter([competitor])
                got = field.ask(competitor.name, "answers", k=paper.RESULTS) if field.workers else None
                if got is not None:
                    right = right_answers(given.data, np.array(got["ids"]), paper.NEIGHBOURS)
                    precision, recall = curve(right, paper.NEIGHBOURS)
                    line = {"what": "curve", "competitor": competitor.name, "expansion": expansion}
                    about = {"bits": expansion * given.data.dim, "area": area(precision, recall)}
                    found.append({**line, **about, "precision": precision.round(6), "recall": recall.round(6)})
                field.close()
            return found

        run.stage("paper2", step, given, measure)
