"""Where a search gets its candidates from: the sources, their parameters, and the native form of each.

A source is given by name or as an object. What an object is given is checked when it is made, as far as it can be
without an index; `fitted` does the rest and fills in what was left open, so the source of a configuration is complete.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from .. import reference
from .._hashing import Hasher
from .._hashing.families import SimHash
from .._hashing.parameters import boolean, choice, integer
from .._native import core
from .._shown import shown
from ..errors import ParameterError
from ..reference.constants import PLANES_IN_CELLS
from .encoders import native_encoder

if TYPE_CHECKING:
    from .config import Config

__all__ = ["Auto", "Graph", "Pivots", "Scan", "Source", "Tables"]

#: What a key's bits and a plan of probes fit in (see native/sources/tables/probing.h), and how many buckets all tables
#: may have: every one of them costs eight bytes, filled or not.
MAX_TABLES = 256
MAX_KEY_BITS = 20
MAX_BUCKETS = 1 << 25
MAX_PROBES = 1 << 40
MAX_EXPECTED = 1 << 32
#: Defaults, measured on sets of 25,000 to 331,000 records: see docs/tables.md.
EXPECTED_BY_TABLES = 100_000
TABLES = 1
ROWS_PER_BUCKET = 1000
SHARE_SCALE, SHARE_POWER = 3.3, -0.115
#: The same for pivots: docs/pivots.md.
MAX_CELL_SIZE = 1 << 20
#: The same for the graph: docs/graph.md.
CELL_SIZE_OF_GRAPH = 32
CELLS_OF_GRAPH, MAX_CELLS_OF_GRAPH = 32, 1024
POOL_OF_GRAPH, MAX_POOL_OF_GRAPH = 128, 4096
#: What "auto" goes by (docs/sources.md has the measurements): from so many records on it uses pivots, and from so many
#: numbers in a vector and so many records on a graph.
OPTIMIZE = ("updates", "search", "memory")
NEVER = 1 << 40
PIVOTS_FROM = {"updates": 100_000, "search": 25_000, "memory": NEVER}
GRAPH_FROM_DIM, GRAPH_FROM = 256, 25_000


@dataclass(frozen=True, kw_only=True)
class Scan:
    """Look at the codes of all records.

    >>> from lethevec import Index
    >>> Index(dim=8, source=Scan()).config.source
    Scan()
    """

    name: ClassVar[str] = "scan"


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Look into the nearest buckets of hash tables.

    `tables` is how many tables there are and `key_bits` how many bits their keys have. `probes` is how many buckets of
    average size a query looks into at effort 1.0; at effort 2.0 it looks into twice as many. What is left open is
    chosen for about `expected` records.

    >>> from lethevec import Index
    >>> Index(dim=64, source=Tables(tables=2, expected=1_000_000)).config.source
    Tables(tables=2, key_bits=10, probes=690, expected=1000000)
    """

    name: ClassVar[str] = "tables"

    tables: int | None = None
    key_bits: int | None = None
    probes: int | None = None
    expected: int = EXPECTED_BY_TABLES

    def __post_init__(self) -> None:
        _check(self, "tables", 1, MAX_TABLES)
        _check(self, "key_bits", 1, MAX_KEY_BITS)
        _check(self, "probes", 1, MAX_PROBES)
        _check(self, "expected", 1, MAX_EXPECTED, optional=False)


