"""What anybody can check about receipts, without the store: signatures and the chain.

`verify_chain` takes the receipts of a store from the genesis on, and follows the keys through rotations. Pin the first
public key (or its id) from a source of your own: a chain alone only shows that it agrees with itself. A chain that was
cut at its end cannot be told from a shorter one; keep the hash of the newest receipt elsewhere if that matters to you.

The checks against a live store are the store's own `verify`; it reports in the same form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .._progress import Progress
from .keys import key_id, verify_signature
from .receipts import GENESIS_PREVIOUS, Receipt

__all__ = ["Check", "Verification", "chain_keys", "verify_chain", "verify_receipt"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: `passed` is None when it could not be decided, and `detail` says why."""

    name: str
    passed: bool | None
    detail: str

    def __str__(self) -> str:
        """One line for people."""
        word = {True: "passed", False: "FAILED", None: "not checked"}[self.passed]
        return f"{self.name}: {word}; {self.detail}"


@dataclass
class Verification:
    """The checks that were made. True as a whole when none failed and the signature was among the passed ones."""

    checks: list[Check] = field(default_factory=list)

    def add(self, name: str, passed: bool | None, detail: str) -> None:
        """Note the outcome of one check."""
        self.checks.append(Check(name, passed, detail))

    @property
    def failed(self) -> list[Check]:
        """The checks that failed."""
        return [check for check in self.checks if check.passed is False]

    def __getitem__(self, name: str) -> Check:
        """The check of that name."""
        return next(check for check in self.checks if check.name == name)

    def __contains__(self, name: str) -> bool:
        """Whether a check of that name was made."""
        return any(check.name == name for check in self.checks)

    def __bool__(self) -> bool:
        """Whether the signature passed and nothing failed."""
        return not self.failed and any(check.name == "signature" and check.passed for check in self.checks)

    def __str__(self) -> str:
        """One line for each check."""
        return "\n".join(str(check) for check in self.checks)


def verify_receipt(receipt: Receipt, public_keys: Iterable[bytes]) -> Verification:
    """Check the signature of one receipt against public keys that you trust."""
    report = Verification()
    by_id = {key_id(public): public for public in public_keys}
    _check_signature(report, receipt, by_id)
    return report


def chain_keys(chain: Sequence[Receipt]) -> dict[str, bytes]:
    """The public keys that a chain introduces, by their id. Trust them only after `verify_chain`."""
    return {key_id(public): public for public in (receipt.public_key for receipt in chain) if public is not None}


def verify_chain(chain: Sequence[Receipt], *, first_key: bytes | None = None) -> Verification:
    """Check a whole chain from its genesis: order, links, one store, each signature by the key then in force."""
    report = Verification()
    problem = _chain_problem(chain, first_key)
    report.add("signature", problem is None, problem or f"{len(chain)} receipts, each signed by the key then in force")
    if first_key is None:
        report.add("first key", None, "no first key was given to compare with: the chain vouches for itself only")
    return report


def _chain_problem(chain: Sequence[Receipt], first_key: bytes | None) -> str | None:
    """Where the chain first breaks, or None."""
    if not chain or chain[0].kind != "genesis":
        return "expected the chain to begin with its genesis"
    current = chain[0].public_key
    assert current is not None  # the form of a genesis has one
    if first_key is not None and first_key != current:
        return f"expected the first key to be {key_id(first_key)}, got {key_id(current)}"
    previous = GENESIS_PREVIOUS
    with Progress(len(chain), "checking", unit="receipts") as progress:
        for place, receipt in enumerate(chain):
            progress.advance()
            where = f"receipt {place}"
            if receipt.sequence != place:
                return f"{where}: expected sequence {place}, got {receipt.sequence}"
            if place and receipt.kind == "genesis":
                return f"{where}: expected no second genesis"
            if receipt["store"] != chain[0]["store"]:
                return f"{where}: expected store {chain[0]['store']}, got {receipt['store']}"
            if receipt["previous"] != previous:
                return f"{where}: expected it to follow {previous[:16]}, got {receipt['previous'][:16]}"
            if receipt["signing_key"] != key_id(current):
                return f"{where}: expected a signature by {key_id(current)}, got {receipt['signing_key']}"
            if not verify_signature(current, receipt.signature, receipt.signed_bytes()):
                return f"{where}: the signature is not that of its content"
            if receipt.kind == "rotation":
                current = receipt.public_key
                assert current is not None
            previous = receipt.hash()
    return None


def _check_signature(report: Verification, receipt: Receipt, by_id: dict[str, bytes]) -> None:
    wanted = receipt["signing_key"]
    public = by_id.get(wanted)
    if public is None:
        report.add("signature", None, f"signed by key {wanted}, which is not among the keys given")
        return
    good = verify_signature(public, receipt.signature, receipt.signed_bytes())
    report.add("signature", good, f"by key {wanted}" if good else "it is not that of this content")
