"""The native core, and its instruction set: the widest that CPU and build have, unless LETHEVEC_ISA says other."""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass

from . import _core
from ._shown import shown
from .errors import IsaError, ParameterError

__all__ = ["MAX_THREADS", "CpuInfo", "core", "cpu_info", "default_threads", "resolve_threads"]

core = _core
_VARIABLE = "LETHEVEC_ISA"
_FEW = 8
MAX_THREADS = 1024


@dataclass(frozen=True)
class CpuInfo:
    """What the native core runs on.

    `isa` is in use, `reason` says why; `supported` can run here, `built` are in this build; `features` is what the CPU
    reports of those that matter; `threads` is how many cores this process may use.
    """

    isa: str
    reason: str
    supported: tuple[str, ...]
    built: tuple[str, ...]
    features: tuple[str, ...]
    threads: int


def _choose() -> str:
    asked = os.environ.get(_VARIABLE, "").strip().lower()
    supported, built = core.supported_isas(), core.built_isas()
    if not asked:
        return f"the widest that this CPU ({', '.join(supported)}) and this build ({', '.join(built)}) have"
    if asked not in built:
        raise IsaError(f"{_VARIABLE}={asked}: expected one of {', '.join(built)}, which this build has")
    if asked not in supported:
        raise IsaError(f"{_VARIABLE}={asked}: this CPU lacks it; expected one of {', '.join(supported)}")
    core.use_isa(asked)
    return f"{_VARIABLE}={asked}"


_reason = _choose()


def cpu_info() -> CpuInfo:
    """Which instruction set is in use, and why.

    >>> cpu_info().isa in cpu_info().supported
    True
    """
    return CpuInfo(
        isa=core.active_isa(),
        reason=_reason,
        supported=tuple(core.supported_isas()),
        built=tuple(core.built_isas()),
        features=tuple(core.cpu_features()),
        threads=default_threads(),
    )


def default_threads() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resolve_threads(threads: int | None, rows: int | None = None) -> int:
    """An argument `threads=`, checked; None is all cores, or one for so few rows that asking would cost more."""
    if threads is None:
        return 1 if rows is not None and rows < _FEW else default_threads()
    try:
        number = 0 if isinstance(threads, bool) else operator.index(threads)  # NumPy's integers are integers
    except TypeError:
        number = 0
    if not 1 <= number <= MAX_THREADS:
        raise ParameterError(
            f"threads: expected an integer from 1 to {MAX_THREADS}, or None for all cores, got {shown(threads)}"
        )
    return number
