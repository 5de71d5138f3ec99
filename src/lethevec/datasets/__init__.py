"""Data sets: vectors from files, the benchmark sets of the paper by name, and a bundled one.

    read_vectors, iter_vectors      vectors alone, from a file of any supported format
    read_records, iter_records      the same with ids, subjects and payloads
    iter_stream                     the same from a pipe: JSON lines, CSV, .npy, .fvecs and their like, Arrow
    iter_batches                    files, Arrow tables and frames, as `Store.load` takes them
    count_records                   how many a file holds, where it says so
    read_neighbors                  true neighbours from a .ivecs file
    load, download, NAMES           the sets that the paper uses, from the ann-benchmarks site
    read_benchmark, Benchmark       any file in the layout of ann-benchmarks
    words, word_records             20,000 English words with real vectors, shipped with the package; and the same
                                    as records with invented owners, to fill a store with

HDF5 needs h5py, and Parquet and Arrow need pyarrow: `pip install 'lethevec[datasets]'`. No file is trusted.
"""

from __future__ import annotations

from ._batches import batches_of, is_source, iter_batches, size_of
from ._benchmarks import BASE_URL, NAMES, Benchmark, data_folder, download, load, read_benchmark
from ._records import (
    Records,
    count_records,
    iter_records,
    iter_stream,
    iter_vectors,
    read_neighbors,
    read_records,
    read_vectors,
)
from ._words import Words, word_records, words

__all__ = [
    "BASE_URL",
    "NAMES",
    "Benchmark",
    "Records",
    "Words",
    "batches_of",
    "count_records",
    "data_folder",
    "download",
    "is_source",
    "iter_batches",
    "iter_records",
    "iter_stream",
    "iter_vectors",
    "load",
    "read_benchmark",
    "read_neighbors",
    "read_records",
    "read_vectors",
    "size_of",
    "word_records",
    "words",
]
