"""`add`, `export`, `import`: records into a store and out of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import click

import lethevec
from lethevec._durable import mode_to_keep, sync_folder
from lethevec._forgetting.trusted import read_chain
from lethevec._progress import Progress
from lethevec._store.copying import building, restoring
from lethevec._store.export_arrays import VECTORS_ALONE
from lethevec._store.exporting import SUFFIXES, replacing, write_records
from lethevec.errors import FileError, IncompleteWriteError, InputError, ParameterError

from .command import command, json_option, keys_option, open_store, parse_id, parse_where, store_argument, where_option
from .inputs import Input, format_option, key_option
from .moving import collection_option, fields_options, from_option, move_in
from .output import note, print_fields, print_json

__all__ = ["COMMANDS"]

_BACKUP = ".lethe"
_PIPED = click.Choice(["jsonl", "csv", "npy", "fvecs"])
_BLOCK = 1 << 22  # bytes copied at once
_file = click.Path(dir_okay=False, path_type=Path, allow_dash=True)

batch_option = click.option("--batch", type=click.IntRange(1), default=10_000, help="Records held at once.")
metric_option = click.option(
    "--metric", type=click.Choice(["cosine", "l2", "ip"]), help="Of a new store; cosine unless given."
)
index_option = click.option(
    "--index", "index", multiple=True, metavar="NAME=VALUE", help="A further setting of a new store, e.g. family=usr."
)


def index_settings(given: tuple[str, ...]) -> dict[str, Any] | None:
    """Settings as `Index` takes them: numbers and booleans as JSON writes them, everything else is text."""
    settings: dict[str, Any] = {}
    for setting in given:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise ParameterError(f"--index: expected NAME=VALUE, got {setting!r}")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return _with_source(settings) or None


def _with_source(settings: dict[str, Any]) -> dict[str, Any]:
    """The same with the parameters of the source in an object, as `Index` takes them."""
    kinds = {
        "scan": lethevec.Scan,
        "tables": lethevec.Tables,
        "pivots": lethevec.Pivots,
        "graph": lethevec.Graph,
        "auto": lethevec.Auto,
    }
    own = {one.name for kind in kinds.values() for one in fields(kind)} - {"pivots", "graph", "optimize"}
    given = {name: value for name, value in settings.items() if name in own}
    rest = {name: value for name, value in settings.items() if name not in own}
    if not given:
        return settings
    name = rest.get("source", "auto")
    if name not in kinds:
        return rest  # which says what is wrong with it
    if name == "auto":
        auto: dict[str, Any] = {one: given.pop(one) for one in ("pivots_from", "graph_from") if one in given}
        auto |= {"optimize": rest.pop("optimize")} if "optimize" in rest else {}
        return {**rest, "source": lethevec.Auto(**auto, pivots=lethevec.Pivots(**given))}
    return {**rest, "source": kinds[name](**given)}


def open_for_adding(
    path: Path, keys: Path | None, batches: Iterator[dict[str, Any]], metric: str | None, index: dict[str, Any] | None
) -> tuple[lethevec.Store, Iterator[dict[str, Any]]]:
    """The store, made if need be with the dimension of the first batch; and all batches."""
    first: list[dict[str, Any]] = []
    dim = None
    for one in batches:  # those of records without a vector say nothing about the dimension
        first.append(one)
        if one["vectors"] is not None:
            dim = one["vectors"].shape[1]
            break
    try:
        store = open_store(path, keys, write=True, dim=dim, metric=metric, index=index)
    except TypeError as error:  # an unknown name among the settings
        raise ParameterError(f"--index: expected settings that an index has, got others ({error})") from None
    return store, chain(first, batches)


def report(as_json: bool, path: Path, store: lethevec.Store, verb: str, count: int, seconds: float) -> None:
    """What was done."""
    if as_json:
        print_json({"store": str(path), verb: count, "records": len(store), "seconds": round(seconds, 3)})
    else:
        print_fields([(verb, f"{count:,} records in {seconds:.2f} s"), ("store", f"{path}, {len(store):,} records")])


@command(
    "add",
    """
    lethevec add words.lethe :words
    lethevec search words.lethe --id paris
    """,
)
@store_argument
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@metric_option
@index_option
@key_option
@format_option
@click.option("--subject", help="Whose data it is, for records that do not say.")
@click.option("--first-id", type=click.IntRange(0), help="Number records without ids from here (0).")
@batch_option
@keys_option
@json_option
def add(
    store: Path,
    files: tuple[str, ...],
    metric: str | None,
    index: tuple[str, ...],
    key: str | None,
    format: str,
    subject: str | None,
    first_id: int | None,
    batch: int,
    keys: Path | None,
    as_json: bool,
) -> None:
    """Add records from files to STORE, which is made if it is not there.

    The suffix of a FILE says what it is: .npy .npz .hdf5 .fvecs .bvecs .ivecs .parquet .arrow .jsonl .csv. It may be -
    for a pipe (see --format), :words for 20,000 bundled words, or a colon and the name of a benchmark set, such as
    :glove-25-angular, which is downloaded. Ids, subjects and payloads are taken where the file has them. All files go
    in together or, if anything is refused, not at all; ids that are there already are refused.
    """
    source = Input(files, format, key, batch, first_id, subject)
    begin = time.perf_counter()
    opened, batches = open_for_adding(store, keys, iter(source), metric, index_settings(index))
    with opened as db:
        count = db.load(batches, total=source.total())
        report(as_json, store, db, "added", count, time.perf_counter() - begin)


@command(
    "export",
    """
    lethevec add words.lethe :words
    lethevec export words.lethe zoe.jsonl --subject zoe@example.org
    """,
)
@store_argument
@click.argument("file", type=_file)
@click.option("--subject", help="Only the records of this subject.")
@where_option
@click.option("--receipts", is_flag=True, help="Write the chain of receipts instead of records (as .jsonl).")
@click.option("--format", "format", type=_PIPED, default="jsonl", help="For a pipe (-).")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@keys_option
@json_option
def export(
    store: Path,
    file: Path,
    subject: str | None,
    where: str | None,
    receipts: bool,
    format: str,
    force: bool,
    keys: Path | None,
    as_json: bool,
) -> None:
    """Write the records of STORE to FILE: .jsonl, .csv, .parquet, .arrow or .npz, or - for a pipe.

    .npy and .fvecs hold vectors alone, without ids, subjects and payloads. A FILE that ends in .lethe is a backup:
    configuration and records, the same bytes for the same records. An export is a copy, and what is forgotten later
    stays in it.
    """
    condition = parse_where(where)
    piped = str(file) == "-"
    suffix = f".{format}" if piped else file.suffix.lower()
    if not piped and os.path.lexists(file) and not force:
        raise FileError(f"{file}: expected a new file, got one that is there already; --force replaces it")
    begin = time.perf_counter()
    with open_store(store, keys) as db:
        if not piped and file.exists() and any(file.samefile(store.with_name(name)) for name in db.files()):
            raise FileError(f"{file}: expected a file to write to, got one of the store itself")
        if receipts:
            lines = [receipt.to_json() for receipt in db.receipts(all_kinds=True)]
            text = "".join(line + "\n" for line in lines)
            if piped:
                click.echo(text, nl=False)
            else:
                with replacing(db.path, file) as handle:
                    handle.write(text.encode())
            count = len(lines)
        elif file.suffix == _BACKUP:
            if subject is not None or where is not None:
                raise ParameterError(
                    f"--subject, --where: expected a FILE that ends in {' '.join(SUFFIXES)}, got {file}"
                )
            try:
                mode = mode_to_keep(file)
                with building(db.path, file) as place:  # so that one that is there stays until this one is whole
                    db.backup(place)
                    if mode is not None:
                        os.chmod(place, mode)
                    os.replace(place, file)
                    sync_folder(file.absolute().parent)
            except OSError as error:
                raise IncompleteWriteError(f"{file}: the backup could not be written: {error}") from error
            count = len(db)
        else:
            count = write_records(None if piped else file, suffix, db, condition, subject)
    left_out = ["ids", "subjects", "payloads"] if suffix in VECTORS_ALONE and not receipts else []
    if as_json and not piped:
        facts = {"file": str(file), "written": count, "seconds": round(time.perf_counter() - begin, 3)}
        print_json({**facts, "left_out": left_out} if left_out else facts)
        return
    if not piped:
        what = "vectors" if left_out else "receipts" if receipts else "records"
        print_fields([("written", f"{count:,} {what} to {file}")])
        if not receipts:
            note("This is a copy: what is forgotten in the store later stays in it.")
    if left_out:
        note(f"{suffix} holds vectors alone: {', '.join(left_out)} are not in it; .npz and .jsonl have them.")


@command(
    "import",
    """
    lethevec add words.lethe :words
    lethevec export words.lethe backup.lethe
    lethevec import restored.lethe backup.lethe
    lethevec export words.lethe - | lethevec import words.lethe - --present skip
    """,
)
@store_argument
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--present",
    type=click.Choice(["refuse", "skip", "replace"]),
    default="refuse",
    help="What to do with ids that are there already.",
)
@from_option
@collection_option
@fields_options
@click.option(
    "--receipts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="After restoring a backup: forget again what these receipts (.jsonl) erased. Needs the old --keys.",
)
@metric_option
@index_option
@key_option
@format_option
@batch_option
@keys_option
@json_option
def import_(
    store: Path,
    files: tuple[str, ...],
    present: str,
    kind: str | None,
    collection: str | None,
    vector_field: str | None,
    id_field: str | None,
    subject_field: str | None,
    receipts: Path | None,
    metric: str | None,
    index: tuple[str, ...],
    key: str | None,
    format: str,
    batch: int,
    keys: Path | None,
    as_json: bool,
) -> None:
    """Bring into STORE what `export` wrote: records with their ids, or a backup (.lethe), which becomes a new store.

    With --present skip or replace an import that was interrupted can simply be run again.

    With --from, FILE is where another library or database keeps a collection: a folder (chroma, lancedb), a file
    (faiss, hnswlib), a URL (qdrant; the environment variable QDRANT_API_KEY may hold a key) or a connection string
    (pgvector). The records are copied with ids, payloads and vectors, counted, and a sample is compared. The report
    says what the source still holds of records that were deleted there.
    """
    begin = time.perf_counter()
    if kind is not None:
        if len(files) != 1 or present != "refuse" or receipts is not None:
            raise click.UsageError("--from: expected one FILE, and neither --present nor --receipts")
        asked = {"collection": collection, "metric": metric, "vector_field": vector_field, "id_field": id_field}
        move_in(store, kind, files[0], asked, subject_field, index_settings(index), batch, keys, as_json)
        return
    if any(Path(name).suffix == _BACKUP for name in files):
        if len(files) != 1:
            raise InputError(f"FILE: expected one backup by itself, got {len(files)} files")
        again = restore(store, Path(files[0]), receipts, keys)
        with open_store(store, keys, write=True) as db:
            if again and not as_json:
                print_fields([("forgotten again", f"{again:,} records, as the receipts say")])
            report(as_json, store, db, "restored", len(db), time.perf_counter() - begin)
        return
    if receipts is not None:
        raise ParameterError("--receipts: expected a backup (.lethe) to restore, got other files")
    source = Input(files, format, key, batch)
    opened, batches = open_for_adding(store, keys, iter(source), metric, index_settings(index))
    with opened as db:
        if present == "refuse":
            count = db.load(batches, total=source.total())
        else:
            count = 0
            with Progress(source.total(), "importing", unit="records") as progress:
                for part in batches:
                    count += merge(db, part, replace=present == "replace")
                    progress.advance(len(part["ids"]))
        report(as_json, store, db, "imported", count, time.perf_counter() - begin)


def merge(db: lethevec.Store, part: dict[str, Any], *, replace: bool) -> int:
    """Add what is new of a batch, and replace the rest if asked to; how many records were written."""
    ids = part["ids"] if isinstance(part["ids"], list) else part["ids"].tolist()
    there = [id in db for id in ids]

    def some(wanted: bool) -> dict[str, Any]:
        places = [place for place, known in enumerate(there) if known is wanted]
        vectors = None if part["vectors"] is None else part["vectors"][places]
        picked: dict[str, Any] = {"ids": [ids[place] for place in places], "vectors": vectors}
        for name in ("subjects", "payloads", "expires"):
            if part.get(name) is not None:
                picked[name] = [part[name][place] for place in places]
        return picked

    written = 0
    if not all(there):
        new = some(False)
        db.add(**new)
        written += len(new["ids"])
    if replace and any(there):
        old = some(True)
        db.update(**old)
        written += len(old["ids"])
    return written


def copy(source: Path, target: Path) -> None:
    """Copy a file, for its owner's eyes only."""
    with source.open("rb") as old, open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
        with Progress(source.stat().st_size, "copying", unit="bytes") as progress:
            while block := old.read(_BLOCK):
                new.write(block)
                progress.advance(len(block))
        new.flush()
        os.fsync(new.fileno())


