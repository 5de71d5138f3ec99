"""Patches of the photographs that scikit-image ships, all colours of all pixels: NAME OUT."""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

SIDES = {"patches-192": (8, 401_000), "patches-48": (4, 2_001_000)}
NOISE_FREE = 2.0  # patches whose pixels differ by less, on average, show nothing: many would be equal


def main(name: str, out: str) -> None:
    """So many of them, chosen at random."""
    side, count = SIDES[name]
    skimage: Any = importlib.import_module("skimage")
    io: Any = importlib.import_module("skimage.io")
    parts, rng = [], np.random.default_rng(0)
    for file in sorted((Path(skimage.__file__).parent / "data").iterdir()):
        if file.suffix not in (".png", ".jpg", ".jpeg", ".tif", ".tiff"):
            continue
        image = io.imread(file)
        if image.ndim != 3 or image.shape[2] < 3 or image.dtype != np.uint8 or min(image.shape[:2]) < 64:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(image[:, :, :3], (side, side, 3))
        down, across = windows.shape[:2]
        some = np.sort(rng.permutation(down * across)[:count])
        flat = windows[some // across, some % across, 0].reshape(len(some), -1)
        parts.append(flat[flat.std(axis=1, dtype=np.float32) >= NOISE_FREE])
    vectors = np.unique(np.concatenate(parts), axis=0)
    chosen = rng.permutation(len(vectors))[:count]
    np.save(out, vectors[chosen].astype(np.float32))


if __name__ == "__main__":
    main(*sys.argv[1:])
