"""The in-memory index: add, search, forget."""

from .hits import Hits, RadiusHits, Work
from .index import Index

__all__ = ["Hits", "Index", "RadiusHits", "Work"]
