"""A hash family with all of its parameters: a pure function from a vector to its code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .codes import U8, pack, unpack
from .constants import FIRST_STAGE_BITS
from .families import (
    alignment,
    faiss_rule,
    lost_share,
    plane_weights,
    progressive,
    progressive_reconstruct,
    simhash,
    superbit,
    superbit_reconstruct,
    usr,
    usr_reconstruct,
)
from .ranking import Query
from .rotations import DenseFrame, HadamardFrame, Rotation, analysis, gaussian_matrix, make_frame, synthesis
from .vectors import F32, F64, directions, norms

# Drawing rotations takes long, and most encoders of a program share them.
_frame = lru_cache(maxsize=64)(make_frame)
_matrix = lru_cache(maxsize=64)(gaussian_matrix)


@dataclass(frozen=True)
class Encoder:
    """The hash function of an index.

    `family` is "simhash", "superbit", "usr", "progressive" or "faiss-lsh"; `T` and `alpha` are for usr, `sweeps` for
    progressive. `unit` says that x/|x| is hashed instead of x: so it is for usr under cosine, whose gain is for norm 1.

    >>> Encoder("progressive", d=4, bits=8).codes(np.float32([[0.1, 0.9, -0.3, 0.2]])).shape
    (1, 1)
    """

    family: str
    d: int
    bits: int
    seed: int = 0
    rotation: Rotation = "hadamard"
    T: int = 17
    alpha: float = 1.0
    sweeps: int = 0
    unit: bool = False

    @property
    def m(self) -> int:
        """The number of rotations."""
        return -(-self.bits // self.d)

    @property
    def rule(self) -> str:
        """The family; "faiss-lsh" is one of two others, by the paper's rule."""
        return faiss_rule(self.d, self.bits) if self.family == "faiss-lsh" else self.family

    @property
    def frame(self) -> HadamardFrame | DenseFrame:
        """R_0 ... R_{m-1}."""
        return _frame(self.d, self.m, self.seed, self.rotation)

    @property
    def plane_weights(self) -> F32:
        """c_i: what the bits of each block of d weigh."""
        return plane_weights(self.d, self.m) if self.rule == "progressive" else np.ones(self.m, dtype=np.float32)

    # --- Codes -------------------------------------------------------------------------------------------------------

    def values(self, x: F32) -> F32:
        """The numbers whose signs are the code, (n, d) -> (n, bits)."""
        x = directions(x) if self.unit else x
        if self.rule == "simhash":
            return simhash(_matrix(self.d, self.bits, self.seed), x)
        if self.rule == "superbit":
            return superbit(self.frame, x, self.bits)
        if self.rule == "usr":
            return usr(self.frame, x, self.T, self.alpha)
        return progressive(self.frame, x, self.sweeps)

    def codes(self, x: F32) -> U8:
        """Eqs. 12-13: b = sign(y), packed."""
        return pack(self.values(x))

    def encode(self, x: F32) -> tuple[U8, F32]:
        """Codes, and the factor 1/<x̂, x/|x|> of each: what makes the estimate of a cosine right on average."""
        values = self.values(x)
        scale, along = self._alignments(x, values)
        factors = np.divide(scale, along, out=np.zeros_like(scale), where=along > 0)
        return pack(values), factors.astype(np.float32)

    def _alignments(self, x: F32, values: F32) -> tuple[F64, F64]:
        """The length of what was aligned with the code, and how far it points along the code."""
        one, size = np.ones(1, dtype=np.float32), norms(x)
        if self.rule == "simhash":
            return size, alignment(values, values, one)
        if self.rule == "superbit":  # block by block: the last one may be cut
            blocks = [values[:, at : at + self.d] for at in range(0, self.bits, self.d)]
            along = np.zeros(len(x))
            for block in blocks:
                along = along + alignment(block, block, one)
            return size, along
        if self.rule == "usr":
            entry = np.float32(self.alpha / np.sqrt(self.m))
            v = analysis(self.frame, (directions(x) if self.unit else x) * entry)
            return (np.ones(len(x)) if self.unit else size) * np.float64(entry), alignment(
                v, values, self.plane_weights
            )
        v = analysis(self.frame, directions(x))
        return np.ones(len(x)), alignment(v, values, self.plane_weights)

    # --- Back from codes ---------------------------------------------------------------------------------------------

    def decode(self, codes: U8) -> F32:
        """The vectors that codes stand for, up to a positive factor: sum c_i R_i b_i. Bits are a multiple of d."""
        b = unpack(codes, self.bits).reshape(len(codes), self.m, self.d) * self.plane_weights[:, None]
        return synthesis(self.frame, b.reshape(len(codes), self.bits))

    def reconstruct(self, codes: U8) -> F32:
        """x̂: the same with the factor, an estimate of x for usr and of x/|x| for superbit and progressive."""
        if self.rule == "usr":
            return usr_reconstruct(self.frame, codes, self.alpha)
        if self.rule == "superbit":
            return superbit_reconstruct(self.frame, codes)
        return progressive_reconstruct(self.frame, codes)

    # --- Queries -----------------------------------------------------------------------------------------------------

    def query(self, q: F32, metric: str, ranking: str, *, first_stage: bool, alone: bool = False) -> Query:
        """One query (1, d) made ready. It is hashed for "hamming", and only rotated for "asymmetric".

        Without a first stage, all bits are looked at together. Where codes are all there is (`alone`), it looks at one
        plane of a progressive code: the weights of more would be coarse.
        """
        if ranking == "hamming":
            return Query(q, metric, self.codes(q), np.empty(0, dtype=np.float32), 0)
        u = directions(q)
        if self.rule == "simhash":
            v = simhash(_matrix(self.d, self.bits, self.seed), u)[0]
        else:
            v = (analysis(self.frame, u) * np.repeat(self.plane_weights, self.d))[0, : self.bits]
        if not first_stage:
            return Query(q, metric, None, v, 0)
        if self.rule == "progressive":
            planes = 1 if alone else min(self.m, max(1, FIRST_STAGE_BITS // self.d))
            lost = lost_share(planes), lost_share(self.m)
            errors = (math.sqrt(part / ((1.0 - part) * self.d)) for part in lost)
            return Query(q, metric, None, v, planes * self.d, 1.0 - lost[0] if planes > 1 else 0.0, *errors)
        return Query(q, metric, None, v, self.bits, self.bits * math.sqrt(2.0 / (math.pi * self.d)))
