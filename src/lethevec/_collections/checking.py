"""`verify` of a folder: its chain and keys, then each collection that a receipt is about."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._forgetting.anchors import Anchor
from .._forgetting.keys import AuditKey, KeyRing
from .._forgetting.receipts import Part, Receipt
from .._forgetting.verify import Verification
from .._store.chain import Chain
from .._store.checking import About, check_about, check_receipt
from .._store.ids import Id
from .catalog import Catalog
from .making import Maker

__all__ = ["Checker"]


class Checker:
    """Checks receipts against an open folder."""

    def __init__(self, catalog: Catalog, chain: Chain, maker: Maker) -> None:
        """Of an open folder."""
        self._catalog = catalog
        self._chain = chain
        self._maker = maker

    @property
    def keys(self) -> KeyRing:
        """The folder's keys."""
        return self._chain.keys

    def key_file(self) -> KeyRing | None:
        """The folder's key file as it is now."""
        return self._chain.key_file()

    def chain(self) -> list[Receipt]:
        """Every receipt from the genesis on."""
        return self._chain.receipts()

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
