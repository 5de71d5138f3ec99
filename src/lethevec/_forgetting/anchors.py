"""Anchors: the newest hash of a chain, to be published where its keeper cannot take it back.

A chain shows by itself that nothing was changed in it, dropped from its middle or put in later. That it was cut at its
end, or replaced as a whole, only shows against something that others hold. One line is enough for that:

    lethevec-anchor/1 <id of the store> <number of the receipt> <its hash>

Whoever has the line can later ask for the chain and see that this receipt is still in its place, and with it
everything before it. It tells nothing about anybody: the hash is over tags and a signature.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ReceiptError
from .receipts import Receipt

__all__ = ["Anchor"]

_FORMAT = "lethevec-anchor/1"
_LINE = re.compile(r"lethevec-anchor/1 ([0-9a-f]{32}) (0|[1-9][0-9]{0,17}) ([0-9a-f]{64})")


@dataclass(frozen=True)
class Anchor:
    """The place and the hash of one receipt; `str` gives the line to publish.

    >>> anchor = Anchor("0" * 32, 3, "f" * 64)
    >>> Anchor.parse(str(anchor)) == anchor
    True
    """

    store: str
    sequence: int
    hash: str

    @classmethod
    def of(cls, receipt: Receipt) -> Anchor:
        """The anchor of a receipt: of the newest one, to anchor a whole chain."""
        return cls(receipt["store"], receipt.sequence, receipt.hash())

    @classmethod
    def parse(cls, text: object) -> Anchor:
        """Read the line."""
        found = _LINE.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            raise ReceiptError(
                f"anchor: expected a line like '{_FORMAT} <store> <number> <hash>', got "
                + (f"{text!r:.80}" if isinstance(text, str) else type(text).__name__)
            )
        return cls(found[1], int(found[2]), found[3])

    def __str__(self) -> str:
        return f"{_FORMAT} {self.store} {self.sequence} {self.hash}"

    def problem(self, chain: Sequence[Receipt]) -> str | None:
        """Why this chain, whose order was checked, is not the one that was anchored; None if it is."""
        if not chain or chain[0]["store"] != self.store:
            return f"the anchor is of store {self.store}, and the chain of {chain[0]['store'] if chain else 'none'}"
        if self.sequence >= len(chain):
            return (
                f"the anchor names receipt {self.sequence}, and the chain ends with {len(chain) - 1}: "
                "it was cut at its end, or is older than the anchor"
            )
        found = chain[self.sequence].hash()
        if found != self.hash:
            return f"receipt {self.sequence} has the hash {found[:16]}..., and the anchor {self.hash[:16]}...: replaced"
        return None
