"""Definitions of WordNet by a language model, WordLlama, each as the mean of its pieces: NAME OUT ARCHIVE."""

import importlib
import importlib.util
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np


def definitions(archive: str) -> list[str]:
    """What is said of each synset, without its words."""
    found = set()
    with tarfile.open(archive) as files:
        for part in ("noun", "verb", "adj", "adv"):
            data = files.extractfile(f"package/dict/data.{part}")
            if data is None:
                sys.exit(f"{archive}: expected a file data.{part}, got none")
            for line in data.read().decode().splitlines():
                if not line.startswith("  "):  # the licence
                    found.add(line.rstrip().split(" | ", 1)[1])
    return sorted(found)


def main(name: str, out: str, archive: str) -> None:
    """All of them, as they come out of the model."""
    spec = importlib.util.find_spec("wordllama")
    if spec is None or spec.origin is None:
        sys.exit("expected the package wordllama, got none")
    package = Path(spec.origin).parent
    tokenizers: Any = importlib.import_module("tokenizers")
    pieces = tokenizers.Tokenizer.from_file(str(package / "tokenizers/l2_supercat_tokenizer_config.json"))
    weights = importlib.import_module("safetensors.numpy").load_file(package / "weights/l2_supercat_256.safetensors")
    (table,) = (np.asarray(one, dtype=np.float32) for one in weights.values())
    encoded = pieces.encode_batch(definitions(archive), add_special_tokens=False)
    vectors = np.stack([table[one.ids].mean(axis=0) for one in encoded if one.ids])
    np.save(out, vectors[np.linalg.norm(vectors, axis=1) > 0])


if __name__ == "__main__":
    main(*sys.argv[1:])
