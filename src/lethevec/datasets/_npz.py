"""NumPy's .npz archives: the vectors are one array, of two axes; `ids`, `subjects`, `payloads` and `expires` (or `id`,
`subject`, `payload`) are read where they exist, one entry for each vector.

Ids are whole numbers or texts, subjects, payloads and times are texts; an empty text means none. An array `bare` of
0 and 1 says which rows are of records without a vector.
"""

from __future__ import annotations

import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from ._common import MAX_EXPANSION, Ids, Rows, as_id, as_ids, as_moment, as_subject, choose, expect_magic
from ._npy import COLUMN, VECTORS, Header, Kind, expect_bytes, read_header, read_values, stream_rows

_EXTRAS = {"ids": "ids", "id": "ids", "subjects": "subjects", "subject": "subjects"}
_EXTRAS |= {"payloads": "payloads", "payload": "payloads", "expires": "expires", "bare": "bare"}


@dataclass(frozen=True)
class _Member:
    """An array of the archive, open where its data begins."""

    file: IO[bytes]
    header: Header
    where: str

    def read(self, count: int) -> npt.NDArray[Any]:
        return read_values(self.file, self.where, self.header, count)


def npz_rows(path: Path, key: str | None, batch: int) -> Iterator[Rows]:
    """Rows of one array of a .npz archive, and what other arrays say about them."""
    with _archive(path) as archive, ExitStack() as stack:
        members = _members(archive)
        name = _vectors_name(path, archive, members, key)

        def member(name: str, kind: Kind) -> _Member:
            where = f"{path}, array {name!r}"
            return _open(stack, archive, members[name], where, path.stat().st_size, kind)

        vectors = member(name, VECTORS)
        extras: dict[str, _Member] = {}
        for other in members:
            if other in _EXTRAS and other != name:
                if _EXTRAS[other] in extras:
                    raise FormatError(f"{path}: expected one array of {_EXTRAS[other]}, got two")
                extras[_EXTRAS[other]] = _column(member(other, COLUMN), vectors.header.shape[0])
        for rows in stream_rows(vectors.file, vectors.where, vectors.header, batch):
            values = {what: _values(extra, len(rows.values)) for what, extra in extras.items()}
            yield Rows(
                rows.values,
                _ids(path, values),
                _subjects(path, values),
                _payloads(values),
                _expires(path, values),
                _bare(path, values),
            )


def npz_count(path: Path, key: str | None) -> int:
    """The number of rows that the header of the vectors claims."""
    with _archive(path) as archive:
        members = _members(archive)
        name = _vectors_name(path, archive, members, key)
        with archive.open(members[name]) as file:
            return read_header(file, str(path)).shape[0]


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    expect_magic(path, b"PK", "a .npz archive")
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    # NotImplementedError and RuntimeError: a compression or an encryption that zipfile does not know.
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error) as error:
        raise FormatError(f"{path}: expected an undamaged .npz archive, got one that cannot be read: {error}") from None


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    return {info.filename.removesuffix(".npy"): info for info in archive.infolist()}


def _vectors_name(path: Path, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], key: str | None) -> str:
    """The array of the vectors. One that was asked for by name is a candidate, so that its own fault is reported."""
    size = path.stat().st_size
    found = []
    for name, info in members.items():
        if name == key:
            found.append(name)
            continue
        try:
            _expect_plausible(name, info, size)
            with archive.open(info) as file:
                read_header(file, name)
        except FormatError:  # text, or one dimension, or not an array at all
            continue
        found.append(name)
    return choose(path, found, key, "a 2-D array of real numbers")


def _open(
    stack: ExitStack, archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str, size: int, kind: Kind
) -> _Member:
    _expect_plausible(where, info, size)
    file = stack.enter_context(archive.open(info))
    header = read_header(file, where, kind)
    expect_bytes(where, header, info.file_size)
    return _Member(file, header, where)


def _expect_plausible(where: str, info: zipfile.ZipInfo, size: int) -> None:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise FormatError(f"{where}: expected a stored or deflated member, got compression type {info.compress_type}")
    if info.compress_size > size or info.file_size > info.compress_size * MAX_EXPANSION:
        raise FormatError(
            f"{where}: expected at most {MAX_EXPANSION} bytes out of each of the {min(size, info.compress_size)} "
            f"compressed ones, got a claim of {info.file_size}"
        )


def _column(member: _Member, count: int) -> _Member:
    if member.header.shape != (count,):
        raise FormatError(
            f"{member.where}: expected {count} entries, one for each vector, got {member.header.shape[0]}"
        )
    return member


def _values(member: _Member, count: int) -> list[Any]:
    values = member.read(count)
    if values.dtype.kind == "U":
        characters = values.view(np.dtype("u4").newbyteorder(values.dtype.byteorder))
        if characters.max() > sys.maxunicode:  # NumPy would not say so in words
            raise FormatError(f"{member.where}: expected texts, got a character of number {characters.max()}")
    return values.tolist()


def _ids(path: Path, values: dict[str, list[Any]]) -> Ids | None:
    found = values.get("ids")
    return None if found is None else as_ids([as_id(path, "array of ids", value) for value in found])


def _subjects(path: Path, values: dict[str, list[Any]]) -> list[str | None] | None:
    found = values.get("subjects")
    return None if found is None else [as_subject(path, "array of subjects", value) or None for value in found]


def _payloads(values: dict[str, list[Any]]) -> list[Any] | None:
    found = values.get("payloads")
    return None if found is None else [None if value == "" else value for value in found]


def _expires(path: Path, values: dict[str, list[Any]]) -> list[date | None] | None:
    found = values.get("expires")
    return None if found is None else [as_moment(path, "array of expires", value) for value in found]


def _bare(path: Path, values: dict[str, list[Any]]) -> npt.NDArray[np.bool_] | None:
    found = values.get("bare")
    if found is None:
        return None
    if not set(found) <= {0, 1}:
        raise FormatError(f"{path}: expected an array of 0 and 1 for records without a vector, got other values")
    return np.array(found, dtype=np.bool_)
