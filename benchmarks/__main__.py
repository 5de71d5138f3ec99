"""`python -m benchmarks`: a short run of what there is to measure. The parts take more arguments when run by
themselves."""

from __future__ import annotations

import sys

from . import encode, scan
from .ours import Lethevec


def main() -> None:
    given = sys.argv[1:]
    encode.main(["--rounds", "3", "--seconds", "20", *given])
    if Lethevec.available():
        scan.main(["--rounds", "3", "--seconds", "30", "--sizes", "10000", "200000", *given])


if __name__ == "__main__":
    main()
