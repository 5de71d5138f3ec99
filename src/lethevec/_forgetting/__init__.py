"""What makes forgetting checkable: the digest of a set of records, receipts, their verification, the residue search.

| module | job |
|---|---|
| `records` | the one unambiguous byte encoding of a record and of a configuration |
| `multiset` | the digest: a multiset hash, so that it follows adds and forgets record by record |
| `keys` | signing and audit keys, their file, their rotation |
| `receipts` | the signed, chained statement that an erasure took place |
| `verify` | what can be checked about receipts with the public key alone |
| `residue` | search of raw bytes for what should be gone |

Nothing here knows the store or the index; both use it.
"""
