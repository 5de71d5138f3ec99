"""What the server asks of the native core for its memory: the one module of it that knows the core.

`take_vectors` reads the vectors of a JSON text into an array, without a Python object for each number: they would be
freed as they are. `wipe_bytes` overwrites bytes that nobody will read again, and `clear_stack` what the calls that have
ended left on the stack. `wipe_objects` makes Python overwrite its small objects when it frees them.
"""

from __future__ import annotations

from .._native import core

__all__ = ["clear_stack", "take_vectors", "wipe_bytes", "wipe_objects"]

clear_stack = core.clear_stack
take_vectors = core.take_vectors
wipe_bytes = core.wipe_bytes
wipe_objects = core.wipe_objects
