"""The durable store: SQLite underneath, erasure that can be proved. The only place that imports sqlite3.

Read in this order: `schema` (the tables), `session` (files, lock, transactions), `tables` (records in the clear),
`sealed` and `vault` (records under keys), `codes` (those that are dear to make), `collection` (the operations),
`checkpoint` and `pages` (how bytes really go), `erasing` and `ledger` (receipts), `mirror` (the index in memory),
`checking` (verify), `backups`; `diagnosis` says whether this machine's SQLite will do.
"""

from .collection import Store, open
from .diagnosis import SqliteFacts, sqlite_facts
from .hits import Hit, Hits
from .rows import Record
from .writing import KEEP

__all__ = ["KEEP", "Hit", "Hits", "Record", "SqliteFacts", "Store", "open", "sqlite_facts"]
