"""What the server asks of the native core for the bodies of requests: the one module of it that knows the core.

`take_vectors` reads the vectors of a JSON text into an array, without a Python object for each number: they would be
freed as they are. `wipe_bytes` overwrites bytes that nobody will read again, and `clear_stack` what the calls that have
ended left on the stack.
"""

from __future__ import annotations

from .._native import core

__all__ = ["clear_stack", "take_vectors", "wipe_bytes"]

clear_stack = core.clear_stack
take_vectors = core.take_vectors
wipe_bytes = core.wipe_bytes
