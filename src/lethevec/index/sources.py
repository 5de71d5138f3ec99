"""Where candidates come from: the parameters of each source, checked, and its native form."""

from __future__ import annotations

import math
import re
import struct
from typing import TYPE_CHECKING, Any

from .. import reference
from .._native import core
from ..errors import ParameterError
from ..hashing import Hasher
from ..hashing.families import SimHash
from ..hashing.parameters import integer
from .encoders import native_encoder

if TYPE_CHECKING:
    from .config import Config

SOURCES = ("auto", "scan", "tables", "pivots")
Params = tuple[tuple[str, int | str], ...]

#: What a key's bits and a plan of probes fit in (see native/probing.h), and how many buckets all tables may have: every
#: one of them costs eight bytes, filled or not.
MAX_TABLES = 256
MAX_KEY_BITS = 20
MAX_BUCKETS = 1 << 25
MAX_PROBES = 1 << 40
EXPECTED = 100_000
#: Defaults, measured on sets of 25,000 to 331,000 records: see docs/tables.md.
TABLES = 1
ROWS_PER_BUCKET = 1000
SHARE_SCALE, SHARE_POWER = 3.3, -0.115
#: The same for pivots: docs/pivots.md.
MAX_CELL_SIZE = 1 << 20
EXPECTED_BY_PIVOTS = 300_000
#: From so many records on, pivots are faster than a scan at the same recall (measured, docs/pivots.md).
PIVOTS_FROM = 100_000
CELL_PER_ROOT = 0.22
#: Planes of the codes in cells, unless the index has more: at the common dimensions those after the first and a row's
#: numbers fill one line of a cache, and a quarter of the records are reranked that two planes would need.
PLANES_IN_CELLS = 4
#: Which sources a parameter is for.
USED_BY = {
    "tables": ("tables",),
    "key_bits": ("tables",),
    "probes": ("tables", "pivots", "auto"),
    "expected": ("tables", "pivots", "auto"),
    "cell_size": ("pivots", "auto"),
    "refine": ("pivots", "auto"),
    "key": ("pivots", "auto"),
    "pivots_from": ("auto",),
}


def source_params(source: str, dim: int, seed: int, given: dict[str, object]) -> Params:
    """The parameters of a source by name, defaults filled in; `given` has None for what was left open."""
    for name, value in sorted(given.items()):
        if value is not None and source not in USED_BY[name]:
            fitting = " or ".join(f"source={other!r}" for other in USED_BY[name])
            raise ParameterError(f"{name}: expected only with {fitting}, got source={source!r}")
    if source == "scan":
        return ()
    usual = EXPECTED if source == "tables" else EXPECTED_BY_PIVOTS
    expected = integer("expected", _or(given["expected"], usual), 1, 1 << 32)
    if source == "tables":
        return _tables(dim, expected, given)
    params = _pivots(expected, seed, given)
    if source == "auto":
        least = integer("pivots_from", _or(given["pivots_from"], PIVOTS_FROM), 1, 1 << 40)
        params = tuple(sorted((*params, ("pivots_from", least))))
    return params


def _tables(dim: int, expected: int, given: dict[str, object]) -> Params:
    most = min(dim, MAX_KEY_BITS)
    key_bits = integer("key_bits", _or(given["key_bits"], default_key_bits(expected, dim)), 1, most)
    tables = integer("tables", _or(given["tables"], TABLES), 1, MAX_TABLES)
    if tables << key_bits > MAX_BUCKETS:
        most = MAX_BUCKETS >> key_bits
        raise ParameterError(f"tables: expected at most {most} with key_bits={key_bits}, got {tables}")
    probes = integer("probes", _or(given["probes"], default_probes(expected, key_bits)), 1, MAX_PROBES)
    return (("expected", expected), ("key_bits", key_bits), ("probes", probes), ("tables", tables))


def _pivots(expected: int, seed: int, given: dict[str, object]) -> Params:
    cell_size = integer("cell_size", _or(given["cell_size"], default_cell_size(expected)), 2, MAX_CELL_SIZE)
    probes = integer("probes", _or(given["probes"], 0), 0, MAX_PROBES)  # 0 follows the number of cells
    refine = integer("refine", _or(given["refine"], 0), 0, 1)
    key = _hash_key(given["key"], seed)
    return (("cell_size", cell_size), ("expected", expected), ("key", key), ("probes", probes), ("refine", refine))


