"""How large the pages of a new store are, so that records fill them.

SQLite puts rows into pages without cutting them, as long as a row fits into one. Of rows a little longer than half a
page, each takes a whole one: 512 numbers in pages of 4,096 bytes take twice their size. Larger pages hold more rows and
lose less, but a change rewrites whole pages, so the smallest size is taken that does well. It follows from the
configuration alone, so that a backup, too, is the same whatever the history.
"""

from __future__ import annotations

__all__ = ["cost", "page_size_for"]

SIZES = (4096, 8192, 16384, 32768, 65536)
_GOOD = 1.18  # bytes on disk for a byte of the row, less what the row of `records` takes besides the payload
_RECORD = 36
_SHORT = 16  # bytes that a row may take in any case: of short rows, no page size saves these
_SLOT = 4  # bytes of a slot up to 2^28, as SQLite writes it
_SEALED = 36 + 200  # of a sealed record: the seal, and id, subject and payload as they may be


def page_size_for(dim: int, *, sealed: bool) -> int:
    """The page size of a store of this dimension.

    >>> page_size_for(100, sealed=False), page_size_for(512, sealed=False)
    (8192, 16384)
    """
    row = 4 * dim + (_SEALED if sealed else 0)
    good = max(_GOOD * row - (0 if sealed else _RECORD), row + _SHORT)
    costs = {size: cost(row, size) for size in SIZES}
    return next((size for size in SIZES if costs[size] <= good), min(SIZES, key=lambda size: costs[size]))


def cost(blob: int, page: int) -> float:
    """Bytes on disk for each row of a slot and a blob of this length, added in order of slots.

    By https://www.sqlite.org/fileformat2.html: up to page - 35 bytes lie in the leaf; of a longer row a part does, and
    the rest is in overflow pages of its own.

    >>> cost(2048, 4096), round(cost(2048, 16384))
    (4096.0, 2341)
    """
    row = 2 + _varint(2 * blob + 12) + blob  # header: its own length, the slot's type, the blob's type
    head = _varint(row) + _SLOT
    if row <= page - 35:
        return page / ((page - 8) // (2 + head + row))
    least = (page - 12) * 32 // 255 - 23
    local = least + (row - least) % (page - 4)
    local = local if local <= page - 35 else least
    return page / ((page - 8) // (2 + head + local + 4)) + -(-(row - local) // (page - 4)) * page


def _varint(number: int) -> int:
    """How many bytes SQLite takes for a number."""
    return max(1, -(-number.bit_length() // 7))
