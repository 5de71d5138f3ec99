"""Qdrant: a collection of a server, over its REST interface. It needs no package."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import DownloadError, FormatError, ParameterError, UnsupportedError
from ._source import Batch, Residue, Source, as_id, choose, same_dim

__all__ = ["QdrantSource"]

_METRICS = {"Cosine": "cosine", "Euclid": "l2", "Dot": "ip"}
_TIMEOUT = 60  # seconds


class QdrantSource(Source):
    """A collection with one dense vector, or one of several by its name."""

    def __init__(self, location: str, collection: str | None, vector: str | None, api_key: str | None) -> None:
        """Ask for the collection and its vectors."""
        if urllib.parse.urlsplit(location).scheme not in ("http", "https"):
            raise ParameterError(f"{location}: expected the URL of a Qdrant server, http:// or https://, got another")
        self._url, self._key = location.rstrip("/"), api_key
        listed = self._ask("GET", "/collections")["collections"]
        self.name = choose((one["name"] for one in listed), collection, location)
        self._path = "/collections/" + urllib.parse.quote(self.name, safe="")
        params = self._ask("GET", self._path)["config"]["params"]["vectors"]
        self._vector = None if "size" in params else choose(params, vector, location, "vector")
        chosen = params if self._vector is None else params[self._vector]
        self.dim = int(chosen["size"])
        if chosen["distance"] not in _METRICS:
            raise UnsupportedError(f"{location}: expected one of {', '.join(_METRICS)}, got {chosen['distance']}")
        if chosen.get("multivector_config"):
            raise UnsupportedError(f"{location}: expected one vector for each point, got a multivector of several")
        self.metric = _METRICS[chosen["distance"]]
        if self.metric == "cosine":
            self.remarks = ("Qdrant keeps vectors of length 1 under cosine; the original lengths are not in it",)

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} | ({"api-key": self._key} if self._key else {})
        request = urllib.request.Request(self._url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
                return json.load(answer)["result"]
        except urllib.error.HTTPError as error:
            raise DownloadError(
                f"{self._url}{path}: expected an answer of Qdrant, got {error.code} {error.reason}"
            ) from None
        except (OSError, urllib.error.URLError) as error:
            raise DownloadError(f"{self._url}: expected a Qdrant server, got no answer: {error}") from None
        except (ValueError, KeyError, RecursionError) as error:
            raise FormatError(f"{self._url}{path}: expected an answer of Qdrant, got something else: {error}") from None

    def count(self) -> int:
        """What Qdrant counts exactly."""
        return int(self._ask("POST", f"{self._path}/points/count", {"exact": True})["count"])

    def batches(self, size: int) -> Iterator[Batch]:
        """By ascending id, page by page."""
        offset: Any = None
        wanted: Any = True if self._vector is None else [self._vector]
        while True:
            body = {"limit": min(size, 1000), "with_payload": True, "with_vector": wanted}
            page = self._ask(
                "POST", f"{self._path}/points/scroll", body if offset is None else body | {"offset": offset}
            )
            batch = self._batch(page["points"])
            if batch.ids:
                yield batch
            following = page.get("next_page_offset")
            if following is None or following == offset or not page["points"]:
                return
            offset = following

    def _batch(self, points: list[dict[str, Any]]) -> Batch:
        vectors = [self._dense(point.get("vector")) for point in points]
        whole = [place for place, vector in enumerate(vectors) if vector is not None]
        self.without_vector += len(points) - len(whole)
        values = np.array([vectors[place] for place in whole], dtype=np.float32).reshape(len(whole), -1)
        return Batch(
            [as_id(points[place]["id"]) for place in whole],
            same_dim(values, self.dim, self.name) if whole else values,
            [points[place].get("payload") or None for place in whole],
        )

    def _dense(self, vector: Any) -> list[float] | None:
        if isinstance(vector, dict):
            vector = vector.get(self._vector) if self._vector is not None else None
        return vector if isinstance(vector, list) and vector else None

    def residue(self) -> Residue:
        """Its files are out of reach."""
        return Residue(
            None,
            None,
            "cannot be told over Qdrant's interface: it marks deleted points and rewrites a segment only when enough "
            "of it is deleted (deleted_threshold); its snapshots and write-ahead log may hold them as well",
        )
