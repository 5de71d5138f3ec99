"""Nearest-neighbour search that can forget."""

from . import errors
from ._native import CpuInfo, cpu_info
from .hashing import Hasher, hasher

__version__ = "0.1.0"
__all__ = ["CpuInfo", "Hasher", "__version__", "cpu_info", "errors", "hasher"]
