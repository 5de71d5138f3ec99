"""`forget`: erasing, and the receipt for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

import lethevec
from lethevec._forgetting.receipts import Receipt
from lethevec.errors import FileError

from .command import command, json_option, keys_option, open_any, parse_id, parse_where, where_option
from .output import print_fields, print_json, printable

__all__ = ["COMMANDS"]

_file = click.Path(dir_okay=False, path_type=Path)


@command(
    "forget",
    """
    lethevec add words.lethe :words
    lethevec forget words.lethe --subject lena@example.org --receipt receipt.json
    lethevec verify words.lethe receipt.json --subject lena@example.org
    """,
)
@click.argument("store", type=click.Path(path_type=Path))
@click.argument("ids", nargs=-1, metavar="[ID...]")
@click.option("--subject", help="Forget every record of this subject.")
@where_option
@click.option("--dry-run", is_flag=True, help="Say how many records would go, and change nothing.")
@click.option("--block", is_flag=True, help="In a folder: refuse to write for the subject from now on.")
@click.option("--ids-from", type=click.File("r", encoding="utf-8"), help="A file of ids, one in a line; - for a pipe.")
@click.option("--receipt", type=_file, help="Write the receipt to this file; the store keeps it in any case.")
@click.option("--ignore-unknown", is_flag=True, help="Do not refuse ids, or a subject, that are not there.")
@click.option("--search-all", is_flag=True, help="Search every byte of every file for what was forgotten.")
@click.option("--timeout", type=click.FloatRange(0), help="Seconds to wait for readers that are in the way (5).")
@click.option("--yes", is_flag=True, help="Do not ask.")
@keys_option
@json_option
def forget(
    store: Path,
    ids: tuple[str, ...],
    subject: str | None,
    where: str | None,
    dry_run: bool,
    block: bool,
    ids_from: Any,
    receipt: Path | None,
    ignore_unknown: bool,
    search_all: bool,
    timeout: float | None,
    yes: bool,
    keys: Path | None,
    as_json: bool,
) -> None:
    """Forget records of STORE by ID, all of a --subject, or those that pass --where. It cannot be undone.

    STORE may be a folder of collections: the subject is then forgotten in all of them, with one receipt.

    When it ends with 0, no file of the store holds a byte of them, and there is a signed receipt. On a terminal it asks
    first.
    """
    condition = parse_where(where)
    if sum((bool(ids), subject is not None or condition is not None, ids_from is not None)) != 1:
        raise click.UsageError("expected one of ID..., --subject, --where and --ids-from")
    if store.is_dir() and subject is None:
        raise click.UsageError("expected --subject for a folder; FOLDER/NAME is one of its collections")
    if store.is_dir() and (dry_run or condition is not None):
        raise click.UsageError(
            "--where, --dry-run: expected a store, got a folder; FOLDER/NAME is one of its collections"
        )
    if block and not store.is_dir():
        raise click.UsageError("--block: expected a folder of collections, got a store")
    begin = time.perf_counter()
    with open_any(store, keys, write=True) as db, _receipt_file(receipt) as file:
        texts = list(ids) if ids_from is None else [line.strip() for line in ids_from if line.strip()]
        by_query = subject is not None or condition is not None
        chosen = None if by_query else [parse_id(db, text) for text in texts]
        if dry_run and not isinstance(db, lethevec.Database):
            preview = db.forget(chosen, subject=subject, where=condition, dry_run=True, ignore_unknown=ignore_unknown)
            found = len(preview.ids)
            print_json({"would_forget": found}) if as_json else print_fields([("would go", f"{found:,} records")])
            return
        if not yes and ids_from is None and sys.stdin.isatty() and sys.stdout.isatty():
            if isinstance(db, lethevec.Database):
                count = db.subjects().get(subject or "", 0)
            else:
                count = db.count(where=condition, subject=subject) if by_query else len(texts)
            whose = "" if subject is None else f" of {printable(subject)}"
            click.confirm(f"Forget {count:,} records{whose} for good?", abort=True, err=True)
        options: dict[str, Any] = {"ignore_unknown": ignore_unknown, "search_all": search_all, "timeout": timeout}
        if isinstance(db, lethevec.Database):
            assert subject is not None
            made = db.forget(subject=subject, block=block, **options)
            left = sum(len(db.collection(name)) for name in db)
        else:
            made = db.forget(chosen, subject=subject, where=condition, **options)
            left = len(db)
        seconds = time.perf_counter() - begin
        if file is not None:
            _write_receipt(file, made)
    if as_json:
        print_json({"forgotten": made.records, "records": left, "seconds": round(seconds, 3), "receipt": made.fields})
        return
    searched = sum(sum(part.residue["searched"].values()) for part in made.parts())
    patterns = sum(part.residue["patterns"] for part in made.parts())
    print_fields(
        [
            ("forgotten", f"{made.records:,} records in {seconds:.2f} s; {left:,} are left"),
            ("searched", f"{searched:,} bytes of the store's files, for {patterns:,} patterns: found 0"),
            ("receipt", f"number {made.sequence}, kept in the store" + (f" and in {receipt}" if receipt else "")),
            ("check it", f"lethevec verify {store} {receipt or made.sequence}"),
        ]
    )


@contextmanager
def _receipt_file(path: Path | None) -> Iterator[IO[bytes] | None]:
    """The file for the receipt, made before anything is forgotten, so that a wrong name changes nothing."""
    if path is None:
        yield None
        return
    try:
        file = path.open("xb", buffering=0)
    except FileExistsError:
        raise FileError(f"{path}: expected a new file for the receipt, got one that is there already") from None
    except OSError as error:
        raise FileError(f"{path}: expected a file for the receipt that can be written, got {error}") from None
    with file:
        try:
            yield file
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _write_receipt(file: IO[bytes], made: Receipt) -> None:
    rest = (made.to_json() + "\n").encode()
    try:
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        raise FileError(
            f"{file.name}: the records are forgotten, but the receipt could not be written here ({error}); "
            f"the store keeps it, with number {made.sequence}"
        ) from error


COMMANDS = [forget]
