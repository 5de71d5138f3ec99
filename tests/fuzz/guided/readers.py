"""A coverage-guided fuzz target (atheris, which is libFuzzer for Python): the readers of snapshots and of receipts.

    make fuzz FUZZ_SECONDS=60

Inputs that reach new branches of the readers are kept and varied further; golden snapshots and real receipts are the
first. The checksum of a snapshot is made right before it is read, so that what lies behind it is reached. A reader may
refuse with its own error; what it takes must be written again as the very same bytes. Anything else ends the run, and
the input is left in build/fuzz.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import atheris

import lethevec
from lethevec._forgetting.receipts import Receipt
from lethevec._forgetting.trusted import read_chain, read_public_key
from lethevec.errors import FormatError, KeysError, ReceiptError

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
FOLDER = Path(tempfile.mkdtemp(prefix="lethevec-fuzz-"))
CHECKSUM = 32


def read_snapshot(data: bytes) -> None:
    """An index, or FormatError."""
    path = FOLDER / "snapshot"
    body = data[:-CHECKSUM]
    forged = body + hashlib.blake2b(body, digest_size=CHECKSUM).digest()
    path.write_bytes(forged)
    try:
        index = lethevec.Index.load(path)
    except FormatError:
        return
    index.save(path)
    if path.read_bytes() != forged:
        raise AssertionError("it loads, but saves to other bytes")


def read_receipts(data: bytes) -> None:
    """A receipt, a chain and a key: each whole, or refused."""
    try:
        if Receipt.from_json(data).to_json().encode() != data.removesuffix(b"\n").removesuffix(b"\r"):
            raise AssertionError("a receipt that is written in other words")
    except ReceiptError:
        pass
    path = FOLDER / "chain.jsonl"
    path.write_bytes(data)
    with suppress(ReceiptError):
        bool(lethevec.verify_chain(read_chain(path)))
    with suppress(KeysError):
        read_public_key(data)


TARGETS = {"snapshots": read_snapshot, "receipts": read_receipts}


def seeds(name: str, corpus: Path) -> None:
    """The inputs to begin with."""
    corpus.mkdir(parents=True, exist_ok=True)
    if name == "snapshots":
        for path in GOLDEN.glob("*.snapshot"):
            (corpus / path.name).write_bytes(path.read_bytes())
        return
    with lethevec.open(FOLDER / "seed.lethe", dim=2, metric="l2") as db:
        db.add([[0, 1], [1, 0]], ids=["a", 2], subjects=["ann", None])
        db.forget(subject="ann")
        db.forget([2])
        receipts = [receipt.to_json().encode() for receipt in db.receipts(all_kinds=True)]
    for number, receipt in enumerate(receipts):
        (corpus / f"receipt-{number}").write_bytes(receipt)
    (corpus / "chain").write_bytes(b"".join(receipt + b"\n" for receipt in receipts))


def main() -> None:
    """`readers.py snapshots|receipts CORPUS [libFuzzer's options]`."""
    name, corpus = sys.argv[1], Path(sys.argv[2])
    seeds(name, corpus)
    atheris.instrument_all()  # not at import: the finder of an editable installation goes before that of atheris
    atheris.Setup([sys.argv[0], str(corpus), *sys.argv[3:]], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
