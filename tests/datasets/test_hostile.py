"""Files that lie: every reader refuses them with a FormatError that names the file; none allocates what was claimed."""

from __future__ import annotations

import io
import random
import resource
import struct
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lethevec
from lethevec.cluster.loading import columns_of, read_piece
from lethevec.datasets import read_benchmark, read_records, read_vectors
from lethevec.errors import FormatError, VectorError

from .damaged_arrow import OFFSETS, damaged, read
from .test_readers import SUFFIXES, sample, table, write

BINARY = [suffix for suffix in SUFFIXES if suffix not in (".jsonl", ".csv")]


def refused(path: Path, match: str, **options: str) -> None:
    with pytest.raises(FormatError, match=match) as caught:
        read_records(path, **options)
    assert str(path) in str(caught.value)
    assert "expected" in str(caught.value)
    assert "got" in str(caught.value)


def npy(header: str, data: bytes = b"", version: int = 1, length: int | None = None) -> bytes:
    raw = header.encode("latin-1")
    size = len(raw) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", size) + raw + data


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_empty_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"")
    refused(path, "expected")


@pytest.mark.parametrize("suffix", BINARY)
def test_wrong_magic(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"<!DOCTYPE html><html><body>404</body></html>" * 50)
    refused(path, "expected")


@pytest.mark.parametrize("suffix", BINARY)
def test_every_truncation_is_noticed(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a{suffix}", sample(9, 3))
    whole = path.read_bytes()
    record = {".fvecs": 16, ".bvecs": 7, ".ivecs": 16}.get(suffix)
    for length in range(0, len(whole), 1 if len(whole) < 2000 else 97):
        if record and length and length % record == 0:
            continue  # a run of whole records is a file of its own
        path.write_bytes(whole[:length])
        if suffix == ".arrow" and _is_whole_stream(path):
            continue  # a stream may end after any batch
        refused(path, "expected")


def _is_whole_stream(path: Path) -> bool:
    try:
        with pa.ipc.open_stream(path.read_bytes()) as reader:
            return reader.read_all().num_rows > 0
    except (pa.ArrowException, OSError):
        return False


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_flipped_bytes_may_raise_but_nothing_else(tmp_path: Path, suffix: str) -> None:
    """Seeded corruption: the answer is vectors or a FormatError, never another error, never a huge allocation."""
    path = write(tmp_path / f"a{suffix}", sample(9, 3))
    whole = path.read_bytes()
    rng = random.Random(suffix)
    outcomes = set()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 8])):
            damaged[rng.randrange(len(damaged))] = rng.choice([0, 255, 127, 128, rng.randrange(256)])
        path.write_bytes(damaged)
        try:
            assert read_vectors(path).dtype == np.float32
            outcomes.add("read")
        except FormatError as error:
            assert str(path) in str(error)  # noqa: PT017  # the point is that both outcomes are allowed
            outcomes.add("refused")
    assert "refused" in outcomes
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB


@pytest.mark.parametrize(
    ("header", "match"),
    [
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 100)}", "expected 400000000000000 bytes"),
        ("{'descr': '<f4', 'fortran_order': True, 'shape': (1000000000000, 100)}", "expected 400000000000000 bytes"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -4)}", r"two positive numbers .* got \(-2, -4\)"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4)}", r"got \(0, 4\)"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (8,)}", r"got \(8,\)"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 4)}", r"got \(2.0, 4\)"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (2, 4)}", r"expected real numbers .* '\|O'"),
        ("{'descr': '<c8', 'fortran_order': False, 'shape': (2, 4)}", "expected real numbers"),
        ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 4)}", "expected real numbers"),
        ("{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 4)}", "True or False, got 1"),
        ("{'descr': '<f4', 'shape': (2, 4)}", "descr, fortran_order and shape"),
        ("__import__('os').abort()", "descr, fortran_order and shape"),
        ("(" * 9000, "descr, fortran_order and shape"),
    ],
)
def test_npy_headers(tmp_path: Path, header: str, match: str) -> None:
    data = np.ones((2, 4), dtype="<f4").tobytes()
    path = tmp_path / "a.npy"
    path.write_bytes(npy(header, data))
    refused(path, match)
    inside = tmp_path / "a.npz"
    with zipfile.ZipFile(inside, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("vectors.npy", npy(header, data))
    refused(inside, match, key="vectors")


def test_npy_header_length_and_version(tmp_path: Path) -> None:
    good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4)}"
    data = np.ones((2, 4), dtype="<f4").tobytes()
    path = tmp_path / "a.npy"
    path.write_bytes(npy(good, data, version=2))
    assert read_vectors(path).shape == (2, 4)
    path.write_bytes(npy(good, data, version=2, length=2**32 - 1))
    refused(path, "expected a header of at most 65536 bytes, got a claim of 4294967295")
    path.write_bytes(npy(good, data, length=60_000))
    refused(path, "expected a header of 60000 bytes")
    path.write_bytes(npy(good, data, version=9))
    refused(path, r"version 1 or 2, got 9\.0")
    path.write_bytes(npy(good, data + b"x"))
    refused(path, "expected 32 bytes of data .* got 33")


