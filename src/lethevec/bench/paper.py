"""What the paper did and found: parameters (its Table 2) and the areas under its curves (Table 3), by data set.

Sets are recognised by how their names begin; another set gets the parameters that most of the paper's have.
"""

from __future__ import annotations

from dataclasses import dataclass

USUAL = (2, 4, 6, 8, 10, 12, 16, 20)
NEIGHBOURS = 10  # true ones for each query
RESULTS = 100  # the most that are asked for in experiment 2


#: The names of the paper's families in figures, and of Super-Bit as Faiss has it; whom the rows of Table 3 are about.
FAMILIES = {"simhash": "simHash", "superbit": "Super-Bit, ours", "usr": "USR (T = 17), ours"}
FAISS = "Super-Bit, Faiss IndexLSH"
ROWS = {FAMILIES["usr"]: "usr", FAMILIES["superbit"]: "superbit", FAISS: "superbit", FAMILIES["simhash"]: "simhash"}


@dataclass(frozen=True)
class PaperSet:
    """One of the paper's sets: the expansions m, and PR-AUC as (low, high) for each family."""

    name: str
    expansions: tuple[int, ...]
    areas: dict[str, tuple[float, float]]


SETS = {
    "deep": PaperSet(
        "Deep1B", (2, 3, 4, 5, 6, 7, 8), {"simhash": (0.08, 0.39), "superbit": (0.11, 0.45), "usr": (0.14, 0.55)}
    ),
    "sift": PaperSet("SIFT", USUAL, {"simhash": (0.08, 0.61), "superbit": (0.11, 0.63), "usr": (0.15, 0.68)}),
    "glove-100": PaperSet("GloVe-100", USUAL, {"simhash": (0.06, 0.59), "superbit": (0.11, 0.66), "usr": (0.14, 0.74)}),
    "glove-25": PaperSet("GloVe-25", USUAL, {"simhash": (0.01, 0.45), "superbit": (0.03, 0.50), "usr": (0.05, 0.61)}),
}

#: The improvement over simHash in percent that Table 3 states beside the areas, (low, high).
IMPROVEMENTS = {
    ("deep", "usr"): (92, 41),
    ("deep", "superbit"): (49, 16),
    ("sift", "usr"): (82, 13),
    ("sift", "superbit"): (34, 4),
    ("glove-100", "usr"): (123, 25),
    ("glove-100", "superbit"): (78, 12),
    ("glove-25", "usr"): (225, 33),
    ("glove-25", "superbit"): (86, 10),
}


def key_of(data: str) -> str | None:
    """Which of the paper's sets this one is, or is a part of."""
    return next((key for key in SETS if data.lower().startswith(key)), None)


def expansions(data: str, *, quick: bool = False) -> tuple[int, ...]:
    """The values of m for a set; the first, a middle one and the last for a quick run."""
    key = key_of(data)
    values = SETS[key].expansions if key else USUAL
    return (values[0], values[len(values) // 2], values[-1]) if quick else values
