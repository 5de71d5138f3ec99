"""Data frames, Arrow data and tensors wherever vectors are taken, and answers as frames."""

from __future__ import annotations

import json

import numpy as np
import pytest

import lethevec
from lethevec._vectors import as_vectors, passing_vectors
from lethevec.errors import IdError, VectorError

pd = pytest.importorskip("pandas", reason="pandas is not installed: make test-frames")
pl = pytest.importorskip("polars", reason="Polars is not installed: make test-frames")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make test-frames")

X = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
NAMES = [f"c{place}" for place in range(6)]
FLAT = pa.array(X.ravel())
LISTS = {
    "fixed": pa.FixedSizeListArray.from_arrays(FLAT, 6),
    "list": pa.array(X.tolist(), type=pa.list_(pa.float32())),
    "large": pa.array(X.tolist(), type=pa.large_list(pa.float32())),
    "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(X),
}
POLARS = pl.Series(X, dtype=pl.Array(pl.Float32, 6))


class Only:
    """An object that shows one protocol of another, and nothing else."""

    def __init__(self, whole, *names: str) -> None:
        for name in names:
            setattr(type(self), name, staticmethod(getattr(whole, name)))


def only(whole, *names: str):
    return type("Shown", (Only,), {})(whole, *names)


READABLE = {
    "pandas frame": lambda: pd.DataFrame(X, columns=NAMES),
    "pandas frame that is a view": lambda: pd.DataFrame(X, columns=NAMES, copy=False),
    "pandas frame, columns one by one": lambda: pd.DataFrame({name: X[:, i].copy() for i, name in enumerate(NAMES)}),
    "pandas frame of two types": lambda: pd.DataFrame(X).astype({0: np.float64}),
    "pandas frame of nullable numbers": lambda: pd.DataFrame(X).astype("Float32"),
    "pandas frame of Arrow numbers": lambda: pd.DataFrame(X).astype(pd.ArrowDtype(pa.float32())),
    "pandas frame, one column of arrays": lambda: pd.DataFrame({"vector": list(X)}),
    "pandas column of lists": lambda: pd.Series(X.tolist()),
    "pandas column of arrays, other labels": lambda: pd.Series(list(X), index=range(100, 120)),
    "pandas column of Arrow lists": lambda: pd.Series(LISTS["list"], dtype=pd.ArrowDtype(pa.list_(pa.float32()))),
    "Polars frame": lambda: pl.DataFrame(X, schema=NAMES),
    "Polars frame of two types": lambda: pl.DataFrame(X, schema=NAMES).with_columns(pl.col("c0").cast(pl.Float64)),
    "Polars frame, one column of lists": lambda: pl.DataFrame({"vector": X.tolist()}),
    "Polars column of arrays": lambda: pl.Series(X, dtype=pl.Array(pl.Float32, 6)),
    "Polars column of arrays, in pieces": lambda: pl.concat([POLARS[:7], POLARS[7:]], rechunk=False),
    "Polars frame, in pieces": lambda: pl.concat([pl.DataFrame(X[:7], NAMES), pl.DataFrame(X[7:], NAMES)]),
    "Polars column of lists": lambda: pl.Series(X.tolist(), dtype=pl.List(pl.Float32)),
    "Arrow table": lambda: pa.table({name: X[:, i] for i, name in enumerate(NAMES)}),
    "Arrow batch": lambda: pa.record_batch({name: pa.array(X[:, i]) for i, name in enumerate(NAMES)}),
    "Arrow table, one column of vectors": lambda: pa.table({"vector": LISTS["fixed"]}),
    **{f"Arrow {kind}": lambda kind=kind: LISTS[kind] for kind in LISTS},
    **{
        f"Arrow {kind}, in pieces": lambda kind=kind: pa.chunked_array([LISTS[kind][:7], LISTS[kind][7:]])
        for kind in LISTS
    },
    "Arrow, a slice": lambda: pa.concat_arrays([LISTS["fixed"]] * 2)[20:],
    "a list column, a slice": lambda: pa.concat_arrays([LISTS["list"]] * 2)[20:],
    "PyCapsule array": lambda: only(LISTS["fixed"], "__arrow_c_array__"),
    "PyCapsule stream": lambda: only(pl.Series(X, dtype=pl.Array(pl.Float32, 6)), "__arrow_c_stream__"),
    "PyCapsule table": lambda: only(pa.table({name: X[:, i] for i, name in enumerate(NAMES)}), "__arrow_c_stream__"),
    "DLPack": lambda: only(X, "__dlpack__", "__dlpack_device__"),
    "NumPy column of arrays": lambda: np.array([*X, None], dtype=object)[:-1],
}


