"""Records and queries from files, pipes (`-`) and named sets (`:words`), as a store takes them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from lethevec import datasets
from lethevec.errors import FormatError, ParameterError

__all__ = ["Input", "format_option", "key_option", "read_queries"]

WORDS = ":words"

_FORMATS = click.Choice(["jsonl", "csv", "npy", "fvecs", "bvecs", "ivecs", "arrow"])
format_option = click.option(
    "--format", "format", type=_FORMATS, default="jsonl", help="What comes through a pipe (-)."
)
key_option = click.option("--key", help="The array, column or field that holds the vectors, where it has a name.")


@dataclass(frozen=True)
class Input:
    """Where records come from: names of files, `-`, or `:NAME`; and how to read them."""

    names: Sequence[str]
    format: str = "jsonl"
    key: str | None = None
    batch: int = 10_000
    first_id: int | None = None
    subject: str | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Batches as `Store.load` takes them. Records without ids are numbered; ids in some files only are refused."""
        number = 0 if self.first_id is None else self.first_id
        for name in self.names:
            for records in self._read(name):
                ids = records.ids
                if ids is None:
                    ids = np.arange(number, number + len(records))
                    number += len(records)
                elif self.first_id is not None:
                    raise ParameterError(
                        f"--first-id: expected only with files that have no ids, got {name}, which has"
                    )
                yield from datasets.batches_of(name, replace(records, subjects=self._subjects(records)), ids, time.time)

    def total(self) -> int | None:
        """How many records there are, where the files tell without being read."""
        counts = [self._count(name) for name in self.names]
        return None if None in counts else sum(count for count in counts if count is not None)

    def _count(self, name: str) -> int | None:
        if name == WORDS:
            return len(datasets.words().words)
        return None if name == "-" or name.startswith(":") else datasets.count_records(name, key=self.key)

    def _read(self, name: str) -> Iterator[datasets.Records]:
        if name == WORDS:
            return bundled_words(self.batch)
        if name == "-":
            return datasets.iter_stream(sys.stdin.buffer, self.format, batch=self.batch, key=self.key, bare=True)
        path = datasets.download(name[1:]) if name.startswith(":") else Path(name)
        return datasets.iter_records(path, batch=self.batch, key=self.key, bare=True)

    def _subjects(self, records: datasets.Records) -> list[str | None] | None:
        if records.subjects is None:
            return None if self.subject is None else [self.subject] * len(records)
        # A CSV file has no other way to say "none".
        return [subject or self.subject for subject in records.subjects]


def bundled_words(batch: int) -> Iterator[datasets.Records]:
    """The bundled words, with their invented owners, in batches."""
    records = datasets.word_records()
    for start in range(0, len(records), batch):
        part = slice(start, start + batch)
        yield datasets.Records(
            records.vectors[part],
            None if records.ids is None else records.ids[part],
            (records.subjects or [])[part],
            (records.payloads or [])[part],
        )


def read_queries(name: str, source: Input) -> Iterator[np.ndarray[Any, np.dtype[np.float32]]]:
    """The vectors of a file, in batches."""
    for batch in replace(source, names=[name], first_id=None):
        if batch["vectors"] is None:
            raise FormatError(f"{name}: expected a vector in every row, got some without")
        yield batch["vectors"]
