"""The table `records`: in the file, or in memory where records are sealed; and its indexes."""

from __future__ import annotations

from .ids import STRING_NUMBERS

__all__ = ["create_records", "record_indexes"]


def create_records(*, temporary: bool = False) -> str:
    """The statement that makes the table."""
    return (
        f"CREATE {'TEMP ' if temporary else ''}TABLE records "
        "(slot INTEGER PRIMARY KEY, number INTEGER NOT NULL, name TEXT, subject TEXT, payload TEXT, expires INTEGER)"
    )


def record_indexes(schema: str = "main") -> list[str]:
    """The statements that make its indexes.

    Together `records_number` below the numbers of strings, `records_large` and `records_name` give the order of ids.
    """
    return [
        f"CREATE UNIQUE INDEX IF NOT EXISTS {schema}.records_number ON records (number)",
        f"CREATE INDEX IF NOT EXISTS {schema}.records_large ON records (number) "
        f"WHERE name IS NULL AND number >= {STRING_NUMBERS}",
        f"CREATE INDEX IF NOT EXISTS {schema}.records_name ON records (name) WHERE name IS NOT NULL",
        f"CREATE INDEX IF NOT EXISTS {schema}.records_expires ON records (expires) WHERE expires IS NOT NULL",
        f"CREATE INDEX IF NOT EXISTS {schema}.records_subject ON records (subject) WHERE subject IS NOT NULL",
    ]
