"""The bundled set: real word vectors, for demos, docs and tests without a download."""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple

import numpy as np

from .._vectors import F32, as_vectors
from ._records import Records

# Invented: nobody by these addresses has anything to do with the words.
_OWNERS = (
    *("ada", "bruno", "clara", "david", "emma", "felix", "greta", "hugo", "ida", "jonas", "karin", "lena", "mario"),
    *(
        "nora",
        "oscar",
        "paula",
        "quentin",
        "rosa",
        "simon",
        "tina",
        "umberto",
        "vera",
        "walter",
        "xenia",
        "yann",
        "zoe",
    ),
)


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


def word_records(first: int = 20_000) -> Records:
    """The `first` words as records for a store: with ids, subjects and payloads, to try things on.

    The word is the id. The subject is an invented owner, who has all words with one first letter. The payload has the
    word's rank by frequency, from 1.

    >>> records = word_records(3)
    >>> records.ids, records.subjects[0], records.payloads[0]
    (['the', 'of', 'to'], 'tina@example.org', {'rank': 1})
    """
    names, vectors = words()
    by_letter = {owner[0]: f"{owner}@example.org" for owner in _OWNERS}
    return Records(
        vectors[:first],
        list(names[:first]),
        [by_letter[word[0]] for word in names[:first]],
        [{"rank": place} for place in range(1, len(names[:first]) + 1)],
    )
