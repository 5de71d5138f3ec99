"""The durable store: SQLite underneath, erasure that can be proved. The only place that imports sqlite3.

Read in this order: `store` (the public calls), `opening`, `schema` (the tables), `session` (files, transactions),
`tables` with `plain` and `sealed` (records), `changes`, `mirror` (the index in memory), `codes` (those that are slow to
make), `selecting`, `reading` and `searching`, `forgetting`, `erasing`, `checkpoint` and `pages` (how bytes really go),
`ledger` (receipts), `checking` (verify), `backups`; `diagnosis` says whether this machine's SQLite will do.
"""

from .diagnosis import SqliteFacts, sqlite_facts
from .forgetting import Preview
from .store import Store, open

__all__ = ["Preview", "SqliteFacts", "Store", "open", "sqlite_facts"]
