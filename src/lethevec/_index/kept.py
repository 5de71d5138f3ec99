"""Codes that somebody keeps beside the vectors, so that an index is filled again without making them a second time.

What is kept of a record is

    check (8 bytes) || gain (int32 LE) || factor (float32 LE) || code

`gain` is the step of the grid on which the mean norm lies (see `gain`), 0 where the gain does not follow the records.
`check` is a hash of the encoder (configuration, gain, every number of its tables), the record's vector and the other
fields. A kept code is used only if its check is right: made from this vector, by this very encoder. All others are made
again, so whatever stands in a file, an index filled from it equals one to which the vectors were added; unless somebody
who can write to the file has made a wrong code with a right check, which `differing` finds.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .. import reference
from .._hashing import Hasher
from .._hashing.families import FrameHasher, SimHash, Usr
from .._native import core, resolve_threads
from .._vectors import F32
from ..reference.constants import GAIN_LOWEST_STEP, GAIN_STEPS_PER_OCTAVE
from .arguments import I64
from .config import Config
from .gain import NormCounts, norms_of
from .index import Index
from .records import refuse
from .sources import Scan, Tables

__all__ = ["KeptCodes", "worth_keeping"]

U8 = npt.NDArray[np.uint8]

_CHECK = 8
_HEAD = 8  # gain and factor
_HIGHEST_STEP = 128 * GAIN_STEPS_PER_OCTAVE  # of a float32


def worth_keeping(config: Config) -> bool:
    """Whether a code takes longer to make than to read: USR's, and those made with dense matrices.

    Measured at 100 dimensions: reading and checking takes about 3 us, `usr` 22, `superbit` with dense rotations 9,
    `simhash` 5, `progressive` 0.4. Dense matrices grow with the square of the dimension: at 768 `progressive` with them
    takes 150 us (at 100, 2), `simhash` 2,100. Where pivots make codes of their own there are none to keep.
    """
    if not isinstance(config.source, Scan | Tables):
        return False
    return config.family == "usr" or dict(config.params).get("rotation") != "hadamard"


class KeptCodes:
    """What is to be kept of an index's codes, and an index filled from it."""

    def __init__(self, index: Index) -> None:
        """Of this index, which others may change as well."""
        self._index = index
        self._code = index.config.code_bytes
        self.width = _CHECK + _HEAD + self._code
        self._context: tuple[float, bytes] | None = None

    @property
    def gain(self) -> float:
        """What all codes depend on besides their own vectors: when it moves, they are others."""
        return self._index._gain.mean_norm

    def pack(self, vectors: F32, ids: I64) -> list[bytes]:
        """What is to be kept of these records, whose vectors these are."""
        index = self._index
        with index._changing.unchanged(), index._passing(vectors) as x:
            return _rows(self._pack(index._native, x, ids))

    def restore(self, vectors: F32, ids: I64, kept: Sequence[bytes | None]) -> npt.NDArray[np.bool_]:
        """Add records with what was kept of them, None for nothing; which of them had to be encoded.

        The gain is not followed: `follow_gain` has to be called when all are there. Refuses as `add` does.
        """
        index = self._index
        usable = np.array([type(row) is bytes and len(row) == self.width for row in kept], dtype=np.bool_)
        packed = np.zeros((len(kept), self.width), dtype=np.uint8)
        given = b"".join(row for row, fits in zip(kept, usable.tolist(), strict=True) if fits and row is not None)
        packed[usable] = np.frombuffer(given, dtype=np.uint8).reshape(-1, self.width)
        with index._changing, index._passing(vectors) as x:
            if len(index) == 0:
                self._adopt(packed[usable], x)
            right = usable & self._right(x, packed)
            if right.all():
                self._add_packed(x, ids, packed)
            else:
                self._add_some(x, ids, packed, right)
            index._gain.count_without_following(x)
            return ~right

    def follow_gain(self) -> bool:
        """Follow the gain after `restore`; whether it moved, and all codes are others than were kept."""
        index = self._index
        with index._changing:
            return index._gain.catch_up(index._native, resolve_threads(None))

    def differing(self, vectors: F32, ids: I64, kept: Sequence[bytes | None]) -> int:
        """How many of these kept codes are there and are not what their vectors give."""
        expected = _rows(self._encoded(vectors, ids))
        return sum(row is not None and row != right for row, right in zip(kept, expected, strict=True))

    def codes(self, vectors: F32) -> list[bytes]:
        """The codes of vectors, with the gain of now."""
        packed = self._encoded(vectors, np.arange(len(vectors), dtype=np.int64))
        return _rows(np.ascontiguousarray(packed[:, _CHECK + _HEAD :]))

    def _encoded(self, vectors: F32, ids: I64) -> U8:
        """What would be kept of vectors."""
        index, config = self._index, self._index.config
        with index._changing.unchanged(), index._passing(vectors) as x:
            encoder = index._gain.encoder()
            hamming = config.ranking == "hamming"
            made = core.Index(
                encoder, config.metric, hamming, config.form.name, core.ScanSettings(not config.keep_vectors)
            )
            refuse(made.add(x, ids, resolve_threads(None, len(x)), None))
            return self._pack(made, x, ids)

    def _pack(self, native: core.Index, vectors: F32, ids: I64) -> U8:
        n = len(ids)
        codes = np.empty((n, self._code), dtype=np.uint8)
        norms, factors = np.empty(n, dtype=np.float32), np.empty(n, dtype=np.float32)
        refuse(native.export_codes(ids, codes, norms, factors))
        packed = np.empty((n, self.width), dtype=np.uint8)
        packed[:, _CHECK : _CHECK + 4] = np.array([_step(self.gain)], dtype="<i4").view(np.uint8)
        packed[:, _CHECK + 4 : _CHECK + _HEAD] = factors.astype("<f4").view(np.uint8).reshape(n, 4)
        packed[:, _CHECK + _HEAD :] = codes
        packed[:, :_CHECK] = self._checks(vectors, packed)
        return packed

    def _add_some(self, x: F32, ids: I64, packed: U8, right: npt.NDArray[np.bool_]) -> None:
        """Add all of them: those with the right code with it, the others encoded."""
        native = self._index._native
        others, known = np.ascontiguousarray(ids[~right]), np.ascontiguousarray(ids[right])
        refuse(native.add(x[~right], others, resolve_threads(None, len(others)), None))
        if len(known):
            try:
                self._add_packed(x[right], known, packed[right])
            except BaseException:
                native.forget(others, False)
                raise

    def _add_packed(self, x: F32, ids: I64, packed: U8) -> None:
        index = self._index
        codes = np.ascontiguousarray(packed[:, _CHECK + _HEAD :])
        threads = resolve_threads(None, len(x))
        refuse(index._native.add_codes(codes, norms_of(x), _factors(packed), ids, threads, x))

    def _right(self, x: F32, packed: U8) -> npt.NDArray[np.bool_]:
        """Which rows have the right check, and nothing that an encoder never makes."""
        right: npt.NDArray[np.bool_] = (self._checks(x, packed) == packed[:, :_CHECK]).all(axis=1)
        right &= np.isfinite(_factors(packed))
        if unused := -self._index.config.bits % 8:
            right &= packed[:, -1] >> (8 - unused) == 0
        return right

    def _checks(self, x: F32, packed: U8) -> U8:
        checks = np.empty((len(x), _CHECK), dtype=np.uint8)
        kept = np.ascontiguousarray(packed[:, _CHECK:])
        core.kept_checks(self._encoder_hash(), np.ascontiguousarray(x), kept, checks, resolve_threads(None, len(x)))
        return checks

    def _encoder_hash(self) -> bytes:
        """Of everything that codes depend on. Dense matrices may differ in the last bit from machine to machine."""
        config, gain = self._index.config, self.gain
        if self._context is None or self._context[0] != gain:
            made = hashlib.blake2b(config.canonical(), digest_size=32, person=b"lethevec-encoder")
            for part in _tables(config.hasher(gain)):
                made.update(len(part).to_bytes(8, "little") + part)
            self._context = gain, made.digest()
        return self._context[1]

    def _adopt(self, packed: U8, x: F32) -> None:
        """Set the gain of an empty index: the one that most codes were made with, or else that of these vectors.

        It is a guess that saves work: `follow_gain` counts.
        """
        index = self._index
        if not index._gain.follows:
            return
        steps, counts = np.unique(packed[:, _CHECK : _CHECK + 4].copy().view("<i4"), return_counts=True)
        step = int(steps[np.argmax(counts)]) if len(steps) else None
        if step is not None and GAIN_LOWEST_STEP <= step <= _HIGHEST_STEP:
            mean_norm = 2.0 ** (step / GAIN_STEPS_PER_OCTAVE)
        else:
            norms = NormCounts()
            norms.add(norms_of(x))
            mean_norm = norms.mean_norm()
        index._gain.guess_mean(mean_norm, index._native)


def _tables(hasher: Hasher) -> list[bytes]:
    """The numbers that a hash function multiplies and adds with."""
    if isinstance(hasher, SimHash):
        return [hasher.matrix.tobytes()]
    assert isinstance(hasher, FrameHasher)
    spec = hasher._spec_frame
    parts = [(spec.sign if isinstance(spec, reference.HadamardFrame) else spec.S).tobytes()]
    if isinstance(hasher, Usr):
        parts.append(np.array([hasher.gain], dtype="<f8").tobytes())
    return parts


def _factors(packed: U8) -> F32:
    return np.ascontiguousarray(packed[:, _CHECK + 4 : _CHECK + _HEAD]).view("<f4").ravel().astype(np.float32)


def _step(mean_norm: float) -> int:
    return round(math.log2(mean_norm) * GAIN_STEPS_PER_OCTAVE)


def _rows(packed: U8) -> list[bytes]:
    data, width = packed.tobytes(), packed.shape[1]
    return [data[at : at + width] for at in range(0, len(data), width)]
