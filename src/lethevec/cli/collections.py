"""`collections`, `access`, `hold`, `block`, `expire`: folders of collections, and the rights of the people in them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

import lethevec
from lethevec._collections.names import check_name
from lethevec._store.configuration import new_configuration
from lethevec.errors import InputError, ParameterError

from .command import F, command, json_option, keys_option, open_any, open_folder
from .output import note, print_fields, print_json, print_table

__all__ = ["COMMANDS"]

_folder = click.Path(file_okay=False, path_type=Path)


def folder_argument(function: F) -> F:
    """The folder, first of all."""
    return click.argument("folder", type=_folder)(function)


@command(
    "collections",
    """
    lethevec collections people --make photos --dim 100
    lethevec add people/photos :words
    lethevec collections people --rename photos pictures
    lethevec collections people
    """,
)
@folder_argument
@click.option("--make", metavar="NAME", help="Make a collection; a folder that is new or empty is made as well.")
@click.option("--dim", type=click.IntRange(1), help="With --make: dimension of its vectors.")
@click.option("--metric", type=click.Choice(["cosine", "l2", "ip"]), help="With --make (cosine).")
@click.option("--encrypt", is_flag=True, help="With --make: seal each record under a key of its own.")
@click.option("--expires", type=click.FloatRange(0, min_open=True), help="With --make: keep records so many days.")
@click.option("--rename", nargs=2, metavar="OLD NEW", help="Give a collection another name.")
@click.option("--drop", metavar="NAME", help="Erase a collection with everything in it, with a receipt.")
@keys_option
@json_option
def collections(
    folder: Path,
    make: str | None,
    dim: int | None,
    metric: str | None,
    encrypt: bool,
    expires: float | None,
    rename: tuple[str, str] | None,
    drop: str | None,
    keys: Path | None,
    as_json: bool,
) -> None:
    """List the collections of FOLDER; make, rename or drop one.

    Other commands take FOLDER/NAME for a store: `lethevec search people/photos ...`.
    """
    if sum(option is not None for option in (make, rename, drop)) > 1:
        raise click.UsageError("expected one of --make, --rename and --drop")
    write = make is not None or rename is not None or drop is not None
    duration = _duration(expires)
    if make is not None:  # all that can be refused is, before a folder is made
        if dim is None:
            raise ParameterError("--dim: expected the number of dimensions of the new collection, got none")
        check_name(make, what="--make")
        new_configuration(dim, metric, None)
    with open_folder(folder, keys, write=write, make=make is not None) as db:
        if make is not None:
            if make in db:
                raise ParameterError(f"--make: expected a name that is free, got {make!r}")
            db.collection(make, dim=dim, metric=metric, encrypt=encrypt or None, expires=duration)
        receipt = None
        if rename is not None:
            receipt = db.rename(*rename)
        if drop is not None:
            receipt = db.drop(drop)
        rows = [(name, len(kept), kept.dim, kept.metric) for name in db for kept in [db.collection(name)]]
    if as_json:
        head = ("name", "records", "dim", "metric")
        listed = [dict(zip(head, row, strict=True)) for row in rows]
        print_json({"collections": listed, "receipt": None if receipt is None else receipt.fields})
        return
    print_table(["name", "records", "dim", "metric"], rows, right=["records", "dim"])
    if receipt is not None:
        print_fields([("receipt", f"number {receipt.sequence}, {receipt.kind}, kept in the folder")])


def _duration(days: float | None) -> timedelta | None:
    try:
        return None if days is None else timedelta(days=days)
    except (OverflowError, ValueError):  # inf, nan
        raise ParameterError(f"--expires: expected a number of days, got {days}") from None


@command(
    "access",
    """
    lethevec collections people --make words --dim 100
    lethevec add people/words :words
    lethevec access people zoe@example.org --export zoe.json
    """,
)
@folder_argument
@click.argument("subject")
@click.option("--export", type=click.Path(dir_okay=False, path_type=Path), help="Write everything to this file (JSON).")
@keys_option
@json_option
def access(folder: Path, subject: str, export: Path | None, keys: Path | None, as_json: bool) -> None:
    """Show what FOLDER holds of a SUBJECT: records in every collection, receipts, holds, retention.

    The file that --export writes is for the person: structured, complete and machine-readable.
    """
    with open_folder(folder, keys) as db:
        found = db.access(subject)
    if export is not None:
        found.export(export)
    if as_json:
        print_json(found.to_dict())
        return
    print_table(["collection", "records"], [(name, len(kept)) for name, kept in found.collections.items()])
    print_fields(
        [
            ("records", f"{len(found):,}"),
            ("holds", "; ".join(f"{hold.reason} (since {hold.since})" for hold in found.holds) or "none"),
            ("blocked", f"since {found.blocked_since}" if found.blocked_since else "no"),
            ("entries", f"{len(found.receipts)} of the chain are about them"),
            *([] if export is None else [("written", str(export))]),
        ]
    )
    if export is not None:
        note("This is a copy: what is forgotten in the folder later stays in it.")


@command(
    "hold",
    """
    lethevec collections people --make words --dim 100
    lethevec add people/words :words
    lethevec hold people zoe@example.org --reason 'case 12 C 345/26'
    lethevec hold people
    lethevec forget people --subject zoe@example.org || lethevec hold people zoe@example.org --lift all
    lethevec forget people --subject zoe@example.org
    """,
)
@folder_argument
@click.argument("subject", required=False)
@click.option("--reason", help="Set a hold, for this reason; or with --lift, why it ends.")
@click.option("--lift", metavar="ID", help="End the hold with this id; all: every hold on SUBJECT.")
@keys_option
@json_option
def hold(
    folder: Path, subject: str | None, reason: str | None, lift: str | None, keys: Path | None, as_json: bool
) -> None:
    """Legal holds in FOLDER: list them, set one on a SUBJECT with --reason, or end one with --lift.

    While there is a hold, forgetting, updating and expiry of the subject's records are refused.
    """
    setting = lift is None and reason is not None
    if setting and subject is None:
        raise InputError("SUBJECT: expected whose records are to be kept, got none")
    if lift == "all" and subject is None:
        raise InputError("SUBJECT: expected whose holds are to end, got none")
    with open_folder(folder, keys, write=setting or lift is not None) as db:
        if setting:
            assert subject is not None
            assert reason is not None
            db.hold(subject, reason)
        elif lift is not None:
            ids = [one.id for one in db.holds(subject)] if lift == "all" else [lift]
            for id in ids:
                db.lift(id, reason or "no longer needed")
        found = db.holds(subject)
    if as_json:
        print_json([{"hold": h.id, "subject": h.subject, "reason": h.reason, "since": h.since} for h in found])
        return
    print_table(["hold", "subject", "since", "reason"], [(h.id, h.subject, h.since, h.reason) for h in found])
    if not found:
        note("No holds are in force" + (f" on {subject}." if subject else "."))


@command(
    "block",
    """
    lethevec collections people --make words --dim 100
    lethevec add people/words :words
    lethevec forget people --subject zoe@example.org --block
    lethevec block people zoe@example.org
    lethevec block people zoe@example.org --lift
    """,
)
@folder_argument
@click.argument("subject")
@click.option("--reason", help="Block the subject, for this reason; or with --lift, why it ends.")
@click.option("--lift", is_flag=True, help="Allow to write for the subject again.")
@keys_option
@json_option
def block(folder: Path, subject: str, reason: str | None, lift: bool, keys: Path | None, as_json: bool) -> None:
    """Say whether a SUBJECT of FOLDER is blocked, block them with --reason, or --lift the block.

    Nothing can be written for a subject that is blocked. `forget --block` forgets and blocks at once.
    """
    with open_folder(folder, keys, write=lift or reason is not None) as db:
        if lift:
            db.unblock(subject, reason or "no longer needed")
        elif reason is not None:
            db.block(subject, reason)
        blocked = db.is_blocked(subject)
    if as_json:
        print_json({"subject": subject, "blocked": blocked})
    else:
        print_fields([("blocked", "yes" if blocked else "no")])


@command(
    "expire",
    """
    lethevec collections people --make words --dim 100 --expires 30
    lethevec add people/words :words
    lethevec expire people
    """,
)
@click.argument("store", type=click.Path(path_type=Path))
@click.option("--skip-held", is_flag=True, help="In a folder: leave out records under legal hold, instead of refusing.")
@click.option("--timeout", type=click.FloatRange(0), help="Seconds to wait for readers that are in the way (5).")
@keys_option
@json_option
def expire(store: Path, skip_held: bool, timeout: float | None, keys: Path | None, as_json: bool) -> None:
    """Erase the records of STORE, or of all collections of a folder, whose time has come, with one receipt.

    They are in no answer from their time on; this takes their bytes out of the files. Run it every day or so.
    """
    with open_any(store, keys, write=True) as db:
        if isinstance(db, lethevec.Database):
            receipt = db.expire(skip_held=skip_held, timeout=timeout)
        else:
            receipt = db.expire(timeout=timeout)
    if as_json:
        erased = 0 if receipt is None else receipt.records
        print_json({"erased": erased, "receipt": None if receipt is None else receipt.fields})
    elif receipt is None:
        print_fields([("erased", "nothing was due")])
    else:
        print_fields([("erased", f"{receipt.records:,} records"), ("receipt", f"number {receipt.sequence}")])


COMMANDS = [collections, access, hold, block, expire]
