"""What makes forgetting checkable: the digest of a set of records, receipts, their verification, the residue search.

| module | job |
|---|---|
| `records` | the one unambiguous byte encoding of a record and of a configuration |
| `multiset` | the digest: a multiset hash, so that it follows adds and forgets record by record |
| `keys` | signing and audit keys, their file, their rotation |
| `receipts` | the signed, chained statement that an erasure took place |
| `entries` | the kinds of entries of a chain, and the exact shape of each |
| `trusted` | keys, receipts and chains in whatever form an outsider has them |
| `anchors` | the newest hash of a chain, to be published |
| `verify` | what can be checked about receipts with the public key alone |
| `residue` | search of raw bytes for what should be gone |

Nothing here knows the store or the index; both use it.
"""