@dataclass(frozen=True, kw_only=True)
class Pivots:
    """Look into the nearest cells around records that a keyed hash picks.

    `cell_size` is how many records a cell has on average; if it is left open, it follows the number of records.
    `probes` is how many cells a query looks into at effort 1.0 (twice as many at 2.0); None lets it follow the data and
    the number of cells. With `refine`, cells lie around means instead of pivots: searches are faster, changes slower.
    `key` is 16 bytes (or 32 hexadecimal digits) for the hash that picks the pivots; it follows from the seed if it is
    left open.

    >>> from lethevec import Index
    >>> Index(dim=64, source=Pivots(refine=True, key=bytes(16))).config.source
    Pivots(cell_size=None, probes=None, refine=True, key='00000000000000000000000000000000')
    """

    name: ClassVar[str] = "pivots"

    cell_size: int | None = None
    probes: int | None = None
    refine: bool = False
    key: bytes | str | None = None

    def __post_init__(self) -> None:
        _check(self, "cell_size", 2, MAX_CELL_SIZE)
        _check(self, "probes", 1, MAX_PROBES)
        boolean("refine", self.refine)
        _put(self, "key", _hash_key(self.key))


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Walk a graph from vertex to vertex, towards the query.

    Every edge follows from the records, so that the graph forgets exactly. The neighbours of a record are chosen among
    the `pool` records nearest to it in the `cells` cells that are nearest to it; a cell has `cell_size` records on
    average. Larger numbers make better graphs, more slowly. `key` is 16 bytes (or 32 hexadecimal digits) for the hash
    that picks the pivots of the cells; it follows from the seed if it is left open.

    >>> from lethevec import Index
    >>> Index(dim=64, source=Graph(key=bytes(16))).config.source
    Graph(cell_size=32, cells=32, pool=128, key='00000000000000000000000000000000')
    """

    name: ClassVar[str] = "graph"

    cell_size: int = CELL_SIZE_OF_GRAPH
    cells: int = CELLS_OF_GRAPH
    pool: int = POOL_OF_GRAPH
    key: bytes | str | None = None

    def __post_init__(self) -> None:
        _check(self, "cell_size", 2, MAX_CELL_SIZE, optional=False)
        _check(self, "cells", 1, MAX_CELLS_OF_GRAPH, optional=False)
        _check(self, "pool", 1, MAX_POOL_OF_GRAPH, optional=False)
        _put(self, "key", _hash_key(self.key))


@dataclass(frozen=True, kw_only=True)
class Auto:
    """A scan of few records; from `pivots_from` records on `pivots`, and from `graph_from` records on `graph`.

    What is left open follows from `optimize`: "updates" is for records that come and go, with pivots from 100,000
    records on, when a scan becomes slow; "search" is for records that are searched far more often than changed, with
    pivots from 25,000 records on, or a graph where vectors are long; "memory" is a scan always, which takes the least.

    It is a scan always where neither pivots nor a graph fit: with codes other than progressive, with Hamming ranking,
    and where vectors are not kept. No graph has metric="ip".

    >>> from lethevec import Index
    >>> Index(dim=64, source=Auto(pivots_from=50_000)).config.source.pivots_from
    50000
    >>> Index(dim=384, optimize="search").config.source.graph_from
    25000
    >>> Index(dim=64, family="usr", bits=128, source="auto").config.source
    Scan()
    """

    name: ClassVar[str] = "auto"

    optimize: str = OPTIMIZE[0]
    pivots_from: int | None = None
    graph_from: int | None = None
    pivots: Pivots = field(default_factory=Pivots)
    graph: Graph = field(default_factory=Graph)

    def __post_init__(self) -> None:
        choice("optimize", self.optimize, OPTIMIZE)
        _check(self, "pivots_from", 1, NEVER)
        _check(self, "graph_from", 1, NEVER)
        for name, kind in (("pivots", Pivots), ("graph", Graph)):
            if type(getattr(self, name)) is not kind:
                given = getattr(self, name)
                raise ParameterError(f"{name}: expected an object of lethevec.{kind.__name__}, got {shown(given)}")
        if None not in (self.pivots.key, self.graph.key) and self.pivots.key != self.graph.key:
            raise ParameterError("key: expected the same for pivots and graph, got two")


Source = Scan | Tables | Pivots | Graph | Auto
#: Of these a native index is made.
Chosen = Scan | Tables | Pivots | Graph
SOURCES: dict[str, type[Scan] | type[Tables] | type[Pivots] | type[Graph] | type[Auto]] = {
    kind.name: kind for kind in (Auto, Scan, Tables, Pivots, Graph)
}


def _check(source: object, name: str, low: int, high: int, *, optional: bool = True) -> None:
    """Check one number, and make an int of one of NumPy's."""
    given = getattr(source, name)
    if given is not None or not optional:
        _put(source, name, integer(name, given, low, high))


def _put(source: object, name: str, value: object) -> None:
    object.__setattr__(source, name, value)  # it is frozen for all others


def _hash_key(given: object) -> str | None:
    """The key of the hash that makes pivots: 32 hexadecimal digits."""
    if given is None or (isinstance(given, str) and re.fullmatch("[0-9a-f]{32}", given)):
        return given
    if isinstance(given, bytes) and len(given) == 16:
        return given.hex()
    what = f"{len(given)} bytes" if isinstance(given, bytes) else type(given).__name__
    raise ParameterError(f"key: expected 16 bytes (or their 32 hexadecimal digits), got {what}")


