"""What each call of the client sends, and how its answer is read. Nothing here knows how it is sent.

Vectors go as float32, raw or in base64, and come back as NumPy arrays. Every call that writes carries a request number
of its own, so sending it twice does it once.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from .._collections import Access, Hold
from .._forgetting.receipts import Receipt
from .._forgetting.verify import Check, Verification
from .._hashing.parameters import boolean, integer
from .._hits import Hits, Work
from .._record import KEEP, Record
from .._shown import shown
from .._store import Preview
from ..errors import IdError, ParameterError, ReceiptError, VectorError

__all__ = ["Request"]

F32 = npt.NDArray[np.float32]
T = TypeVar("T")
_RAW = "application/octet-stream"


@dataclass(frozen=True)
class Request(Generic[T]):
    """One request. `read` makes the result of the JSON that comes back."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: bytes = b""
    kind: str = "application/json"
    query: str = ""
    writes: bool = False
    number: str = field(default_factory=lambda: str(uuid.uuid4()))


def _post(path: str, content: Mapping[str, Any], read: Callable[[Any], T], *, writes: bool = False) -> Request[T]:
    try:
        body = json.dumps(content, ensure_ascii=False, allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError) as error:
        raise ParameterError(f"expected ids, payloads and filters of plain JSON values, got others ({error})") from None
    return Request("POST", path, read, body, writes=writes)


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays, as JSON has them."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(type(value).__name__)


def _one(name: str, action: str = "") -> str:
    if not isinstance(name, str) or not name or not all(c.isalnum() or c in "_-." for c in name):
        raise ParameterError(f"name: expected letters, digits, - and _, got {shown(name, 80)}")
    return f"/v1/collections/{name}{action}"


def floats(vectors: Any) -> F32:
    """(n, dim) float32 of what callers give."""
    try:
        with np.errstate(over="ignore"):  # too large for float32 is infinite, which the server refuses
            array = np.asarray(vectors, dtype="<f4")
    except (TypeError, ValueError, OverflowError) as error:
        raise VectorError(f"vectors: expected numbers in rows of one length, got something else ({error})") from None
    if array.ndim == 1:
        array = array[None]
    if array.ndim != 2:
        raise VectorError(f"vectors: expected an array of 1 or 2 dimensions, got {array.ndim}")
    return np.ascontiguousarray(array)


def _encoded(vectors: Any) -> Any:
    """Vectors of a request: base64 of all of them, or a list where some are None."""
    if vectors is None:
        return None
    if isinstance(vectors, list | tuple) and any(one is None for one in vectors):
        return [None if one is None else floats(one)[0].tolist() for one in vectors]
    return base64.b64encode(floats(vectors).tobytes()).decode()


def _many(ids: Any) -> list[Any]:
    """Ids as a list; a single one is a list of one."""
    if isinstance(ids, np.ndarray):
        listed: list[Any] = ids.ravel().tolist()
        return listed
    return [ids] if isinstance(ids, int | str | np.integer) else _listed(ids, "ids")


def _listed(values: Any, name: str) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise IdError(f"{name}: expected a list, got {type(values).__name__}") from None


def _whole(given: int, name: str) -> int:
    return integer(name, given, 0, 1 << 62)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None and value is not False}


def _some_receipt(content: Any) -> Receipt:
    return Receipt(content["receipt"])


def _perhaps_receipt(content: Any) -> Receipt | None:
    return None if content.get("receipt") is None else Receipt(content["receipt"])


def _nothing(content: Any) -> None:
    return None


# --- collections


def collections() -> Request[list[str]]:
    """The names of the collections."""
    return Request("GET", "/v1/collections", lambda content: [one["name"] for one in content["collections"]])


def make(name: str, options: Mapping[str, Any]) -> Request[dict[str, Any]]:
    """Make a collection, or open the one that is there."""
    _one(name)
    content = {"name": name, "exist_ok": True, **_given(**options)}
    if "expires" in options:
        content["expires"] = _due(options["expires"])
    return _post("/v1/collections", content, dict, writes=True)


