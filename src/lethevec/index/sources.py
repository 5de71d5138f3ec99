"""Where candidates come from: the parameters of each source, checked, and its native form."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .. import reference
from .._native import core
from ..errors import ParameterError
from ..hashing import Hasher
from ..hashing.families import SimHash
from ..hashing.parameters import integer

if TYPE_CHECKING:
    from .config import Config

SOURCES = ("scan", "tables")
Params = tuple[tuple[str, int], ...]

#: What a key's bits and a plan of probes fit in (see native/probing.h), and how many buckets all tables may have: every
#: one of them costs four bytes, filled or not.
MAX_TABLES = 256
MAX_KEY_BITS = 20
MAX_BUCKETS = 1 << 25
MAX_PROBES = 1 << 40
EXPECTED = 100_000
#: Defaults, measured on sets of 25,000 to 331,000 records: see docs/tables.md.
TABLES = 4
ROWS_PER_BUCKET = 8
PROBES_PER_ROOT = 12


def source_params(source: str, dim: int, given: dict[str, object]) -> Params:
    """The parameters of a source by name, defaults filled in; `given` has None for what was left open."""
    if source == "scan":
        unwanted = sorted(name for name, value in given.items() if value is not None)
        if unwanted:
            raise ParameterError(f"{unwanted[0]}: expected only with source='tables', got source={source!r}")
        return ()
    expected = integer("expected", _or(given["expected"], EXPECTED), 1, 1 << 32)
    most = min(dim, MAX_KEY_BITS)
    key_bits = integer("key_bits", _or(given["key_bits"], default_key_bits(expected, dim)), 1, most)
    tables = integer("tables", _or(given["tables"], TABLES), 1, MAX_TABLES)
    if tables << key_bits > MAX_BUCKETS:
        most = MAX_BUCKETS >> key_bits
        raise ParameterError(f"tables: expected at most {most} with key_bits={key_bits}, got {tables}")
    probes = integer("probes", _or(given["probes"], default_probes(expected)), 1, MAX_PROBES)
    return (("expected", expected), ("key_bits", key_bits), ("probes", probes), ("tables", tables))


def _or(value: object, default: int) -> object:
    return default if value is None else value


def default_key_bits(expected: int, dim: int) -> int:
    """As many as give a bucket ROWS_PER_BUCKET records on average, but at least 4, and no more than there can be."""
    return min(dim, MAX_KEY_BITS, max(4, round(math.log2(expected / ROWS_PER_BUCKET))))


def default_probes(expected: int) -> int:
    """Buckets to look into at effort 1: they grow with the root of the number of records."""
    return max(100, round(PROBES_PER_ROOT * math.sqrt(expected)))


def refuse_unfit(source: str, hasher: Hasher, keep_vectors: bool) -> None:
    """Combinations that cannot be: tables over codes alone are keyed by the vectors that the codes stand for."""
    if source == "tables" and not keep_vectors and (isinstance(hasher, SimHash) or hasher.bits % hasher.dim):
        raise ParameterError(
            f"keep_vectors=False: source='tables' expected codes that stand for vectors, to make its keys from: "
            f"progressive, usr, or superbit with bits a multiple of dim={hasher.dim}; got {hasher.family} with "
            f"{hasher.bits} bits"
        )


def native_source(config: Config) -> core.SourceSettings | None:
    """What the native index makes its source from; None for a scan."""
    if config.source == "scan":
        return None
    params = dict(config.source_params)
    frame = core.Frame.hadamard(reference.tables_frame(config.dim, params["tables"], config.seed).sign)
    return core.TableSettings(frame, params["key_bits"], params["probes"], config.metric == "cosine")
