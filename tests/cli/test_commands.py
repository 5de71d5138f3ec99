"""The commands do what they say, from outside: what they print is held against the library."""

from __future__ import annotations

import io
import json
import os
import stat
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import lethevec
from lethevec import datasets
from lethevec.cli import arrays, erasure


def digest(path: Path) -> str:
    with lethevec.open(path, read_only=True) as db:
        return db.digest()


# --- add -------------------------------------------------------------------------------------------------------------


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
def test_add_takes_whole_numbers(ask, tmp_path, suffix, dtype):
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


def test_add_is_all_or_nothing(run, store, vectors, tmp_path):
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


# --- export and import -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "x.parquet", "x.arrow", "x.npz", "x.lethe"])
@pytest.mark.parametrize("words", [False, True], ids=["numbers", "texts"])
def test_what_is_exported_comes_back_bit_for_bit(run, ask, store, tmp_path, vectors, name, words):
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
    record = lethevec.store.Record(1, vectors[0], None, None)
    with pytest.raises(lethevec.errors.IncompleteWriteError, match="expected 2 records, got 1"):
        arrays.write_npy(io.BytesIO(), iter([record]), 2, 6)


def test_a_pipe_from_store_to_store(run, store, tmp_path):
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
    assert "--subject: expected" in run("export", store, "x.lethe", "--subject", "ann-the-first", code=1).stderr


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
def test_an_export_never_replaces_the_store_itself(run, store, tmp_path, arguments):
    before = digest(store)
    (tmp_path / "link.lethe").symlink_to(store)
    for name in (str(store), "link.lethe", *(["keys"] if arguments else [])):
        target = f"{store}-keys" if name == "keys" else name
        assert "one of the store itself" in run("export", store, target, "--force", *arguments, code=1).stderr
    assert digest(store) == before


def test_ids_of_both_kinds_need_jsonl(run, tmp_path, vectors):
    with lethevec.open(tmp_path / "both.lethe", dim=6, metric="l2") as db:
        db.add(vectors[:3], ids=[7, "7", "a"])
    assert "numbers or texts" in run("export", "both.lethe", "x.parquet", code=1).stderr
    assert ".jsonl keeps all" in run("export", "both.lethe", "x.csv", code=1).stderr
    assert not list(tmp_path.glob("x.*"))
    run("export", "both.lethe", "x.jsonl")
    run("import", "copy.lethe", "x.jsonl", "--metric", "l2")
    assert digest(tmp_path / "copy.lethe") == digest(tmp_path / "both.lethe")


def test_import_of_ids_that_are_there(run, ask, store, tmp_path, vectors):
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


def test_a_backup_that_comes_back_forgets_again(run, ask, store, tmp_path):
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


# --- search and tune -------------------------------------------------------------------------------------------------


def test_search_by_id_leaves_the_record_out(run, store, vectors):
    line = json.loads(run("search", store, "--id", "7", "-k", "3", "--json").stdout)
    with lethevec.open(store, read_only=True) as db:
        wanted = [hit.id for hit in db.search(vectors[7], k=4)[0]][1:]
    assert line["query"] == 7
    assert [hit["id"] for hit in line["hits"]] == wanted
    assert set(line["hits"][0]) == {"id", "distance", "subject", "payload"}


def test_search_of_a_file_has_a_line_for_each_query(run, store, vectors, tmp_path):
    np.save(tmp_path / "q.npy", vectors[:5])
    lines = [json.loads(line) for line in run("search", store, "q.npy", "-k", "2", "--json").stdout.splitlines()]
    assert [line["query"] for line in lines] == [0, 1, 2, 3, 4]
    assert [line["hits"][0]["id"] for line in lines] == [0, 1, 2, 3, 4]
    result = run("search", store, "q.npy", "-k", "2")
    assert result.stdout.count("distance") == 5
    assert "5 queries in" in result.stderr


def test_search_by_vector_with_conditions(run, store, vectors):
    vector = ",".join(map(str, vectors[4].tolist()))
    ask = ["search", store, "--vector", vector, "--json", "-k", "60"]
    hits = json.loads(run(*ask, "--subject", "bob-the-second", "--where", '{"n": {"$lt": 10}}').stdout)["hits"]
    assert {hit["id"] for hit in hits} == {1, 4, 7}
    assert {hit["subject"] for hit in hits} == {"bob-the-second"}
    assert "bob-the-second" in run("search", store, "--vector", vector, "-k", "1").stdout