def describe(name: str) -> Request[dict[str, Any]]:
    """What a collection is."""
    return Request("GET", _one(name), dict)


def drop(name: str) -> Request[Receipt]:
    """Erase a collection."""
    return Request("DELETE", _one(name), _some_receipt, writes=True)


def rename(old: str, new: str) -> Request[None]:
    """Give a collection another name."""
    return _post(_one(old, "/rename"), {"name": new}, _nothing, writes=True)


def digest(name: str) -> Request[str]:
    """The digest of a collection."""
    return Request("GET", _one(name, "/digest"), lambda content: str(content["digest"]))


# --- records


def put(
    name: str, action: str, vectors: Any, ids: Any, subjects: Any, payloads: Any, expires: Any, erase_old: bool = False
) -> Request[Receipt | None]:
    """`add` and `upsert`."""
    listed = _many(ids)
    content = {"ids": listed, "vectors": _encoded(vectors)}
    if subjects is not None:
        content["subjects"] = [subjects] * len(listed) if isinstance(subjects, str) else _listed(subjects, "subjects")
    if payloads is not None:
        content["payloads"] = [payloads] if isinstance(payloads, Mapping) else _listed(payloads, "payloads")
    if expires is not KEEP:
        content["expires"] = _due(expires)
    if boolean("erase_old", erase_old):
        content["erase_old"] = True
    return _post(_one(name, f"/{action}"), content, _perhaps_receipt, writes=True)


def _due(expires: Any) -> Any:
    """As the server reads it: seconds from now, or a date."""
    if isinstance(expires, timedelta):
        return expires.total_seconds()
    if isinstance(expires, date):  # a datetime is one
        return expires.isoformat()
    return [_due(one) for one in expires] if isinstance(expires, list | tuple) else expires


def update(
    name: str, ids: Any, vectors: Any, subjects: Any, payloads: Any, expires: Any, merge: bool, erase_old: bool
) -> Request[Receipt | None]:
    """Replace parts of records."""
    if ids is None:
        raise IdError("ids: expected the ids of the records to update, got none")
    listed = _many(ids)
    content: dict[str, Any] = {"ids": listed, **_given(merge=merge, erase_old=erase_old)}
    if vectors is not KEEP:
        content["vectors"] = _encoded(vectors)
    if subjects is not KEEP:
        content["subjects"] = None if subjects is None else _each(subjects, str, len(listed), "subjects")
    if payloads is not KEEP:
        content["payloads"] = None if payloads is None else _each(payloads, Mapping, len(listed), "payloads")
    if expires is not KEEP:
        content["expires"] = _due(expires)
    return _post(_one(name, "/update"), content, _perhaps_receipt, writes=True)


def _each(value: Any, single: Any, count: int, name: str) -> list[Any]:
    return [value] * count if isinstance(value, single) else _listed(value, name)


def get(name: str, ids: Any, where: Any, subject: Any, limit: int | None, after: Any) -> Request[list[Record]]:
    """Records by ids, or a page of those that are chosen."""
    content: dict[str, Any] = {"include": ["vectors", "subjects", "payloads", "expires"], "encoding": "base64"}
    if ids is not None:
        content["ids"] = _many(ids)
    chosen = _given(where=where, subject=subject, limit=limit)
    if after is not None:
        chosen["after"] = after
    return _post(_one(name, "/get"), {**content, **chosen}, _records)


def sample(name: str, count: int, where: Any, subject: Any, seed: int) -> Request[list[Record]]:
    """Some records."""
    content = {
        "count": _whole(count, "count"),
        "seed": _whole(seed, "seed"),
        "encoding": "base64",
        **_given(where=where, subject=subject),
    }
    return _post(_one(name, "/sample"), content, _records)


def subjects(name: str, prefix: str, after: str | None, limit: int) -> Request[dict[str, int]]:
    """A page of subjects."""
    if not isinstance(prefix, str):
        raise ParameterError(f"prefix: expected a text, got {type(prefix).__name__}")
    content = {"limit": limit, **_given(prefix=prefix or None, after=after)}
    return _post(
        _one(name, "/subjects"), content, lambda answer: dict(zip(answer["subjects"], answer["records"], strict=True))
    )