@pytest.mark.parametrize("make", READABLE.values(), ids=READABLE)
def test_read_as_the_same_vectors(make):
    assert np.array_equal(as_vectors(make(), 6), X)
    index = lethevec.Index(dim=6, metric="l2")
    index.add(make(), ids=range(20))
    assert np.array_equal(index.vectors(range(20)), X)
    assert index.search(make(), k=1).ids.ravel().tolist() == list(range(20))
    assert np.array_equal(index.vectors(range(20)), X)


@pytest.mark.parametrize("kind", READABLE)
def test_what_is_given_is_not_changed(kind):
    given = READABLE[kind]()
    index = lethevec.Index(dim=6, metric="l2")
    index.add(given, ids=range(20))
    assert np.array_equal(as_vectors(given, 6), X)


@pytest.mark.parametrize(
    "kind",
    ["pandas frame that is a view", "Polars column of arrays", "Arrow fixed", "Arrow list", "Arrow tensor", "DLPack"],
)
def test_what_can_be_read_in_place_is_not_copied(kind):
    """Two readings are of the same memory."""
    given = READABLE[kind]()
    assert np.shares_memory(as_vectors(given, 6), as_vectors(given, 6))


COPIED = [
    "pandas frame, columns one by one",
    "pandas frame of two types",
    "pandas frame of nullable numbers",
    "pandas column of lists",
    "Polars frame",
    "Polars frame, in pieces",
    "Polars column of arrays, in pieces",
    "Polars column of lists",
    "Arrow table",
    "Arrow fixed, in pieces",
    "Arrow tensor, in pieces",
    "NumPy column of arrays",
]


@pytest.mark.parametrize("kind", COPIED)
def test_what_has_to_be_copied_is_wiped(kind):
    """The copy that is handed on is zeros when the vectors are in the index."""
    given = READABLE[kind]()
    with passing_vectors(given, 6) as handed:
        assert np.array_equal(handed, X)
        kept = handed
    assert not kept.any()
    assert np.array_equal(as_vectors(given, 6), X)


def test_jax():
    jax = pytest.importorskip("jax.numpy", reason="JAX is not installed: make test-frames")
    given = jax.asarray(X)
    assert np.array_equal(as_vectors(given, 6), X)
    assert np.shares_memory(as_vectors(given, 6), as_vectors(given, 6))
    with pytest.raises(VectorError, match="bfloat16"):
        as_vectors(given.astype("bfloat16"), 6)


def test_torch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-frames")
    given = torch.from_numpy(X.copy())
    assert np.array_equal(as_vectors(given, 6), X)
    assert np.shares_memory(as_vectors(given, 6), given.numpy())
    with pytest.raises(VectorError, match="grad"):
        as_vectors(given.requires_grad_(), 6)
    with pytest.raises(VectorError, match="main memory"):
        as_vectors(torch.empty((2, 6), device="meta"), 6)


class OnAnotherDevice:
    def __dlpack__(self, **settings):
        raise AssertionError

    def __dlpack_device__(self):
        return (2, 0)