def as_source(given: object, optimize: object = None) -> Source:
    """What was given as a source: an object, or a name for one with nothing but defaults; "auto" is told `optimize`."""
    if optimize is not None:
        optimize = choice("optimize", optimize, OPTIMIZE)
        if given != "auto":
            what = "lethevec.Auto(optimize=...)" if isinstance(given, Auto) else "source='auto'"
            raise ParameterError(f"optimize={optimize!r}: expected {what}, got source={shown(given)}")
        return Auto(optimize=optimize)
    if type(given) in SOURCES.values():
        return given  # type: ignore[return-value]
    if isinstance(given, str) and given in SOURCES:
        return SOURCES[given]()
    names = ", ".join(map(repr, SOURCES))
    raise ParameterError(
        f"source: expected one of {names}, or an object (such as lethevec.Pivots()), got {shown(given)}"
    )


def fitted(source: Source, hasher: Hasher, metric: str, ranking: str, keep_vectors: bool) -> Source:
    """The source of an index with these codes, with everything filled in that was left open; refused if unfit."""
    if isinstance(source, Auto) and (hasher.family != "progressive" or ranking != "asymmetric" or not keep_vectors):
        return Scan()
    _refuse_unfit(source, hasher, ranking, keep_vectors)
    if isinstance(source, Graph) and metric == "ip":
        raise ParameterError("metric: source='graph' expected 'cosine' or 'l2', got 'ip'; pivots and scan have it")
    if isinstance(source, Auto):
        return _fitted_auto(source, hasher, metric)
    if isinstance(source, Pivots):
        return _fitted_pivots(source, hasher.seed)
    if isinstance(source, Graph):
        return replace(source, key=default_key(hasher.seed) if source.key is None else source.key)
    return _fitted_tables(source, hasher.dim) if isinstance(source, Tables) else source


def _fitted_auto(source: Auto, hasher: Hasher, metric: str) -> Auto:
    pivots_from, graph_from = source.pivots_from, source.graph_from
    if pivots_from is None:
        pivots_from = PIVOTS_FROM[source.optimize]
    if graph_from is None:
        long = source.optimize == "search" and hasher.dim >= GRAPH_FROM_DIM
        graph_from = GRAPH_FROM if long and metric != "ip" else NEVER
    if metric == "ip" and graph_from != NEVER:
        raise ParameterError("graph_from: expected none with metric='ip', got one; pivots and scan have it")
    key = source.pivots.key or source.graph.key or default_key(hasher.seed)
    pivots = _fitted_pivots(replace(source.pivots, key=key), hasher.seed)
    graph = replace(source.graph, key=key)
    return replace(source, pivots_from=pivots_from, graph_from=graph_from, pivots=pivots, graph=graph)


def _fitted_tables(source: Tables, dim: int) -> Tables:
    expected = source.expected
    key_bits = default_key_bits(expected, dim) if source.key_bits is None else source.key_bits
    integer("key_bits", key_bits, 1, min(dim, MAX_KEY_BITS))
    tables = TABLES if source.tables is None else source.tables
    if tables << key_bits > MAX_BUCKETS:
        most = MAX_BUCKETS >> key_bits
        raise ParameterError(f"tables: expected at most {most} with key_bits={key_bits}, got {tables}")
    probes = default_probes(expected, key_bits) if source.probes is None else source.probes
    return Tables(tables=tables, key_bits=key_bits, probes=probes, expected=expected)


def _fitted_pivots(source: Pivots, seed: int) -> Pivots:
    return replace(source, key=default_key(seed) if source.key is None else source.key)


def default_key(seed: int) -> str:
    """The key of an index that was not given one, as its configuration has it."""
    return struct.pack("<QQ", *reference.default_pivot_key(seed)).hex()


def default_key_bits(expected: int, dim: int) -> int:
    """As many as give a bucket ROWS_PER_BUCKET records on average, but at least 4, and no more than there can be."""
    return min(dim, MAX_KEY_BITS, max(4, round(math.log2(expected / ROWS_PER_BUCKET))))


def default_probes(expected: int, key_bits: int) -> int:
    """Probes at effort 1: a share of a table's buckets that shrinks as neighbours come nearer, but at least 16."""
    return max(16, round(SHARE_SCALE * expected**SHARE_POWER * (1 << key_bits)))


