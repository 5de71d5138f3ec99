"""Moving in: collections of other libraries and databases, copied with ids, payloads and vectors.

    open_source(kind, location)     a collection that can be read in batches; KINDS are the kinds
    move(source, store)             copy it into a store, count, and compare a sample
    source.residue()                what its files still hold of records that were deleted there

`lethevec import STORE --from KIND LOCATION` does all three. Chroma, LanceDB and pgvector need their packages; Qdrant is
read over HTTP, and hnswlib's files are read as they are. Nothing is written to a source; but Chroma's own package
tidies a folder when it opens it.
"""

from __future__ import annotations

from ._copying import Moved, move
from ._kinds import KINDS, open_source
from ._source import Residue, Source

__all__ = ["KINDS", "Moved", "Residue", "Source", "move", "open_source"]
