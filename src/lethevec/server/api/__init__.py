"""The operations of `/v1`, by what they are about."""

from ..calls import Operation
from . import access, collections, erasure, operation, overview, proof, records, searching

__all__ = ["OPERATIONS"]

#: In the order of the documents. Searching comes first among the routes: it is called most.
OPERATIONS: tuple[Operation, ...] = (
    *searching.OPERATIONS,
    *records.OPERATIONS,
    *collections.OPERATIONS,
    *overview.OPERATIONS,
    *erasure.OPERATIONS,
    *proof.OPERATIONS,
    *access.OPERATIONS,
    *operation.OPERATIONS,
)