def test_npz_claims(tmp_path: Path) -> None:
    """A member that claims more than deflate can hold is refused before anything is read."""
    path = tmp_path / "a.npz"
    np.savez_compressed(path, vectors=sample())
    raw = bytearray(path.read_bytes())
    central = raw.rindex(b"PK\x01\x02")
    raw[central + 24 : central + 28] = struct.pack("<I", 2**32 - 2)
    path.write_bytes(raw)
    refused(path, "got a claim of 4294967294", key="vectors")


def test_npz_with_other_compression_and_damaged_data(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, sample())
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("vectors.npy", buffer.getvalue())
    refused(path, "stored or deflated", key="vectors")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("vectors.npy", buffer.getvalue())
    raw = path.read_bytes()
    at = raw.index(buffer.getvalue()) + len(buffer.getvalue()) - 2
    path.write_bytes(raw[:at] + b"\x01\x01" + raw[at + 2 :])
    refused(path, "Bad CRC")


def test_npz_never_unpickles(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", vectors=np.array([[{}, {}]], dtype=object))
    refused(tmp_path / "a.npz", "expected real numbers", key="vectors")
    refused(tmp_path / "a.npz", "expected a 2-D array of real numbers, got none")


@pytest.mark.parametrize("dim", [0, -1, -(2**31), 2**31 - 1, 5])
def test_vecs_dimension(tmp_path: Path, dim: int) -> None:
    path = tmp_path / "a.fvecs"
    path.write_bytes(struct.pack("<i4f", dim, 1, 2, 3, 4))
    refused(path, f"got dimension {dim}")


def test_vecs_mixed_dimensions(tmp_path: Path) -> None:
    path = tmp_path / "a.fvecs"
    path.write_bytes(struct.pack("<i2f", 2, 1, 2) * 3 + struct.pack("<i2f", 1, 1, 2))
    refused(path, "expected dimension 2 in every row, got 1 in row 3")
    path.write_bytes(struct.pack("<i2f", 2, 1, 2) * 3 + struct.pack("<i3f", 3, 1, 2, 3))
    refused(path, "expected a multiple of 12 bytes .* got 52")


def hdf5(path: Path, **datasets: object) -> Path:
    with h5py.File(path, "w") as file:
        for name, data in datasets.items():
            file[name] = data
    return path


def test_hdf5_that_claims_much_and_stores_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        file.create_dataset("train", shape=(10**9, 100), dtype="f4", chunks=(1000, 100))
    refused(path, "expected at most 0 bytes out of the 0 that are stored, got shape")
    with h5py.File(path, "w") as file:
        file.create_dataset("train", shape=(10**9, 100), dtype="f4", chunks=(1000, 100), compression="gzip")
        file["train"][:1000] = 1
    refused(path, "which is 400000000000")
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "train", shape=(2, 4), maxshape=(None, 4), dtype="f4", chunks=(2**24, 4), compression="gzip"
        )
    refused(path, "expected at most 0 bytes")


def test_hdf5_data_elsewhere(tmp_path: Path) -> None:
    secret = hdf5(tmp_path / "secret.hdf5", train=sample())
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        file["train"] = h5py.ExternalLink(str(secret), "train")
    refused(path, "got a link to another file", key="train")
    with h5py.File(path, "w") as file:
        file.create_dataset("train", shape=(2, 4), dtype="f4", external=[(str(tmp_path / "raw"), 0, 32)])
    (tmp_path / "raw").write_bytes(b"\0" * 32)
    refused(path, "expected data inside the file")
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout(shape=(23, 5), dtype="f4")
        layout[:] = h5py.VirtualSource(str(secret), "train", shape=(23, 5))
        file.create_virtual_dataset("train", layout)
    refused(path, "expected data inside the file")


