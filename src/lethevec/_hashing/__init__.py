"""Hash functions from vectors to binary codes, over the native core.

| module | job |
|---|---|
| `parameters` | checks of parameters, with errors that say what came and what was expected |
| `base` | `Hasher`: what all hash functions share |
| `families` | the families: which native call encodes, and what its tables are |
| `making` | `hasher`: arguments checked, and the family that they ask for |
"""

from .base import Hasher
from .making import FAMILIES, ROTATIONS, hasher

__all__ = ["FAMILIES", "ROTATIONS", "Hasher", "hasher"]
