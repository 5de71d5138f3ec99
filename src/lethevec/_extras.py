"""Packages that only some calls need: imported when such a call is made, with one error where they are missing."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import MissingDependencyError

__all__ = ["need"]


def need(module: str, extra: str, purpose: str) -> Any:
    """Import a module of a package that `extra` asks for, or say what to install."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.split(".")[0]
        raise MissingDependencyError(
            f"{purpose} needs the package {package!r}, which is not installed: pip install 'lethevec[{extra}]'"
        ) from None
