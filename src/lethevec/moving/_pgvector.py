"""pgvector: a table of PostgreSQL. Where the server lets us read its files, deleted rows are counted in them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._extras import need
from ..errors import DownloadError, FormatError, ParameterError
from ._source import UNKNOWN_METRIC, Batch, Residue, Source, as_id, choose, same_dim

__all__ = ["PgvectorSource"]

_PAGE = 8192
_BLOCK = 128 * _PAGE
_METRICS = {
    f"{kind}_{name}_ops": metric
    for kind in ("vector", "halfvec")
    for name, metric in (("l2", "l2"), ("cosine", "cosine"), ("ip", "ip"))
}
_TABLES = """
    SELECT n.nspname, c.relname, a.attname, a.atttypmod
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE t.typname IN ('vector', 'halfvec') AND c.relkind IN ('r', 'p', 'm') AND NOT a.attisdropped
"""
_PRIMARY = """
    SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
    WHERE i.indrelid = %s::regclass AND i.indisprimary
"""
_OPERATORS = """
    SELECT o.opcname FROM pg_index i
    CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indclass::oid[]) AS k(number, operators)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    JOIN pg_opclass o ON o.oid = k.operators
    WHERE i.indrelid = %s::regclass AND a.attname = %s
"""
#: A table and its partitions, and those of its partitions.
_PARTS = """
    WITH RECURSIVE parts(oid) AS (
        SELECT %s::regclass::oid UNION SELECT inhrelid FROM pg_inherits JOIN parts ON inhparent = parts.oid
    )
    SELECT oid FROM parts
