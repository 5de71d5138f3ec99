"""The handwritten digits in scikit-learn: NAME OUT."""

import importlib
import sys

import numpy as np


def main(name: str, out: str) -> None:
    """All of them."""
    np.save(out, importlib.import_module("sklearn.datasets").load_digits().data.astype(np.float32))


if __name__ == "__main__":
    main(*sys.argv[1:])
