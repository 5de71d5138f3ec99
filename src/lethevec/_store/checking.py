"""`verify` against a live store: the checks that need its tables and its files."""

from __future__ import annotations

from typing import Protocol

import numpy.typing as npt

from .._forgetting.anchors import Anchor
from .._forgetting.keys import AuditKey, KeyRing
from .._forgetting.multiset import MultisetHash
from .._forgetting.receipts import Part, Receipt
from .._forgetting.residue import Needle, id_needles, search, text_needles, vector_needles
from .._forgetting.verify import Verification, chain_keys, check_trust, verify_chain, verify_receipt
from .._progress import Progress
from .._vectors import as_vectors
from ..errors import KeysError, MissingDependencyError
from .batch import as_arrays
from .chain import current_key
from .checkpoint import BusyError
from .codes import Codes
from .erasing import living, sources
from .ids import Id
from .pages import scrub, wal_state
from .session import Session

__all__ = ["About", "check_about", "check_part", "check_receipt"]

_PART = 2000


class Keys(Protocol):
    """Where the receipts and the keys of a store or a folder are."""

    @property
    def keys(self) -> KeyRing:
        """The keys."""
        ...

    def key_file(self) -> KeyRing | None:
        """The key file as it is now; None if there is none."""
        ...

    def chain(self) -> list[Receipt]:
        """Every receipt from the genesis on."""
        ...


def check_receipt(
    report: Verification, ledger: Keys, receipt: Receipt, key: bytes | None, anchor: Anchor | None
) -> AuditKey | None:
    """Signature, chain and keys, which need no records; the audit key, if the receipt is of an erasure.

    `key` and `anchor` are what the caller trusts.
    """
    chain = ledger.chain()
    report.checks += verify_receipt(receipt, chain_keys(chain).values()).checks
    _check_chain(report, receipt, chain)
    _check_key_file(report, ledger, chain)
    if chain and key is None and anchor is None and report["key file"].passed:
        report.add("trusted key", None, "none was given: only the store and its own key file vouch for the chain")
    elif chain:
        check_trust(report, chain, key, anchor)
    return _audit_key(report, ledger, receipt) if receipt.erases else None


def check_part(
    report: Verification,
    session: Session,
    codes: Codes,
    receipt: Receipt,
    part: Part,
    audit: AuditKey | None,
    about: About,
) -> None:
    """What can be seen in one store of what its part of a receipt says; the caller holds the guard."""
    _check_rows(report, session, receipt, part, audit)
    if codes.keeper is not None:
        _check_codes(report, session, codes, about.dim)
    _check_unused(report, session)
    needles = about.needles(codes)
    if needles:
        _check_residue(report, session, needles)


class About:
    """What a caller has in hand of what was forgotten: ids, a subject, vectors of a store of this dimension."""

    def __init__(self, ids: list[Id], subject: str | None, vectors: npt.ArrayLike | None, dim: int) -> None:
        """Check what was given."""
        self.ids = ids
        self.subject = subject
        self.dim = dim
        self._vectors = None if vectors is None else as_vectors(vectors, dim)

    def needles(self, codes: Codes) -> list[Needle]:
        """What to look for in files."""
        needles = [needle for id in self.ids for needle in id_needles(id)]
        needles += [] if self.subject is None else text_needles(self.subject, "subject")
        if self._vectors is not None:
            needles += [needle for vector in self._vectors for needle in vector_needles(vector)]
            if codes.keeper is not None:
                needles += [Needle("code", code) for code in codes.keeper.codes(self._vectors)]
        return needles


def _check_chain(report: Verification, receipt: Receipt, chain: list[Receipt]) -> None:
    whole = verify_chain(chain)
    if not whole:
        report.add("chain", False, whole["signature"].detail)
    elif receipt.sequence >= len(chain) or chain[receipt.sequence] != receipt:
        report.add("chain", False, f"the store's chain has {len(chain)} receipts, and this is not one of them")
    else:
        report.add("chain", True, f"receipt {receipt.sequence} of {len(chain)}, all linked and signed")


def _check_key_file(report: Verification, ledger: Keys, chain: list[Receipt]) -> None:
    """The key file is evidence at hand: if it does not agree with the chain, one of the two was replaced."""
    try:
        ring = ledger.key_file()
    except MissingDependencyError as error:
        report.add("key file", None, str(error))
        return
    except KeysError as error:
        report.add("key file", False, f"it cannot speak for the chain: {error}")
        return
    if ring is None:
        report.add("key file", None, "it is not here, so that only the chain itself vouches for its keys")
    elif not chain or ring.store != chain[0]["store"]:
        owner = chain[0]["store"] if chain else "none"
        what = f"it is that of store {ring.store}, and the chain that of {owner}: one was replaced"
        report.add("key file", False, what)
    elif current_key(chain) not in {ring.signing_id, ring.successor.signing_id if ring.successor else None}:
        what = f"it has key {ring.signing_id}, and the chain ends with {current_key(chain)}: one was replaced"
        report.add("key file", False, what)
    else:
        report.add("key file", True, f"it has key {current_key(chain)}, with which the chain ends")


