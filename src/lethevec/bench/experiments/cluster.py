"""What a cluster on Ray costs a query, beside one store in one process.

    python -m lethevec.bench.experiments.cluster --shards 4 --records 40000 --samples times.txt

Several Ray nodes on this machine, one member on each. Measured in turns, so that what else the machine does meets all
of them: a single query and a batch at one store with all records; at one store with one shard's records; at as many
stores with one shard's records each, in processes of their own and without Ray, all at the same time; the same in
processes that overwrite what they free, as members do; at the cluster; and what Ray takes by itself, for calls to as
many actors that do nothing. For each, the time that passed and the CPU time of all processes together. Then sealing
alone, adding, a bulk load, moving buckets, and erasing.

The shards share the cores of this machine. So a batch at the cluster is compared with the same batch at the same stores
at the same time on the same cores: what is between the two is overwriting, sealing, carrying, and putting answers
together. Ray runs its processes at niceness 15, which on a busy machine is most of what one would measure; here they
run as everything else.

It needs the extra `ray`, and prints a table.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import lethevec
from lethevec.cluster.engine import ENVIRONMENT
from lethevec.cluster.messages import pack, unpack
from lethevec.cluster.sealing import Hello, Secret, welcome

LOOPBACK = "127.0.0.2"
TURNS = 10  # that the places take
BATCHES = 5  # of a batch in each


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lethevec.bench.experiments.cluster", description=__doc__)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=300, help="single queries at each place, and queries in a batch")
    parser.add_argument("--samples", type=Path, help="write the times of one member here, in ms")
    given = parser.parse_args(arguments)
    os.environ.setdefault("RAY_worker_niceness", "0")
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
    ours = db.collection("words", dim=given.dim)
    begun = time.perf_counter()
    ours.add(vectors, ids)
    loaded = time.perf_counter() - begun
    one = lethevec.connect(folder / "one")
    whole = one.collection("words", dim=given.dim)
    whole.add(vectors, ids)
    parts = [(vectors[n :: given.shards], ids[n :: given.shards]) for n in range(given.shards)]
    alone = [Alone(folder / str(n), *part, {}) for n, part in enumerate(parts)]
    overwriting = [Alone(folder / f"overwriting-{n}", *part, ENVIRONMENT) for n, part in enumerate(parts)]
    echoes = Echoes(given.shards)
    search: dict[str, Callable[[Any], Any]] = {
        "the cluster": lambda asked: ours.search(asked, 10),
        f"{given.shards} calls of Ray that do nothing": lambda asked: echoes.ask(len(asked)),
        "the same stores without Ray, together": lambda asked: ask_alone(alone, asked),
        "the same, overwriting what they free": lambda asked: ask_alone(overwriting, asked),
        "one store with one shard's records": lambda asked: ask_alone(alone[:1], asked),
        "one store with all records": lambda asked: whole.search(asked, 10),
    }
    for one_search in search.values():
        for _ in range(20):
            one_search(queries[:1])
        one_search(queries)
    single = {name: Measured() for name in search}
    batch = {name: Measured() for name in search}
    for turn in range(TURNS):
        part = queries[turn::TURNS]
        for name, one_search in search.items():
            single[name].add([partial(one_search, query.reshape(1, -1)) for query in part], len(part))
        for name, one_search in search.items():
            batch[name].add([partial(one_search, queries)] * BATCHES, BATCHES * len(queries))
    print(f"{'':38s} one query, ms: median   90 %    99 %     CPU | batches, queries/s    CPU, ms each")
    for name in search:
        low, high, most = np.percentile(single[name].times, [50, 90, 99]) * 1e3
        rate = len(queries) / np.median(batch[name].times)
        print(
            f"{name:38s} {low:22.3f} {high:6.3f} {most:7.3f} {single[name].cpu:7.3f} | {rate:18,.0f} "
            f"{batch[name].cpu:15.3f}"
        )
    there, empty, together, as_members, alone_, _ = search
    medians = {name: float(np.median(single[name].times)) * 1e3 for name in search}
    print(f"added to one shard's own search: {medians[there] - medians[alone_]:.3f} ms")
    print(f"for comparison, {empty}: {medians[empty]:.3f} ms")
    for name in (together, as_members):
        ratio = np.median(batch[name].times) / np.median(batch[there].times)
        by_cpu = batch[name].cpu / batch[there].cpu
        print(f"batches beside {name}: {ratio:.2f} of the rate, {by_cpu:.2f} by CPU time")
    print(f"sealing and opening one query and its answer: {1e3 * sealing(queries[0]):.3f} ms")
    print(f"adding: {given.records / loaded:,.0f} records/s")
    print(
        f"loading a Parquet file through Ray Data: {given.records / load_seconds(db, folder, vectors):,.0f} records/s"
    )
    erasing = [timed(partial(ours.forget, [id])) for id in range(5)]
    print(f"erasing one record in {given.shards} members: {1e3 * float(np.median(erasing)):.0f} ms")
    if given.samples is not None:
        np.savetxt(given.samples, 1e3 * np.array(member_times(db, queries)), fmt="%.4f")
    moving = timed(partial(db.rebalance, shards=given.shards - 1))
    moved = given.records / given.shards
    print(f"taking one of {given.shards} shards away: {moving:.1f} s, {moved / moving:,.0f} records/s")
    for process in [*alone, *overwriting]:
        process.close()
    db.close()
    one.close()


class Measured:
    """Times that passed, and CPU time of this process and all below it for each query."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._cpu = 0.0
        self._queries = 0

    def add(self, calls: list[Callable[[], Any]], queries: int) -> None:
        begun = cpu_of_all()
        self.times += [timed(call) for call in calls]
        self._cpu += cpu_of_all() - begun
        self._queries += queries

    @property
    def cpu(self) -> float:
        """Milliseconds for each query."""
        return 1e3 * self._cpu / self._queries


