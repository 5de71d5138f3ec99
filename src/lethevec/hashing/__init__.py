"""The hash families, native."""

from .families import Hasher
from .hasher import FAMILIES, ROTATIONS, hasher

__all__ = ["FAMILIES", "ROTATIONS", "Hasher", "hasher"]
