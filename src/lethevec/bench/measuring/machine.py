"""What the figures depend on besides the code: machine, versions, commit; and values as JSON can hold them."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import lethevec

from .. import THREAD_VARIABLES

PACKAGES = (
    "lethevec",
    "numpy",
    "faiss-cpu",
    "hnswlib",
    "usearch",
    "turbovec",
    "annoy",
    "scann",
    "voyager",
    *("rabitqlib", "pyvsag", "ngt", "scalable-vs", "zvec"),
    *("chromadb", "sqlite-vec"),
)


def machine() -> dict[str, Any]:
    """All of it, for the results."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "pinned": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "load": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        "isa": lethevec.cpu_info().isa,
        "threads": {name: os.environ.get(name) for name in THREAD_VARIABLES},
        "versions": {name: version for name in PACKAGES if (version := version_of(name))},
        "commit": _commit(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    names = {name.strip(): value.strip() for name, value in fields.items()}
    model = names.get("model name", platform.processor())
    return f"{model} (family {names.get('cpu family', '?')}, model {names.get('model', '?')})"


def version_of(package: str) -> str | None:
    """The installed version of a package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + (" with changes" if git("status", "--porcelain") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def plain(value: Any) -> Any:
    """What JSON can hold, for `json.dumps(default=...)`."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else str(value)
