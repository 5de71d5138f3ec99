"""The competitors: one class for each way to search, ours among them, all behind the interface of `peer.Peer`.

Each is used as its own documentation advises, in memory, with the same vectors. Under cosine all of them get unit
vectors and unit queries, so that nobody has to divide by norms.
"""

from __future__ import annotations

from .annoy import Annoy
from .chroma import Chroma
from .faiss import (
    FaissBinaryFlat,
    FaissBinaryHash,
    FaissBinaryMultiHash,
    FaissFlat,
    FaissHNSW,
    FaissIVFFlat,
    FaissIVFPQ,
    FaissLSH,
    FaissRaBitQ,
)
from .hnswlib import Hnswlib
from .ngt import Ngt
from .ours import Lethevec, LethevecStore, PaperMode
from .peer import Peer
from .rabitqlib import RabitqHNSW, RabitqIVF, SymphonyQG
from .scann import Scann
from .sqlite import PlainSqlite, SqliteVec
from .svs import Svs
from .turbovec import Turbovec
from .usearch import Usearch
from .voyager import Voyager
from .vsag import Vsag
from .zvec import Zvec

#: Libraries to compare with, by the names that the command line takes.
SEARCHING: dict[str, type[Peer]] = {
    "flat": FaissFlat,
    "lsh": FaissLSH,
    "rabitq": FaissRaBitQ,
    "ivfpq": FaissIVFPQ,
    "turbovec": Turbovec,
    "hnsw": FaissHNSW,
    "hnswlib": Hnswlib,
    "voyager": Voyager,
    "usearch": Usearch,
    "scann": Scann,
    "annoy": Annoy,
    "symqg": SymphonyQG,
    "rabitq-ivf": RabitqIVF,
    "rabitq-hnsw": RabitqHNSW,
    "vsag": Vsag,
    "ngt": Ngt,
    "svs": Svs,
    "zvec": Zvec,
}

#: Everything that can compete.
KINDS: dict[str, type[Peer]] = {
    "lethevec": Lethevec,
    "store": LethevecStore,
    "paper": PaperMode,
    **SEARCHING,
    "ivf-flat": FaissIVFFlat,
    "binary-flat": FaissBinaryFlat,
    "binary-hash": FaissBinaryHash,
    "binary-multihash": FaissBinaryMultiHash,
    "chroma": Chroma,
    "sqlite-vec": SqliteVec,
    "sqlite": PlainSqlite,
}
