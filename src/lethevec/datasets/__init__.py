"""Data sets: vectors from files, the benchmark sets of the paper by name, and a bundled one.

    read_vectors, iter_vectors      vectors alone, from a file of any supported format
    read_records, iter_records      the same with ids, subjects and payloads
    read_neighbors                  true neighbours from a .ivecs file
    load, download, NAMES           the sets that the paper uses, from the ann-benchmarks site
    read_benchmark, Benchmark       any file in the layout of ann-benchmarks
    words                           20,000 English words with real vectors, shipped with the package

HDF5 needs h5py, and Parquet and Arrow need pyarrow: `pip install 'lethevec[datasets]'`. No file is trusted.
"""

from __future__ import annotations

from ._benchmarks import BASE_URL, NAMES, Benchmark, data_folder, download, load, read_benchmark
from ._records import Records, iter_records, iter_vectors, read_neighbors, read_records, read_vectors
from ._words import Words, words

__all__ = [
    "BASE_URL",
    "NAMES",
    "Benchmark",
    "Records",
    "Words",
    "data_folder",
    "download",
    "iter_records",
    "iter_vectors",
    "load",
    "read_benchmark",
    "read_neighbors",
    "read_records",
    "read_vectors",
    "words",
]
