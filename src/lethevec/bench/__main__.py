"""`python -m lethevec.bench`: what `lethevec bench` runs."""

from __future__ import annotations

from .cli import main
from .process import start_over

if __name__ == "__main__":
    start_over("lethevec.bench", main)
