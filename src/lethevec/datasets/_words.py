"""The bundled set: real word vectors, for demos, docs and tests without a download."""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple

import numpy as np

from ..vectors import F32, as_vectors


class Words(NamedTuple):
    """Words, and a vector for each, in order of frequency."""

    words: tuple[str, ...]
    vectors: F32


def words() -> Words:
    """The 20,000 most frequent alphabetic words of GloVe 6B with their 100-d vectors, the most frequent first.

    Origin: GloVe (Pennington, Socher, Manning: "GloVe: Global Vectors for Word Representation", 2014), trained on
    Wikipedia 2014 and Gigaword 5; https://nlp.stanford.edu/projects/glove/. Licence: Open Data Commons Public Domain
    Dedication and License 1.0. The values are rounded to float16 in the file and given as float32. Meant for the cosine
    metric.

    >>> names, vectors = words()
    >>> names[:3], vectors.shape
    (('the', 'of', 'to'), (20000, 100))
    """
    source = resources.files(__package__) / "words-20k-glove-100.npz"
    with source.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return Words(tuple(archive["words"].tolist()), as_vectors(archive["vectors"], 100))
