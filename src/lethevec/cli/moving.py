"""`import --from`: a collection of another library or database, and what that one still holds of deleted records."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from lethevec import moving

from .command import open_store
from .output import note, print_fields, print_json

__all__ = ["collection_option", "fields_options", "from_option", "move_in"]

F = TypeVar("F", bound=Callable[..., Any])

from_option = click.option(
    "--from", "kind", type=click.Choice(list(moving.KINDS)), help="Whose collection FILE is, where it is not ours."
)
collection_option = click.option(
    "--collection", help="With --from: which collection or table, where there are several."
)


def fields_options(function: F) -> F:
    """The names of fields and columns."""
    for name, text in (
        ("subject", "The field of a payload that says whose data it is."),
        ("id", "The column of the ids (lancedb, pgvector)."),
        ("vector", "The column of the vectors (lancedb, pgvector), or the vector of that name (qdrant)."),
    ):
        click.option(f"--{name}-field", metavar="NAME", help=f"With --from: {text[0].lower()}{text[1:]}")(function)
    return function


def move_in(
    store: Path,
    kind: str,
    location: str,
    asked: dict[str, str | None],
    subject_field: str | None,
    index: dict[str, Any] | None,
    batch: int,
    keys: Path | None,
    as_json: bool,
) -> None:
    """Copy, check, look for residue, and report."""
    begin = time.perf_counter()
    with moving.open_source(kind, location, api_key=os.environ.get("QDRANT_API_KEY"), **asked) as source:
        with open_store(store, keys, write=True, dim=source.dim, metric=source.metric, index=index) as db:
            moved = moving.move(source, db, subject_field=subject_field, batch=batch)
            records = len(db)
        seconds = time.perf_counter() - begin
        residue = source.residue()
    if as_json:
        print_json(
            {
                "store": str(store),
                "imported": moved.records,
                "records": records,
                "left_out": moved.left_out,
                "compared": moved.compared,
                "collection": source.name,
                "metric": source.metric,
                "remarks": list(source.remarks),
                "residue": residue.to_dict(),
                "seconds": round(seconds, 3),
            }
        )
        return
    print_fields(
        [
            ("imported", f"{moved.records:,} records of {source.name} in {seconds:.2f} s, under {source.metric}"),
            ("checked", f"counts agree; {moved.compared:,} records compared with the source, all are equal"),
            *([("left out", f"{moved.left_out:,} records that have no vector")] if moved.left_out else []),
            ("store", f"{store}, {records:,} records"),
            ("left there", residue.remark),
            *((f"  {place}", f"{held:,}") for place, held in residue.places.items()),
        ]
    )
    for remark in source.remarks:
        note(remark)