REFUSED = {
    "a frame with a text": (lambda: pd.DataFrame(X, columns=NAMES).assign(c0="a"), "c0"),
    "a frame with ids beside the vectors": (
        lambda: pd.DataFrame({"id": range(20), "v": list(X)}),
        "one column of vectors",
    ),
    "Polars with ids beside the vectors": (
        lambda: pl.DataFrame({"id": range(20), "v": X.tolist()}),
        "one column of vectors",
    ),
    "a table with ids beside the vectors": (
        lambda: pa.table({"id": range(20), "v": LISTS["fixed"]}),
        "one column of vectors",
    ),
    "missing numbers, pandas": (lambda: pd.DataFrame(X).astype("Float32").mask(X > 2), "nan"),
    "missing numbers, Polars": (lambda: pl.DataFrame({"c": [1.0, None]}), "1 nulls"),
    "missing vectors, Polars": (lambda: pl.Series([[1.0] * 6, None]), "1 nulls"),
    "missing numbers in a vector, Polars": (lambda: pl.Series([[1.0] * 5 + [None]]), "nan"),
    "missing vectors, pandas": (lambda: pd.Series([[1.0] * 6, None]), "row 1"),
    "missing vectors, Arrow": (lambda: pa.array([[1.0] * 6, None]), "1 nulls"),
    "missing numbers in a vector, Arrow": (lambda: pa.array([[1.0] * 5 + [None]]), "1 nulls inside"),
    "lengths that differ, Arrow": (lambda: pa.array([[1.0] * 6, [1.0] * 5]), "5 to 6 numbers"),
    "lengths that differ by piece": (lambda: pa.chunked_array([[[1.0] * 6], [[1.0] * 5]]), "5 and 6 numbers"),
    "lengths that differ, pandas": (lambda: pd.Series([[1.0] * 6, [1.0] * 5]), "one length"),
    "lengths that differ, Polars": (lambda: pl.Series([[1.0] * 6, [1.0] * 5]), "one length"),
    "texts in Arrow": (lambda: pa.array(["a"]), "string"),
    "texts in Polars": (lambda: pl.Series(["a"]), "row 0|real numbers"),
    "an empty frame": (lambda: pd.DataFrame(), "shape"),
    "an empty table": (lambda: pa.table({}), "shape"),
    "no rows": (lambda: pa.array([], type=pa.list_(pa.float32(), 6)), "shape"),
    "nested lists": (lambda: pa.array([[[1.0]]]), "one length|shape"),
    "another device": (OnAnotherDevice, "device .number 2"),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_vector_is_refused(make, message):
    index = lethevec.Index(dim=6)
    with pytest.raises(VectorError, match=message):
        index.add(make(), ids=range(20))
    assert len(index) == 0


def test_hits_of_an_index_as_tables():
    index = lethevec.Index(dim=6, metric="l2")
    index.add(X[:3], ids=[5, 6, 7])
    hits = index.search(X[:2], k=4)
    wanted = {
        "query": [0] * 3 + [1] * 3,
        "id": [h.id for q in hits for h in q],
        "distance": [h.distance for q in hits for h in q],
    }
    assert hits.to_pandas().to_dict("list") == wanted
    assert hits.to_polars().to_dict(as_series=False) == wanted
    assert hits.to_arrow().to_pydict() == wanted
    assert pa.table(hits).to_pydict() == pl.DataFrame(hits).to_dict(as_series=False) == wanted
    assert hits.to_polars().schema == pl.DataFrame(hits).schema
    nothing = lethevec.Index(dim=6).search(X[:2], k=4)
    assert nothing.to_pandas().shape == nothing.to_polars().shape == nothing.to_arrow().shape == (0, 3)


def store_hits(ids) -> lethevec.Hits:
    """As a store gives them."""
    columns = [np.empty((1, 3), dtype=object) for _ in range(3)]
    for column, values in zip(
        columns, ([*ids, None], ["ada", None, None], [{"n": 1, "ä": [2]}, None, None]), strict=True
    ):
        column[0] = values
    distances = np.array([[0, 1, np.inf]], dtype=np.float32)
    return lethevec.Hits(columns[0], distances, lethevec.Work(1, 1, 1, 1), *columns[1:])


@pytest.mark.parametrize("ids", [["a", "b"], [1, 2]])
def test_hits_of_a_store_as_tables(ids):
    hits = store_hits(ids)
    assert hits.to_pandas()["payload"].tolist()[0] == {"n": 1, "ä": [2]}
    for columns in (hits.to_polars().to_dict(as_series=False), hits.to_arrow().to_pydict(), pa.table(hits).to_pydict()):
        assert columns["id"] == ids
        assert columns["subject"] == ["ada", None]
        assert json.loads(columns["payload"][0]) == {"n": 1, "ä": [2]}
        assert columns["payload"][1] is None


def test_ids_of_both_kinds_go_into_pandas_alone():
    hits = store_hits(["a", 2])
    assert set(hits.to_pandas()["id"]) == {"a", 2}
    for convert in (hits.to_polars, hits.to_arrow):
        with pytest.raises(IdError, match="got both"):
            convert()