def test_hdf5_wrong_contents(tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    refused(hdf5(path, train=["a", "b"]), "got dtype", key="train")
    refused(hdf5(path, train=np.ones(5)), r"got \(5,\)", key="train")
    refused(hdf5(path, train=np.ones((0, 5))), r"got \(0, 5\)")
    refused(hdf5(path, other=np.ones(5)), "expected a 2-D dataset of real numbers, got none")
    with h5py.File(path, "w") as file:
        file.create_group("train")
    refused(path, "expected a dataset, got Group", key="train")


def test_columns_that_are_not_vectors(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"

    def written(**columns: object) -> Path:
        pq.write_table(pa.table(columns), path)
        return path

    refused(written(vector=[[1.0, 2.0], [3.0]]), "vectors of one length, got 2 and then 1 in row 1")
    refused(written(vector=[[1.0, 2.0], None]), "expected a vector in every row, got 1 nulls")
    refused(written(vector=[[1.0, None]]), "expected numbers, got 1 nulls")
    refused(written(vector=[["a"]]), "expected a column of lists of numbers, got none")
    refused(written(vector=[1.0]), "expected lists of numbers, got double", key="vector")
    refused(written(vector=pa.array([[]], type=pa.list_(pa.float32()))), "dimension 1 or more")
    refused(written(a=[[1.0]], b=[[1.0]]), "choose by key=")
    refused(written(vector=[[1.0]], id=[None]), "row 0: expected an id")
    refused(written(vector=[[1.0]], id=[""]), "expected an id .* got str ''")
    refused(written(vector=[[1.0]], id=[1.5]), "expected an id .* got float '1.5'")
    refused(written(vector=[[1.0]], id=pa.array([2**63], type=pa.uint64())), "expected an id")
    refused(written(vector=[[1.0]], subject=[1.5]), "expected a subject that is text, got float")


def test_arrow_offsets_are_validated(tmp_path: Path) -> None:
    """IPC files carry offsets; one that points outside must not be followed."""
    lists = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    schema = pa.schema([("vector", lists.type)])
    path = tmp_path / "a.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([lists], schema=schema))
    raw = path.read_bytes()
    offsets = struct.pack("<4i", 0, 2, 4, 6)
    assert raw.count(offsets) == 1
    path.write_bytes(raw.replace(offsets, struct.pack("<4i", 0, 2_000_000, 2_000_002, 6)))
    refused(path, "expected an undamaged columnar file")


@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("column", ["vector", "id"])
def test_offsets_of_tables_that_somebody_else_has_read_are_validated(tmp_path: Path, column: str, offsets: Any) -> None:
    """Otherwise the ids of records are what lies elsewhere in the memory of the process, or it ends."""
    table = read(damaged(column, offsets))
    with lethevec.open(tmp_path / "a.lethe", dim=3, metric="l2") as db:
        with pytest.raises(FormatError, match="expected an undamaged columnar file"):
            db.load(table)
        assert len(db) == 0
    path = tmp_path / "a.arrow"
    path.write_bytes(damaged(column, offsets, file=True))
    with pytest.raises(FormatError, match="expected an undamaged file"):
        read_piece(str(path), 0)
    if column == "vector":
        for given in (table.column("vector"), table.select(["vector"]), table.column("vector").chunk(0)):
            index = lethevec.Index(dim=3, metric="l2")
            with pytest.raises(VectorError, match="expected undamaged Arrow data"):
                index.add(given, ids=[1, 2])
            assert len(index) == 0


def test_a_cluster_loads_no_vectors_of_other_lengths() -> None:
    """Two rows with one and three numbers are no two rows with two."""
    columns = {"id": "id", "vector": "vector", "subject": None, "payload": None}
    table = pa.table({"id": [1, 2], "vector": [[1.0], [2.0, 3.0, 4.0]]})
    assert columns_of(table, columns)["vectors"] == [[1.0], [2.0, 3.0, 4.0]]  # which the check then refuses
    table = pa.table({"id": [1, 2], "vector": [[1.0, 2.0], [3.0, 4.0]]})
    assert columns_of(table, columns)["vectors"].tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"vector": [1, 2]}\n{"vector": [1]}', "line 2: expected 2 numbers as in the first row, got 1"),
        ('{"vector": [1, 2]}\n{"vector": [1, 2]', "line 2: expected JSON"),
        ('{"vector": [1, "2"]}', "line 1: expected a list of numbers"),
        ('{"vector": [1, true]}', "line 1: expected a list of numbers"),
        ('{"vector": [1, null]}', "line 1: expected a list of numbers"),
        ('{"vector": [[1, 2]]}', "line 1: expected a list of numbers"),
        ('{"vector": []}', "line 1: expected a list of numbers"),
        ('{"vector": [1, 1e999]}', "expected finite numbers"),
        ('{"vector": [1, NaN]}', "expected finite numbers"),
        ('{"vector": [1, 1e39]}', "beyond the range of float32"),
        ('{"vector": [1' + "0" * 400 + "]}", "too many digits"),
        ('{"v": [1]}', "line 1: expected a field 'vector', got: v"),
        ("7", "line 1: expected a list of numbers, got 7"),
        ("[" * 100_000, "line 1: expected JSON"),
        ('{"id": 1.5, "vector": [1]}', "line 1: expected an id"),
        ('{"id": "", "vector": [1]}', "line 1: expected an id"),
        ('{"id": true, "vector": [1]}', "line 1: expected an id"),
        ('{"id": 9223372036854775808, "vector": [1]}', "line 1: expected an id"),
        ('{"subject": [], "vector": [1]}', "line 1: expected a subject"),
        ('{"id": 1, "vector": [1]}\n{"vector": [1]}', r"line 2: expected the fields of the first row \(id\), got none"),
        ('{"vector": [1]}\n\udcff', "line 2: expected JSON"),
    ],
)
def test_jsonl(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    refused(path, match)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("1,2\n3\n", "line 2: expected 2 numbers"),
        ("1,2\n3,x\n", "line 2: expected a number, got 'x'"),
        ("1,2\n3,nan\n", "expected finite numbers"),
        ("1,2\n3,1e39\n", "beyond the range of float32"),
        ("a,b\n1,2\n3\n", "line 3: expected 2 fields, got 1"),
        ("a,a\n1,2\n", "different names"),
        ("id,vector\n1,[1\n", "line 2: expected JSON"),
        ("id,a\n1,1\nx,1\n", "line 3: expected an id that is a whole number, as in the first row, got 'x'"),
        ("id,a\n,1\n", "line 2: expected an id"),
        ("id,a\n9223372036854775808,1\n", "line 2: expected an id"),
        ("id,subject\n1,a\n", "dimension 1 or more"),
        ("a,b\n", "expected at least one vector"),
        ('a,b\n"1,2\n', "expected CSV"),
        ("\udcff,2\n", "expected UTF-8"),
        ("a," + "1" * 200_000 + "\n", "expected CSV"),
    ],
)
def test_csv(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    refused(path, match)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_values_that_cannot_be_searched(tmp_path: Path, value: float) -> None:
    vectors = sample().astype(np.float64)
    vectors[20, 3] = value
    np.save(tmp_path / "a.npy", vectors)
    refused(tmp_path / "a.npy", "expected finite numbers, got 1 that are not, the first at row 20, column 3")
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["train"] = vectors
    refused(tmp_path / "a.hdf5", "row 20, column 3")
    pq.write_table(table(sample()).set_column(0, "vector", [vectors.tolist()]), tmp_path / "a.parquet")
    refused(tmp_path / "a.parquet", "row 20, column 3")


def test_batches_before_the_fault_are_given(tmp_path: Path) -> None:
    from lethevec.datasets import iter_vectors

    (tmp_path / "a.csv").write_text("1,2\n3,4\n5\n")
    pieces = iter_vectors(tmp_path / "a.csv", batch=2)
    np.testing.assert_array_equal(next(pieces), [[1, 2], [3, 4]])
    with pytest.raises(FormatError, match="line 3"):
        next(pieces)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"neighbors": [[0, 23]]}, "expected row numbers from 0 to 22, got 0 to 23"),
        ({"neighbors": [[0, -1]]}, "got -1 to 0"),
        ({"neighbors": [[0.5, 1]]}, "expected whole numbers"),
        ({"neighbors": [[0, 1], [1, 2]]}, "expected 1 rows, one for each query, got 2"),
        ({"distances": [[np.nan, 1]]}, "'distances': expected finite numbers"),
        ({"test": np.ones((1, 4))}, r"'test': expected shape \(n, 5\)"),
        ({"distance": "hamming"}, "one of angular, euclidean, dot, ip, got 'hamming'"),
        ({"distance": 7}, "got 7|got np.int64"),
        ({"distance": None}, "got None"),
        ({"train": None}, "dataset 'train': expected a dataset, got NoneType"),
    ],
)
def test_benchmark_files(tmp_path: Path, change: dict[str, object], match: str) -> None:
    parts: dict[str, object] = {
        "train": sample(),
        "test": sample()[:1],
        "neighbors": [[0, 1]],
        "distances": [[0.0, 1.0]],
        "distance": "euclidean",
    } | change
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        for name, value in parts.items():
            if value is None:
                continue
            if name == "distance":
                file.attrs[name] = value
            else:
                file[name] = value
    with pytest.raises(FormatError, match=match) as caught:
        read_benchmark(path)
    assert str(path) in str(caught.value)