"""


class PgvectorSource(Source):
    """A table: one column of vectors, one of ids, and the rest as payload."""

    def __init__(
        self, location: str, table: str | None, metric: str | None, vector_field: str | None, id_field: str | None
    ) -> None:
        """Connect, and find the table and its columns."""
        psycopg = need("psycopg", "pgvector", "reading a table of PostgreSQL")
        self._sql = need("psycopg.sql", "pgvector", "reading a table of PostgreSQL")
        self._error = psycopg.Error
        try:
            # One snapshot for the whole copy, in which nothing can be changed.
            self._connection = psycopg.connect(location, options="-c default_transaction_isolation=serializable")
            self._connection.read_only = True
            self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        except psycopg.Error as error:
            raise DownloadError(
                f"pgvector: expected a database that answers, got: {str(error).strip()[:300]}"
            ) from None
        try:
            self._find(table, metric, vector_field, id_field)
        except BaseException:
            self.close()
            raise

    def _find(self, table: str | None, metric: str | None, vector_field: str | None, id_field: str | None) -> None:
        found = self._rows(_TABLES)
        tables = {(name if schema == "public" else f"{schema}.{name}"): (schema, name) for schema, name, _, _ in found}
        self.name = choose(tables, table, "pgvector", "table")
        schema, name = tables[self.name]
        columns = {column: size for s, n, column, size in found if (s, n) == (schema, name)}
        self._vector = choose(columns, vector_field, self.name, "column of vectors")
        self._table = self._sql.Identifier(schema, name)
        self._regclass = self._table.as_string(self._connection)
        self.dim = int(columns[self._vector])
        if self.dim < 1:  # a column without a fixed dimension
            query = self._sql.SQL("SELECT vector_dims({}) FROM {} WHERE {} IS NOT NULL LIMIT 1")
            vector = self._sql.Identifier(self._vector)
            first = self._rows(query.format(vector, self._table, vector))
            if not first:
                raise FormatError(f"{self.name}: expected records with vectors, got none")
            self.dim = int(first[0][0])
        primary = [row[0] for row in self._rows(_PRIMARY, (self._regclass,))]
        if id_field is None and len(primary) != 1:
            raise ParameterError(
                f"{self.name}: expected a primary key of one column for the ids, got {', '.join(primary) or 'none'}; "
                "name the column of the ids"
            )
        self._id = id_field if id_field is not None else primary[0]
        operators = [row[0] for row in self._rows(_OPERATORS, (self._regclass, self._vector))]
        known = metric or next((_METRICS[name] for name in operators if name in _METRICS), None)
        self.metric = known or "l2"
        if known is None:
            self.remarks = (UNKNOWN_METRIC,)

    def _rows(self, query: Any, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(query, values)
                return list(cursor.fetchall())
        except self._error as error:
            raise FormatError(f"pgvector: expected a table that can be read, got: {str(error).strip()[:300]}") from None

    def count(self) -> int:
        """Rows with a vector."""
        query = self._sql.SQL("SELECT count({}) FROM {}").format(self._sql.Identifier(self._vector), self._table)
        return int(self._rows(query)[0][0])

    def batches(self, size: int) -> Iterator[Batch]:
        """Through a cursor of the server, so that only a batch is held here."""
        vector, id = self._sql.Identifier(self._vector), self._sql.Identifier(self._id)
        query = self._sql.SQL(
            "SELECT {id}, vector_send({vector}::vector), to_jsonb(t) - {names}::text[] FROM {table} t "
            "WHERE {vector} IS NOT NULL"
        ).format(id=id, vector=vector, table=self._table, names=self._sql.Literal([self._vector, self._id]))
        try:
            with self._connection.cursor(name="lethevec") as cursor:
                cursor.itersize = size
                cursor.execute(query)
                while rows := cursor.fetchmany(size):
                    yield self._batch(rows)
        except self._error as error:
            raise FormatError(f"{self.name}: expected rows that can be read, got: {str(error).strip()[:300]}") from None

    def _batch(self, rows: list[Any]) -> Batch:
        vectors = np.stack([np.frombuffer(raw, dtype=">f4", offset=4) for _, raw, _ in rows]).astype(np.float32)
        payloads = [{name: value for name, value in rest.items() if value is not None} or None for _, _, rest in rows]
        return Batch([as_id(row[0]) for row in rows], same_dim(vectors, self.dim, self.name), payloads)

    def residue(self) -> Residue:
        """Rows in the table's files beyond those that live, and what a vacuum has left of others."""
        beyond = "indexes, the write-ahead log, replicas and base backups may hold more"
        living = int(self._rows(self._sql.SQL("SELECT count(*) FROM {}").format(self._table))[0][0])
        parts = [int(row[0]) for row in self._rows(_PARTS, (self._regclass,))]
        query = "SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_all_tables WHERE relid = ANY(%s::oid[])"
        dead = int(self._rows(query, (parts,))[0][0])
        try:
            # The file is as of the last checkpoint: what PostgreSQL itself counts may be newer.
            there, unused = self._in_files(parts)
        except FormatError:
            self._connection.rollback()
            how = f"as PostgreSQL estimates; only its superusers may read its files; {beyond}"
            return self._said(dead, None, how)
        return self._said(max(dead, there - living), unused, beyond)

    def _said(self, rows: int, unused: int | None, more: str) -> Residue:
        words = [f"{rows:,} deleted or replaced rows are still there until VACUUM" if rows else "no dead rows"]
        if unused:
            words.append(
                f"{unused:,} bytes in unused parts of its pages, which VACUUM does not overwrite, may be of such rows"
            )
        places = {f"{self.name}, unused parts": unused} if unused else {}
        return Residue(rows, unused, f"{'; '.join(words)}; {more}", places)

    def _in_files(self, parts: list[int]) -> tuple[int, int]:
        """In all pages of these tables: line pointers with a tuple behind them, and bytes where nothing is."""
        [(segment,)] = self._rows("SELECT pg_size_bytes(current_setting('segment_size'))")
        rows = unused = 0
        for part in parts:
            query = "SELECT pg_relation_filepath(%s::oid::regclass), pg_relation_size(%s::oid::regclass)"
            [(path, size)] = self._rows(query, (part, part))
            for start in range(0, int(size) if path else 0, _BLOCK):
                place = _place(path, start, int(segment))
                [(raw,)] = self._rows("SELECT pg_read_binary_file(%s, %s, %s)", (*place, _BLOCK))
                for at in range(0, len(raw) - _PAGE + 1, _PAGE):
                    found, left = _page(raw[at : at + _PAGE])
                    rows, unused = rows + found, unused + left
        return rows, unused

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


def _place(path: str, start: int, segment: int) -> tuple[str, int]:
    """The file that has this byte of a table, and where in it: PostgreSQL goes on in PATH.1 after a gigabyte."""
    number, at = divmod(start, segment)
    return (f"{path}.{number}" if number else path), at


def _page(page: bytes) -> tuple[int, int]:
    """Normal line pointers of a page, and bytes that are not zero between the pointers and the tuples.

    A pointer has 15 bits of offset, 2 of state (1 is normal), 15 of length.
    """
    lower, upper = struct.unpack_from("<HH", page, 12)
    if not 24 <= lower <= upper <= len(page):
        return 0, 0
    pointers = np.frombuffer(page[24:lower], dtype="<u4")
    return int(((pointers >> 15 & 3) == 1).sum()), int(np.count_nonzero(np.frombuffer(page[lower:upper], np.uint8)))