def _hash_key(given: object, seed: int) -> str:
    """The key of the hash that makes pivots: 32 hexadecimal digits. By default it follows from the seed."""
    if given is None:
        return default_key(seed)
    if isinstance(given, str) and re.fullmatch("[0-9a-f]{32}", given):
        return given
    if isinstance(given, bytes) and len(given) == 16:
        return given.hex()
    what = f"{len(given)} bytes" if isinstance(given, bytes) else type(given).__name__
    raise ParameterError(f"key: expected 16 bytes (or their 32 hexadecimal digits), got {what}")


def default_key(seed: int) -> str:
    """The key of an index that was not given one, as its configuration has it."""
    return struct.pack("<QQ", *reference.default_pivot_key(seed)).hex()


def default_cell_size(expected: int) -> int:
    """Records of a cell, on average."""
    return min(MAX_CELL_SIZE, max(32, round(CELL_PER_ROOT * math.sqrt(expected))))


def _or(value: object, default: int) -> object:
    return default if value is None else value


def default_key_bits(expected: int, dim: int) -> int:
    """As many as give a bucket ROWS_PER_BUCKET records on average, but at least 4, and no more than there can be."""
    return min(dim, MAX_KEY_BITS, max(4, round(math.log2(expected / ROWS_PER_BUCKET))))


def default_probes(expected: int, key_bits: int) -> int:
    """Probes at effort 1: a share of a table's buckets that shrinks as neighbours come nearer, but at least 16."""
    return max(16, round(SHARE_SCALE * expected**SHARE_POWER * (1 << key_bits)))


def refuse_unfit(source: str, hasher: Hasher, ranking: str, keep_vectors: bool) -> None:
    """Combinations that cannot be: tables over codes alone are keyed by the vectors that the codes stand for; pivots
    make codes anew when the cells change, which needs vectors."""
    if source == "pivots":
        if hasher.family != "progressive":
            raise ParameterError(f"family: source='pivots' expected 'progressive', got {hasher.family!r}")
        if ranking != "asymmetric":
            raise ParameterError(f"ranking: source='pivots' expected 'asymmetric', got {ranking!r}")
        if not keep_vectors:
            raise ParameterError("keep_vectors: source='pivots' expected True, got False: it makes codes anew at times")
    if source == "tables" and not keep_vectors and (isinstance(hasher, SimHash) or hasher.bits % hasher.dim):
        raise ParameterError(
            f"keep_vectors=False: source='tables' expected codes that stand for vectors, to make its keys from: "
            f"progressive, usr, or superbit with bits a multiple of dim={hasher.dim}; got {hasher.family} with "
            f"{hasher.bits} bits"
        )


def source_for(config: Config, records: int) -> str:
    """The source that is used for so many records: "scan", "tables" or "pivots"."""
    if config.source != "auto":
        return config.source
    return "pivots" if records >= int(dict(config.source_params)["pivots_from"]) else "scan"


def bits_in_cells(config: Config) -> int:
    """Of a record's code where cells decide on candidates."""
    return max(config.bits, PLANES_IN_CELLS * config.dim)


def native_source(config: Config, source: str) -> core.SourceSettings | None:
    """What the native index makes this source from; None for a scan."""
    if source == "scan":
        return None
    params: dict[str, Any] = dict(config.source_params)
    if source == "pivots":
        k0, k1 = struct.unpack("<QQ", bytes.fromhex(params["key"]))
        encoder = native_encoder(config.hasher(bits=bits_in_cells(config)), config.metric)
        return core.PivotSettings(
            encoder, config.metric, k0, k1, params["cell_size"], params["probes"], bool(params["refine"])
        )
    frame = core.Frame.hadamard(reference.tables_frame(config.dim, params["tables"], config.seed).sign)
    each = params["expected"] >> params["key_bits"]
    return core.TableSettings(frame, params["key_bits"], params["probes"], config.metric == "cosine", each)
