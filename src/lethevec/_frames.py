"""Data frames, Arrow data and tensors as NumPy arrays, for the check in `_vectors`, which is the only one to ask.

| what comes | what it is read as |
|---|---|
| a pandas or Polars frame, an Arrow table or batch | one column of vectors, or a number from each column |
| a column of lists (pandas, Polars, Arrow) | a vector from each entry |
| a column of numbers | one vector |
| anything with the Arrow PyCapsule interface | the same, through pyarrow |
| a tensor (PyTorch, JAX, anything with DLPack) in main memory | itself |

Nothing is copied that can be read where it is. What has to be copied is said to be `ours`, so that it can be wiped.
pandas, Polars and tensor libraries are never imported here: who has an object of theirs has imported them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._extras import need
from .errors import VectorError

__all__ = ["Read", "as_array", "stacked"]

_MAIN_MEMORY = (1, 3)  # DLPack's numbers of devices: the CPU, and memory of the CPU that a GPU can reach
_NUMBERS = "fiu"


class Read(NamedTuple):
    """An array, and whether it is a copy that nobody else has."""

    array: npt.NDArray[Any]
    ours: bool


def as_array(given: Any, name: str) -> Read | None:
    """The vectors of one of these objects; None for what NumPy reads by itself."""
    library = type(given).__module__.partition(".")[0]
    if library == "pandas" and hasattr(given, "to_numpy"):
        return _pandas(given, name)
    if library == "polars" and hasattr(given, "to_numpy"):
        return _polars(given, name)
    if hasattr(given, "__arrow_c_array__") or hasattr(given, "__arrow_c_stream__"):
        return _arrow(given, name)
    if hasattr(given, "__dlpack__") and hasattr(given, "__dlpack_device__"):
        return _tensor(given, name)
    return None


def stacked(rows: npt.NDArray[np.object_], name: str) -> Read:
    """A column whose entries are vectors, as one array."""
    first = next((place for place, row in enumerate(rows) if row is None or np.isscalar(row)), None)
    if first is not None:
        raise VectorError(f"{name}: expected a vector in every row, got {type(rows[first]).__name__} in row {first}")
    try:
        return Read(np.stack([np.asarray(row) for row in rows]), True)
    except (ValueError, TypeError) as error:
        raise VectorError(f"{name}: expected vectors of one length, got others: {error}") from None


def _pandas(given: Any, name: str) -> Read:
    if given.ndim == 1:
        return _pandas_column(given, name)
    columns = [given.iloc[:, place] for place in range(given.shape[1])]
    if len(columns) == 1 and _kind(columns[0].dtype) not in _NUMBERS:
        return _pandas_column(columns[0], name)
    dtypes = {column.dtype for column in columns}
    if len(dtypes) == 1 and isinstance(columns[0].dtype, np.dtype) and _kind(columns[0].dtype) in _NUMBERS:
        array = np.asarray(given)
        own = not np.may_share_memory(array, columns[0].to_numpy()) if len(given) else True
        return Read(array, own)
    parts = [_pandas_column(column, f"{name}, column {label!r}") for column, label in zip(columns, given, strict=True)]
    return _beside(parts, list(given), name)


def _pandas_column(column: Any, name: str) -> Read:
    if isinstance(column.dtype, np.dtype):
        array = np.asarray(column)
        return stacked(array, name) if array.dtype == object and len(array) else Read(array, False)
    if hasattr(column, "__arrow_c_stream__") and "pyarrow" in str(column.dtype):
        return _arrow(column, name)
    try:  # numbers that may be missing; those become NaN, which the check refuses
        return Read(column.to_numpy(dtype=np.float64, na_value=np.nan), True)
    except (TypeError, ValueError):
        return Read(np.asarray(column), False)


def _kind(dtype: Any) -> str:
    """The kind of a dtype of pandas, which may be one of its own."""
    return str(getattr(dtype, "kind", "O"))


def _polars(given: Any, name: str) -> Read:
    if hasattr(given, "get_columns"):
        columns = given.get_columns()
        if len(columns) == 1 and columns[0].dtype.is_nested():
            return _polars(columns[0], name)
        return _beside([_polars(column, f"{name}, column {column.name!r}") for column in columns], given.columns, name)
    if given.null_count():
        raise VectorError(f"{name}: expected numbers everywhere, got {given.null_count()} nulls")
    try:
        return Read(given.to_numpy(allow_copy=False), False)
    except RuntimeError:  # in several pieces, or lists
        array = given.to_numpy()  # nulls inside vectors become NaN, which the check refuses
    return stacked(array, name) if array.dtype == object and len(array) else Read(array, array.flags.writeable)


def _arrow(given: Any, name: str) -> Read:
    pa = need("pyarrow", "datasets", f"{name}: reading Arrow data")
    if isinstance(given, pa.Table | pa.RecordBatch):
        columns, names = given.columns, given.schema.names
    elif isinstance(given, pa.Array | pa.ChunkedArray):
        columns, names = None, []
    else:
        given = pa.chunked_array(given) if hasattr(given, "__arrow_c_stream__") else pa.array(given)
        columns, names = None, []
    try:
        given.validate(full=True)  # it may have been read from a file, whose offsets Arrow follows blindly
    except pa.ArrowException as error:
        raise VectorError(f"{name}: expected undamaged Arrow data, got other: {error}") from None
    if columns is None and pa.types.is_struct(given.type):
        names = [given.type.field(place).name for place in range(given.type.num_fields)]
        chunks = given.chunks if isinstance(given, pa.ChunkedArray) else [given]
        columns = [
            pa.chunked_array([chunk.field(place) for chunk in chunks], type=given.type.field(place).type)
            for place in range(len(names))
        ]
    if columns is None:
        return _arrow_column(pa, given, name)
    if len(columns) == 1 and _is_list(pa, columns[0].type):
        return _arrow_column(pa, columns[0], name)
    parts = [
        _arrow_column(pa, column, f"{name}, column {label!r}") for column, label in zip(columns, names, strict=True)
    ]
    return _beside(parts, names, name)


def _is_list(pa: Any, type: Any) -> bool:
    type = getattr(type, "storage_type", type)
    return bool(pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type))


def _arrow_column(pa: Any, column: Any, name: str) -> Read:
    """A column of lists as (n, dim), a column of numbers as (n,)."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if column.null_count:
        raise VectorError(f"{name}: expected numbers everywhere, got {column.null_count} nulls")
    arrays = [_arrow_values(pa, getattr(chunk, "storage", chunk), name) for chunk in chunks if len(chunk)]
    if not arrays:
        return Read(np.empty((0, 0), dtype=np.float32), True)
    if len(arrays) == 1:
        return Read(arrays[0], False)
    widths = sorted({array.shape[1:] for array in arrays})
    if len(widths) > 1:
        raise VectorError(f"{name}: expected vectors of one length, got {widths[0][0]} and {widths[-1][0]} numbers")
    return Read(np.concatenate(arrays), True)


