"""NumPy files: .npy, and .npz archives of them. Headers are parsed here, strictly; nothing is ever unpickled.

Only plain real arrays pass: the header must name one of the types f2 f4 f8 i1..i8 u1..u8, two dimensions, and exactly
as many bytes as the file (or the archive member) holds.
"""

from __future__ import annotations

import ast
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ._common import MAX_EXPANSION, Rows, choose, expect_magic

_MAGIC = b"\x93NUMPY"
_MAX_HEADER = 65_536
# What is asked for at once when the size of the data is not known: numbers of a row, bytes of a batch.
_MAX_DIM = 1 << 20
_MAX_PIECE = 1 << 28
_REAL = re.compile(r"[<>|=]?(f[248]|[iu][1248])")


@dataclass(frozen=True)
class _Header:
    dtype: np.dtype[Any]
    shape: tuple[int, int]
    fortran: bool
    offset: int  # bytes before the data


def npy_rows(path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of a .npy file; it holds one array, so `key` must be None."""
    if key is not None:
        raise FormatError(f"{path}: expected no key, as a .npy file holds one array without a name, got key={key!r}")
    expect_magic(path, _MAGIC, "a .npy file")
    with path.open("rb") as file:
        header = _read_header(file, str(path))
        _expect_bytes(str(path), header, path.stat().st_size)
        yield from _stream_rows(file, str(path), header, batch)


def npy_stream(file: IO[bytes], path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of a .npy file that comes through a pipe, which errors call `path`: its size is known at its end."""
    if key is not None:
        raise FormatError(f"{path}: expected no key, as a .npy file holds one array without a name, got key={key!r}")
    header = _read_header(file, str(path))
    if header.fortran:
        raise FormatError(f"{path}: expected an array in C order, to be read in pieces, got one in Fortran order")
    # A header may claim anything, and nothing is known about the size: do not let it ask for more than this.
    if header.shape[1] > _MAX_DIM:
        raise FormatError(f"{path}: expected at most {_MAX_DIM} numbers in a row, got a claim of {header.shape[1]}")
    row = header.shape[1] * header.dtype.itemsize
    yield from _stream_rows(file, str(path), header, max(1, min(batch, _MAX_PIECE // row)))


def npz_rows(path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of one array of a .npz archive."""
    expect_magic(path, b"PK", "a .npz archive")
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            name = choose(path, _vector_members(path, archive, members, key, size), key, "a 2-D array of real numbers")
            where = f"{path}, array {name!r}"
            _expect_plausible(where, members[name], size)
            with archive.open(members[name]) as file:
                header = _read_header(file, where)
                _expect_bytes(where, header, members[name].file_size)
                yield from _stream_rows(file, where, header, batch)
    # NotImplementedError and RuntimeError: a compression or an encryption that zipfile does not know.
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error) as error:
        raise FormatError(f"{path}: expected an undamaged .npz archive, got one that cannot be read: {error}") from None


def _vector_members(
    path: Path, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], key: str | None, size: int
) -> list[str]:
    """Members that can be vectors. A member that was asked for by name stays, so that its own fault is reported."""
    found = []
    for name, info in members.items():
        if name == key:
            found.append(name)
            continue
        try:
            _expect_plausible(name, info, size)
            with archive.open(info) as file:
                _read_header(file, name)
        except FormatError:  # text, or one dimension, or not an array at all
            continue
        found.append(name)
    return found


def _expect_plausible(where: str, info: zipfile.ZipInfo, size: int) -> None:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise FormatError(f"{where}: expected a stored or deflated member, got compression type {info.compress_type}")
    if info.compress_size > size or info.file_size > info.compress_size * MAX_EXPANSION:
        raise FormatError(
            f"{where}: expected at most {MAX_EXPANSION} bytes out of each of the {min(size, info.compress_size)} "
            f"compressed ones, got a claim of {info.file_size}"
        )


def _read_header(file: IO[bytes], where: str) -> _Header:
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
    return _parse_header(raw, where, 8 + width + length)


def _parse_header(raw: bytes, where: str, offset: int) -> _Header:
    try:
        fields = ast.literal_eval(raw.decode("latin-1").strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        fields = None
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise FormatError(f"{where}: expected a header with descr, fortran_order and shape, got {raw[:80]!r}")
    descr, fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
    if not isinstance(descr, str) or not _REAL.fullmatch(descr):
        raise FormatError(f"{where}: expected real numbers (float or int), got dtype {str(descr)[:80]!r}")
    if not isinstance(fortran, bool):
        raise FormatError(f"{where}: expected fortran_order to be True or False, got {fortran!r}")
    if not (isinstance(shape, tuple) and len(shape) == 2 and all(type(n) is int and n > 0 for n in shape)):
        raise FormatError(f"{where}: expected a shape of two positive numbers (n, dim), got {str(shape)[:80]}")
    return _Header(np.dtype(descr), shape, fortran, offset)


def _expect_bytes(where: str, header: _Header, size: int) -> None:
    n, dim = header.shape
    expected = n * dim * header.dtype.itemsize
    if size - header.offset != expected:
        raise FormatError(
            f"{where}: expected {expected} bytes of data for shape {header.shape} of {header.dtype}, "
            f"got {size - header.offset}"
        )


def _stream_rows(file: IO[bytes], where: str, header: _Header, batch: int) -> Iterator[Rows]:
    n, dim = header.shape
    if header.fortran:  # rows are scattered over the file, so it is read as a whole
        whole = _read_values(file, where, header, n * dim).reshape(dim, n).T
        for start in range(0, n, batch):
            yield Rows(whole[start : start + batch])
        return
    for start in range(0, n, batch):
        rows = min(batch, n - start)
        yield Rows(_read_values(file, where, header, rows * dim).reshape(rows, dim))
    if file.read(1):  # also makes zipfile verify the checksum, which it does at the end
        raise FormatError(f"{where}: expected the end of the data, got more bytes")


def _read_values(file: IO[bytes], where: str, header: _Header, count: int) -> npt.NDArray[Any]:
    values = np.empty(count, dtype=header.dtype)
    got = file.readinto(values.view(np.uint8).data)  # type: ignore[attr-defined]  # both kinds of stream have it
    if got != values.nbytes:
        raise FormatError(f"{where}: expected {values.nbytes} more bytes of data, got {got}")
    return values


def npy_count(path: Path, key: str | None) -> int:
    """The number of rows that the header claims."""
    with path.open("rb") as file:
        return _read_header(file, str(path)).shape[0]
