"""`verify` and `receipts`: checking that an erasure was done, with the store or without it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import numpy as np

import lethevec
from lethevec._forgetting.keys import key_id
from lethevec._forgetting.receipts import Receipt
from lethevec._forgetting.trusted import public_key_pem, read_chain, read_receipt
from lethevec._forgetting.verify import Verification, verify_chain
from lethevec.errors import FileError, InputError, ReceiptError

from .command import command, json_option, keys_option, open_any, parse_id
from .inputs import Input, read_queries
from .output import print_fields, print_json, print_table

__all__ = ["COMMANDS"]

_path = click.Path(path_type=Path)
_MAX_RECEIPT = 1 << 24  # bytes that are read from a pipe
_SQLITE = b"SQLite format 3\0"


@command(
    "verify",
    """
    lethevec add words.lethe :words
    lethevec forget words.lethe london lyon --receipt receipt.json
    lethevec verify words.lethe --id london --id lyon
    lethevec receipts key words.lethe > key.txt
    lethevec verify receipt.json --key key.txt
    lethevec receipts anchor words.lethe > anchor.txt
    lethevec export words.lethe chain.jsonl --receipts
    lethevec verify --chain chain.jsonl --key key.txt --anchor anchor.txt
    """,
)
@click.argument("target", required=False, metavar="[STORE | RECEIPT]")
@click.argument("receipt", required=False, metavar="[RECEIPT]")
@click.option("--key", help="The public key that you trust: hexadecimal digits, or a file with them or with PEM.")
@click.option("--anchor", help="What `receipts anchor` printed earlier: the line, or a file with it.")
@click.option("--id", "ids", multiple=True, help="A forgotten id: is the receipt about it, is it in no file?")
@click.option("--subject", help="The forgotten subject: the same.")
@click.option("--vectors", help="A file with the forgotten vectors: are they in no file of the store?")
@click.option(
    "--chain", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Check receipts by themselves."
)
@keys_option
@json_option
def verify(
    target: str | None,
    receipt: str | None,
    key: str | None,
    anchor: str | None,
    ids: tuple[str, ...],
    subject: str | None,
    vectors: str | None,
    chain: Path | None,
    keys: Path | None,
    as_json: bool,
) -> None:
    """Check a RECEIPT: by itself with --key, against a STORE, or in its --chain. Ends with 1 if a check fails.

    RECEIPT is a file, - for a pipe, or after a STORE the number of a receipt that it keeps (the newest unless given). A
    receipt by itself needs nothing but the public key. It says in words what was proved.
    """
    if (target is None) == (chain is None):
        raise click.UsageError("expected one of STORE, RECEIPT and --chain")
    line = None if anchor is None else _anchor(anchor)
    if chain is not None:
        _conclude(as_json, verify_chain(read_chain(chain), key=key, anchor=line), None)
        return
    assert target is not None
    if not _is_store(target):
        about = [name for name, given in (("--id", ids), ("--subject", subject), ("--vectors", vectors)) if given]
        if receipt is not None or about or line is not None:
            raise click.UsageError(f"{target}: expected a store to check {about[0] if about else 'this'} against")
        if key is None:
            raise InputError("--key: expected the public key to check the receipt with, got none")
        alone = _read_receipt(target)
        _conclude(as_json, lethevec.verify(alone, key=key), alone)
        return
    with open_any(Path(target), keys) as db:
        wanted = _find_receipt(db, receipt)
        wanted_ids = [parse_id(db, text) for text in ids] or None
        rows = None if vectors is None else np.concatenate(list(read_queries(vectors, Input([vectors]))))
        outcome = db.verify(wanted, ids=wanted_ids, subject=subject, vectors=rows, key=key, anchor=line)
    _conclude(as_json, outcome, wanted)


@command(
    "receipts",
    """
    lethevec add words.lethe :words
    lethevec forget words.lethe london lyon
    lethevec receipts list words.lethe
    lethevec receipts anchor words.lethe > anchor.txt
    lethevec receipts key words.lethe --pem
    """,
)
@click.argument("what", type=click.Choice(["list", "anchor", "key"]))
@click.argument("store", type=_path)
@click.option("--pem", is_flag=True, help="With key: as PEM, which OpenSSL reads, instead of hexadecimal digits.")
@keys_option
@json_option
def receipts(what: str, store: Path, pem: bool, keys: Path | None, as_json: bool) -> None:
    """List the chain of receipts of STORE, or print what others need to check it.

    `anchor` prints the place and the hash of the newest receipt, one line to publish where you cannot take it back;
    later `verify --anchor` shows whether the chain was cut or replaced since. `key` prints the public key in force.
    """
    with open_any(store, keys) as db:
        chain = db.receipts(all_kinds=True)
        anchor = db.anchor()
    public = [receipt.public_key for receipt in chain if receipt.public_key is not None][-1]
    if what == "anchor":
        if as_json:
            print_json({"store": anchor.store, "sequence": anchor.sequence, "hash": anchor.hash, "anchor": str(anchor)})
        else:
            click.echo(str(anchor))
    elif what == "key":
        if as_json:
            print_json({"id": key_id(public), "hex": public.hex(), "pem": public_key_pem(public)})
        else:
            click.echo(public_key_pem(public).rstrip() if pem else public.hex())
    elif as_json:
        print_json([receipt.fields for receipt in chain])
    else:
        head = ["number", "kind", "issued", "records", "key", "hash"]
        rows = [
            (r.sequence, r.kind, r["issued_at"], f"{r.records:,}" if r.erases else "", r["signing_key"], r.hash()[:16])
            for r in chain
        ]
        print_table(head, rows, right=["number", "records"])


def _is_store(target: str) -> bool:
    """Whether this is a database or a folder; else it is a receipt."""
    path = Path(target)
    if target == "-" or not path.is_file():
        if target != "-" and not path.exists():
            raise FileError(f"{target}: expected a store or a receipt, got nothing there")
        return path.is_dir()
    with path.open("rb") as file:
        start = file.read(len(_SQLITE))
    return not start.lstrip().startswith(b"{")


def _anchor(given: str) -> str:
    path = Path(given)
    try:
        return path.read_text(encoding="utf-8")[:1000] if path.is_file() else given
    except (OSError, ValueError) as error:
        raise FileError(f"{given}: expected a line with an anchor, got a file that cannot be read: {error}") from None


def _read_receipt(given: str) -> Receipt:
    return read_receipt(sys.stdin.read(_MAX_RECEIPT) if given == "-" else Path(given))


def _find_receipt(db: lethevec.Store | lethevec.Database, given: str | None) -> Receipt:
    if given is None or given.isdecimal():
        kept = db.receipts()
        found = kept[-1:] if given is None else [receipt for receipt in kept if receipt.sequence == int(given)]
        if not found:
            what = "" if given is None else f" with number {given}"
            raise ReceiptError(f"{db.path}: expected a receipt of an erasure{what}, got none")
        return found[0]
    return _read_receipt(given)


def _conclude(as_json: bool, outcome: Verification, receipt: Receipt | None) -> None:
    passed = bool(outcome)
    if as_json:
        checks = [{"name": c.name, "passed": c.passed, "detail": c.detail} for c in outcome.checks]
        answer: dict[str, Any] = {"verified": passed, "receipt": None if receipt is None else receipt.sequence}
        print_json({**answer, "checks": checks, "proves": outcome.proves, "leaves_open": outcome.leaves_open})
    else:
        words = {True: "passed", False: "FAILED", None: "not checked"}
        print_table(["check", "outcome", "detail"], [(c.name, words[c.passed], c.detail) for c in outcome.checks])
        if receipt is not None:
            key = receipt["signing_key"] if receipt.public_key is None else key_id(receipt.public_key)
            what = f"number {receipt.sequence}, of {receipt['issued_at']}, {receipt.records:,} records, key {key}"
            print_fields([("receipt", what)])
        print_fields([("verified", "yes" if passed else "NO")])
        for what in outcome.proves:
            click.echo(f"This proves that {what}.")
        for what in outcome.leaves_open:
            click.echo(f"This does not prove that {what}.")
    if not passed:
        click.get_current_context().exit(1)


COMMANDS = [verify, receipts]
