"""NumPy files: .npy; `_npz` has archives of them. Headers are parsed here, strictly; nothing is ever unpickled.

Only plain real arrays pass: the header must name one of the types f2 f4 f8 i1..i8 u1..u8, two dimensions, and exactly
as many bytes as the file (or the archive member) holds.
"""

from __future__ import annotations

import ast
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from .._shown import shown
from ..errors import FormatError
from ._common import MAX_DIM, Rows, expect_magic

__all__ = [
    "COLUMN",
    "VECTORS",
    "Header",
    "Kind",
    "expect_bytes",
    "npy_count",
    "npy_rows",
    "npy_stream",
    "read_header",
    "read_values",
    "stream_rows",
]

_MAGIC = b"\x93NUMPY"
_MAX_HEADER = 65_536
_MAX_PIECE = 1 << 28  # bytes that are asked for at once when the size of the data is not known


@dataclass(frozen=True)
class Kind:
    """What an array is expected to be."""

    types: re.Pattern[str]
    of: str
    axes: int
    shape: str


VECTORS = Kind(
    re.compile(r"[<>|=]?(f[248]|[iu][1248])"), "real numbers (float or int)", 2, "two positive numbers (n, dim)"
)
COLUMN = Kind(
    re.compile(r"[<>|=]?([iu][1248]|U[1-9][0-9]{0,8})"), "whole numbers or texts", 1, "one positive number (n,)"
)


@dataclass(frozen=True)
class Header:
    """What stands before the data of an array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    offset: int  # bytes before the data


def npy_rows(path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of a .npy file; it holds one array, so `key` must be None."""
    if key is not None:
        raise FormatError(
            f"{path}: expected no key, as a .npy file holds one array without a name, got key={shown(key)}"
        )
    expect_magic(path, _MAGIC, "a .npy file")
    with path.open("rb") as file:
        header = read_header(file, str(path))
        expect_bytes(str(path), header, path.stat().st_size)
        yield from stream_rows(file, str(path), header, batch)


def npy_stream(file: IO[bytes], path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of a .npy file that comes through a pipe, which errors call `path`: its size is known at its end."""
    if key is not None:
        raise FormatError(
            f"{path}: expected no key, as a .npy file holds one array without a name, got key={shown(key)}"
        )
    header = read_header(file, str(path))
    if header.fortran:
        raise FormatError(f"{path}: expected an array in C order, to be read in pieces, got one in Fortran order")
    # A header may claim anything, and nothing is known about the size: do not let it ask for more than this.
    if header.shape[1] > MAX_DIM:
        raise FormatError(f"{path}: expected at most {MAX_DIM} numbers in a row, got a claim of {header.shape[1]}")
    row = header.shape[1] * header.dtype.itemsize
    yield from stream_rows(file, str(path), header, max(1, min(batch, _MAX_PIECE // row)))


def read_header(file: IO[bytes], where: str, kind: Kind = VECTORS) -> Header:
    """The header of an array of this kind; anything else is a FormatError."""
    start = file.read(8)
    if start[:6] != _MAGIC or len(start) < 8:
        raise FormatError(f"{where}: expected a NumPy array, which begins with {_MAGIC!r}, got {start[:6]!r}")
    if start[6] not in (1, 2):
        raise FormatError(f"{where}: expected NumPy format version 1 or 2, got {start[6]}.{start[7]}")
    width, form = (2, "<H") if start[6] == 1 else (4, "<I")
    raw_length = file.read(width)
    if len(raw_length) < width:
        raise FormatError(f"{where}: expected a whole header, got a file that ends inside it")
    (length,) = struct.unpack(form, raw_length)
    if length > _MAX_HEADER:
        raise FormatError(f"{where}: expected a header of at most {_MAX_HEADER} bytes, got a claim of {length}")
    raw = file.read(length)
    if len(raw) < length:
        raise FormatError(f"{where}: expected a header of {length} bytes, got {len(raw)}")
    return _parse_header(raw, where, 8 + width + length, kind)


def _parse_header(raw: bytes, where: str, offset: int, kind: Kind) -> Header:
    try:
        fields = ast.literal_eval(raw.decode("latin-1").strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        fields = None
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise FormatError(f"{where}: expected a header with descr, fortran_order and shape, got {raw[:80]!r}")
    descr, fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
    if not isinstance(descr, str) or not kind.types.fullmatch(descr):
        raise FormatError(f"{where}: expected {kind.of}, got dtype {str(descr)[:80]!r}")
    if not isinstance(fortran, bool):
        raise FormatError(f"{where}: expected fortran_order to be True or False, got {fortran!r}")
    if not (isinstance(shape, tuple) and len(shape) == kind.axes and all(type(n) is int and n > 0 for n in shape)):
        raise FormatError(f"{where}: expected a shape of {kind.shape}, got {str(shape)[:80]}")
    return Header(np.dtype(descr), shape, fortran, offset)


def expect_bytes(where: str, header: Header, size: int) -> None:
    """Refuse a header that claims other than what the file, or the member of an archive, holds."""
    expected = math.prod(header.shape) * header.dtype.itemsize
    if size - header.offset != expected:
        raise FormatError(
            f"{where}: expected {expected} bytes of data for shape {header.shape} of {header.dtype}, "
            f"got {size - header.offset}"
        )


def stream_rows(file: IO[bytes], where: str, header: Header, batch: int) -> Iterator[Rows]:
    """The rows of a two-dimensional array, from where its data begins to its end."""
    n, dim = header.shape
    if header.fortran:  # rows are scattered over the file, so it is read as a whole
        whole = read_values(file, where, header, n * dim).reshape(dim, n).T
        for start in range(0, n, batch):
            yield Rows(whole[start : start + batch])
        return
    for start in range(0, n, batch):
        rows = min(batch, n - start)
        yield Rows(read_values(file, where, header, rows * dim).reshape(rows, dim))
    if file.read(1):  # also makes zipfile verify the checksum, which it does at the end
        raise FormatError(f"{where}: expected the end of the data, got more bytes")


def read_values(file: IO[bytes], where: str, header: Header, count: int) -> npt.NDArray[Any]:
    """So many values, which must be there."""
    values = np.empty(count, dtype=header.dtype)
    got = file.readinto(values.view(np.uint8).data)  # type: ignore[attr-defined]  # both kinds of stream have it
    if got != values.nbytes:
        raise FormatError(f"{where}: expected {values.nbytes} more bytes of data, got {got}")
    return values


def npy_count(path: Path, key: str | None) -> int:
    """The number of rows that the header claims."""
    with path.open("rb") as file:
        return read_header(file, str(path)).shape[0]
