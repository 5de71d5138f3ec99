"""Nearest-neighbour search that can forget."""

from . import errors
from ._native import CpuInfo, cpu_info
from .hashing import Hasher, hasher
from .index import Hits, Index, RadiusHits

__version__ = "0.1.0"
__all__ = ["CpuInfo", "Hasher", "Hits", "Index", "RadiusHits", "__version__", "cpu_info", "errors", "hasher"]
