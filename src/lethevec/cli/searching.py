"""`search` and `tune`: asking a store, and finding out what an answer costs."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

import lethevec
from lethevec import Hit, datasets
from lethevec._progress import Progress
from lethevec._store.export_arrays import vector_of
from lethevec.errors import InputError

from .command import command, json_option, keys_option, open_store, parse_id, parse_where, store_argument, where_option
from .inputs import Input, format_option, key_option, read_queries
from .output import note, print_fields, print_json, print_table

__all__ = ["COMMANDS"]

F32 = npt.NDArray[np.float32]
_BATCH = 1000  # queries of one native call
_K = 10

threads_option = click.option("--threads", type=click.IntRange(1, 1024), help="Threads; all cores unless given.")


@command(
    "search",
    """
    lethevec add words.lethe :words
    lethevec search words.lethe --id paris -k 5 --where '{"rank": {"$lte": 5000}}'
    """,
)
@store_argument
@click.argument("queries", required=False, metavar="[QUERIES]")
@click.option("-k", type=click.IntRange(1), help="How many neighbours (10; with --radius, all there are).")
@click.option("--id", "ids", multiple=True, help="Ask for the neighbours of a record; may be repeated.")
@click.option("--vector", help="Ask for the neighbours of a vector: numbers with commas between them.")
@where_option
@click.option("--subject", help="Among the records of this subject only.")
@click.option("--radius", type=float, help="Only records at most so far away.")
@click.option("--effort", type=float, default=1.0, help="More looks at more records: see `lethevec tune` (1.0).")
@click.option(
    "--truth",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="True neighbours as ids, an .ivecs file, to tell the recall.",
)
@key_option
@format_option
@threads_option
@keys_option
@json_option
def search(
    store: Path,
    queries: str | None,
    k: int | None,
    ids: tuple[str, ...],
    vector: str | None,
    where: str | None,
    subject: str | None,
    radius: float | None,
    effort: float,
    truth: Path | None,
    key: str | None,
    format: str,
    threads: int | None,
    keys: Path | None,
    as_json: bool,
) -> None:
    """Find the nearest records in STORE to the vectors of a file of QUERIES, to a --vector, or to records by --id.

    A record that is asked for by --id is left out of its own neighbours. With --radius and no -k, every record within
    the radius is shown. With --json there is one line for each query.
    """
    if truth is not None and radius is not None and k is None:
        raise click.UsageError("expected -k beside --radius and --truth: a recall is that of so many neighbours")
    most = k if k is not None or radius is not None else _K
    if sum((queries is not None, vector is not None, bool(ids))) != 1:
        raise click.UsageError("expected one of QUERIES, --vector and --id")
    true = None if truth is None else datasets.read_neighbors(truth)
    condition = parse_where(where)
    right = asked = place = 0
    began = time.perf_counter()
    with open_store(store, keys) as db:
        total = None
        if ids:
            chosen = [parse_id(db, text) for text in ids]
            labels: Iterator[Any] = iter(chosen)
            parts: Iterator[F32] = iter([np.stack([vector_of(record) for record in db.get(chosen)])])
        else:
            labels = iter(range(sys.maxsize))
            source = Input([str(queries)], format, key, _BATCH)
            parts = iter([_parse_vector(vector)]) if vector is not None else read_queries(str(queries), source)
            total = source.total() if vector is None else 1
        with _progress(total) as progress:
            for part in parts:
                if most is None:
                    assert radius is not None
                    hits = db.search_radius(part, radius, where=condition, subject=subject)
                else:
                    hits = db.search(
                        part,
                        most + bool(ids),
                        where=condition,
                        subject=subject,
                        radius=radius,
                        effort=effort,
                        threads=threads or _cores(),
                    )
                for label, line in zip(labels, hits, strict=False):
                    found = [hit for hit in line if not ids or hit.id != label][:most]
                    _show(as_json, label, found, head=place == 0, alone=len(part) == 1 and bool(ids or vector))
                    if true is not None:
                        assert most is not None
                        wanted = _true_neighbours(true, place, most)
                        right += len(wanted & {hit.id for hit in found})
                        asked += len(wanted)
                    place += 1
                progress.advance(len(part))
    if not as_json and place > 1:
        note(f"{place:,} queries in {time.perf_counter() - began:.2f} s, opening the store included")
    if true is not None:
        note(f"recall@{most}: {right / max(asked, 1):.4f} over {place:,} queries")


def _cores() -> int:
    return lethevec.cpu_info().threads


def _progress(total: int | None) -> Progress:
    """A line for searches whose answers go elsewhere; those that come to the screen show by themselves how it goes."""
    return Progress(total, "searching", unit="queries", stream=io.StringIO() if sys.stdout.isatty() else None)


def _queries(name: str, format: str, key: str | None) -> Iterator[F32]:
    return read_queries(name, Input([name], format, key, _BATCH))


def _parse_vector(text: str) -> F32:
    try:
        return np.array([[float(part) for part in text.strip("[] ").split(",")]], dtype=np.float32)
    except ValueError:
        raise InputError(f"--vector: expected numbers with commas between them, got {text!r:.60}") from None


def _true_neighbours(true: npt.NDArray[np.int32], place: int, k: int) -> set[Any]:
    if place >= len(true):
        raise InputError(f"--truth: expected a row for each query, got {len(true)} rows")
    return set(true[place, :k].tolist())


def _show(as_json: bool, label: object, hits: list[Hit], *, head: bool, alone: bool) -> None:
    if as_json:
        fields = [{"id": h.id, "distance": h.distance, "subject": h.subject, "payload": h.payload} for h in hits]
        print_json({"query": label, "hits": fields})
        return
    if not head:
        click.echo()
    if not alone:
        print_fields([("query", label)])
    rows = [
        (h.id, f"{h.distance:.4f}", h.subject, None if h.payload is None else json.dumps(h.payload, ensure_ascii=False))
        for h in hits
    ]
    print_table(["id", "distance", "subject", "payload"], rows, right=["distance"])


@command(
    "tune",
    """
    lethevec add words.lethe :words
    lethevec tune words.lethe --target 0.98 --sample 200
    """,
)
@store_argument
@click.argument("queries", required=False, metavar="[QUERIES]")
@click.option("--target", type=float, default=0.9, help="The recall to reach (0.9).")
@click.option("-k", type=click.IntRange(1), default=10, help="Of how many neighbours (10).")
@click.option("--sample", type=click.IntRange(1), default=1000, help="At most so many queries, evenly spread (1000).")
@key_option
@format_option
@threads_option
@keys_option
@json_option
def tune(
    store: Path,
    queries: str | None,
    target: float,
    k: int,
    sample: int,
    key: str | None,
    format: str,
    threads: int | None,
    keys: Path | None,
    as_json: bool,
) -> None:
    """Find the least effort that reaches a recall on your own QUERIES (a file, or - for a pipe).

    The answers are held against those of a search that looks at everything. Without QUERIES records of the store stand
    in for them; they find themselves, which real queries do not, so give real ones if you have them.
    """
    with open_store(store, keys) as db:
        if not len(db):
            raise InputError(f"{store}: expected records to search, got an empty store")
        if queries is None:
            asked = _sampled(db, sample)
        else:
            given = np.concatenate(list(_queries(queries, format, key)))
            asked = given[_spread(len(given), sample)]
        found = db.tune(asked, target, k, threads=threads)
        records = len(db)
    facts = {
        "effort": found.effort,
        "recall": found.recall,
        "k": found.k,
        "queries": len(asked),
        "looked_at": found.candidates,
        "reranked": found.reranked,
        "records": records,
    }
    if as_json:
        print_json(facts)
        return
    print_fields(
        [
            ("effort", f"{found.effort:.4g}"),
            ("recall", f"{found.recall:.4f} of the {k} nearest, over {len(asked):,} queries"),
            ("looked at", f"{found.candidates:,.0f} of {records:,} records for one query"),
            ("true distances", f"{found.reranked:,.0f} for one query"),
            (
                "use it",
                f"lethevec search {store} ... --effort {found.effort:.4g}, or search(..., effort=...) in Python",
            ),
        ]
    )


def _sampled(db: lethevec.Store, most: int) -> F32:
    """The vectors of at most so many records."""
    wanted = set(_spread(len(db), most).tolist())
    found = []
    with Progress(len(db), "choosing queries", unit="records") as progress:
        for place, record in enumerate(db):
            if place in wanted and record.vector is not None:
                found.append(record.vector)
            progress.advance()
    return np.stack(found)


def _spread(n: int, most: int) -> npt.NDArray[np.int64]:
    """At most so many of n places, evenly spread."""
    return np.arange(min(n, most), dtype=np.int64) * n // min(n, most)


@command(
    "count",
    """
    lethevec add words.lethe :words
    lethevec count words.lethe --where '{"rank": {"$lte": 100}}'
    """,
)
@store_argument
@where_option
@click.option("--subject", help="Only records of this subject.")
@keys_option
@json_option
def count(store: Path, where: str | None, subject: str | None, keys: Path | None, as_json: bool) -> None:
    """Count the records of STORE, or those that pass --where or belong to a --subject."""
    condition = parse_where(where)
    with open_store(store, keys) as db:
        found = db.count(where=condition, subject=subject)
    print_json({"records": found}) if as_json else click.echo(found)


@command(
    "get",
    """
    lethevec add words.lethe :words
    lethevec get words.lethe paris london
    lethevec get words.lethe --where '{"rank": {"$lte": 100}}' --limit 5
    """,
)
@store_argument
@click.argument("ids", nargs=-1, metavar="[ID...]")
@where_option
@click.option("--subject", help="Only records of this subject.")
@click.option("--limit", type=click.IntRange(1), default=100, help="At most so many (100).")
@click.option("--after", help="The last id of the page before.")
@keys_option
@json_option
def get(
    store: Path,
    ids: tuple[str, ...],
    where: str | None,
    subject: str | None,
    limit: int,
    after: str | None,
    keys: Path | None,
    as_json: bool,
) -> None:
    """Show records of STORE by ID, or a page of those that pass --where or belong to a --subject, ascending by id.

    With --json there is one line for each record, with its vector.
    """
    condition = parse_where(where)
    if ids and (where is not None or subject is not None or after is not None):
        raise click.UsageError("expected either ID... or --where, --subject and --after")
    with open_store(store, keys) as db:
        if ids:
            records = db.get([parse_id(db, text) for text in ids])
        else:
            start = None if after is None else parse_id(db, after)
            records = db.get(where=condition, subject=subject, limit=limit, after=start)
    if as_json:
        for one in records:
            vector = None if one.vector is None else one.vector.tolist()
            expires = None if one.expires is None else one.expires.isoformat()
            fields = {"id": one.id, "subject": one.subject, "payload": one.payload, "expires": expires}
            print_json({**fields, "vector": vector})
        return
    rows = [
        (one.id, one.subject, None if one.payload is None else json.dumps(one.payload, ensure_ascii=False))
        for one in records
    ]
    print_table(["id", "subject", "payload"], rows)


@command(
    "ids",
    """
    lethevec add words.lethe :words
    lethevec ids words.lethe --where '{"rank": {"$lte": 10}}'
    """,
)
@store_argument
@where_option
@click.option("--subject", help="Only records of this subject.")
@keys_option
@json_option
def ids(store: Path, where: str | None, subject: str | None, keys: Path | None, as_json: bool) -> None:
    """List the ids of STORE, or of those records that pass --where or belong to a --subject, in their order."""
    condition = parse_where(where)
    with open_store(store, keys) as db:
        found = db.ids(condition, subject=subject)
    for id in found:
        click.echo(json.dumps(id, ensure_ascii=False) if as_json else id)


COMMANDS = [search, get, count, ids, tune]
