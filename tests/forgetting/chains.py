"""Chains of receipts without a store."""

from __future__ import annotations

import base64

from lethevec._forgetting.keys import KeyRing
from lethevec._forgetting.receipts import GENESIS_PREVIOUS, Receipt

SOFTWARE = {"lethevec": "0", "sqlite": "0"}


def erasure_body(ring: KeyRing, **changes) -> dict:
    body = {
        "asked_at": "2026-01-01T00:00:00Z",
        "asked": {"by": "ids", "subject": None, "missing": []},
        "audit_key": ring.audit.id,
        "records": 1,
        "erased": [ring.audit.tag_id(7)],
        "digest": {"before": ring.audit.tag_digest("a"), "after": ring.audit.tag_digest("b")},
        "version": 1,
        "residue": {
            "searched": {"people.lethe": 4096},
            "patterns": 9,
            "plain": 0,
            "found": 0,
            "records": 1,
            "pages": 3,
            "pages_cleaned": 1,
        },
    }
    return {**body, **changes}


def make_chain(ring: KeyRing, erasures: int = 2, rotate_after: int | None = None) -> list[Receipt]:
    text = base64.b64encode(ring.public).decode()
    chain = [Receipt.issue(ring, "genesis", 0, GENESIS_PREVIOUS, SOFTWARE, {"public_key": text})]
    for number in range(erasures):
        chain.append(
            Receipt.issue(ring, "erasure", len(chain), chain[-1].hash(), SOFTWARE, erasure_body(ring, version=number))
        )
        if number == rotate_after:
            new = ring.rotated()
            body = {"public_key": base64.b64encode(new.public).decode(), "reason": "test"}
            chain.append(Receipt.issue(ring, "rotation", len(chain), chain[-1].hash(), SOFTWARE, body))
            ring = new
    return chain
