"""A recommender that forgets a person together with their influence on others.

    python examples/recommender.py

Two hundred readers like some words, out of the 20,000 that lethevec brings along. A reader is recommended what the
readers most like them like. So what one person likes shows in what others are recommended, and erasing a row of a
table is not enough: the recommendations must become those of a world without that person. They do, exactly, because
nothing here is trained. Needs lethevec[store].
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

import lethevec
from lethevec import datasets

READERS = 200
LIKED = 12


def tastes() -> dict[str, list[int]]:
    """What each reader likes: words near three words of their own."""
    _, vectors = datasets.words()
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    rng = np.random.default_rng(5)
    liked = {}
    for number in range(READERS):
        themes = rng.integers(500, 5000, size=3)
        near = [np.argsort(-unit[:5000] @ unit[theme])[1:9] for theme in themes]
        liked[f"reader-{number}"] = sorted(int(word) for word in rng.choice(np.unique(near), LIKED, replace=False))
    return liked


def build(folder: Path, liked: dict[str, list[int]]) -> lethevec.Database:
    """A profile for each reader, and what they like, in two collections with one chain of receipts."""
    _, vectors = datasets.words()
    db = lethevec.connect(folder)
    profiles = db.collection("profiles", dim=vectors.shape[1])
    likes = db.collection("likes", dim=vectors.shape[1])
    for reader, words in liked.items():
        profiles.upsert([vectors[words].mean(axis=0)], ids=[reader], subjects=[reader])
        likes.upsert(vectors[words], ids=[f"{reader}/{word}" for word in words], subjects=[reader] * len(words))
    return db


def recommend(db: lethevec.Database, reader: str) -> list[str]:
    """What the ten readers most like this one like, and this one does not know yet; the most frequent first."""
    words, _ = datasets.words()
    profiles, likes = db.collection("profiles"), db.collection("likes")
    mine = {id.split("/")[1] for id in likes.ids(subject=reader)}
    near = profiles.search([profiles.get([reader])[0].vector], k=11, effort=float("inf"))[0]
    votes = Counter(id.split("/")[1] for hit in near if hit.id != reader for id in likes.ids(subject=str(hit.id)))
    best = sorted((-count, int(word)) for word, count in votes.items() if word not in mine)
    return [str(words[word]) for _, word in best[:5]]


def main(folder: Path) -> None:
    """Find somebody who was influenced, forget who influenced them, and compare with a world without that person."""
    liked = tastes()
    db = build(folder / "shop", liked)
    gone = "reader-7"
    others = [reader for reader in liked if reader != gone]
    before = {reader: recommend(db, reader) for reader in others}
    receipt = db.forget(subject=gone)
    after = {reader: recommend(db, reader) for reader in others}
    changed = [reader for reader in others if before[reader] != after[reader]]
    print(f"{gone} is forgotten: {receipt.records} records in {len(receipt.parts())} collections, one receipt")
    print(f"{len(changed)} readers had been recommended something because of them; for instance {changed[0]}:")
    print(f"    before  {', '.join(before[changed[0]])}")
    print(f"    after   {', '.join(after[changed[0]])}")

    without = build(folder / "without", {reader: liked[reader] for reader in reversed(others)})
    same = all(recommend(without, reader) == after[reader] for reader in others)
    print(f"the same as if {gone} had never been there, for all {len(others)}: {same}")
    print(f"the receipt holds: {bool(db.verify(receipt, subject=gone))}")
    without.close()
    db.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
