"""Many collections in one folder: one key ring, one chain of receipts, erasures that go through all of them.

| module | job |
|---|---|
| `names` | what a collection may be called |
| `catalog` | the folder's own database: collections, receipts, what waits, holds and blocks |
| `requests` | an erasure of the folder: a part from each collection, one receipt |
| `ledger` | what a store asks of its ledger, for a store that is one of many |
| `making` | collections as open stores |
| `erasing` | a subject in all collections, a collection with all it holds, and what a crash has left |
| `rights` | legal holds and blocks |
| `access` | what is held of a person, and its export |
| `checking` | `verify` |
| `restoring` | backups, and what the chain says was erased since |
| `database` | `connect`, and the public calls |
"""

from .access import Access, Held
from .database import Database, connect, restore
from .rights import Hold

__all__ = ["Access", "Database", "Held", "Hold", "connect", "restore"]
