"""A gallery of faces from which a person can be taken out.

    pip install 'lethevec[store]' scikit-image
    python examples/face_gallery.py

A hundred real faces (a part of Labeled Faces in the Wild that comes with scikit-image), five pictures of each person:
the face with some noise, lighter and darker. A new picture of a person is recognised by its nearest pictures. After a
person is forgotten, nobody is recognised in their place, and the others are recognised as before. Nothing was trained,
so there is no model that still knows the face.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

import lethevec

PEOPLE = 100
THRESHOLD = 0.1  # a picture farther than this from all others shows nobody we know


def faces() -> npt.NDArray[np.float32]:
    """(people, 25, 25), grey values from 0 to 1."""
    try:
        import skimage
    except ImportError:
        sys.exit("examples/face_gallery.py needs scikit-image, for its pictures: pip install scikit-image")
    return np.load(Path(skimage.__file__).parent / "data" / "lfw_subset.npy")[:PEOPLE].astype(np.float32)


def describe(picture: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """A face as a vector: gradients of its grey values, so that light and contrast count for little."""
    rows, columns = np.gradient(picture)
    vector = np.concatenate([rows.ravel(), columns.ravel()]).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def pictures(face: npt.NDArray[np.float32], rng: np.random.Generator, count: int) -> list[npt.NDArray[np.float32]]:
    """Other pictures of a person: a little noise, and another light."""
    made = []
    for _ in range(count):
        noise = rng.normal(scale=0.01, size=face.shape)
        made.append((face * rng.uniform(0.6, 1.3) + rng.uniform(-0.1, 0.1) + noise).astype(np.float32))
    return made


def main(folder: Path) -> None:
    """Enrol everybody, recognise new pictures, forget one person, and recognise again."""
    rng = np.random.default_rng(1)
    people = faces()
    gallery = lethevec.open(folder / "faces.lethe", dim=2 * people[0].size)
    enrolled = []
    for number, face in enumerate(people):
        enrolled.append([describe(shot) for shot in pictures(face, rng, 5)])
        gallery.add(
            enrolled[number],
            ids=[f"person-{number}/{n}" for n in range(5)],
            subjects=[f"person-{number}"] * 5,
        )
    probes = [describe(pictures(face, rng, 1)[0]) for face in people]

    def recognise() -> list[str | None]:
        found = gallery.search(probes, k=1)
        return [hits[0].subject if hits[0].distance < THRESHOLD else None for hits in found]

    before = recognise()
    right = sum(name == f"person-{number}" for number, name in enumerate(before))
    print(f"{len(gallery)} pictures of {PEOPLE} people; new pictures recognised: {right} of {PEOPLE}")

    def held() -> int:
        data = b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())
        # A piece of each vector: a whole one is longer than a page of the file.
        return sum(vector.tobytes()[:64] in data for vector in enrolled[42])

    print(f"pictures of person-42 in the files: {held()}")
    receipt = gallery.forget(subject="person-42")
    after = recognise()
    print(f"person-42 is forgotten: {receipt.records} pictures")
    print(f"person-42 is recognised as: {after[42]}")
    print(f"the others as before: {before[:42] + before[43:] == after[:42] + after[43:]}")
    print(f"pictures of person-42 in the files: {held()}; the receipt holds: {bool(gallery.verify(receipt))}")
    gallery.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
