"""A record as callers see it, from an index or from a store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

__all__ = ["KEEP", "Keep", "Record"]


@dataclass(frozen=True, eq=False)
class Record:
    """One record: its id, its vector, (dim,) float32, and in a store its subject, payload and expiry.

    >>> record = Record(7, np.array([1.0, 0.0], dtype=np.float32))
    >>> record.id, record.vector.shape, record.subject
    (7, (2,), None)
    """

    id: int | str
    vector: npt.NDArray[np.float32] | None
    subject: str | None = None
    payload: dict[str, Any] | None = None
    expires: datetime | None = None


class Keep(Enum):
    """The type of `KEEP`, which has no other value."""

    KEEP = "KEEP"

    def __repr__(self) -> str:
        return "KEEP"


#: For `update`: leave this part of the records as it is. (None would take a subject or a payload away.)
KEEP: Final[Literal[Keep.KEEP]] = Keep.KEEP
