"""All peers and ours at equal recall, one thread, one query at a time: `python -m lethevec.bench.compare --data FILE`.

Each is tuned to the cheapest setting that reaches the recall; then they take turns. All indexes are in memory at once.
"""

from __future__ import annotations

import time

from . import peers
from .harness import Data, Report, interleave, load_data, now, one_by_one, parser, ratio, recall, start
from .ours import Lethevec
from .peer import Peer, queries_for, tune_to
from .process import start_over

K = 10


def build(report: Report, data: Data, competitors: list[Peer]) -> None:
    """Build all of them; they may use all cores for it, and the time is only told."""
    for peer in competitors:
        begin, cpu = time.perf_counter(), time.process_time()
        peer.build(data.train, data.metric)
        took, busy = time.perf_counter() - begin, time.process_time() - cpu
        report.add(data=data.name, competitor=peer.name, build_seconds=took, build_cpu_seconds=busy)
        report.note(f"{data.name}: built {peer.name} in {took:.1f} s ({busy:.1f} s of CPU)")


def at_recall(report: Report, data: Data, competitors: list[Peer], target: float, rounds: int, seconds: float) -> None:
    """One table: everybody at `target`, or at their best where they cannot reach it."""
    queries = queries_for(data)
    for peer in competitors:
        begin = now()
        reached = tune_to(peer, data, target, K)
        report.note(f"{data.name}: {peer.name} has recall {reached:.4f} with {peer.describe()} ({now() - begin:.0f} s)")
    tasks = {peer.name: (len(queries), one_by_one(peer.search_one, queries, K)) for peer in competitors}
    timings = interleave(tasks, rounds=rounds, seconds=seconds)
    ours = next((timings[peer.name] for peer in competitors if isinstance(peer, Lethevec)), None)
    rows = []
    for peer in competitors:
        timing = timings[peer.name]
        got = recall(data, timing.answer, K)
        report.add_timing(timing, data=data.name, target=target, recall=got, setting=peer.describe(), k=K)
        against = f"{ratio(ours, timing):.2f}" if ours else ""
        rows.append((peer.name, peer.describe(), f"{got:.4f}", f"{timing.rate:,.0f}", f"{timing.spread:.2f}", against))
    head = ("competitor", "setting", f"recall@{K}", "queries/s", "spread", "lethevec is faster by")
    report.table(f"{data.name}, recall of at least {target}, {len(queries)} queries, one thread", head, rows)


def main(command: list[str] | None = None) -> None:
    cli = parser(__doc__ or "")
    cli.add_argument("--peers", default=",".join(peers.ALL), help="which, by name, with commas")
    cli.add_argument("--sources", default="scan", help="where lethevec takes candidates from, with commas; '' for none")
    cli.add_argument("--targets", default="0.90,0.95", help="recall to reach, with commas")
    arguments = cli.parse_args(command)
    start(arguments)
    report = Report("compare", vars(arguments), arguments.out)
    for data in load_data(arguments.data, arguments.queries):
        ours: list[Peer] = [Lethevec(source) for source in arguments.sources.split(",") if source]
        present = [peer for peer in ours if peer.available()]
        competitors = present + peers.make(name for name in arguments.peers.split(",") if name)
        build(report, data, competitors)
        for target in map(float, arguments.targets.split(",")):
            at_recall(report, data, competitors, target, arguments.rounds, arguments.seconds)
    report.note(f"Results: {report.path}")


if __name__ == "__main__":
    start_over("lethevec.bench.compare", main)