def restore(store: Path, backup: Path, receipts: Path | None, keys: Path | None) -> int:
    """Copy a backup to where the store is to be, and forget again what the receipts say; how many records."""
    if os.path.lexists(store):
        raise FileError(f"{store}: expected a new path for the restored store, got one that is there already")
    # A reader checks that it is a store, and makes nothing beside it.
    open_store(backup).close()
    given = None if receipts is None else read_chain(receipts)
    receipt = None
    # In another folder, so that nobody can search it before what was forgotten since is gone.
    try:
        with restoring(store) as folder:
            place = folder / store.name
            copy(backup, place)
            if given is not None:
                keys = store.with_name(store.name + "-keys") if keys is None else keys
                with open_store(place, keys, write=True) as db:
                    receipt = db.reapply(given)
            os.replace(place, store)
            sync_folder(store.absolute().parent)
    except OSError as error:
        raise IncompleteWriteError(f"{store}: the store could not be restored: {error}") from error
    return 0 if receipt is None else receipt.records


@command(
    "upsert",
    """
    lethevec add words.lethe :words
    lethevec export words.lethe - | lethevec upsert words.lethe -
    """,
)
@store_argument
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@key_option
@format_option
@click.option("--subject", help="Whose data it is, for records that do not say.")
@batch_option
@keys_option
@json_option
def upsert(
    store: Path,
    files: tuple[str, ...],
    key: str | None,
    format: str,
    subject: str | None,
    batch: int,
    keys: Path | None,
    as_json: bool,
) -> None:
    """Add records from files to STORE, or put them in the place of those with the same ids; all or nothing.

    Of a record that is replaced nothing stays: what the file does not say is gone. FILE is what `add` takes; records
    without ids are numbered from 0 on.
    """
    begin = time.perf_counter()
    count = 0
    with open_store(store, keys, write=True) as db:
        with db.transaction():
            for part in Input(files, format, key, batch, None, subject):
                db.upsert(part.pop("vectors"), **part)
                count += len(part["ids"])
        report(as_json, store, db, "written", count, time.perf_counter() - begin)


