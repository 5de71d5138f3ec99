"""Write the golden files of the hash families: what every later version, platform and instruction set must reproduce.

    python tools/make_golden.py [--out tests/golden] [--replace]

    hashing-v1.npz   families over hadamard rotations, by their parameters: inputs, values, codes, reconstructions
    hashing-v1.bin   the same and some dense ones with their tables, for tests/native, which has no Python

Everything comes from the spec. A file that exists and differs is left alone, and the run fails, unless --replace is
given: codes that people have stored must not change under the same version.

The .bin file is a sequence of records: four letters, an unsigned 64-bit length, that many bytes; all little-endian.

    LVG1   of length 0, first in the file
    TANH   x then tanh(x), as many float32 of each
    CASE   begins a case: eight int64, namely kind (0 projection, 1 superbit, 2 usr, 3 progressive), 1 if dense,
           d, m, bits, n, steps, sweeps
    NAME   for people
    TABL   float32: signs (rounds, 2, d) or dense steps (m, d, d) or the projection (d, bits)
    PARM   float32: alpha/sqrt(m) for usr, 0 otherwise; then the scale and the m weights of the reconstruction
    XXXX   float32 (n, d), the input
    VALS   float32 (n, bits)
    CODE   bytes (n, ceil(bits/8))
    BACK   float32 (n, d), the reconstruction; of length 0 where there is none
    DONE   of length 0, ends the case; the checks are made here
"""

from __future__ import annotations

import argparse
import io
import json
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lethevec import reference

F32 = npt.NDArray[np.float32]
KINDS = {"simhash": 0, "superbit": 1, "usr": 2, "progressive": 3}
VERSION = 1


@dataclass(frozen=True)
class Case:
    """One hasher, its input, and what the spec makes of it."""

    family: str
    dim: int
    bits: int
    seed: int
    params: dict[str, Any]
    table: F32
    entry_gain: float
    scale: float
    weights: F32
    x: F32
    values: F32
    codes: npt.NDArray[np.uint8]
    back: F32

    @property
    def name(self) -> str:
        """The parameters, as a key and for people."""
        own = "".join(f"-{key}={value}" for key, value in sorted(self.params.items()))
        return f"{self.family}-{self.dim}-{self.bits}-{self.seed}{own}"

    @property
    def portable(self) -> bool:
        """Whether no table went through a linear-algebra library or libm."""
        return self.params.get("rotation") == "hadamard"


def inputs(dim: int, seed: int) -> F32:
    """Four rows drawn from the generator alone: of size 1, of size 1000, zeros of both signs, and denormals."""
    words = reference.words(seed, 1 << 40, 4 * dim).reshape(4, dim)
    x: F32 = ((words >> np.uint64(40)).astype(np.float64) * 2.0**-23 - 1).astype(np.float32)  # 24 bits: exact
    x[1] *= np.float32(1024)
    x[2] = np.where(x[2] < 0, np.float32(-0.0), np.float32(0.0))
    x[3] *= np.float32(2.0**-130)
    return x