def _records(content: Any) -> list[Record]:
    columns = (content[name] for name in ("ids", "vectors", "subjects", "payloads", "expires"))
    return [
        Record(id, _decoded(vector), subject, payload, None if expires is None else datetime.fromisoformat(expires))
        for id, vector, subject, payload, expires in zip(*columns, strict=True)
    ]


def _decoded(text: str | None) -> F32 | None:
    return None if text is None else np.frombuffer(base64.b64decode(text), dtype="<f4").astype(np.float32)


def ids(name: str, where: Any, subject: Any, after: Any) -> Request[tuple[list[Any], Any]]:
    """A page of ids, and where the next one begins."""
    chosen = _given(where=where, subject=subject)
    if after is not None:
        chosen["after"] = after
    return _post(_one(name, "/ids"), chosen, lambda content: (content["ids"], content["next"]))


def count(name: str, where: Any, subject: Any) -> Request[int]:
    """How many records."""
    return _post(_one(name, "/count"), _given(where=where, subject=subject), lambda content: int(content["records"]))


def search(
    name: str, queries: Any, k: int, where: Any, subject: Any, radius: float | None, effort: float
) -> Request[Hits]:
    """The nearest records. Without a filter the vectors go raw, which is the least work for both sides."""
    vectors = floats(queries)

    def read(content: Any) -> Hits:
        return _hits(content, k, ragged=radius is not None)

    if where is None and subject is None:
        options = _given(k=k, radius=radius, effort=effort)
        query = "&".join(f"{option}={value}" for option, value in options.items())
        return Request("POST", _one(name, "/search"), read, vectors.tobytes(), _RAW, query)
    content = {"vectors": _encoded(vectors), "k": k, **_given(where=where, subject=subject, effort=effort)}
    if radius is not None:
        content["radius"] = radius
    return _post(_one(name, "/search"), content, read)


def _hits(content: Any, k: int, *, ragged: bool) -> Hits:
    """Arrays of one row for each query, padded as those of a store are."""
    rows = content["ids"]
    width = max(map(len, rows), default=0) if ragged else k
    found = np.full((len(rows), width), -1, dtype=object)
    distances: F32 = np.full((len(rows), width), np.inf, dtype=np.float32)
    subjects = np.full((len(rows), width), None, dtype=object)
    payloads = np.full((len(rows), width), None, dtype=object)
    for place, row in enumerate(rows):
        count = len(row)
        if count:
            found[place, :count] = row
            distances[place, :count] = content["distances"][place]
            subjects[place, :count] = content["subjects"][place]
            for column, payload in enumerate(content["payloads"][place]):
                payloads[place, column] = payload
    return Hits(found, distances, Work(0, 0, 0, 0), subjects, payloads)


# --- erasure and rights


def forget(
    name: str, ids: Any, subject: Any, where: Any, ignore_unknown: bool, elsewhere: Any = None
) -> Request[Receipt]:
    """Forget records of one collection."""
    content = {**_chosen(ids, subject, where, ignore_unknown), **_given(elsewhere=elsewhere)}
    return _post(_one(name, "/forget"), content, _some_receipt, writes=True)


def would_forget(name: str, ids: Any, subject: Any, where: Any, ignore_unknown: bool) -> Request[Preview]:
    """What a `forget` would erase."""
    content = {**_chosen(ids, subject, where, ignore_unknown), "dry_run": True}
    return _post(_one(name, "/forget"), content, lambda got: Preview(got["records"], got["ids"], got["missing"]))


def _chosen(ids: Any, subject: Any, where: Any, ignore_unknown: bool) -> dict[str, Any]:
    chosen = _given(subject=subject, where=where, ignore_unknown=ignore_unknown)
    return chosen if ids is None else {**chosen, "ids": _many(ids)}


def _number(content: Any) -> int:
    return int(content["records"])


