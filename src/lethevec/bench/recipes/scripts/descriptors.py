"""SIFT descriptors (OpenCV) of the photographs that scikit-image and scikit-learn ship: NAME OUT.

SIFT's own choice of points would give some ten thousand of these few photographs. So points lie on a grid, upright and
at sizes that double, as in dense SIFT: neighbours on the grid overlap, as the parts of any picture do.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

COUNT = 2_001_000
STEP = 2  # pixels between two points
SIZES = (6, 12, 24, 48)  # of a point's surroundings, in pixels
PLAIN = 8.0  # where grey levels differ by less than this, there is nothing to describe
DRAWN = ("color.png", "logo.png", "phantom.png")  # no photographs


def photographs() -> list[Any]:
    """Those in colour that are large enough, as grey levels."""
    cv2: Any = importlib.import_module("cv2")
    found = []
    for package, folder in (("skimage", "data"), ("sklearn", "datasets/images")):
        for file in sorted((Path(str(importlib.import_module(package).__file__)).parent / folder).iterdir()):
            if file.suffix in (".png", ".jpg", ".jpeg") and file.name not in DRAWN:
                image = cv2.imread(str(file), cv2.IMREAD_UNCHANGED)
                if image is not None and image.ndim == 3 and image.shape[2] == 3 and min(image.shape[:2]) >= 256:
                    found.append(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY))
    return found


def main(_name: str, out: str) -> None:
    """So many of them, chosen at random."""
    cv2: Any = importlib.import_module("cv2")
    sift, rng, parts = cv2.SIFT_create(), np.random.default_rng(0), []
    images = photographs()
    for image in images:
        for size in SIZES:
            down, across = (np.arange(size / 2, side - size / 2, STEP) for side in image.shape)
            grey = image.astype(np.float32)
            variance = cv2.blur(grey**2, (size, size)) - cv2.blur(grey, (size, size)) ** 2
            points = [
                cv2.KeyPoint(float(x), float(y), float(size), 0.0)
                for y in down
                for x in across
                if variance[int(y), int(x)] >= PLAIN**2
            ]
            described = sift.compute(image, points)[1]
            if described is not None:
                parts.append(described.astype(np.uint8))
    vectors = np.unique(np.concatenate(parts), axis=0)
    chosen = rng.permutation(len(vectors))[:COUNT]
    np.save(out, vectors[chosen].astype(np.float32))


if __name__ == "__main__":
    main(*sys.argv[1:])
