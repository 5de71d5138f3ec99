"""The in-memory index: add, search, forget."""

from .config import Config
from .index import Index
from .sources import Auto, Pivots, Scan, Tables
from .tuning import Tuning

__all__ = ["Auto", "Config", "Index", "Pivots", "Scan", "Tables", "Tuning"]