def forget_everywhere(subject: str, block: bool, ignore_unknown: bool, elsewhere: Any = None) -> Request[Receipt]:
    """Forget a person in every collection."""
    content = {"subject": subject, **_given(block=block, ignore_unknown=ignore_unknown, elsewhere=elsewhere)}
    return _post("/v1/forget", content, _some_receipt, writes=True)


def would_forget_everywhere(subject: str) -> Request[int]:
    """How many records of a person there are."""
    return _post("/v1/forget", {"subject": subject, "dry_run": True}, _number)


def expire(skip_held: bool) -> Request[Receipt | None]:
    """Erase what is due."""
    return _post("/v1/expire", _given(skip_held=skip_held), _perhaps_receipt, writes=True)


def lift(hold: str | Receipt, reason: str) -> Request[Receipt]:
    """End a hold."""
    id = hold.fields.get("hold", "") if isinstance(hold, Receipt) else hold
    return _post("/v1/lift", {"hold": id, "reason": reason}, _some_receipt, writes=True)


def holds(subject: str | None) -> Request[list[Hold]]:
    """The holds in force."""
    return _post("/v1/holds", _given(subject=subject), lambda content: [Hold(**one) for one in content["holds"]])


def fence(action: str, subject: str, reason: str) -> Request[Receipt]:
    """`hold`, `block` and `unblock`."""
    return _post(f"/v1/{action}", {"subject": subject, "reason": reason}, _some_receipt, writes=True)


def erasure(path: str) -> Request[list[int]]:
    """The numbers of the receipts of an erasure that waited."""
    return Request("GET", path, lambda content: list(content["receipts"]))


def receipts(after: int | None = None) -> Request[tuple[list[Receipt], int | None]]:
    """A page of the chain, and where the next one begins."""
    query = "" if after is None else f"after={after}"
    return Request(
        "GET",
        "/v1/receipts",
        lambda content: ([Receipt(one) for one in content["receipts"]], content["next"]),
        query=query,
    )


def verify(receipt: Receipt | str, ids: Any, subject: Any) -> Request[Verification]:
    """Check a receipt."""
    if not isinstance(receipt, Receipt | str):
        raise ReceiptError(f"receipt: expected a receipt or its text, got {type(receipt).__name__}")
    content: dict[str, Any] = {"receipt": receipt if isinstance(receipt, str) else receipt.fields}
    if ids is not None:
        content["ids"] = _many(ids)
    content |= _given(subject=subject)

    def read(answer: Any) -> Verification:
        return Verification([Check(**check) for check in answer["checks"]], answer["proves"], answer["leaves_open"])

    return _post("/v1/verify", content, read)


def public_key() -> Request[bytes]:
    """The public key of the receipts."""
    return Request("GET", "/v1/key", lambda content: bytes.fromhex(content["public_key"]))


def cluster_status() -> Request[dict[str, Any] | None]:
    """The state of the cluster behind the server, if there is one."""
    return Request("GET", "/v1/cluster", lambda content: content["cluster"])


def access(subject: str) -> Request[Access]:
    """Everything that is held of a person."""

    def read(content: Any) -> Access:
        return Access(
            content["subject"],
            content["asked_at"],
            {
                name: [Record(one["id"], _vector(one["vector"]), subject, one["payload"]) for one in records]
                for name, records in content["collections"].items()
            },
            [Receipt(one) for one in content["receipts"]],
            [Hold(one["hold"], one["reason"], one["since"], subject) for one in content["holds"]],
            content["blocked_since"],
        )

    return _post("/v1/access", {"subject": subject}, read)


def _vector(numbers: list[float] | None) -> F32 | None:
    return None if numbers is None else np.array(numbers, dtype=np.float32)


def export(name: str, where: Any, subject: Any) -> Request[list[dict[str, Any]]]:
    """Whole records, line by line."""
    return _post(_one(name, "/export"), _given(where=where, subject=subject), _lines)


def _lines(content: Any) -> list[dict[str, Any]]:
    listed: Sequence[dict[str, Any]] = content
    return list(listed)
