"""The configuration of an index: what, beside the records, decides everything that can be seen of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import Any

from .. import reference
from .._hashing import FAMILIES, Hasher, hasher
from .._hashing.parameters import MAX_BITS, MAX_DIM, choice, integer, seed_of
from ..errors import FormatError, LethevecError, ParameterError
from ..reference.constants import FIRST_STAGE_BITS
from . import sources
from .kept_form import KeptForm, as_kept_form
from .sources import Source, Tables, as_source

#: What a file may ask for by its configuration, whatever it holds; see `refuse_costly`.
MAX_SETUP = 1 << 24
#: And for each of its bytes.
SETUP_PER_BYTE = 64
METRICS = ("cosine", "l2", "ip")
RANKINGS = ("asymmetric", "hamming")
#: Planes of a progressive code when vectors are kept to rerank by, at the least; the same with hash tables, which have
#: seen none of them yet; and when the code is all there is (measured).
LEAST_PLANES = 2
PLANES_WITH_TABLES = 4
PLANES_ALONE = 8
#: More planes of a vector with few dimensions: each estimate sums over as many coordinates, so what is lost of a vector
#: must be so small a part of dim; and as many as the first stage of a scan looks at.
LOST_PER_DIMENSION = 0.0014
#: Rotations of a code: beyond this, drawing them takes minutes.
MAX_BLOCKS = 1024
#: Scores of the first stage are counted in sixteen bits; with more bits, weights would be too coarse. The first stage
#: looks at all bits of a code, but at only dim of a progressive one.
MAX_FIRST_BITS = 65_536


@dataclass(frozen=True)
class Config:
    """Everything that was chosen for an index, defaults filled in.

    `source` is an object (`Scan`, `Tables`, `Pivots`, `Graph` or `Auto`), and `params` holds the family's own
    parameters as pairs. `gain_follows` says that the gain of usr codes is read off the records.

    >>> from lethevec import Index
    >>> config = Index(dim=100, source="tables").config
    >>> config.bits, config.params
    (400, (('rotation', 'hadamard'), ('sweeps', 0)))
    >>> config.source
    Tables(tables=1, key_bits=7, probes=112, expected=100000)
    """

    dim: int
    metric: str
    family: str
    bits: int
    ranking: str
    keep_vectors: bool | str
    source: Source
    seed: int
    params: tuple[tuple[str, Any], ...]
    gain_follows: bool

    def hasher(self, mean_norm: float | None = None, bits: int | None = None) -> Hasher:
        """The hash function, or one alike with more bits; for a gain that follows the records, of this mean norm."""
        params = dict(self.params)
        if self.gain_follows and mean_norm is not None:
            params["mean_norm"] = mean_norm
        return hasher(self.family, dim=self.dim, bits=bits or self.bits, seed=self.seed, **params)

    @property
    def code_bytes(self) -> int:
        """The bytes of a code."""
        return (self.bits + 7) // 8

    def canonical(self) -> bytes:
        """The same bytes for the same configuration: JSON with sorted keys and no spaces."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        plain["source"] = sources.to_json(self.source)
        plain["params"] = dict(self.params)
        return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()

    @property
    def form(self) -> KeptForm:
        """How vectors are kept."""
        return KeptForm(self.keep_vectors, self.metric)

    def with_key(self, key: bytes | str | None) -> Config:
        """The same configuration with another key for the hash that picks pivots, or with none."""
        return replace(self, source=sources.with_key(self.source, key))


def _usual_planes(family: str, dim: int, source: Source, keep_vectors: bool) -> int:
    if family != "progressive" or not keep_vectors:
        return PLANES_ALONE
    planes = PLANES_WITH_TABLES if isinstance(source, Tables) else LEAST_PLANES
    while reference.lost_share(planes) > LOST_PER_DIMENSION * dim or (planes + 1) * dim <= FIRST_STAGE_BITS:
        if planes == PLANES_ALONE:
            break
        planes += 1
    return planes