def test_search_tells_the_recall(run, store, vectors, tmp_path):
    np.save(tmp_path / "q.npy", vectors[:10])
    distances = np.linalg.norm(vectors[:10, None] - vectors[None], axis=2)
    true = np.argsort(distances, axis=1)[:, :5].astype("<i4")
    np.hstack([np.full((10, 1), 5, dtype="<i4"), true]).tofile(tmp_path / "t.ivecs")
    assert (
        "recall@5: 1.0000 over 10"
        in run("search", store, "q.npy", "-k", "5", "--effort", "1e6", "--truth", "t.ivecs").stderr
    )
    np.hstack([np.full((10, 1), 5, dtype="<i4"), true[::-1]]).astype("<i4").tofile(tmp_path / "t.ivecs")
    assert "recall@5: 0." in run("search", store, "q.npy", "-k", "5", "--effort", "1e6", "--truth", "t.ivecs").stderr
    np.hstack([np.full((10, 1), 5, dtype="<i4"), true])[:3].astype("<i4").tofile(tmp_path / "t.ivecs")
    assert "expected a row for each query" in run("search", store, "q.npy", "--truth", "t.ivecs", code=1).stderr


def test_an_id_that_is_a_number_or_a_text(run, tmp_path, vectors):
    with lethevec.open(tmp_path / "a.lethe", dim=6) as db:
        db.add(vectors[:4], ids=[7, "7", "8", "007"])
    asked = [json.loads(run("search", "a.lethe", "--id", id, "--json").stdout)["query"] for id in ("7", "8", "007")]
    assert asked == [7, "8", "007"]


def test_tune_is_that_of_the_store(ask, run, store, tmp_path):
    queries = np.random.default_rng(9).normal(size=(30, 6)).astype(np.float32)
    np.save(tmp_path / "q.npy", queries)
    answer = ask("tune", store, "q.npy", "--target", "0.95", "-k", "5")
    with lethevec.open(store, read_only=True) as db:
        wanted = db.tune(queries, 0.95, 5)
    assert (answer["effort"], answer["recall"], answer["queries"]) == (wanted.effort, wanted.recall, 30)
    assert ask("tune", store, "--sample", "10")["queries"] == 10
    assert "use it" in run("tune", store, "q.npy").stdout
    lethevec.open(tmp_path / "empty.lethe", dim=2).close()
    assert "got an empty store" in run("tune", "empty.lethe", code=1).stderr


# --- forget and verify -----------------------------------------------------------------------------------------------


def test_forget_and_verify(run, ask, store, tmp_path, vectors):
    answer = ask("forget", store, "--subject", "ann-the-first", "--receipt", "r.json", "--search-all")
    assert (answer["forgotten"], answer["records"]) == (20, 40)
    assert json.loads((tmp_path / "r.json").read_text()) == answer["receipt"]
    np.save(tmp_path / "gone.npy", vectors[::3])
    arguments = ["verify", store, "r.json", "--subject", "ann-the-first", "--vectors", "gone.npy"]
    outcome = ask(*arguments)
    assert outcome["verified"]
    assert {check["name"] for check in outcome["checks"]} >= {"signature", "absent", "about", "residue", "unused bytes"}
    assert all(check["passed"] for check in outcome["checks"])
    assert "verified  yes" in run(*arguments).stdout
    assert ask("verify", store, "-", stdin=(tmp_path / "r.json").read_text())["verified"]
    assert ask("verify", store, answer["receipt"]["sequence"])["verified"]
    wrong = ask("verify", store, "--subject", "bob-the-second", code=1)
    assert [check["name"] for check in wrong["checks"] if check["passed"] is False] == ["about"]
    changed = {**answer["receipt"], "records": 19}
    (tmp_path / "r2.json").write_text(json.dumps(changed))
    result = run("verify", store, "r2.json", code=1)
    assert "FAILED" in result.stdout
    assert "verified  NO" in result.stdout


def test_forget_ids(run, ask, store, tmp_path):
    assert ask("forget", store, "3", "5")["forgotten"] == 2
    (tmp_path / "ids.txt").write_text("7\n\n8\n")
    assert ask("forget", store, "--ids-from", "ids.txt")["forgotten"] == 2
    assert ask("forget", store, "--ids-from", "-", stdin="9\n")["forgotten"] == 1
    before = digest(store)
    run("forget", store, "10", "3", code=1)
    assert digest(store) == before
    assert ask("forget", store, "10", "3", "--ignore-unknown")["forgotten"] == 1
    assert "got one that is there already" in run("forget", store, "11", "--receipt", "ids.txt", code=1).stderr
    # A file that cannot be written is refused before anything is forgotten; an unknown id leaves no empty file.
    assert "can be written" in run("forget", store, "11", "--receipt", "none/r.json", code=1).stderr
    assert run("search", store, "--id", "11", "-k", "1").stdout
    run("forget", store, "no such id", "--receipt", "new.json", code=1)
    assert not (tmp_path / "new.json").exists()
    assert "11" in [str(i) for i in range(60) if i in lethevec.open(store, read_only=True)]


def test_a_receipt_that_cannot_be_written(run, ask, store, tmp_path, monkeypatch):
    class Full:
        name = "r.json"

        def write(self, data):
            raise OSError("no space left")

    monkeypatch.setattr(erasure, "_receipt_file", lambda path: nullcontext(Full()))
    told = run("forget", store, "11", "--receipt", "r.json", code=1).stderr
    assert "the records are forgotten, but the receipt could not be written here (no space left)" in told
    assert "the store keeps it, with number 1" in told
    assert ask("verify", store, "1", "--id", "11")["verified"]


