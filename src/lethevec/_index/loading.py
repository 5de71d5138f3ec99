"""Many records on their way into an index that nobody uses yet: how a store fills its index when it opens.

They become rows part by part and are filed in the index's source at once, in the end: filed part by part, cells would
be made again for each of them. What takes longest is then to find out where each record belongs. A store may keep
that as an image (`image_of`), and an index that is filled with the same records in the same order takes it from there.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._native import core, resolve_threads
from .._vectors import F32, MAX_NORM, MIN_NORM, as_vectors
from .arguments import I64
from .index import Index
from .records import refuse
from .sources import Pivots

__all__ = ["IMAGE_VERSION", "Loading", "has_images", "image_of"]

U32 = npt.NDArray[np.uint32]

#: Another one whenever the same records lead to other images, or to others than an index can be made from.
IMAGE_VERSION = 1


class Loading:
    """Records on their way into an index. If it fails, the index is to be dropped."""

    def __init__(self, index: Index, expected: int) -> None:
        """Into this index, which is empty; about so many records."""
        self._index = index
        self._records = index._records
        self._records.expect(expected)
        self._threads = resolve_threads(None)
        self.replaced = False  # whether a record came twice: then rows are not in the order of records
        cosine = index.metric == "cosine"
        self._least = MIN_NORM if cosine else 0.0

    @staticmethod
    def fits(index: Index) -> bool:
        """Whether an index can be filled like this: it is empty, and codes do not depend on all records."""
        return len(index) == 0 and not index._gain.follows

    def add(self, vectors: F32, ids: I64) -> None:
        """Some records, in place of those with the same ids."""
        x = as_vectors(vectors, self._index.dim, nonzero=self._index.metric == "cosine")
        with self._index.config.form.rounding(x) as kept:
            known, refusal = self._records.native.load(kept, ids, self._threads)
        refuse(refusal)
        self.replaced |= known > 0

    def add_stored(self, stored: core.StoredVectors, rows: int) -> tuple[I64, I64, I64, I64, int]:
        """Some records from the pages of a store: slots and numbers of those with a vector and of those without one,
        and the last slot of all."""
        *found, last, known = stored.load(self._records.native, rows, self._least, MAX_NORM, self._threads)
        self.replaced |= known > 0
        slots, numbers, bare_slots, bare_numbers = map(np.asarray, found)
        return slots, numbers, bare_slots, bare_numbers, last

    def finish(self, image: bytes | None, rows: U32 | None) -> bool:
        """File them all: by an image of these rows, if it is one; whether it is. Only now they are found."""
        return self._records.file_loaded(image, None if image is None else rows, self._threads)


def has_images(index: Index) -> bool:
    """Whether images of it, as it is now, are of use: to find out where records belong takes long."""
    source = index._records.source
    return isinstance(source, Pivots) and not source.refine


def image_of(index: Index, ids: I64) -> bytes:
    """An image of all records, in this order; empty where it would be of no use."""
    with index._changing.unchanged():
        return index._native.image(ids, resolve_threads(None))
