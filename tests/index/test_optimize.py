"""What `optimize` makes of the source "auto": which source it is follows from configuration and counts alone."""

import numpy as np
import pytest

import lethevec
from lethevec import Auto, Graph, Index, Pivots
from lethevec._index.sources import GRAPH_FROM, GRAPH_FROM_DIM, NEVER, PIVOTS_FROM, chosen
from lethevec.errors import ParameterError

DIM = 12
X = np.random.default_rng(3).normal(size=(240, DIM)).astype(np.float32)
QUERIES = np.random.default_rng(4).normal(size=(10, DIM)).astype(np.float32)


def name_of(records, **options):
    return chosen(Index(**options).config, records).name


@pytest.mark.parametrize("dim", [8, GRAPH_FROM_DIM - 1, GRAPH_FROM_DIM])
@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_what_is_used(dim, metric):
    given = {"dim": dim, "metric": metric}
    for records in (0, 1000, 10**5 - 1, 10**5, 10**7):
        usual = "pivots" if records >= PIVOTS_FROM["updates"] else "scan"
        assert name_of(records, **given) == name_of(records, optimize="updates", **given) == usual
        assert name_of(records, optimize="memory", **given) == "scan"
    long = dim >= GRAPH_FROM_DIM and metric != "ip"
    assert name_of(GRAPH_FROM - 1, optimize="search", **given) == "scan"
    assert name_of(10**6, optimize="search", **given) == ("graph" if long else "pivots")


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_any_history_across_both_lines(metric, tmp_path):
    source = Auto(
        pivots_from=60, graph_from=150, pivots=Pivots(cell_size=8), graph=Graph(cell_size=8, cells=4, pool=16)
    )

    def seen(index, path):
        index.save(path)
        hits = index.search(QUERIES, k=5)
        return index.digest(), path.read_bytes(), index.stats(), hits.ids.tolist(), hits.distances.tolist()

    rng = np.random.default_rng(5)
    index, held = Index(DIM, metric, source=source), set()
    for size in (40, 150, 149, 200, 59, 60, 151, 10, 240, 0, 150):
        come = rng.choice(sorted(set(range(240)) - held), max(0, size - len(held)), replace=False)
        go = rng.choice(sorted(held), max(0, len(held) - size), replace=False)
        if len(come):
            index.add(X[come], ids=come)
        if len(go):
            index.forget(go.astype(np.int64))
        held = (held | set(come.tolist())) - set(go.tolist())
        fresh, rows = Index(DIM, metric, source=source), np.array(sorted(held), dtype=np.int64)
        if size:
            fresh.add(X[rows], ids=rows)
        assert seen(index, tmp_path / "a") == seen(fresh, tmp_path / "b")
        assert (index.stats()["bytes_graph"] > 0) == (size >= 150)
        assert (index.stats()["bytes_cells"] > 0) == (60 <= size < 150)


def test_a_snapshot_knows_it(tmp_path):
    index = Index(DIM, optimize="search")
    index.add(X, ids=range(len(X)))
    index.save(tmp_path / "a")
    assert Index.load(tmp_path / "a").config == index.config


def test_stores_and_collections_take_it(tmp_path):
    for optimize in ("search", "updates", "memory"):
        with lethevec.open(tmp_path / f"{optimize}.lethe", dim=DIM, optimize=optimize) as store:
            store.add(X[:20], ids=range(20))
            assert store.config.source.optimize == optimize
        with lethevec.open(tmp_path / f"{optimize}.lethe", optimize=optimize) as store:
            assert len(store) == 20
    with pytest.raises(ParameterError, match="as the store was created"):
        lethevec.open(tmp_path / "search.lethe", optimize="memory")
    with lethevec.connect(tmp_path / "folder") as folder:
        assert folder.collection("a", dim=DIM, optimize="memory").config.source.pivots_from == NEVER


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"optimize": "speed"}, "optimize: expected"),
        ({"optimize": 3}, "optimize: expected"),
        ({"optimize": "search", "source": "scan"}, "source='auto'"),
        ({"optimize": "search", "source": Auto()}, "Auto"),
        ({"source": Auto(graph_from=5), "metric": "ip"}, "graph_from"),
    ],
    ids=str,
)
def test_bad_values_are_refused(given, words):
    with pytest.raises(ParameterError, match="expected") as raised:
        Index(DIM, **given)
    assert words in str(raised.value)


def test_one_key_for_both():
    with pytest.raises(ParameterError, match="key: expected the same"):
        Auto(pivots=Pivots(key=bytes(16)), graph=Graph(key=b"1" * 16))
    source = Index(DIM, source=Auto(graph=Graph(key=b"1" * 16))).config.source
    assert source.pivots.key == source.graph.key
