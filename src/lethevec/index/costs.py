"""What a search reads of a record, for `Work.bytes_read`."""

from __future__ import annotations

from .config import Config
from .sources import bits_in_cells


def bytes_of_stages(config: Config, source: str) -> tuple[int, int, int]:
    """What a search reads of a record in each stage: its first bits, the rest of its code, its vector."""
    c = config
    vector = 4 * c.dim
    if c.ranking == "hamming":
        word = 32 if source == "scan" else 64
        return -(-c.bits // word) * (word // 8), 0, vector
    planes = c.dim if c.family == "progressive" else c.bits
    bits = bits_in_cells(c) if source == "pivots" else c.bits
    if source == "tables":
        planes = 0
    first, rest = -(-planes // 8), 4 + -(-(bits - planes) // 32) * 4
    if source == "pivots":
        return first + 4, rest + 8, vector  # see native/cells.h
    # Of a norm a byte is read, where the first stage sums in bytes: see native/rows.h.
    norm = 0 if c.metric == "cosine" else 1 if first <= 16 else 4
    return first + norm, rest, vector
