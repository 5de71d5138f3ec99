"""pgvector: a table of PostgreSQL. Where the server lets us read its files, deleted rows are counted in them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._extras import need
from ..errors import DownloadError, FormatError, ParameterError
from ._source import Batch, Residue, Source, as_id, choose, same_dim

__all__ = ["PgvectorSource"]

_PAGE = 8192
_BLOCK = 128 * _PAGE
_METRICS = {"vector_l2_ops": "l2", "vector_cosine_ops": "cosine", "vector_ip_ops": "ip"}
_TABLES = """
    SELECT n.nspname, c.relname, a.attname, a.atttypmod
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE t.typname = 'vector' AND c.relkind IN ('r', 'p', 'm') AND NOT a.attisdropped
"""
_PRIMARY = """
    SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
    WHERE i.indrelid = %s::regclass AND i.indisprimary
"""
_OPERATORS = """
    SELECT o.opcname FROM pg_index i JOIN pg_opclass o ON o.oid = ANY(i.indclass) WHERE i.indrelid = %s::regclass
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
        operators = [row[0] for row in self._rows(_OPERATORS, (self._regclass,))]
        self.metric = metric or next((_METRICS[name] for name in operators if name in _METRICS), "l2")

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
            "SELECT {id}, vector_send({vector}), to_jsonb(t) - {names}::text[] FROM {table} t "
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
        """Rows in the table's file beyond those that live: PostgreSQL keeps them until a vacuum."""
        beyond = "the write-ahead log, replicas and base backups may hold more"
        living = int(self._rows(self._sql.SQL("SELECT count(*) FROM {}").format(self._table))[0][0])
        query = "SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = %s::regclass"
        dead = int(self._rows(query, (self._regclass,))[0][0])
        try:
            # The file is as of the last checkpoint: what PostgreSQL itself counts may be newer.
            seen, how = max(dead, self._rows_in_file() - living), "counted in the table's file and by PostgreSQL"
        except FormatError:
            self._connection.rollback()
            seen, how = dead, "as PostgreSQL estimates; only its superusers may read its files"
        words = f"{seen:,} deleted or replaced rows are still there until VACUUM" if seen else "no dead rows"
        return Residue(seen, None, f"{words} ({how}); {beyond}", {self.name: seen} if seen else {})

    def _rows_in_file(self) -> int:
        """Line pointers with a tuple behind them, in all pages of the table."""
        [(path, size)] = self._rows(
            "SELECT pg_relation_filepath(%s::regclass), pg_relation_size(%s::regclass)", (self._regclass,) * 2
        )
        count = 0
        for start in range(0, int(size), _BLOCK):
            [(raw,)] = self._rows("SELECT pg_read_binary_file(%s, %s, %s)", (path, start, _BLOCK))
            for at in range(0, len(raw) - _PAGE + 1, _PAGE):
                count += _tuples(raw[at : at + _PAGE])
        return count

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


def _tuples(page: bytes) -> int:
    """Normal line pointers of a page: 15 bits of offset, 2 of state (1 is normal), 15 of length."""
    lower = struct.unpack_from("<H", page, 12)[0]
    if not 24 <= lower <= len(page):
        return 0
    pointers = np.frombuffer(page[24:lower], dtype="<u4")
    return int(((pointers >> 15 & 3) == 1).sum())
