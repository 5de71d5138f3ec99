"""What anybody can check about receipts, without the store: signatures, the chain, anchors.

`verify` checks one receipt with nothing but a public key. `verify_chain` takes the receipts of a store or a folder from
the genesis on, and follows the keys through rotations. A chain alone only shows that it agrees with itself: whoever can
replace all of it can make another. What speaks against that has to come from elsewhere, a key that you trust or an
anchor that was published, and the report says when there was neither.

The checks against a live store are the store's own `verify`; it reports in the same form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .._progress import Progress
from .anchors import Anchor
from .keys import key_id, verify_signature
from .receipts import GENESIS_PREVIOUS, Receipt
from .trusted import ChainLike, KeyLike, ReceiptLike, read_chain, read_public_key, read_receipt

__all__ = [
    "ChainWalk",
    "Check",
    "Verification",
    "chain_keys",
    "check_trust",
    "verify",
    "verify_chain",
    "verify_receipt",
]


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
    """The checks that were made. True as a whole when none failed and the signature was among the passed ones.

    `proves` and `leaves_open` say in words what follows from them and what does not.
    """

    checks: list[Check] = field(default_factory=list)
    proves: list[str] = field(default_factory=list)
    leaves_open: list[str] = field(default_factory=list)

    def add(self, name: str, passed: bool | None, detail: str) -> None:
        """Note the outcome of one check."""
        self.checks.append(Check(name, passed, detail))

    @property
    def failed(self) -> list[Check]:
        """The checks that failed."""
        return [check for check in self.checks if check.passed is False]

    def __getitem__(self, name: str) -> Check:
        """The check of that name."""
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(name)

    def __contains__(self, name: str) -> bool:
        """Whether a check of that name was made."""
        return any(check.name == name for check in self.checks)

    def __bool__(self) -> bool:
        """Whether the signature passed and nothing failed."""
        return not self.failed and any(check.name == "signature" and check.passed for check in self.checks)

    def __str__(self) -> str:
        """One line for each check, then what they prove and what they leave open."""
        lines = [str(check) for check in self.checks]
        lines += [f"This proves that {what}." for what in self.proves]
        lines += [f"This does not prove that {what}." for what in self.leaves_open]
        return "\n".join(lines)


def verify(receipt: ReceiptLike, *, key: KeyLike | Iterable[KeyLike]) -> Verification:
    """Check one receipt with nothing but a public key that you trust.

    `receipt` is a `Receipt`, its fields, its JSON, or a file with it; `key` is 32 bytes, 64 hexadecimal digits, PEM, or
    a file with one of these; several keys if the store has changed its own. The report says in words what is proved.

    >>> from lethevec._forgetting.keys import KeyRing
    >>> ring = KeyRing.create()
    >>> tags = {"subject": ring.audit.tag_subject("ann"), "reason": ring.audit.tag("reason", b"late writes")}
    >>> software = {"lethevec": "0", "sqlite": "0"}
    >>> made = Receipt.issue(ring, "block", 1, "0" * 64, software, {**tags, "audit_key": ring.audit.id})
    >>> bool(verify(made.to_json(), key=ring.public.hex()))
    True
    >>> bool(verify(made, key=KeyRing.create().public))
    False
    """
    one = isinstance(key, str | bytes | bytearray) or not isinstance(key, Iterable) or getattr(key, "ndim", 1) == 0
    publics = [read_public_key(key)] if one else [read_public_key(each) for each in key]  # type: ignore[arg-type,union-attr]
    checked = read_receipt(receipt)
    report = Verification()
    by_id = {key_id(public): public for public in publics}
    if checked["signing_key"] in by_id:
        _check_signature(report, checked, by_id)
    else:
        given = ", ".join(by_id) or "none"
        report.add("signature", False, f"signed by key {checked['signing_key']}, and the key to trust is {given}")
    if report:
        _explain(report, checked)
    return report


def _explain(report: Verification, receipt: Receipt) -> None:
    """In words: what the signature of one receipt proves, and what it cannot."""
    report.proves.append(
        f"whoever holds key {receipt['signing_key']} signed exactly this, as entry {receipt.sequence} of the chain of "
        f"store {receipt['store']}, and dated it {receipt['issued_at']}; nothing in it was changed since"
    )
    if receipt.erases:
        report.proves.append(
            f"they state that {receipt.records:,} records were erased, that the files were searched for "
            "what was erased, and that nothing was found"
        )
        report.leaves_open += [
            "the statement is true: that takes the store (`verify` on it), or an auditor whom you trust",
            "it is about a certain person or id: that takes the audit key, which turns them into the tags in it",
        ]
        for place, erased in receipt.elsewhere.items():
            if erased is None:
                report.leaves_open.append(f"anything was erased in {place}: the caller stated that it was not")
            else:
                report.leaves_open.append(f"{erased:,} entries were erased in {place}: the caller stated it")
    report.leaves_open += [
        "the entry is still in the chain: that takes the chain (`verify_chain`), best with an anchor",
        "the date is right: the signer's clock gave it",
    ]


def verify_receipt(receipt: Receipt, public_keys: Iterable[bytes]) -> Verification:
    """Check the signature of one receipt against any of the keys of its chain."""
    report = Verification()
    by_id = {key_id(public): public for public in public_keys}
    _check_signature(report, receipt, by_id)
    return report


def chain_keys(chain: Sequence[Receipt]) -> dict[str, bytes]:
    """The public keys that a chain introduces, by their id. Trust them only after `verify_chain`."""
    return {key_id(public): public for public in (receipt.public_key for receipt in chain) if public is not None}


def verify_chain(chain: ChainLike, *, key: KeyLike | None = None, anchor: Anchor | str | None = None) -> Verification:
    """Check a whole chain from its genesis: order, links, one store, each signature by the key then in force.

    `key` is a public key of the chain that you trust, the first one or one that has signed since; `anchor` is a line
    that was published earlier (see `Anchor`). Without both, nothing but the chain itself vouches for it, and the report
    says so.
    """
    public = None if key is None else read_public_key(key)
    line = anchor if anchor is None or isinstance(anchor, Anchor) else Anchor.parse(anchor)
    receipts = read_chain(chain)
    report = Verification()
    problem = _chain_problem(receipts)
    report.add(
        "signature", problem is None, problem or f"{len(receipts)} receipts, each signed by the key then in force"
    )
    if problem is None:
        check_trust(report, receipts, public, line)
    if report:
        report.proves.append(
            f"these {len(receipts)} entries are in their order, and none before the last was changed, removed or put "
            "in later"
        )
        if line is None:
            report.leaves_open.append("the chain was not cut at its end: that takes an anchor")
        if public is None and line is None:
            report.leaves_open.append("this is the chain that was there before: nothing but itself vouches for it")
    return report


def check_trust(report: Verification, chain: Sequence[Receipt], key: bytes | None, anchor: Anchor | None) -> None:
    """Hold a chain, whose links were checked, against the key to trust and against an anchor."""
    if key is not None:
        report.add("trusted key", *_trust(chain, key))
    elif anchor is None:
        report.add("trusted key", None, "none was given: nothing but the chain itself vouches for it")
    if anchor is not None:
        problem = anchor.problem(chain)
        report.add(
            "anchor",
            problem is None,
            problem or f"receipt {anchor.sequence} of {len(chain)} is the one that was anchored",
        )


def _trust(chain: Sequence[Receipt], key: bytes) -> tuple[bool, str]:
    """A key speaks for the chain if it began it, or signed in it: who only appears in a rotation has signed nothing."""
    wanted = key_id(key)
    if chain[0].public_key == key:
        return True, f"the chain begins with key {wanted}"
    signed = [receipt.sequence for receipt in chain if receipt["signing_key"] == wanted]
    if signed and key in chain_keys(chain).values():
        return True, f"key {wanted} has signed receipts {signed[0]} to {signed[-1]} and with them all before"
    began = "none" if chain[0].public_key is None else key_id(chain[0].public_key)
    return False, f"expected key {wanted} to begin the chain or to have signed in it, got one that begins with {began}"


def _chain_problem(chain: Sequence[Receipt]) -> str | None:
    """Where the chain first breaks, or None."""
    if not chain:
        return "expected the chain to begin with its genesis, got no receipts"
    walk = ChainWalk()
    with Progress(len(chain), "checking", unit="receipts") as progress:
        for receipt in chain:
            progress.advance()
            problem = walk.problem(receipt)
            if problem is not None:
                return problem
    return None


class ChainWalk:
    """Checks a chain entry by entry: order, links, one store, each signature by the key then in force.

    It begins before the genesis, or after an entry that was checked before, with the one that introduced the key then
    in force: so a long chain can be checked in parts.
    """

    def __init__(self, last: Receipt | None = None, introducing: Receipt | None = None) -> None:
        """`last` is the entry before the next one to come."""
        self._place = 0 if last is None else last.sequence + 1
        self._store = None if last is None else last["store"]
        self._previous = GENESIS_PREVIOUS if last is None else last.hash()
        self._key = None if introducing is None else introducing.public_key

    def problem(self, receipt: Receipt) -> str | None:
        """What is wrong with the next entry, or None."""
        place = self._place
        where = f"receipt {place}"
        if not place and receipt.kind != "genesis":
            return f"expected the chain to begin with its genesis, got a receipt of kind {receipt.kind}"
        if receipt.sequence > place:
            return f"{where}: expected sequence {place}, got {receipt.sequence}: {_missing(place, receipt.sequence)}"
        if receipt.sequence < place:
            return f"{where}: expected sequence {place}, got {receipt.sequence}: twice, or out of order"
        if not place:
            self._key, self._store = receipt.public_key, receipt["store"]
        elif receipt.kind == "genesis":
            return f"{where}: expected no second genesis"
        assert self._key is not None  # the form of a genesis has one
        if receipt["store"] != self._store:
            return f"{where}: expected store {self._store}, got {receipt['store']}"
        if receipt["previous"] != self._previous:
            return f"{where}: expected it to follow {self._previous[:16]}, got {receipt['previous'][:16]}"
        if receipt["signing_key"] != key_id(self._key):
            return f"{where}: expected a signature by {key_id(self._key)}, got {receipt['signing_key']}"
        if not verify_signature(self._key, receipt.signature, receipt.signed_bytes()):
            return f"{where}: the signature is not that of its content"
        if receipt.kind == "rotation":
            self._key = receipt.public_key
        self._place, self._previous = place + 1, receipt.hash()
        return None


def _missing(first: int, then: int) -> str:
    return f"receipt {first} is missing" if then == first + 1 else f"receipts {first} to {then - 1} are missing"


def _check_signature(report: Verification, receipt: Receipt, by_id: dict[str, bytes]) -> None:
    wanted = receipt["signing_key"]
    public = by_id.get(wanted)
    if public is None:
        report.add("signature", None, f"signed by key {wanted}, which is not among the keys given")
        return
    good = verify_signature(public, receipt.signature, receipt.signed_bytes())
    report.add("signature", good, f"by key {wanted}" if good else "it is not that of this content")
