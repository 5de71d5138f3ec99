"""The in-memory index: add, search, forget."""

from .hits import Hits, RadiusHits, Work
from .index import Index
from .tuning import Tuning

__all__ = ["Hits", "Index", "RadiusHits", "Tuning", "Work"]
