"""Every format gives back what was written, whole and in pieces, in any stored type."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lethevec.datasets import (
    count_records,
    iter_records,
    iter_stream,
    iter_vectors,
    read_neighbors,
    read_records,
    read_vectors,
)
from lethevec.errors import FileError, FormatError, ParameterError

F32 = npt.NDArray[np.float32]
SUFFIXES = [".npy", ".npz", ".fvecs", ".bvecs", ".ivecs", ".hdf5", ".h5", ".parquet", ".arrow", ".feather", ".jsonl"]
SUFFIXES += [".csv"]


def sample(n: int = 23, dim: int = 5) -> F32:
    """Small whole numbers: exact in every type from uint8 to float64."""
    return np.random.default_rng(7).integers(0, 200, (n, dim)).astype(np.float32)


def table(vectors: F32, **columns: object) -> pa.Table:
    flat = pa.array(vectors.ravel(), type=pa.float32())
    lists = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    return pa.table({"vector": lists, **columns})


def write(path: Path, vectors: F32) -> Path:
    suffix = path.suffix
    if suffix == ".npy":
        np.save(path, vectors)
    elif suffix == ".npz":
        np.savez_compressed(path, vectors=vectors, other=np.arange(3))
    elif suffix in (".fvecs", ".bvecs", ".ivecs"):
        dtype = {".fvecs": "<f4", ".bvecs": "u1", ".ivecs": "<i4"}[suffix]
        head = np.int32(vectors.shape[1]).tobytes()
        path.write_bytes(b"".join(head + row.astype(dtype).tobytes() for row in vectors))
    elif suffix in (".hdf5", ".h5"):
        with h5py.File(path, "w") as file:
            file.create_dataset("train", data=vectors, chunks=(4, vectors.shape[1]), compression="gzip")
            file.create_dataset("test", data=vectors[:2])
    elif suffix == ".parquet":
        pq.write_table(table(vectors), path, row_group_size=9)
    elif suffix in (".arrow", ".feather"):
        with pa.OSFile(str(path), "wb") as sink:
            new = pa.ipc.new_file if suffix == ".feather" else pa.ipc.new_stream
            with new(sink, table(vectors).schema) as writer:
                writer.write_table(table(vectors), max_chunksize=9)
    elif suffix == ".jsonl":
        path.write_text("".join(json.dumps({"vector": row.tolist()}) + "\n" for row in vectors))
    elif suffix == ".csv":
        path.write_text("".join(",".join(map(str, row.tolist())) + "\n" for row in vectors))
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_whole_file(tmp_path: Path, suffix: str) -> None:
    vectors = sample()
    got = read_vectors(write(tmp_path / f"a{suffix}", vectors))
    assert got.dtype == np.float32
    assert got.flags.c_contiguous
    np.testing.assert_array_equal(got, vectors)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("batch", [1, 4, 22, 23, 24, 1000])
def test_in_pieces(tmp_path: Path, suffix: str, batch: int) -> None:
    vectors = sample()
    pieces = list(iter_vectors(write(tmp_path / f"a{suffix}", vectors), batch=batch))
    assert max(map(len, pieces)) <= batch
    np.testing.assert_array_equal(np.concatenate(pieces), vectors)


def test_suffix_in_capitals_and_path_as_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npy", sample()).rename(tmp_path / "A.NPY")
    np.testing.assert_array_equal(read_vectors(str(path)), sample())


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i1", "u1", ">i2", "i4", "u8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numpy_types_and_orders(tmp_path: Path, dtype: str, order: str) -> None:
    vectors = sample().clip(0, 100)
    array = np.array(vectors, dtype=dtype, order=order)  # type: ignore[call-overload]
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", array)
    for path in (tmp_path / "a.npy", tmp_path / "a.npz"):
        np.testing.assert_array_equal(read_vectors(path), vectors)
        np.testing.assert_array_equal(np.concatenate(list(iter_vectors(path, batch=7))), vectors)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "u1", "i4"])
def test_hdf5_types(tmp_path: Path, dtype: str) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["train"] = sample().astype(dtype)
    np.testing.assert_array_equal(read_vectors(tmp_path / "a.hdf5"), sample())


@pytest.mark.parametrize("kind", ["halffloat", "float", "double", "uint8", "int64"])
@pytest.mark.parametrize("form", ["fixed", "list", "large"])
def test_arrow_types(tmp_path: Path, kind: str, form: str) -> None:
    value = {"halffloat": pa.float16(), "float": pa.float32(), "double": pa.float64()}.get(kind) or getattr(pa, kind)()
    column = {"fixed": pa.list_(value, 5), "list": pa.list_(value), "large": pa.large_list(value)}[form]
    numbers = [[np.float16(v) if kind == "halffloat" else v for v in row] for row in sample().astype(int).tolist()]
    pq.write_table(pa.table({"vector": pa.array(numbers, type=column)}), tmp_path / "a.parquet")
    np.testing.assert_array_equal(read_vectors(tmp_path / "a.parquet"), sample())


def test_arrow_tensor_column(tmp_path: Path) -> None:
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(sample())
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink:
        data = pa.table({"embedding": tensor})
        with pa.ipc.new_file(sink, data.schema) as writer:
            writer.write_table(data)
    np.testing.assert_array_equal(read_vectors(tmp_path / "a.arrow"), sample())


def check_people(path: Path, payloads: list[object]) -> None:
    for records in (read_records(path), *[next(iter(iter_records(path, batch=3)))]):
        assert records.ids is not None
        assert records.ids.dtype == np.int64
        assert records.ids.tolist() == [7, -1, 2**62][: len(records)]
        assert records.subjects == ["ada", None, "17"] or records.subjects == ["ada", "", "17"]
        assert records.payloads == payloads
        np.testing.assert_array_equal(records.vectors, [[1, 2], [3, 4], [5, 6]])
        assert len(records) == 3


def test_columns_of_parquet(tmp_path: Path) -> None:
    vectors = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32)
    extra = {"id": [7, -1, 2**62], "subject": ["ada", None, "17"], "payload": [b"a", b"", None], "unused": [1.5, 2, 3]}
    pq.write_table(table(vectors, **extra), tmp_path / "a.parquet")
    check_people(tmp_path / "a.parquet", [b"a", b"", None])


def test_subject_of_numbers_is_their_text(tmp_path: Path) -> None:
    vectors = np.array([[1, 2], [3, 4]], dtype=np.float32)
    pq.write_table(table(vectors, subject=[5, 60]), tmp_path / "a.parquet")
    records = read_records(tmp_path / "a.parquet")
    assert records.subjects == ["5", "60"]
    assert records.ids is None
    assert records.payloads is None


def test_payload_that_is_a_list_is_not_the_vector(tmp_path: Path) -> None:
    vectors = np.array([[1, 2], [3, 4]], dtype=np.float32)
    data = table(vectors, payload=[[1, 2, 3], []]).rename_columns(["x", "payload"])
    pq.write_table(data, tmp_path / "a.parquet")
    records = read_records(tmp_path / "a.parquet")
    assert records.payloads == [[1, 2, 3], []]
    np.testing.assert_array_equal(records.vectors, vectors)


def test_fields_of_jsonl(tmp_path: Path) -> None:
    lines = [
        {"id": 7, "subject": "ada", "payload": {"a": 1}, "vector": [1, 2.0]},
        {"id": -1, "subject": None, "payload": None, "vector": [3, 4]},
        {"id": 2**62, "subject": 17, "payload": "x", "vector": [5, 6], "unused": True},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n\n".join(map(json.dumps, lines)))
    check_people(path, [{"a": 1}, None, "x"])


@pytest.mark.parametrize(
    "text",
    [
        'id,subject,payload,vector\n7,ada,"a,b","[1, 2]"\n-1,,,"[3,4]"\n4611686018427387904,17,x,"[5,6]"\n',
        'x0,id,subject,payload,x1\n1,7,ada,"a,b",2\n3,-1,,,4\n5,4611686018427387904,17,x,6\n',
    ],
    ids=["vector column", "one column for each number"],
)
def test_columns_of_csv(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\ufeff" + text, encoding="utf-8")
    check_people(path, ["a,b", "", "x"])


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet", "a.arrow"])
def test_ids_may_be_texts(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith("jsonl"):
        path.write_text('{"id": "x", "vector": [1]}\n{"id": "7", "vector": [2]}\n')
    elif name.endswith("csv"):
        path.write_text("id,a\nx,1\n7,2\n")
    else:
        data = pa.table({"id": ["x", "7"], "vector": pa.array([[1.0], [2.0]], pa.list_(pa.float32(), 1))})
        if name.endswith("parquet"):
            pq.write_table(data, path)
        else:
            with pa.ipc.new_file(path, data.schema) as file:
                file.write_table(data)
    assert read_records(path).ids == ["x", "7"]
    assert [records.ids for records in iter_records(path, batch=1)] == [["x"], ["7"]]


def test_ids_of_both_kinds(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 7, "vector": [1]}\n{"id": "7", "vector": [2]}\n')
    assert read_records(path).ids == [7, "7"]


@pytest.mark.parametrize("names", [("ids", "subjects", "payloads"), ("id", "subject", "payload")])
@pytest.mark.parametrize("ids", [np.array([7, -1, 2**62]), np.array(["x", "7", "ü"]), np.array([1, 2, 3], dtype="u1")])
def test_arrays_of_npz(tmp_path: Path, names: tuple[str, ...], ids: npt.NDArray[Any]) -> None:
    vectors = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32)
    values = [ids, np.array(["ada", "", "17"]), np.array(["{}", "", '{"a": 1}'])]
    path = tmp_path / "a.npz"
    np.savez_compressed(path, vectors=vectors, other=np.arange(9), **dict(zip(names, values, strict=True)))
    records = read_records(path)
    assert records.ids is not None
    assert list(records.ids) == ids.tolist()
    assert records.subjects == ["ada", None, "17"]
    assert records.payloads == ["{}", None, '{"a": 1}']
    np.testing.assert_array_equal(records.vectors, vectors)
    assert [list(part.ids) for part in iter_records(path, batch=2)] == [ids.tolist()[:2], ids.tolist()[2:]]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arrays", "wanted"),
    [
        ({"ids": np.arange(2)}, "array 'ids': expected 3 entries, one for each vector, got 2"),
        ({"ids": np.array([1.5, 2, 3])}, "array 'ids': expected whole numbers or texts, got dtype '<f8'"),
        ({"ids": np.array([[1], [2], [3]])}, "expected a shape of one positive number"),
        ({"ids": np.array([1, 2, 2**63], dtype="u8")}, "expected an id that is a whole number of 64 bits"),
        ({"ids": np.array(["a", "", "b"])}, "expected an id that is a whole number of 64 bits or a text"),
        ({"ids": np.arange(3), "id": np.arange(3)}, "expected one array of ids, got two"),
        ({"payloads": np.array([{}, {}, {}])}, "array 'payloads': expected whole numbers or texts, got dtype '|O'"),
        (
            {"subjects": np.array([2**31] * 3, dtype="<u4").view("<U1")},
            "array 'subjects': expected texts, got a character of number 2147483648",
        ),
    ],
)
def test_arrays_of_npz_that_do_not_fit(tmp_path: Path, arrays: dict[str, Any], wanted: str) -> None:
    np.savez(tmp_path / "a.npz", vectors=sample(3, 2), **arrays)
    with pytest.raises(FormatError) as caught:
        read_records(tmp_path / "a.npz")
    assert wanted in str(caught.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_count_is_right_or_not_given(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a{suffix}", sample(23, 5))
    known = suffix not in (".arrow", ".feather", ".jsonl", ".csv")
    assert count_records(path) == (23 if known else None)
    path.write_bytes(b"something else")
    assert suffix in (".fvecs", ".bvecs", ".ivecs") or count_records(path) is None
    assert count_records(tmp_path / f"missing{suffix}") is None


class Pipe(io.RawIOBase):
    """Gives a few bytes at a time, and cannot go back."""

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part, self.rest = self.rest[: min(7, len(buffer))], self.rest[min(7, len(buffer)) :]
        buffer[: len(part)] = part
        return len(part)


@pytest.mark.parametrize("name", ["npy", "csv", "jsonl", "fvecs", "bvecs", "ivecs", "arrow"])
def test_a_pipe_gives_what_the_file_gives(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / f"a.{name}", sample(23, 5))
    stream = io.BufferedReader(Pipe(path.read_bytes()))
    parts = list(iter_stream(stream, name, batch=4))
    # The writer of the Arrow file made batches of nine.
    assert [len(part) for part in parts] == ([4, 4, 1, 4, 4, 1, 4, 1] if name == "arrow" else [4, 4, 4, 4, 4, 3])
    np.testing.assert_array_equal(np.concatenate([part.vectors for part in parts]), read_vectors(path))
    assert name == "arrow" or not stream.closed


def test_a_pipe_of_arrow_may_have_the_form_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.feather", sample(23, 5))
    whole = path.read_bytes()
    assert whole.startswith(b"ARROW1")
    for stream in (io.BytesIO(whole), io.BufferedReader(Pipe(whole))):
        parts = list(iter_stream(stream, "arrow"))
        np.testing.assert_array_equal(np.concatenate([part.vectors for part in parts]), sample(23, 5))


def test_a_pipe_that_lies(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", sample(8, 3))
    whole = (tmp_path / "a.npy").read_bytes()
    for data, wanted in (
        (whole[:-1], "expected 96 more bytes of data, got 95"),
        (whole + b"x", "expected the end of the data, got more"),
        (b"nothing", "expected a NumPy array"),
        (whole.replace(b"(8, 3), }      ", b"(8, 9999999), }"), "at most 1048576 numbers in a row"),
    ):
        with pytest.raises(FormatError, match=wanted):
            list(iter_stream(io.BytesIO(data), "npy"))
    with pytest.raises(ParameterError, match=r"format: expected one of jsonl, csv, npy, .* got 'parquet'"):
        iter_stream(io.BytesIO(whole), "parquet")
    row = np.int32(3).tobytes() + bytes(12)
    for data, wanted in (
        (row + row[:-1], "expected records of 16 bytes, got 15 at the end"),
        (row + b"\2" + row[1:], "expected dimension 3 in every row, got 2 in row 1"),
        (b"\3\0", "expected a dimension from 1 to 1048576, got 3"),
        (np.int32(-3).tobytes(), "expected a dimension from 1 to 1048576, got -3"),
        (np.int32(2**30).tobytes(), "expected a dimension from 1 to 1048576, got 1073741824"),
        (b"", "expected at least one vector, got none"),
    ):
        with pytest.raises(FormatError, match=wanted):
            list(iter_stream(io.BytesIO(data), "fvecs"))
    with pytest.raises(FormatError, match="expected no key"):
        list(iter_stream(io.BytesIO(row), "fvecs", key="train"))
    with pytest.raises(FormatError, match="expected an undamaged columnar file"):
        list(iter_stream(io.BytesIO(whole), "arrow"))


def test_bare_lists_in_jsonl(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_text("[1, 2]\n[3, 4]\n")
    np.testing.assert_array_equal(read_vectors(tmp_path / "a.ndjson"), [[1, 2], [3, 4]])


def test_key_chooses_the_array(tmp_path: Path) -> None:
    a, b = sample(4, 3), sample(6, 2)
    np.savez(tmp_path / "a.npz", a=a, b=b, names=np.array(["x", "y"]))
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["a"], file["group/b"], file["c"] = a, b, a
    (tmp_path / "a.jsonl").write_text('{"a": [1, 2], "vector": [3]}\n')
    (tmp_path / "a.csv").write_text('a,vector\n"[1, 2]",[3]\n')
    np.testing.assert_array_equal(read_vectors(tmp_path / "a.npz", key="b"), b)
    np.testing.assert_array_equal(read_vectors(tmp_path / "a.hdf5", key="group/b"), b)
    np.testing.assert_array_equal(read_vectors(tmp_path / "a.jsonl", key="a"), [[1, 2]])
    np.testing.assert_array_equal(read_vectors(tmp_path / "a.csv", key="a"), [[1, 2]])
    for name, wanted in (("a.npz", "2 \\(a, b\\)"), ("a.hdf5", "2 \\(a, c\\)")):
        with pytest.raises(FormatError, match=f"{wanted}; choose by key="):
            read_vectors(tmp_path / name)
        with pytest.raises(FormatError, match="named 'z', got: a, "):
            read_vectors(tmp_path / name, key="z")


def test_neighbors(tmp_path: Path) -> None:
    rows = np.array([[3, 1, 2], [2**31 - 1, 5, 0]], dtype="<i4")
    path = tmp_path / "truth.ivecs"
    path.write_bytes(b"".join(np.int32(3).tobytes() + row.tobytes() for row in rows))
    got = read_neighbors(path)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, rows)
    np.testing.assert_array_equal(read_vectors(path), rows.astype(np.float32))
    with pytest.raises(FormatError, match=r"expected a file name that ends in \.ivecs"):
        read_neighbors(tmp_path / "truth.fvecs")


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="batch: expected at least 1, got 0"):
        iter_vectors(tmp_path / "a.npy", batch=0)
    with pytest.raises(FormatError, match=r"ends in \.npy .* got '\.txt'"):
        iter_vectors(tmp_path / "a.txt")
    for suffix in SUFFIXES:
        with pytest.raises(FileError, match=r"a\.\w+: cannot be read: No such file"):
            read_vectors(tmp_path / f"a{suffix}")
    with pytest.raises(FileError, match="cannot be read: No such file"):
        read_neighbors(tmp_path / "a.ivecs")
    for suffix in (".npy", ".fvecs"):
        with pytest.raises(FormatError, match="expected no key"):
            read_vectors(write(tmp_path / f"a{suffix}", sample()), key="train")


def test_missing_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.parquet", sample())
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"'pyarrow', which is not installed: pip install 'lethevec\[datasets\]'"):
        read_vectors(path)
