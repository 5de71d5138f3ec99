"""`hasher`: the one way to make a hash function."""

from __future__ import annotations

from .. import reference
from .._shown import shown
from ..errors import ParameterError
from .base import Hasher
from .families import FaissLshLong, FaissLshShort, Progressive, SimHash, SuperBit, Usr
from .parameters import MAX_BITS, MAX_DIM, MAX_TABLE, choice, integer, positive, seed_of, whole_expansion

FAMILIES = ("simhash", "superbit", "usr", "progressive", "faiss-lsh")
ROTATIONS = ("hadamard", "svd", "gram-schmidt")
#: The parameters of each family beside dim, bits and seed.
PARAMETERS = {
    "simhash": (),
    "superbit": ("rotation",),
    "usr": ("rotation", "steps", "gain", "mean_norm"),
    "progressive": ("rotation", "sweeps"),
}


def hasher(
    family: str, *, dim: int, bits: int | None = None, expansion: int | None = None, seed: int = 0, **params: object
) -> Hasher:
    """A hash function from vectors to binary codes.

    Args:
        family: "simhash", "superbit", "usr", "progressive" or "faiss-lsh" (simhash when bits < dim, else superbit).
        dim: dimension of the vectors.
        bits: bits of a code. For usr and progressive a multiple of dim.
        expansion: in place of bits, how many times dim: bits = expansion * dim.
        seed: what the random tables are drawn from. The same seed gives the same codes everywhere.
        params: `rotation`, "hadamard" (default, fast), "svd" (usr and progressive as in the paper) or "gram-schmidt",
            for all but simhash. For usr: `steps` (T, 17), and `gain` (alpha) or `mean_norm` (1.0, from which the paper
            sets alpha). For progressive: `sweeps` of block descent (0).

    >>> h = hasher("usr", dim=4, bits=8)
    >>> h
    hasher('usr', dim=4, bits=8, seed=0, gain=1.4142135623730951, rotation='hadamard', steps=17)
    >>> h.codes([[0.1, 0.9, -0.3, 0.2]]).shape
    (1, 1)
    """
    family = choice("family", family, FAMILIES)
    dim = integer("dim", dim, 1, MAX_DIM)
    seed = seed_of(seed)
    bits = _bits(family, dim, bits, expansion)
    rule = reference.faiss_rule(dim, bits) if family == "faiss-lsh" else family
    _refuse_unknown(family, params, PARAMETERS[rule])
    _refuse_large(family, rule, dim, bits, params.get("rotation", "hadamard"))
    if rule == "simhash":
        return (SimHash if family == rule else FaissLshShort)(dim, bits, seed)
    rotation = choice("rotation", params.get("rotation", "hadamard"), ROTATIONS)
    if rule == "superbit":
        return (SuperBit if family == rule else FaissLshLong)(dim, bits, seed, rotation=rotation)
    m = whole_expansion(family, dim, bits)
    if rule == "progressive":
        sweeps = integer("sweeps", params.get("sweeps", 0), 0, 1000)
        return Progressive(dim, bits, seed, rotation=rotation, sweeps=sweeps)
    steps = integer("steps", params.get("steps", 17), 1, 10_000)
    return Usr(dim, bits, seed, gain=_gain(dim, m, params), rotation=rotation, steps=steps)


def _bits(family: str, dim: int, bits: int | None, expansion: int | None) -> int:
    if (bits is None) == (expansion is None):
        raise ParameterError(
            f"{family}: expected either bits or expansion, got bits={shown(bits)}, expansion={shown(expansion)}"
        )
    if bits is None:
        return dim * integer("expansion", expansion, 1, MAX_BITS // dim)
    return integer("bits", bits, 1, MAX_BITS)


def _refuse_unknown(family: str, params: dict[str, object], known: tuple[str, ...]) -> None:
    unknown = sorted(set(params) - set(known))
    if unknown:
        raise ParameterError(f"{family}: unexpected parameter {', '.join(unknown)}")


def _refuse_large(family: str, rule: str, dim: int, bits: int, rotation: object) -> None:
    blocks = -(-bits // dim)
    numbers = dim * bits if rule == "simhash" else 0 if rotation == "hadamard" else blocks * dim * dim
    if numbers > MAX_TABLE:
        raise ParameterError(
            f"{family}: expected a table of at most {MAX_TABLE} numbers, dim={dim} and bits={bits} need {numbers}; "
            f"hadamard rotations need none"
        )


def _gain(dim: int, m: int, params: dict[str, object]) -> float:
    if "gain" in params and "mean_norm" in params:
        raise ParameterError("usr: expected gain or mean_norm, got both")
    if "gain" in params:
        return positive("gain", params["gain"])
    return reference.gain(dim, m, positive("mean_norm", params.get("mean_norm", 1.0)))