def test_a_terminal_is_asked_first(run, store, monkeypatch):
    class Terminal:
        """What click reads from is replaced by its runner; only the question whether it is a terminal is ours."""

        def __getattr__(self, name):
            import sys

            return (lambda: True) if name == "isatty" else getattr(sys, name)

    class Sys:
        stdin = stdout = Terminal()

    monkeypatch.setattr(erasure, "sys", Sys)
    before = digest(store)
    result = run("forget", store, "--subject", "ann-the-first", code=1, stdin="n\n")
    assert "Forget 20 records of ann-the-first for good?" in result.output
    assert digest(store) == before
    run("forget", store, "--subject", "ann-the-first", stdin="y\n")
    run("forget", store, "--subject", "bob-the-second", "--yes")
    with lethevec.open(store) as db:
        assert db.subjects() == {"cem-the-third": 20}


def test_a_reader_in_the_way_is_code_4(run, store):
    import sqlite3

    other = sqlite3.connect(store)
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM records").fetchone()
    try:
        result = run("forget", store, "3", "--timeout", "0", code=4)
        assert "erasure is not complete" in result.stderr
    finally:
        other.close()
    assert "1; 0 erasures wait" in run_after_opening(run, store)


def run_after_opening(run, store) -> str:
    lethevec.open(store).close()  # completes what waits
    return str(run("info", store).stdout)


def test_a_chain_by_itself(run, ask, store, tmp_path):
    run("forget", store, "1")
    run("forget", store, "2")
    run("export", store, "chain.jsonl", "--receipts")
    key = ask("info", store)["public_key"]
    assert ask("verify", "--chain", "chain.jsonl", "--first-key", key)["verified"]
    run("verify", "--chain", "chain.jsonl", "--first-key", "00" * 32, code=1)
    assert "64 hexadecimal digits" in run("verify", "--chain", "chain.jsonl", "--first-key", "zz", code=1).stderr
    lines = (tmp_path / "chain.jsonl").read_text().splitlines()
    (tmp_path / "cut.jsonl").write_text("\n".join([lines[0], lines[2]]))
    assert not ask("verify", "--chain", "cut.jsonl", code=1)["verified"]


# --- info and doctor -------------------------------------------------------------------------------------------------


def test_info(run, ask, store):
    run("forget", store, "1")
    facts = ask("info", store)
    assert facts["records"] == 59
    assert facts["subjects"] == {"ann-the-first": 20, "bob-the-second": 19, "cem-the-third": 20}
    assert facts["digest"] == digest(store)
    assert facts["config"]["metric"] == "l2"
    assert [receipt["records"] for receipt in facts["receipts"]] == [1]
    assert len(facts["public_key"]) == 64
    text = run("info", store, "--subjects", "--receipts").stdout
    for wanted in ("59, of 3 subjects", facts["digest"], "bob-the-second", "dim=6"):
        assert wanted in text
    os.remove(f"{store}-keys")
    assert ask("info", store)["public_key"] is None
    assert "not to be had" in run("info", store).stdout


def test_doctor(run, ask, tmp_path):
    facts = ask("doctor", tmp_path)
    assert facts["cpu"]["isa"] == lethevec.cpu_info().isa
    assert facts["sqlite"]["secure_delete"] == "on"
    assert facts["problems"] == []
    assert list(tmp_path.iterdir()) == []
    assert "all is well" in run("doctor").stdout


def test_doctor_says_when_something_is_wrong(run, monkeypatch):
    from lethevec.cli import about

    facts = about.sqlite_facts()
    monkeypatch.setattr(about, "sqlite_facts", lambda folder: type(facts)("3.1", "off", "off", "wal", "expected 3.35"))
    result = run("doctor", code=1)
    assert "PROBLEM" in result.stdout
    assert "something is wrong" in result.stdout


# --- bench and demo --------------------------------------------------------------------------------------------------


def test_bench_passes_everything_on(run, monkeypatch):
    import sys
    from types import ModuleType

    given = []
    module = ModuleType("lethevec.bench.cli")
    module.main = lambda arguments: given.append(arguments) or 5  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lethevec.bench", ModuleType("lethevec.bench"))
    monkeypatch.setitem(sys.modules, "lethevec.bench.cli", module)
    run("bench", "compare", "--data", "x.hdf5", "--targets", "0.9", "0.95", code=5)
    run("bench", "--", "--help", code=5)
    assert given == [["compare", "--data", "x.hdf5", "--targets", "0.9", "0.95"], ["--help"]]


def test_demo_passes_its_options_on(run, monkeypatch):
    given = []
    monkeypatch.setattr("lethevec.demo.main", given.append)
    run("demo")
    run("demo", "--words", "5000", "--folder", "x")
    assert given == [[], ["--words", "5000", "--folder", "x"]]
