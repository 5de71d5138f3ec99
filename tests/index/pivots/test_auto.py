"""The source "auto": which structure is used follows from the number of records, whatever the history was."""

import numpy as np
import pytest

from lethevec import Auto, Index, Pivots
from lethevec._native import core
from lethevec.errors import IdError

DIM, LINE = 24, 200
X = np.random.default_rng(3).normal(size=(400, DIM)).astype(np.float32)
QUERIES = np.random.default_rng(4).normal(size=(20, DIM)).astype(np.float32)


def made(metric="cosine", source="auto", **options):
    pivots = Pivots(cell_size=10, **options)
    return Index(DIM, metric, source=Auto(pivots_from=LINE, pivots=pivots) if source == "auto" else pivots)


def seen(index, path):
    index.save(path)
    hits = index.search(QUERIES, k=7)
    return index.digest(), path.read_bytes(), index.stats(), hits.ids.tolist(), hits.distances.tolist()


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_any_history_across_the_line(metric, refine, tmp_path):
    rng = np.random.default_rng(5)
    index, held = made(metric, refine=refine), set()
    for size in (50, LINE, LINE - 1, LINE + 60, 10, LINE, 0, LINE + 1):
        if size > len(held):
            chosen = rng.choice(sorted(set(range(400)) - held), size - len(held), replace=False)
            index.add(X[chosen], ids=chosen)
            held |= set(chosen.tolist())
        elif size < len(held):
            chosen = rng.choice(sorted(held), len(held) - size, replace=False)
            if len(chosen) == 1:
                index.forget(int(chosen[0]))
            else:
                index.forget(chosen)
            held -= set(chosen.tolist())
        fresh, rows = made(metric, refine=refine), np.array(sorted(held), dtype=np.int64)
        if size:
            fresh.add(X[rows], ids=rows)
        assert seen(index, tmp_path / "a") == seen(fresh, tmp_path / "b")
        assert (index.stats()["bytes_cells"] > 0) == (size >= LINE)


@pytest.mark.parametrize("size", [LINE - 1, LINE])
def test_answers_are_those_of_the_source_in_use(size):
    index = made()
    index.add(X[:size], ids=range(size))
    named = Index(DIM, source="scan") if size < LINE else made(source="pivots")
    named.add(X[:size], ids=range(size))
    hits, theirs = index.search(QUERIES, k=7), named.search(QUERIES, k=7)
    assert hits.ids.tolist() == theirs.ids.tolist()
    assert hits.distances.tolist() == theirs.distances.tolist()


def test_an_add_that_is_refused_at_the_line_changes_nothing(tmp_path):
    index = made()
    index.add(X[: LINE - 1], ids=range(LINE - 1))
    before = seen(index, tmp_path / "a")
    with pytest.raises(IdError, match="got 0, which is present"):
        index.add(X[LINE : LINE + 2], ids=[LINE, 0])
    assert seen(index, tmp_path / "a") == before


def test_what_is_forgotten_on_the_way_over_the_line_is_gone():
    index = made()
    index.add(X[:LINE], ids=range(LINE))
    needle = X[7, :4].tobytes()
    assert needle in core.testing.raw_memory(index._native)
    index.forget(7)
    assert needle not in core.testing.raw_memory(index._native)
    with pytest.raises(ValueError, match="not pivots"):
        core.pivot_stats(index._native)  # it is a scan now
