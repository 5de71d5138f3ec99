"""What a cluster on Ray costs a query, beside one store in one process.

    python -m lethevec.bench.experiments.cluster --shards 4 --records 40000 --samples times.txt

Several Ray nodes on this machine, one member on each. Measured, in turns: a single query at one store with all
records, at one store with one shard's records, and at the cluster; batches at both; sealing alone; adding, moving
buckets, and erasing. It needs the extra `ray`, and prints a table. On few cores the shards share them, so what is added
is more than on as many machines.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import lethevec
from lethevec.cluster.messages import pack, unpack
from lethevec.cluster.sealing import Hello, Secret, welcome

LOOPBACK = "127.0.0.2"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lethevec.bench.experiments.cluster", description=__doc__)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--samples", type=Path, help="write the times of one member here, in ms")
    given = parser.parse_args(arguments)
    import ray
    from ray.cluster_utils import Cluster

    shared: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20, "node_ip_address": LOOPBACK}
    cluster = Cluster(initialize_head=True, head_node_args={**shared, "include_dashboard": False})
    for disk in range(given.shards):
        cluster.add_node(resources={f"lethevec_disk_{disk}": 1}, **shared)
    ray.init(address=cluster.address, namespace="lethevec", log_to_driver=False, _node_ip_address=LOOPBACK)
    try:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), given)
    finally:
        ray.shutdown()
        cluster.shutdown()


def measure(folder: Path, given: argparse.Namespace) -> None:
    from lethevec import cluster

    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((given.records, given.dim)).astype(np.float32)
    queries = rng.standard_normal((given.rounds, given.dim)).astype(np.float32)
    ids = list(range(given.records))
    db = cluster.connect(folder=folder / "cluster", shards=given.shards, lease=5.0)
    one, part = (lethevec.connect(folder / name) for name in ("one", "part"))
    stores = [place.collection("words", dim=given.dim) for place in (db, one, part)]
    ours, whole, shard = stores
    begun = time.perf_counter()
    ours.add(vectors, ids)
    loaded = time.perf_counter() - begun
    whole.add(vectors, ids)
    shard.add(vectors[:: given.shards], ids[:: given.shards])
    places = {"cluster": ours, "one store, all records": whole, "one store, one shard's": shard}
    times: dict[str, list[float]] = {name: [] for name in places}
    for name in places:
        places[name].search(queries[0], 10)
    for query in queries:  # in turns, so that what else the machine does meets all of them
        for name, store in places.items():
            times[name].append(timed(partial(store.search, query, 10)))
    echoes = [ray_echo() for _ in range(given.shards)]
    for echo in echoes:
        ray_get([echo.take.remote(b"")])
    bare = [timed(partial(ask_all, echoes)) for _ in range(given.rounds)]
    batches: dict[str, list[float]] = {name: [] for name in places}
    for _ in range(5):
        for name, store in places.items():
            batches[name].append(timed(partial(store.search, queries, 10)) / len(queries))
    print(f"{'':28s} median ms   90 %    99 %   batches, queries/s")
    for name in places:
        low, high, most = np.percentile(times[name], [50, 90, 99]) * 1e3
        print(f"{name:28s} {low:9.3f} {high:7.3f} {most:7.3f} {1 / np.median(batches[name]):12,.0f}")
    added = 1e3 * (np.median(times["cluster"]) - np.median(times["one store, one shard's"]))
    rate = np.median(batches["one store, one shard's"]) / np.median(batches["cluster"])
    print(f"added to one shard's search: {added:.3f} ms; batches at {rate:.2f} of one shard's own rate")
    print(f"of which Ray's own, {given.shards} calls that do nothing: {1e3 * float(np.median(bare)):.3f} ms")
    print(f"sealing and opening one query and its answer: {1e3 * sealing(queries[0]):.3f} ms")
    print(f"adding: {given.records / loaded:,.0f} records/s")
    erasing = [timed(partial(ours.forget, [id])) for id in range(5)]
    print(f"erasing one record in {given.shards} members: {1e3 * float(np.median(erasing)):.0f} ms")
    if given.samples is not None:
        np.savetxt(given.samples, 1e3 * np.array(member_times(db, queries)), fmt="%.4f")
    db.close()
    one.close()
    part.close()


class Echo:
    """What Ray takes by itself: bytes in, bytes out."""

    def take(self, content: bytes) -> bytes:
        return content


def ray_echo() -> Any:
    import ray

    return ray.remote(Echo).options(num_cpus=0, max_concurrency=16).remote()


def ray_get(refs: Any) -> Any:
    import ray

    return ray.get(refs)


def ask_all(echoes: Any) -> None:
    """As a search asks all shards."""
    import ray

    refs = [echo.take.remote(bytes(600)) for echo in echoes]
    ready, _ = ray.wait(refs, num_returns=len(refs), timeout=5)
    ray.get(ready)


def member_times(db: Any, queries: Any) -> list[float]:
    """Times of one member's search, as a driver sees them."""
    driver = db.driver
    name = driver.epoch.in_state("live")[0].name
    head = {"collection": next(iter(driver.epoch.collections)), "k": 10, "effort": 1.0, "version": driver.epoch.version}
    return [timed(partial(driver.caller.call, name, "search", head, [q.reshape(1, -1)])) for q in queries]


def sealing(query: Any) -> float:
    """What sealing and opening a query and its answer takes, at both ends together."""
    secret = Secret(bytes(32))
    hello = Hello(secret, "c", "m")
    answer, theirs = welcome(secret, "c", "m", hello.content)
    ours = hello.finish(answer)
    ids = list(range(10))

    def once() -> None:
        unpack(theirs.open(ours.seal(pack({"op": "search", "k": 10, "effort": 1.0}, [query.reshape(1, -1)]))))
        unpack(ours.open(theirs.seal(pack({"ids": ids}, [np.zeros(10, dtype=np.float32)]))))

    return float(np.median([timed(once) for _ in range(200)]))


def timed(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
