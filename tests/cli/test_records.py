"""`add`, `export` and `import`, from outside: what they do is held against the library."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path

import numpy as np
import pytest

import lethevec
from lethevec import datasets
from lethevec._store import export_arrays as arrays


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".fvecs", ".hdf5", ".parquet", ".arrow", ".jsonl", ".csv"])
def test_add_makes_a_store_of_a_file(run, ask, vectors, tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    write_vectors(path, vectors)
    answer = ask("add", "new.lethe", path, "--metric", "l2", "--subject", "ann", "--first-id", "100")
    assert (answer["added"], answer["records"]) == (60, 60)
    with lethevec.open(tmp_path / "new.lethe") as db:
        assert (db.metric, db.dim) == ("l2", 6)
        assert db.subjects() == {"ann": 60}
        np.testing.assert_array_equal(db.get([100])[0].vector, vectors[0])
    more = ask("add", "new.lethe", path, "--first-id", "160", "--batch", "7")
    assert more["records"] == 120


def write_vectors(path: Path, vectors: np.ndarray) -> None:
    if path.suffix == ".npy":
        np.save(path, vectors)
    elif path.suffix == ".npz":
        np.savez(path, vectors=vectors)
    elif path.suffix == ".fvecs":
        dims = np.full((len(vectors), 1), vectors.shape[1], dtype="<i4").view("<f4")
        np.hstack([dims, vectors]).astype("<f4").tofile(path)
    elif path.suffix == ".hdf5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file["train"] = vectors
    elif path.suffix == ".parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({"vector": vectors.tolist()}), path)
    elif path.suffix == ".arrow":
        pa = pytest.importorskip("pyarrow")
        lists = pa.array(vectors.tolist(), type=pa.list_(pa.float32(), vectors.shape[1]))
        with pa.ipc.new_file(path, pa.schema([("vector", lists.type)])) as writer:
            writer.write(pa.record_batch([lists], names=["vector"]))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in vectors.tolist()))
    else:
        path.write_text("".join(",".join(map(repr, row)) + "\n" for row in vectors.tolist()))


@pytest.mark.parametrize(("suffix", "dtype"), [("bvecs", "u1"), ("ivecs", "<i4")])
def test_add_takes_whole_numbers(ask, tmp_path, suffix, dtype, digest):
    numbers = np.arange(24).reshape(4, 6).astype(dtype)
    data = b"".join(np.int32(6).tobytes() + row.tobytes() for row in numbers)
    (tmp_path / f"x.{suffix}").write_bytes(data)
    assert ask("add", "file.lethe", f"x.{suffix}", "--metric", "l2")["added"] == 4
    assert ask("add", "pipe.lethe", "-", "--format", suffix, "--metric", "l2", stdin=data)["added"] == 4
    assert digest(tmp_path / "file.lethe") == digest(tmp_path / "pipe.lethe")
    with lethevec.open(tmp_path / "file.lethe") as db:
        np.testing.assert_array_equal(db.get([2])[0].vector, numbers[2])


@pytest.mark.parametrize("format", ["jsonl", "csv", "npy"])
def test_add_reads_a_pipe(ask, vectors, tmp_path, format):
    data = io.BytesIO()
    if format == "npy":
        np.save(data, vectors)
    elif format == "csv":
        data.write(b"id,subject,payload,vector\n")
        for i, row in enumerate(vectors.tolist()):
            data.write(f'n{i},{"" if i else "ann"},"{{""n"": {i}}}","{json.dumps(row)}"\n'.encode())
    else:
        for i, row in enumerate(vectors.tolist()):
            data.write(
                json.dumps({"id": f"n{i}", "subject": "ann" if i == 0 else None, "vector": row}).encode() + b"\n"
            )
    assert ask("add", "new.lethe", "-", "--format", format, stdin=data.getvalue())["added"] == 60
    with lethevec.open(tmp_path / "new.lethe") as db:
        (record,) = db.get([7 if format == "npy" else "n7"])
        np.testing.assert_array_equal(record.vector, vectors[7])
        assert record.payload == ({"n": 7} if format == "csv" else None)
        assert db.subjects() == ({} if format == "npy" else {"ann": 1})


def test_add_is_all_or_nothing(run, store, vectors, tmp_path, digest):
    before = digest(store)
    np.save(tmp_path / "a.npy", vectors[:10])
    np.save(tmp_path / "b.npy", vectors[:, :4])
    result = run("add", store, "a.npy", "b.npy", "--first-id", "1000", "--batch", "3", code=1)
    assert "got (3, 4)" in result.stderr
    assert digest(store) == before
    assert "which is there already" in run("add", store, "a.npy", code=1).stderr
    assert digest(store) == before


def test_files_with_and_without_ids(run, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 3, "vector": [1, 2]}\n')
    assert "--first-id: expected only with files" in run("add", "n.lethe", "a.jsonl", "--first-id", "0", code=1).stderr


@pytest.mark.parametrize("payload", ['"x"', "[1]", "7"])
def test_payloads_must_be_objects(run, tmp_path, payload):
    (tmp_path / "a.jsonl").write_text(f'{{"id": 3, "payload": {payload}, "vector": [1, 2]}}\n')
    assert "expected payloads that are JSON objects" in run("add", "n.lethe", "a.jsonl", code=1).stderr


def test_settings_of_a_new_store(run, ask, vectors, tmp_path):
    np.save(tmp_path / "a.npy", vectors)
    run(
        "add",
        "n.lethe",
        "a.npy",
        "--metric",
        "ip",
        "--index",
        "family=superbit",
        "--index",
        "bits=12",
        "--index",
        "seed=4",
    )
    config = ask("info", "n.lethe")["config"]
    assert [config[name] for name in ("metric", "family", "bits", "seed")] == ["ip", "superbit", 12, 4]
    wrong = run("add", "n.lethe", "a.npy", "--metric", "l2", "--first-id", "100", code=1)
    assert "expected metric='ip', as the store was created, got 'l2'" in wrong.stderr


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "x.parquet", "x.arrow", "x.npz", "x.lethe"])
@pytest.mark.parametrize("words", [False, True], ids=["numbers", "texts"])
def test_what_is_exported_comes_back_bit_for_bit(run, ask, store, tmp_path, vectors, name, words, digest):
    source = store
    if words:
        source = tmp_path / "words.lethe"
        with lethevec.open(source, dim=6, metric="l2") as db:
            db.add(vectors, ids=[f"wörd-{i}" for i in range(60)], payloads=[None, {"a": "x,\n\"'"}] * 30)
    assert ask("export", source, name)["written"] == 60
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    run("import", "copy.lethe", name, "--metric", "l2")
    assert digest(tmp_path / "copy.lethe") == digest(source)


@pytest.mark.parametrize("suffix", ["npy", "fvecs"])
def test_vectors_alone(run, ask, store, tmp_path, vectors, suffix):
    answer = ask("export", store, f"x.{suffix}")
    assert (answer["written"], answer["left_out"]) == (60, ["ids", "subjects", "payloads"])
    result = run("export", store, f"y.{suffix}", "--subject", "bob-the-second")
    assert f".{suffix} holds vectors alone: ids, subjects, payloads are not in it" in result.stderr
    assert "20 vectors" in result.stdout
    with lethevec.open(store, read_only=True) as db:
        wanted = [record.vector for record in db]
        bobs = [record.vector for record in db if record.subject == "bob-the-second"]
    np.testing.assert_array_equal(datasets.read_vectors(tmp_path / f"x.{suffix}"), wanted)
    np.testing.assert_array_equal(datasets.read_vectors(tmp_path / f"y.{suffix}"), bobs)
    piped = run("export", store, "-", "--format", suffix)
    assert piped.stdout_bytes == (tmp_path / f"x.{suffix}").read_bytes()
    assert "holds vectors alone" in piped.stderr


def test_numpy_reads_an_export(run, store, tmp_path, vectors):
    run("export", store, "x.npz")
    run("export", store, "y.npz")
    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()
    with np.load(tmp_path / "x.npz", allow_pickle=False) as file:
        assert sorted(file) == ["ids", "payloads", "subjects", "vectors"]
        order = np.argsort(file["ids"])
        assert file["ids"].dtype == np.int64
        np.testing.assert_array_equal(file["vectors"][order], vectors)
        assert file["subjects"][order][:3].tolist() == ["ann-the-first", "bob-the-second", "cem-the-third"]
        assert json.loads(file["payloads"][order][7]) == {"n": 7}


def test_what_npz_cannot_hold_is_refused(run, tmp_path, vectors, monkeypatch):
    with lethevec.open(tmp_path / "a.lethe", dim=6, metric="l2") as db:
        db.add(vectors[:2], ids=[7, "a"])
    assert "expected ids of one kind" in run("export", "a.lethe", "x.npz", code=1).stderr
    with pytest.raises(lethevec.errors.FormatError, match="subjects: expected texts that do not end in a zero"):
        arrays._texts("subjects", ["a", "b\0"])
    with lethevec.open(tmp_path / "c.lethe", dim=6, metric="l2") as db:
        db.add(vectors[:2], ids=[1, 2], payloads=[{"a": "x" * 100}, None])
    monkeypatch.setattr(arrays, "_MAX_TEXTS", 800)
    assert (
        "payloads: expected texts for an array of at most 800 bytes" in run("export", "c.lethe", "x.npz", code=1).stderr
    )
    assert not list(tmp_path.glob("x.*"))


def test_a_store_that_changes_meanwhile(vectors, tmp_path):
    record = lethevec.Record(1, vectors[0], None, None)
    with pytest.raises(lethevec.errors.IncompleteWriteError, match="expected 2 records, got 1"):
        arrays.write_npy(io.BytesIO(), iter([record]), 2, 6)


def test_a_pipe_from_store_to_store(run, store, tmp_path, digest):
    for format in ("jsonl", "csv"):
        text = run("export", store, "-", "--format", format).stdout_bytes
        run("import", f"{format}.lethe", "-", "--format", format, "--metric", "l2", stdin=text)
        assert digest(tmp_path / f"{format}.lethe") == digest(store)


def test_export_of_one_person(run, store, tmp_path):
    run("export", store, "ann.jsonl", "--subject", "ann-the-first")
    records = datasets.read_records(tmp_path / "ann.jsonl")
    assert set(records.subjects or []) == {"ann-the-first"}
    assert len(records) == 20
    assert "has none" in run("export", store, "x.jsonl", "--subject", "nobody", code=1).stderr
    assert (
        "--subject, --where: expected" in run("export", store, "x.lethe", "--subject", "ann-the-first", code=1).stderr
    )


def test_export_replaces_nothing_unasked(run, store, tmp_path):
    (tmp_path / "x.jsonl").write_text("mine")
    assert "--force replaces it" in run("export", store, "x.jsonl", code=1).stderr
    assert (tmp_path / "x.jsonl").read_text() == "mine"
    run("export", store, "x.jsonl", "--force")
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 60


def test_a_backup_is_replaced_when_the_new_one_is_whole(run, store, tmp_path, monkeypatch):
    run("export", store, "copy.lethe")
    before = (tmp_path / "copy.lethe").read_bytes()

    def fails(self, path):
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(lethevec.Store, "backup", fails)
        assert "no space" in run("export", store, "copy.lethe", "--force", code=1).stderr
    assert (tmp_path / "copy.lethe").read_bytes() == before
    run("forget", store, "--subject", "ann-the-first")
    run("export", store, "copy.lethe", "--force")
    assert (tmp_path / "copy.lethe").read_bytes() != before


@pytest.mark.parametrize("arguments", [(), ("--receipts",)])
def test_an_export_never_replaces_the_store_itself(run, store, tmp_path, arguments, digest):
    before = digest(store)
    (tmp_path / "link.lethe").symlink_to(store)
    for name in (str(store), "link.lethe", *(["keys"] if arguments else [])):
        target = f"{store}-keys" if name == "keys" else name
        assert "one of the store itself" in run("export", store, target, "--force", *arguments, code=1).stderr
    assert digest(store) == before


def test_ids_of_both_kinds_need_jsonl(run, tmp_path, vectors, digest):
    with lethevec.open(tmp_path / "both.lethe", dim=6, metric="l2") as db:
        db.add(vectors[:3], ids=[7, "7", "a"])
    assert "numbers or texts" in run("export", "both.lethe", "x.parquet", code=1).stderr
    assert ".jsonl keeps all" in run("export", "both.lethe", "x.csv", code=1).stderr
    assert not list(tmp_path.glob("x.*"))
    run("export", "both.lethe", "x.jsonl")
    run("import", "copy.lethe", "x.jsonl", "--metric", "l2")
    assert digest(tmp_path / "copy.lethe") == digest(tmp_path / "both.lethe")


def test_import_of_ids_that_are_there(run, ask, store, tmp_path, vectors, digest):
    run("export", store, "x.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    lines[0]["payload"] = {"changed": True}
    lines.append({**lines[1], "id": 99})
    (tmp_path / "y.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    before = digest(store)
    run("import", store, "y.jsonl", code=1)
    assert digest(store) == before
    assert ask("import", store, "y.jsonl", "--present", "skip")["imported"] == 1
    with lethevec.open(store) as db:
        assert db.get([lines[0]["id"]])[0].payload != {"changed": True}
    assert ask("import", store, "y.jsonl", "--present", "replace", "--batch", "7")["imported"] == 61
    with lethevec.open(store) as db:
        assert len(db) == 61
        assert db.get([lines[0]["id"]])[0].payload == {"changed": True}


def test_a_backup_that_comes_back_forgets_again(run, ask, store, tmp_path, digest):
    run("export", store, "old.lethe")
    run("forget", store, "--subject", "bob-the-second")
    run("export", store, "chain.jsonl", "--receipts")
    keys = tmp_path / "people.lethe-keys"
    (tmp_path / "restored.lethe-keys").write_bytes(keys.read_bytes())
    answer = ask("import", "restored.lethe", "old.lethe", "--receipts", "chain.jsonl")
    assert answer["records"] == 40
    assert digest(tmp_path / "restored.lethe") == digest(store)
    assert "got one that is there already" in run("import", "restored.lethe", "old.lethe", code=1).stderr
    assert (
        "expected a backup (.lethe)"
        in run("import", "z.lethe", "chain.jsonl", "--receipts", "chain.jsonl", code=1).stderr
    )