def _arrow_values(pa: Any, chunk: Any, name: str) -> npt.NDArray[Any]:
    if not _is_list(pa, chunk.type):
        if not (pa.types.is_floating(chunk.type) or pa.types.is_integer(chunk.type)):
            raise VectorError(f"{name}: expected real numbers (float or int), got Arrow's {chunk.type}")
        return np.asarray(chunk.to_numpy(zero_copy_only=False))
    flat = chunk.flatten()
    if flat.null_count:
        raise VectorError(f"{name}: expected numbers everywhere, got {flat.null_count} nulls inside vectors")
    values = _arrow_values(pa, flat, name)
    if not pa.types.is_fixed_size_list(chunk.type):
        lengths = np.diff(np.asarray(chunk.offsets.to_numpy(zero_copy_only=False)))
        if (lengths != lengths[0]).any():
            raise VectorError(f"{name}: expected vectors of one length, got {lengths.min()} to {lengths.max()} numbers")
    return values.reshape(len(chunk), -1) if values.size else np.empty((len(chunk), 0), dtype=np.float32)


def _tensor(given: Any, name: str) -> Read | None:
    try:
        device = int(given.__dlpack_device__()[0])
    except Exception as error:  # a tensor without memory, for one
        raise VectorError(f"{name}: expected a tensor in main memory, got one that is nowhere: {error}") from None
    if device not in _MAIN_MEMORY:
        raise VectorError(
            f"{name}: expected numbers in main memory, got a tensor on another device (number {device} in DLPack); "
            "move it to the CPU first"
        )
    try:
        return Read(np.from_dlpack(given), False)
    except Exception as error:  # each library has errors of its own: gradients, types that NumPy does not have
        reason: Exception = error
    if hasattr(given, "__array__"):  # NumPy may know better
        try:
            return Read(np.asarray(given), False)
        except Exception as error:
            reason = error
    raise VectorError(f"{name}: expected a tensor that NumPy can read, got one that it cannot: {reason}")


def _beside(parts: Sequence[Read], names: Sequence[Any], name: str) -> Read:
    """Columns of numbers as the columns of one array."""
    for part, label in zip(parts, names, strict=True):
        if part.array.ndim != 1 or part.array.dtype.kind not in _NUMBERS:
            raise VectorError(
                f"{name}: expected columns of numbers, or one column of vectors alone, got column {label!r} of "
                f"{part.array.dtype} among {', '.join(map(str, names))[:200]}"
            )
    if not parts:
        return Read(np.empty((0, 0), dtype=np.float32), True)
    array = np.empty((len(parts[0].array), len(parts)), dtype=np.result_type(*(part.array.dtype for part in parts)))
    for place, part in enumerate(parts):
        array[:, place] = part.array
        if part.ours:
            part.array.fill(0)
    return Read(array, True)
