"""What an index is: its configuration, the native index behind it, and its records given back."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from .._native import core, resolve_threads
from ..errors import IdError, UnknownIdError, UnsupportedError
from ..forgetting.multiset import LANES, MultisetHash
from ..vectors import F32
from .config import Config
from .costs import bytes_of_stages
from .encoders import native_encoder
from .gain import NormCounts
from .ids import I64, as_ids
from .sources import native_source, source_for


class IndexBase:
    """The parts, and the operations that neither change nor search."""

    def _set_up(self, config: Config) -> None:
        self._config = config
        self._norms = NormCounts() if config.gain_follows else None
        self._mean_norm = 1.0
        encoder = native_encoder(config.hasher(self._mean_norm), config.metric)
        self._encoder = encoder
        self._source = source_for(config, 0)
        self._native = self._empty(self._source)
        # One change at a time, also where a change is several native calls.
        self._writing = threading.RLock()

    def _empty(self, source: str) -> core.Index:
        config = self._config
        hamming = config.ranking == "hamming"
        made = native_source(config, source)
        read = bytes_of_stages(config, source)
        return core.Index(self._encoder, config.metric, hamming, config.keep_vectors, made, read)

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return self._config.dim

    @property
    def metric(self) -> str:
        """The metric: "cosine", "l2" or "ip"."""
        return self._config.metric

    @property
    def config(self) -> Config:
        """Everything that was chosen, defaults filled in."""
        return self._config

    def __len__(self) -> int:
        return len(self._native)

    def __contains__(self, id: object) -> bool:
        if isinstance(id, bool) or not isinstance(id, int | np.integer):
            return False
        if not -(1 << 63) <= int(id) < 1 << 63:
            return False
        return bool(self._contains(np.array([int(id)], dtype=np.int64))[0])

    def _contains(self, ids: I64) -> npt.NDArray[np.bool_]:
        found = np.empty(len(ids), dtype=np.bool_)
        self._native.contains(ids, found)
        return found

    def ids(self) -> I64:
        """All ids, ascending."""
        return np.asarray(self._native.ids())

    def __iter__(self) -> Iterator[int]:
        """Ids, ascending, as they were when the iteration began."""
        return iter(self.ids().tolist())

    def __repr__(self) -> str:
        c = self._config
        return f"<lethevec.Index of {len(self)} vectors, dim={c.dim}, metric={c.metric!r}, {c.family} {c.bits} bits>"

    def get(self, ids: npt.ArrayLike) -> F32:
        """The vectors of ids, (n, dim), in the order asked for."""
        if not self._config.keep_vectors:
            raise UnsupportedError("get: vectors are not kept (keep_vectors=False), so none can be given back")
        checked = as_ids(ids)
        vectors = np.empty((len(checked), self.dim), dtype=np.float32)
        self._refuse(self._native.get(checked, vectors))
        return vectors

    def stats(self) -> dict[str, int | float]:
        """Counts, and bytes by part: a function of configuration and records.

        `buckets_used` counts the buckets of all tables that hold a record, of `buckets_possible`. `bytes_cells` is what
        the cells of pivots take, codes included; `cells_used` counts those that hold a record.
        """
        vectors, codes, id_map, _ = self._native.bytes()
        n = len(self)
        tables, possible, used, _ = core.table_stats(self._native) if self._source == "tables" else (0, 0, 0, 0)
        cells, pivots, filled, largest = core.pivot_stats(self._native) if self._source == "pivots" else (0, 0, 0, 0)
        total = vectors + codes + id_map + tables + cells
        return {
            "records": n,
            "bytes_vectors": vectors,
            "bytes_codes": codes,
            "bytes_ids": id_map,
            "bytes_tables": tables,
            "bytes_cells": cells,
            "bytes_total": total,
            "bytes_per_record": total / n if n else 0.0,
            "buckets_used": used,
            "buckets_possible": possible,
            "pivots": pivots,
            "cells_used": filled,
            "largest_cell": largest,
            "mean_norm": self._mean_norm,
        }

    def digest(self, *, threads: int | None = None) -> str:
        """64 hexadecimal digits that depend on configuration and records alone; see `lethevec.forgetting.multiset`."""
        lanes = np.zeros(LANES, dtype=np.uint16)
        count = self._native.digest_lanes(lanes, resolve_threads(threads))
        state = count.to_bytes(8, "little") + lanes.astype("<u2", copy=False).tobytes()
        return MultisetHash.from_bytes(self._config.canonical(), state).digest()

    @staticmethod
    def _refuse(refusal: tuple[str, int] | None) -> None:
        if refusal is None:
            return
        why, id = refusal
        if why == "absent":
            raise UnknownIdError(f"ids: expected ids that are present, got {id}, which is not; nothing was changed")
        if why == "present":
            raise IdError(
                f"ids: expected new ids, got {id}, which is present; update() replaces records; nothing was changed"
            )
        raise IdError(f"ids: expected each id once, got {id} more than once; nothing was changed")
