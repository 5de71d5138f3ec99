"""A small embedding that needs no network and no model: the mean of the word vectors that lethevec brings along.

It is for examples, tests and small memories of an agent. Texts about the same things are near each other; the order of
words, and what they mean in context, are lost. A real application uses a model.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lethevec import datasets

__all__ = ["WordEmbedding"]

_WORD = re.compile(r"[^\W_]+")


class WordEmbedding:
    """Texts as vectors of 100 numbers, of length 1: a function of the text alone.

    Frequent words count less than rare ones. Words that are not among the 20,000 known ones have vectors drawn from a
    hash, so that equal names are near each other. It has the methods of LangChain's `Embeddings`.

    >>> embedding = WordEmbedding()
    >>> x = embedding.embed_documents(["the king of france", "a french queen", "wine and cheese"])
    >>> [round(float(np.dot(x[0], other)), 1) for other in x]
    [1.0, 0.7, 0.5]
    """

    dim = 100

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector for each text."""
        return [self._embed(text).tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The vector of one text."""
        vector: list[float] = self._embed(text).tolist()
        return vector

    def _embed(self, text: str) -> npt.NDArray[np.float32]:
        places, vectors = _known_words()
        total = np.zeros(self.dim)
        for word in _WORD.findall(text.lower()):
            place = places.get(word)
            if place is None:
                total += np.log(len(places)) * _made_up(word)
            else:
                total += np.log(place + 2) * vectors[place]
        norm = np.linalg.norm(total)
        if norm == 0:  # no word at all
            total, norm = _made_up(""), np.float64(1)
        return (total / norm).astype(np.float32)


@functools.cache
def _known_words() -> tuple[dict[str, int], npt.NDArray[np.float32]]:
    """The places of the words, the most frequent first, and their vectors of length 1."""
    words, vectors = datasets.words()
    scaled = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return {word: place for place, word in enumerate(words)}, scaled.astype(np.float32)


def _made_up(word: str) -> npt.NDArray[np.float64]:
    seed = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
    drawn = np.random.default_rng(seed).normal(size=WordEmbedding.dim)
    made: npt.NDArray[np.float64] = drawn / np.linalg.norm(drawn)
    return made
