"""The server in front of a cluster, as an application of Ray Serve."""

from __future__ import annotations

from pathlib import Path

import httpx
import ray
from ray import serve

from lethevec.cluster.serving import application
from tests.ray.engine import until
from tests.ray.residue import MARKS, VECTOR, marks_in, places_of


def test_serve_runs_the_server_on_a_port_of_its_own(place):
    place.connect(shards=1, replicas=2).close()
    folder = str(place.folder / "cluster")
    app = application(folder=folder, cluster_name=place.name, state=str(place.folder / "state"), port=0, log="none")
    serve.start(proxy_location="Disabled")
    try:
        handle = serve.run(app, name="lethevec", route_prefix=None)
        url = f"http://127.0.0.1:{handle.address.remote().result(timeout_s=60)}"
        until(lambda: httpx.get(f"{url}/readyz").status_code == 200)
        made = httpx.post(f"{url}/v1/collections", json={"name": "notes", "dim": 2, "metric": "l2"})
        assert made.status_code == 201, made.text
        records = {"ids": ["a"], "vectors": [[0, 1]], "subjects": ["ann"]}
        httpx.post(f"{url}/v1/collections/notes/upsert", json=records).raise_for_status()
        found = httpx.post(f"{url}/v1/collections/notes/search", json={"vector": [0, 0], "k": 2}).json()
        assert found["ids"] == [["a", -1]] or found["ids"] == [["a"]]
        erased = httpx.post(f"{url}/v1/forget", json={"subject": "ann"}).json()
        assert sorted(entry["member"] for entry in erased["receipt"]["members"]) == ["s0-1", "s0-2"]

        # A record that came through the server is in no process of Ray afterwards, Serve's among them.
        assert httpx.post(f"{url}/v1/collections", json={"name": "rows", "dim": 64, "metric": "l2"}).status_code == 201
        words = {name: mark.decode() for name, mark in MARKS.items() if name != "vector"}
        row = {"ids": [words["id"]], "vectors": [VECTOR.tolist()], "subjects": [words["subject"]]}
        row["payloads"] = [{"street": words["payload"]}]
        httpx.post(f"{url}/v1/collections/rows/upsert", json=row).raise_for_status()
        found = httpx.post(f"{url}/v1/collections/rows/search", json={"vector": VECTOR.tolist(), "k": 1}).json()
        assert found["ids"] == [[words["id"]]]
        folders = [Path(ray._private.worker.global_worker.node.get_session_dir_path()), place.folder / "cluster"]
        assert marks_in(places_of(MARKS, folders)) == set(MARKS)
        httpx.post(f"{url}/v1/forget", json={"subject": words["subject"]}).raise_for_status()
        httpx.get(f"{url}/readyz").raise_for_status()
        assert places_of(MARKS, folders) == []
    finally:
        serve.shutdown()