def _refuse_unfit(source: Source, hasher: Hasher, ranking: str, keep_vectors: bool) -> None:
    """Combinations that cannot be: tables over codes alone are keyed by the vectors that the codes stand for; pivots
    and graphs make codes again when others come and go, which needs vectors."""
    if isinstance(source, Pivots | Graph):
        named = f"source={source.name!r}"
        if hasher.family != "progressive":
            raise ParameterError(f"family: {named} expected 'progressive', got {hasher.family!r}")
        if ranking != "asymmetric":
            raise ParameterError(f"ranking: {named} expected 'asymmetric', got {ranking!r}")
        if not keep_vectors:
            raise ParameterError(f"keep_vectors: {named} expected True, got False: it makes codes again at times")
    if isinstance(source, Tables) and not keep_vectors and (isinstance(hasher, SimHash) or hasher.bits % hasher.dim):
        raise ParameterError(
            f"keep_vectors=False: source='tables' expected codes that stand for vectors, to make its keys from: "
            f"progressive, usr, or superbit with bits a multiple of dim={hasher.dim}; got {hasher.family} with "
            f"{hasher.bits} bits"
        )


# As JSON -------------------------------------------------------------------------------------------------------------


def to_json(source: Source) -> dict[str, Any]:
    """The name of the source and its parameters; a source inside of it in the same way."""
    values = {one.name: getattr(source, one.name) for one in fields(source)}
    return {"name": source.name} | {
        name: to_json(value) if isinstance(value, Pivots | Graph) else value for name, value in values.items()
    }


def from_json(data: Mapping[str, Any]) -> Source:
    """The source that `to_json` described; anything else raises one of the errors of mappings and calls."""
    values: dict[str, Any] = {
        name: from_json(value) if isinstance(value, dict) else value for name, value in data.items()
    }
    return SOURCES[values.pop("name")](**values)


# The key of the pivots, which a store draws by itself ----------------------------------------------------------------


def key_of(source: Source) -> str | None:
    """The key that picks pivots, if the source has any."""
    keyed = source.pivots if isinstance(source, Auto) else source
    return keyed.key if isinstance(keyed, Pivots | Graph) and isinstance(keyed.key, str) else None


def with_key(source: Source, key: bytes | str | None) -> Source:
    """The same source with another key, or with none."""
    if isinstance(source, Auto):
        return replace(source, pivots=replace(source.pivots, key=key), graph=replace(source.graph, key=key))
    return replace(source, key=key) if isinstance(source, Pivots | Graph) else source


# For the native index ------------------------------------------------------------------------------------------------


def chosen(config: Config, records: int) -> Chosen:
    """The source that is used for so many records: the number of records alone decides."""
    source = config.source
    if isinstance(source, Auto):
        assert source.pivots_from is not None  # filled in, as all of a configuration is
        assert source.graph_from is not None
        if records >= source.graph_from:
            return source.graph
        return source.pivots if records >= source.pivots_from else Scan()
    return source


def bits_in_cells(config: Config) -> int:
    """Of a record's code where cells decide on candidates."""
    return max(config.bits, PLANES_IN_CELLS * config.dim)


def native_source(config: Config, source: Chosen) -> core.SourceSettings:
    """What the native index makes this source from."""
    if isinstance(source, Pivots):
        k0, k1 = struct.unpack("<QQ", bytes.fromhex(key_of(source) or ""))
        encoder = native_encoder(config.hasher(bits=bits_in_cells(config)), config.metric)
        cell_size, probes = source.cell_size or 0, source.probes or 0
        return core.PivotSettings(encoder, config.metric, k0, k1, cell_size, probes, source.refine)
    if isinstance(source, Graph):
        k0, k1 = struct.unpack("<QQ", bytes.fromhex(key_of(source) or ""))
        encoder = native_encoder(config.hasher(bits=config.dim), config.metric)
        return core.GraphSettings(encoder, config.metric, k0, k1, source.cell_size, source.cells, source.pool)
    if isinstance(source, Tables):
        assert source.tables is not None
        assert source.key_bits is not None
        assert source.probes is not None
        frame = core.Frame.hadamard(reference.tables_frame(config.dim, source.tables, config.seed).sign)
        each = source.expected >> source.key_bits
        return core.TableSettings(frame, source.key_bits, source.probes, config.metric == "cosine", each)
    return core.ScanSettings(not config.keep_vectors)
