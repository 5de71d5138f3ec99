"""Bulk load through Ray Data: what one store loads, resumed where it was cut off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

from lethevec.cluster.loading import pieces_of
from lethevec.errors import FileError, FormatError, InputError
from tests.ray.residue import MARKS, VECTOR, marks_in, places_of


def table(n: int, begin: int = 0) -> pa.Table:
    vectors = np.random.default_rng(begin).standard_normal((n, 8)).astype(np.float32)
    return pa.table(
        {
            "id": [f"row-{begin + k}" for k in range(n)],
            "vector": pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), 8),
            "who": [f"person-{k % 5}" if k % 2 else None for k in range(n)],
            "more": ['{"year": 2000}'] * n,
        }
    )


def test_files_are_loaded_and_a_load_goes_on_where_it_was_cut_off(place):
    db = place.connect(shards=2, replicas=2)
    for one in (db, place.one):
        one.collection("rows", dim=8, metric="l2")
    first, second = place.folder / "first.parquet", place.folder / "second.arrow"
    pq.write_table(table(900), first, row_group_size=300)
    with pa.OSFile(str(second), "wb") as file, pa.ipc.new_file(file, table(2).schema) as writer:
        writer.write_table(table(500, 900), max_chunksize=250)
    pieces = [piece for path in (first, second) for piece in pieces_of(path)]
    assert len(pieces) == 5
    columns = {"subject": "who", "payload": "more"}
    # A driver that died after two pieces had noted them.
    import lethevec.cluster.loading as loading

    real, seen = loading._run, []

    def dies(*args):
        for outcome in real(*args):
            seen.append(outcome)
            yield outcome
            if len(seen) == 2:
                raise KeyboardInterrupt

    loading._run = dies
    try:
        with pytest.raises(KeyboardInterrupt):
            db.load_files("rows", [first, second], **columns)
    finally:
        loading._run = real
    before = sum(count for _, count, _ in seen)
    rest = db.load_files("rows", [first, second], **columns)
    assert before + rest == 1400
    whole = pa.concat_tables([table(900), table(500, 900)])
    place.one.collection("rows").add(
        np.vstack(whole["vector"].to_pylist()),
        whole["id"].to_pylist(),
        subjects=whole["who"].to_pylist(),
        payloads=[{"year": 2000}] * 1400,
    )
    assert db.digest() == place.one.digest()
    assert not db.driver.epoch.in_state("away")
    assert db.driver.registry("status")["marks"] == {}

    with pytest.raises(InputError, match="InputError"):
        db.load_files("rows", [first], vector="nowhere")
    with pytest.raises(FormatError):
        db.load_files("rows", [place.folder / "x.csv"]) if (place.folder / "x.csv").write_text("x") else None
    with pytest.raises(FileError):
        db.load_files("rows", [place.folder / "none.parquet"])


def test_nothing_is_left_of_a_loaded_record_after_an_erasure(place):
    db = place.connect(shards=2, replicas=2)
    db.collection("rows", dim=64, metric="l2")
    rng = np.random.default_rng(3)
    vectors = np.vstack([VECTOR, rng.standard_normal((2000, 64)).astype(np.float32)])
    file = place.folder / "rows.parquet"
    columns = {
        "id": [MARKS["id"].decode(), *[f"row-{k}" for k in range(2000)]],
        "vector": pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), 64),
        "who": [MARKS["subject"].decode()] + [None] * 2000,
        "more": [f'{{"street": "{MARKS["payload"].decode()}"}}'] + [None] * 2000,
    }
    pq.write_table(pa.table(columns), file, row_group_size=500)
    assert db.load_files("rows", [file], subject="who", payload="more") == 2001
    folders = [Path(ray._private.worker.global_worker.node.get_session_dir_path()), place.folder / "cluster"]
    assert marks_in(places_of(MARKS, folders)) == set(MARKS)
    file.unlink()
    db.forget(subject=MARKS["subject"].decode())
    assert places_of(MARKS, folders) == []
