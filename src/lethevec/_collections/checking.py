"""`verify` of a folder: its chain and keys, then each collection that a receipt is about."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .._forgetting.anchors import Anchor
from .._forgetting.keys import AuditKey
from .._forgetting.receipts import Part, Receipt
from .._forgetting.verify import ChainWalk, Verification, verify_receipt
from .._store.chain import Chain, WithChain
from .._store.checking import About, check_about, check_receipt
from .._store.ids import Id
from ..errors import FormatError
from .catalog import Catalog
from .making import Maker

__all__ = ["Checker"]


class Checker(WithChain):
    """Checks receipts against an open folder."""

    def __init__(self, catalog: Catalog, chain: Chain, maker: Maker) -> None:
        """Of an open folder."""
        self._catalog = catalog
        super().__init__(chain)
        self._maker = maker

    def verify(
        self,
        receipt: Receipt,
        ids: list[Id],
        subject: str | None,
        vectors: npt.ArrayLike | None,
        key: bytes | None,
        anchor: Anchor | None,
    ) -> Verification:
        """All checks."""
        report = Verification()
        audit = check_receipt(report, self, receipt, key, anchor)
        if audit is not None and (ids or subject is not None):
            check_about(report, receipt, audit, ids, subject)
        for part in receipt.parts():
            self._check_part(report, receipt, part, audit, ids, subject, vectors)
        return report

    def verify_quickly(self, receipt: Receipt, subject: str | None) -> Verification:
        """What needs neither records nor files: the signature, the place in the chain, and whom it is about.

        Of the chain it looks at the entry and its neighbours; `walk` looks at all of it, part by part.
        """
        report = Verification()
        introducing = self._chain.introducing(receipt.sequence)
        keys = [] if introducing is None or introducing.public_key is None else [introducing.public_key]
        report.checks += verify_receipt(receipt, keys).checks
        nearby = self._chain.page(receipt.sequence - 2, 3)
        own = next((one for one in nearby if one.sequence == receipt.sequence), None)
        if own is None:
            report.add("chain", False, f"the folder's chain has no receipt {receipt.sequence}")
        elif own != receipt:
            report.add("chain", False, f"the folder's chain has another receipt {receipt.sequence}")
        elif any(later["previous"] != earlier.hash() for earlier, later in pairwise(nearby)):
            report.add("chain", False, f"receipt {receipt.sequence} and its neighbours are not linked")
        else:
            report.add("chain", True, f"receipt {receipt.sequence}, linked to its neighbours")
        if receipt.erases and subject is not None:
            audit = self.keys.audit_keys.get(receipt["audit_key"])
            if audit is None:
                report.add("about", None, f"key {receipt['audit_key']} was given up: its tags mean nothing any more")
            else:
                check_about(report, receipt, audit, [], subject)
        return report

    def walk(self, after: int, limit: int) -> tuple[Verification, int | None]:
        """Check up to `limit` entries that follow one that was checked; the second is where to go on, or None."""
        report = Verification()
        last = self._chain.page_back(after + 1, 1)
        try:
            part = self._chain.page(after, limit)
        except FormatError:
            report.add("signature", False, f"an entry after receipt {after} is no receipt: somebody has written there")
            return report, None
        walk = ChainWalk(last[0] if last else None, self._chain.introducing(after + 1))
        problem = "expected the chain to begin with its genesis, got no receipts" if not (part or last) else None
        for receipt in part:
            problem = walk.problem(receipt)
            if problem is not None:
                break
        found = f"receipts {part[0].sequence} to {part[-1].sequence}, all linked and signed" if part else "no more"
        report.add("signature", problem is None, problem or found)
        more = problem is None and len(part) == limit
        return report, part[-1].sequence if more else None

    def _check_part(
        self,
        report: Verification,
        receipt: Receipt,
        part: Part,
        audit: AuditKey | None,
        ids: list[Id],
        subject: str | None,
        vectors: npt.ArrayLike | None,
    ) -> None:
        entry = next((entry for entry in self._catalog.entries() if entry.id == part.collection), None)
        if entry is None:
            gone = any(r.kind == "drop" and r["collections"][0]["collection"] == part.collection for r in self.chain())
            what = (
                "it was dropped, with everything in it"
                if gone
                else "it is not here, and no receipt says that it was dropped"
            )
            report.add(f"collection {str(part.collection)[:8]}", gone, what)
            return
        store = self._maker.open(entry)
        found = Verification()
        fits = vectors is not None and np.shape(vectors)[-1:] == (store.dim,)
        store.check_part(found, receipt, part, audit, About(ids, subject, vectors if fits else None, store.dim))
        for check in found.checks:
            report.add(f"{entry.name}: {check.name}", check.passed, check.detail)
