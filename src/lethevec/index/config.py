"""The configuration of an index: what, beside the records, decides everything that can be seen of it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import FormatError, LethevecError, ParameterError
from ..hashing import FAMILIES, Hasher, hasher
from ..hashing.parameters import choice, integer, seed_of
from .sources import SOURCES, Params, refuse_unfit, source_params

METRICS = ("cosine", "l2", "ip")
RANKINGS = ("asymmetric", "hamming")
#: Planes of a progressive code when vectors are kept to rerank by; the same with hash tables, which have seen none of
#: them yet; and when the code is all there is (measured).
PLANES_WITH_VECTORS = 2
PLANES_WITH_TABLES = 4
PLANES_ALONE = 8
#: Rotations of a code: beyond this, drawing them takes minutes.
MAX_BLOCKS = 1024
#: Scores of the first stage are counted in sixteen bits; with more bits, weights would be too coarse. The first stage
#: looks at all bits of a code, but at only dim of a progressive one.
MAX_FIRST_BITS = 65_536


@dataclass(frozen=True)
class Config:
    """Everything that was chosen, defaults filled in.

    `gain_follows` says that usr's gain is read off the records. `source_params` is empty for a scan. The source "auto"
    is a scan of few records and pivots for many.
    """

    dim: int
    metric: str
    family: str
    bits: int
    ranking: str
    keep_vectors: bool
    source: str
    seed: int
    params: tuple[tuple[str, Any], ...]
    gain_follows: bool
    source_params: Params = ()

    def hasher(self, mean_norm: float | None = None, bits: int | None = None) -> Hasher:
        """The hash function, or one alike with more bits; for a gain that follows the records, of this mean norm."""
        params = dict(self.params)
        if self.gain_follows and mean_norm is not None:
            params["mean_norm"] = mean_norm
        return hasher(self.family, dim=self.dim, bits=bits or self.bits, seed=self.seed, **params)

    def canonical(self) -> bytes:
        """The same bytes for the same configuration."""
        fields = asdict(self)
        if not self.source_params:  # as it was before there were sources with parameters
            del fields["source_params"]
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def _usual_planes(family: str, source: str, keep_vectors: bool) -> int:
    if family != "progressive" or not keep_vectors:
        return PLANES_ALONE
    return PLANES_WITH_TABLES if source == "tables" else PLANES_WITH_VECTORS


def make_config(
    dim: object,
    metric: object,
    *,
    family: object,
    bits: object,
    ranking: object,
    keep_vectors: object,
    source: object,
    source_given: dict[str, object],
    seed: object,
    params: dict[str, Any],
) -> Config:
    """Check the arguments of Index and fill in what was left open."""
    dim = integer("dim", dim, 1, 65_536)
    metric = choice("metric", metric, METRICS)
    family = choice("family", family, FAMILIES)
    ranking = choice("ranking", ranking, RANKINGS)
    source = choice("source", source, SOURCES)
    if source == "auto" and (family != "progressive" or ranking != "asymmetric" or keep_vectors is False):
        source = "scan"  # pivots would not fit
    if not isinstance(keep_vectors, bool):
        raise ParameterError(f"keep_vectors: expected True or False, got {keep_vectors!r}")
    if bits is None:
        bits = dim * _usual_planes(family, source, keep_vectors)
    seed = seed_of(seed)
    made = hasher(family, dim=dim, bits=integer("bits", bits, 1, 1 << 20), seed=seed, **params)
    chosen = source_params(source, dim, seed, source_given)
    refuse_unfit(source, made, ranking, keep_vectors)
    if made.bits > MAX_BLOCKS * dim:
        raise ParameterError(f"bits: expected at most {MAX_BLOCKS} * dim = {MAX_BLOCKS * dim}, got {made.bits}")
    if ranking == "asymmetric" and family != "progressive" and made.bits > MAX_FIRST_BITS:
        raise ParameterError(
            f"bits: asymmetric ranking expected at most {MAX_FIRST_BITS}, got {made.bits}; or ranking='hamming'"
        )
    follows = family == "usr" and metric != "cosine" and "gain" not in params and "mean_norm" not in params
    if follows and not keep_vectors:
        raise ParameterError(
            "keep_vectors=False: usr codes under l2 and ip are made anew when the mean norm of the records moves, "
            "which needs the vectors; expected keep_vectors=True, or a fixed mean_norm="
        )
    # As the hasher has them: defaults spelled out, plain numbers; but not a gain that follows the records.
    own = tuple((key, value) for key, value in sorted(made.parameters.items()) if not (follows and key == "gain"))
    return Config(dim, metric, family, made.bits, ranking, keep_vectors, source, seed, own, follows, chosen)


def parse_config(data: bytes) -> Config:
    """The configuration that a file holds; anything else is refused."""
    try:
        fields = json.loads(data)
        params = {str(name): value for name, value in fields.pop("params")}
        follows = fields.pop("gain_follows")
        given = {str(name): value for name, value in fields.pop("source_params", [])}
        config = make_config(fields.pop("dim"), fields.pop("metric"), params=params, source_given=given, **fields)
    except (LethevecError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FormatError(f"expected the configuration of an index, got one that cannot be used: {error}") from None
    if config.gain_follows != follows or config.canonical() != data:
        raise FormatError("expected the configuration of an index in its canonical form, got another")
    return config
