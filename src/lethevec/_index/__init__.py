"""The in-memory index: add, search, forget."""

from .config import MAX_SETUP, Config
from .index import Index
from .sources import Auto, Graph, Pivots, Scan, Tables
from .tuning import Tuning

__all__ = ["MAX_SETUP", "Auto", "Config", "Graph", "Index", "Pivots", "Scan", "Tables", "Tuning"]