def _audit_key(report: Verification, ledger: Keys, receipt: Receipt) -> AuditKey | None:
    try:
        key = ledger.keys.audit_keys.get(receipt["audit_key"])
    except (KeysError, MissingDependencyError) as error:
        report.add("audit key", None, f"without it nothing can be said about ids and digests ({error})")
        return None
    if key is None:
        report.add("audit key", None, f"key {receipt['audit_key']} was given up: its tags mean nothing any more")
    return key


def _check_rows(report: Verification, session: Session, receipt: Receipt, about: Part, audit: AuditKey | None) -> None:
    """One pass over all records: is an erased one back, and do they give the digest that is kept?"""
    erased = frozenset(about.erased)
    erased_subject = receipt["asked"].get("subject")
    seen = session.data_version()
    fresh = MultisetHash(session.state.digest.configuration)
    back = 0
    number = 0
    with Progress(session.state.digest.count, "checking", unit="records") as progress:
        while part := session.tables.read_from(number, _PART):
            fresh.add(record.encoding() for record in part)
            if audit is not None:
                for record in part:
                    same_subject = record.subject is not None and audit.tag_subject(record.subject) == erased_subject
                    back += same_subject or audit.tag_id(record.id) in erased
            number = part[-1].number + 1
            progress.advance(len(part))
    kept, made = session.state.digest.digest(), fresh.digest()
    if session.data_version() != seen:
        report.add("digest", None, "another process wrote while the rows were read; ask again")
        return
    if kept == made:
        report.add("digest", True, "the rows give the digest that is kept")
    else:
        report.add("digest", False, f"expected {kept}, the rows give {made}")
    if audit is None:
        return
    if receipt.kind == "rectification":
        # What is gone is what they were; that no byte of it is left is for the search for residue to say.
        report.add("absent", None, f"the {about.records} records were replaced, not forgotten: their ids are in use")
    elif back:
        report.add("absent", False, f"{back} records of these ids or of this subject are in the store")
    else:
        report.add("absent", True, f"none of the {about.records} erased records is in the store")
    writes = session.state.version - about.version
    if writes:
        report.add("digest after", None, f"the store has been written to {writes} times since")
    elif audit.tag_digest(made) == about.digest["after"]:
        report.add("digest after", True, "the rows give the digest that the receipt names")
    else:
        report.add("digest after", False, "the rows give another digest than the receipt names")


def _check_codes(report: Verification, session: Session, codes: Codes, dim: int) -> None:
    """Make every code again: a check beside it shows that it was damaged, not that somebody put another."""
    assert codes.keeper is not None
    seen = session.data_version()
    differing = number = kept = 0
    while part := session.tables.read_from(number, _PART):
        whole = [record for record in part if record.vector is not None]
        if whole:
            numbers, vectors = as_arrays([r.number for r in whole], [r.vector for r in whole], dim, session.path)
            found = codes.of([record.slot for record in whole])
            differing += codes.keeper.differing(vectors, numbers, found)
            kept += sum(code is not None for code in found)
        number = part[-1].number + 1
    if session.data_version() != seen:
        report.add("codes", None, "another process wrote while they were read; ask again")
    elif differing:
        report.add("codes", False, f"{differing} of {kept} kept codes are not those of their vectors")
    else:
        report.add("codes", True, f"the vectors give the {kept} codes that are kept")


def _check_unused(report: Verification, session: Session) -> None:
    """No unused part of a page holds anything. Only with an empty log do the pages in the file count."""
    if wal_state(session.files.wal, with_pages=False).size:
        if session.read_only:
            report.add("unused bytes", None, "the writer's log is not empty; only the writer can tell")
            return
        try:
            session.checkpointer.run(0.0)
        except BusyError as error:
            report.add("unused bytes", None, f"the log could not be emptied ({error})")
            return
    dirty = scrub(session.raw, session.page_size, dry=True)
    pages = session.raw.size // session.page_size
    if dirty:
        report.add("unused bytes", False, f"{len(dirty)} of {pages} pages hold something in their unused parts")
    else:
        report.add("unused bytes", True, f"{pages} pages, none with anything in its unused parts")


def check_about(report: Verification, receipt: Receipt, audit: AuditKey, ids: list[Id], subject: str | None) -> None:
    """Whether the receipt is about these ids, and this subject."""
    erased = frozenset(tag for part in receipt.parts() for tag in part.erased)
    strangers = [id for id in ids if audit.tag_id(id) not in erased]
    wrong = subject is not None and audit.tag_subject(subject) != receipt["asked"].get("subject")
    if strangers:
        report.add("about", False, f"{len(strangers)} of {len(ids)} ids are not in it, the first: {strangers[0]!r}")
    elif wrong:
        report.add("about", False, f"it is not about the subject {subject!r}")
    else:
        report.add("about", True, "it is about what was given")


def _check_residue(report: Verification, session: Session, needles: list[Needle]) -> None:
    found = search(sources(session), needles, living(session))
    total = sum(found.searched.values())
    searched = f"{found.patterns} patterns in {total:,} bytes of {len(found.searched)} files"
    searched += f" ({found.plain} too plain to tell)" if found.plain else ""
    if found.clean and not found.patterns:
        report.add("residue", None, f"{found.plain} patterns, all too plain to search for: they match by accident")
    elif found.clean:
        report.add("residue", True, f"nothing found of {searched}")
    else:
        first = found.findings[0]
        where = f"{first.label} in {first.source} at byte {first.offset}"
        report.add("residue", False, f"{len(found.findings)} found of {searched}; the first: {where}")
