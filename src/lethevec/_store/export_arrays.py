"""Records to NumPy's files and to .fvecs: .npz holds all of a record, .npy and .fvecs its vector alone."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from .._record import Record
from ..errors import FormatError, IncompleteWriteError

__all__ = ["VECTORS_ALONE", "write_fvecs", "write_npy", "write_npz"]

VECTORS_ALONE = (".npy", ".fvecs")
_MAX_TEXTS = 1 << 30  # bytes of an array of texts, all as wide as the widest


def vector_of(record: Record) -> npt.NDArray[np.float32]:
    """The vector of a record; one without a vector is refused."""
    if record.vector is None:
        raise FormatError(f"expected records with vectors, got {record.id!r}, which has none; .jsonl keeps all of them")
    return record.vector


def write_fvecs(file: IO[bytes], records: Iterator[Record]) -> None:
    """Dimension and numbers of each vector."""
    for record in records:
        vector = vector_of(record)
        file.write(len(vector).to_bytes(4, "little") + vector.astype("<f4").tobytes())


def write_npy(file: IO[bytes], records: Iterator[Record], count: int, dim: int) -> None:
    """One array of shape (count, dim)."""
    head = {"descr": "<f4", "fortran_order": False, "shape": (count, dim)}
    np.lib.format.write_array_header_1_0(file, head)
    written = 0
    for record in records:
        file.write(vector_of(record).astype("<f4").tobytes())
        written += 1
    if written != count:
        raise IncompleteWriteError(f"expected {count} records, got {written}: the store changed meanwhile; try again")


def write_npz(file: IO[bytes], records: Iterator[Record], count: int, dim: int) -> None:
    """Arrays `vectors` and `ids`; and where some record has one, `subjects`, `payloads` (JSON) and `expires`, "" for
    none. Where some record has no vector, `bare` is 1 for those, and zeros take the place of the vector."""
    ids: list[int | str] = []
    texts: dict[str, list[str]] = {"subjects": [], "payloads": [], "expires": []}
    bare: list[bool] = []
    zeros = np.zeros(dim, dtype=np.float32)

    def noted() -> Iterator[Record]:
        for record in records:
            ids.append(record.id)
            texts["subjects"].append(record.subject or "")
            payload = record.payload
            texts["payloads"].append("" if payload is None else json.dumps(payload, ensure_ascii=False))
            texts["expires"].append("" if record.expires is None else record.expires.isoformat())
            bare.append(record.vector is None)
            yield record if record.vector is not None else Record(record.id, zeros)

    with zipfile.ZipFile(file, "w") as archive:
        with archive.open(_member("vectors", zipfile.ZIP_STORED), "w", force_zip64=True) as member:
            write_npy(member, noted(), count, dim)
        _write_array(archive, "ids", _ids(ids))
        if any(bare):
            _write_array(archive, "bare", np.array(bare, dtype=np.uint8))
        for name, values in texts.items():
            if any(values):
                _write_array(archive, name, _texts(name, values))


def _member(name: str, compression: int) -> zipfile.ZipInfo:
    """No time of day: the same records give the same bytes."""
    info = zipfile.ZipInfo(f"{name}.npy")
    info.compress_type = compression
    return info


def _write_array(archive: zipfile.ZipFile, name: str, array: npt.NDArray[Any]) -> None:
    # Texts are as wide as the widest, mostly zeros.
    with archive.open(_member(name, zipfile.ZIP_DEFLATED), "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def _ids(ids: list[int | str]) -> npt.NDArray[Any]:
    texts = [id for id in ids if isinstance(id, str)]
    if not texts:
        return np.array(ids, dtype="<i8")
    if len(texts) < len(ids):
        raise FormatError("expected ids of one kind, numbers or texts, in a .npz file; .jsonl has both")
    return _texts("ids", texts)


def _texts(name: str, texts: list[str]) -> npt.NDArray[Any]:
    width = max(map(len, texts))
    if 4 * width * len(texts) > _MAX_TEXTS:
        raise FormatError(
            f"{name}: expected texts for an array of at most {_MAX_TEXTS:,} bytes, got {len(texts):,}, the longest of "
            f"{width:,} characters, and a .npz file has all of them as wide as that; .jsonl has not"
        )
    array = np.array(texts, dtype=f"<U{max(width, 1)}")
    if array.tolist() != texts:
        raise FormatError(
            f"{name}: expected texts that do not end in a zero, which NumPy drops, got some; .jsonl has them"
        )
    return array