def frame_case(family: str, dim: int, bits: int, seed: int, **params: Any) -> Case:
    """A case over a frame of rotations."""
    params = {"rotation": "hadamard", **params}
    m = -(-bits // dim)
    frame = reference.make_frame(dim, m, seed, params["rotation"])
    table = frame.sign if isinstance(frame, reference.HadamardFrame) else frame.S
    x, weights, entry_gain, scale = inputs(dim, seed), np.ones(m, dtype=np.float32), 0.0, 0.0
    if family == "usr":
        params = {"gain": reference.gain(dim, m, 1.0), "steps": 17, **params}
        values = reference.usr(frame, x, params["steps"], params["gain"])
        entry_gain, scale = params["gain"] / np.sqrt(m), reference.usr_scale(m, params["gain"])
        back = reference.usr_reconstruct(frame, reference.pack(values), params["gain"])
    elif family == "progressive":
        params = {"sweeps": 0, **params}
        values = reference.progressive(frame, x, params["sweeps"])
        scale, weights = 1.0, reference.plane_weights(dim, m)
        back = reference.progressive_reconstruct(frame, reference.pack(values))
    else:
        values = reference.superbit(frame, x, bits)
        back = np.empty((0, dim), dtype=np.float32)
        if bits % dim == 0:
            scale = reference.superbit_scale(dim, m)
            back = reference.superbit_reconstruct(frame, reference.pack(values))
    codes = reference.pack(values)
    return Case(family, dim, bits, seed, params, table, entry_gain, scale, weights, x, values, codes, back)


def simhash_case(dim: int, bits: int, seed: int) -> Case:
    """A case of simHash, with its matrix."""
    matrix, x = reference.gaussian_matrix(dim, bits, seed), inputs(dim, seed)
    values, none = reference.simhash(matrix, x), np.empty((0, dim), dtype=np.float32)
    weights = np.ones(-(-bits // dim), dtype=np.float32)
    return Case("simhash", dim, bits, seed, {}, matrix, 0.0, 0.0, weights, x, values, reference.pack(values), none)


def cases() -> list[Case]:
    """Dims on both sides of powers of two and of lane widths; bits that end inside a byte; every parameter."""
    made = []
    for dim in (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 25, 33, 64, 96, 100, 127, 128, 129, 384):
        m = 2 if dim > 64 else 3
        made += [
            frame_case("superbit", dim, m * dim - (dim > 2), 100 + dim),
            frame_case("usr", dim, m * dim, 200 + dim),
            frame_case("progressive", dim, m * dim, 300 + dim),
        ]
    made += [
        frame_case("superbit", 25, 75, 1),
        frame_case("superbit", 100, 40, 2),
        frame_case("usr", 25, 25, 3, steps=1),
        frame_case("usr", 100, 800, 4, gain=3.5, steps=9),
        frame_case("progressive", 25, 200, 5, sweeps=1),
        frame_case("progressive", 100, 400, 6, sweeps=2),
        frame_case("superbit", 1536, 1536, 7),
        frame_case("progressive", 784, 784, 8),
    ]
    for dim in (1, 3, 25):
        for rotation in ("svd", "gram-schmidt"):
            made += [
                frame_case("superbit", dim, 2 * dim, 9, rotation=rotation),
                frame_case("usr", dim, 2 * dim, 10, rotation=rotation, steps=5),
                frame_case("progressive", dim, 3 * dim, 11, rotation=rotation, sweeps=1),
            ]
    made += [simhash_case(1, 9, 12), simhash_case(25, 70, 13), simhash_case(100, 65, 14)]
    return made


def npz_bytes(made: list[Case]) -> bytes:
    """The portable cases: `cases` lists their parameters as JSON, the arrays are named after them."""
    portable = [case for case in made if case.portable]
    keys = ("family", "dim", "bits", "seed", "params")
    listing = [{"name": case.name} | {key: getattr(case, key) for key in keys} for case in portable]
    arrays: dict[str, Any] = {"version": np.array(VERSION), "cases": np.array(json.dumps(listing))}
    for case in portable:
        arrays[f"{case.name}/x"] = case.x
        arrays[f"{case.name}/values"] = case.values
        arrays[f"{case.name}/codes"] = case.codes
        if len(case.back):
            arrays[f"{case.name}/back"] = case.back
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def record(tag: str, payload: bytes = b"") -> bytes:
    """Four letters, a length, the bytes."""
    return tag.encode("ascii") + struct.pack("<Q", len(payload)) + payload


def floats(*arrays: npt.ArrayLike) -> bytes:
    """Little-endian float32, one array after the other."""
    return b"".join(np.ascontiguousarray(a, dtype="<f4").tobytes() for a in arrays)


def bin_bytes(made: list[Case]) -> bytes:
    """Every case with its tables."""
    x = np.concatenate([np.linspace(-8, 8, 2001), [0.0, -0.0, 1e-45, -1e-40, 7.0, 3e38]]).astype(np.float32)
    parts = [record("LVG1"), record("TANH", floats(x, reference.tanh(x)))]
    for case in made:
        m = -(-case.bits // case.dim)
        dense = int(case.params.get("rotation", "hadamard") != "hadamard")
        steps, sweeps = case.params.get("steps", 0), case.params.get("sweeps", 0)
        header = (KINDS[case.family], dense, case.dim, m, case.bits, len(case.x), steps, sweeps)
        parts += [
            record("CASE", struct.pack("<8q", *header)),
            record("NAME", case.name.encode()),
            record("TABL", floats(case.table)),
            record("PARM", floats([case.entry_gain, case.scale], case.weights)),
            record("XXXX", floats(case.x)),
            record("VALS", floats(case.values)),
            record("CODE", case.codes.tobytes()),
            record("BACK", floats(case.back)),
            record("DONE"),
        ]
    return b"".join(parts)


def same_npz(a: bytes, b: bytes) -> bool:
    """Equal arrays; the compressed bytes may depend on the version of zlib."""
    with np.load(io.BytesIO(a)) as left, np.load(io.BytesIO(b)) as right:
        return set(left) == set(right) and all(
            left[k].dtype == right[k].dtype and left[k].tobytes() == right[k].tobytes() for k in left
        )


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "tests" / "golden")
    parser.add_argument("--replace", action="store_true", help="overwrite files that differ")
    options = parser.parse_args(arguments)
    made = cases()
    contents = {f"hashing-v{VERSION}.npz": npz_bytes(made), f"hashing-v{VERSION}.bin": bin_bytes(made)}
    status = 0
    for name, content in contents.items():
        path = options.out / name
        old = path.read_bytes() if path.exists() else None
        same = old is not None and (same_npz(old, content) if name.endswith(".npz") else old == content)
        if same:
            print(f"{path}: unchanged")
        elif old is None or options.replace:
            path.write_bytes(content)
            print(f"{path}: written, {len(content)} bytes")
        else:
            print(f"{path}: differs from what the spec gives now; --replace overwrites it", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