@command(
    "update",
    """
    lethevec add words.lethe :words
    lethevec update words.lethe paris --payload '{"seen": true}' --merge
    """,
)
@store_argument
@click.argument("ids", nargs=-1, metavar="[ID...]")
@where_option
@click.option("--payload", help="The new payload, a JSON object; null takes it off.")
@click.option("--merge", is_flag=True, help="Keep the fields that the new payload does not have.")
@click.option("--subject", help="The new subject; an empty one takes it off.")
@keys_option
@json_option
def update(
    store: Path,
    ids: tuple[str, ...],
    where: str | None,
    payload: str | None,
    merge: bool,
    subject: str | None,
    keys: Path | None,
    as_json: bool,
) -> None:
    """Replace payload or subject of records of STORE: those with these IDs, or those that pass --where."""
    condition = parse_where(where)
    if bool(ids) == (condition is not None):
        raise click.UsageError("expected either ID... or --where")
    if payload is None and subject is None:
        raise click.UsageError("expected --payload or --subject, or both")
    begin = time.perf_counter()
    changes: dict[str, Any] = {}
    if payload is not None:
        changes["payloads"] = _payload(payload)
    if subject is not None:
        changes["subjects"] = subject or None
    with open_store(store, keys, write=True) as db:
        with db.transaction():
            given = [parse_id(db, text) for text in ids] if ids else db.ids(condition)
            if isinstance(changes.get("payloads"), dict):
                changes["payloads"] = [changes["payloads"]] * len(given)
            db.update(ids=given, merge=merge, **changes)
        report(as_json, store, db, "updated", len(given), time.perf_counter() - begin)


def _payload(text: str) -> dict[str, Any] | None:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"--payload: expected a JSON object, got {text!r:.60} ({error})") from None
    if given is not None and not isinstance(given, dict):
        raise ParameterError(f"--payload: expected a JSON object or null, got {text!r:.60}")
    return given


COMMANDS = [add, upsert, update, export, import_]