def cpu_of_all() -> float:
    """Seconds of CPU of this process and every process that it or one of its children has started."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                after_name = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(path.name)] = int(after_name[1])
            spent[int(path.name)] = (int(after_name[11]) + int(after_name[12])) / tick
    known = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in known} - known:
        known |= more
    return sum(spent.get(pid, 0.0) for pid in known)


class Alone:
    """A store with one shard's records in a process of its own, which Ray does not know."""

    def __init__(self, folder: Path, vectors: Any, ids: list[int], environment: dict[str, str]) -> None:
        spawn = get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=serve_alone, args=(theirs, folder, vectors, ids), daemon=True)
        before = dict(os.environ)
        os.environ.update(environment)
        self._process.start()
        for name in environment.keys() - before.keys():
            del os.environ[name]
        self.pipe.recv()

    def close(self) -> None:
        self.pipe.send(None)
        self._process.join()


def serve_alone(pipe: Any, folder: Path, vectors: Any, ids: list[int]) -> None:
    with lethevec.connect(folder) as db:
        store = db.collection("words", dim=vectors.shape[1])
        store.add(vectors, ids)
        pipe.send("ready")
        while (asked := pipe.recv()) is not None:
            store.search(asked, 10)
            pipe.send(True)


def ask_alone(alone: list[Alone], asked: Any) -> None:
    for one in alone:
        one.pipe.send(asked)
    for one in alone:
        one.pipe.recv()


class Echo:
    """What Ray takes by itself: bytes in, bytes out."""

    def take(self, content: bytes, answer: int) -> bytes:
        return bytes(answer)


class Echoes:
    """As many actors as there are shards, on their nodes and in the members' environment."""

    def __init__(self, count: int) -> None:
        import ray

        self._actors = [
            ray.remote(Echo)
            .options(
                num_cpus=0,
                max_concurrency=16,
                enable_task_events=False,
                resources={f"lethevec_disk_{disk}": 0.001},
                runtime_env={"env_vars": ENVIRONMENT},
            )
            .remote()
            for disk in range(count)
        ]

    def ask(self, queries: int) -> None:
        """With as many bytes as a search asks all shards with."""
        import ray

        ray.get([actor.take.remote(bytes(200 + 400 * queries), 200 + 120 * queries) for actor in self._actors])


def load_seconds(db: Any, folder: Path, vectors: Any) -> float:
    """A bulk load of the same records by two readers, Ray Data's own start included."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n, dim = vectors.shape
    table = pa.table({"id": np.arange(n), "vector": pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), dim)})
    path = folder / "records.parquet"
    pq.write_table(table, path, row_group_size=-(-n // 8))
    db.collection("loaded", dim=dim)
    seconds = timed(partial(db.load_files, "loaded", [path]))
    assert len(db.collection("loaded")) == n
    db.drop("loaded")
    return seconds


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