def make_config(
    dim: object,
    metric: object,
    *,
    family: object,
    bits: object,
    ranking: object,
    keep_vectors: object,
    source: object,
    seed: object,
    params: dict[str, Any],
    optimize: object = None,
) -> Config:
    """Check the arguments of Index and fill in what was left open."""
    dim = integer("dim", dim, 1, MAX_DIM)
    metric = choice("metric", metric, METRICS)
    family = choice("family", family, FAMILIES)
    ranking = choice("ranking", ranking, RANKINGS)
    keep_vectors = as_kept_form(keep_vectors)
    seed = seed_of(seed)
    asked = as_source(source, optimize)
    if bits is None:
        bits = dim * _usual_planes(family, dim, asked, bool(keep_vectors))
    made = hasher(family, dim=dim, bits=integer("bits", bits, 1, MAX_BITS), seed=seed, **params)
    fitted = sources.fitted(asked, made, metric, ranking, bool(keep_vectors))
    if made.bits > MAX_BLOCKS * dim:
        raise ParameterError(f"bits: expected at most {MAX_BLOCKS} * dim = {MAX_BLOCKS * dim}, got {made.bits}")
    if ranking == "asymmetric" and family != "progressive" and made.bits > MAX_FIRST_BITS:
        raise ParameterError(
            f"bits: asymmetric ranking expected at most {MAX_FIRST_BITS}, got {made.bits}; or ranking='hamming'"
        )
    follows = family == "usr" and metric != "cosine" and "gain" not in params and "mean_norm" not in params
    if follows and not keep_vectors:
        raise ParameterError(
            "keep_vectors=False: usr codes under l2 and ip are made again when the mean norm of the records moves, "
            "which needs the vectors; expected keep_vectors=True, or a fixed mean_norm="
        )
    # As the hasher has them: defaults spelled out, plain numbers; but not a gain that follows the records.
    own = tuple((key, value) for key, value in sorted(made.parameters.items()) if not (follows and key == "gain"))
    return Config(dim, metric, family, made.bits, ranking, keep_vectors, fitted, seed, own, follows)


def parse_config(data: bytes) -> Config:
    """The configuration that a file holds; anything else is refused."""
    try:
        given = json.loads(data)
        follows = given.pop("gain_follows")
        source = sources.from_json(given.pop("source"))
        config = make_config(given.pop("dim"), given.pop("metric"), source=source, **given)
    except (LethevecError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FormatError(f"expected the configuration of an index, got one that cannot be used: {error}") from None
    if config.gain_follows != follows or config.canonical() != data:
        raise FormatError("expected the configuration of an index in its canonical form, got another")
    return config


def refuse_costly(config: Config, records: int, held: int, max_setup: int) -> None:
    """Refuse a configuration that asks for much more than a file of `held` bytes with so many records should.

    Counted are numbers: those that are drawn before the first record is there, and those that pass through the encoder.
    """
    cost, limit = setup_cost(config, records), max_setup + SETUP_PER_BYTE * held
    if cost > limit:
        raise FormatError(
            f"expected a configuration that asks for at most {limit} numbers, which a file of this size may, got one "
            f"that asks for {cost}; if the file can be trusted, max_setup={cost} lets it pass"
        )


def setup_cost(config: Config, records: int) -> int:
    """About how many numbers it takes to make an index of so many records, its vectors not counted."""
    dim, params = config.dim, dict(config.params)
    blocks = -(-config.bits // dim)
    if config.family == "simhash" or (config.family == "faiss-lsh" and config.bits < dim):
        drawn = dim * config.bits
    elif params.get("rotation") == "hadamard":
        drawn = 2 * dim * (blocks + 2)
    else:  # they are made orthogonal
        drawn = blocks * dim * dim * max(1, dim // 64)
    if isinstance(config.source, Tables):
        assert config.source.tables is not None
        assert config.source.key_bits is not None
        drawn += (config.source.tables << config.source.key_bits) + 2 * dim * (config.source.tables + 2)
    passes = 1 + int(params.get("steps", 0)) + int(params.get("sweeps", 0))
    return drawn + records * config.bits * passes
