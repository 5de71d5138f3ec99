"""Every error that lethevec raises on purpose.

    LethevecError
    ├── InputError (also a ValueError)      an argument that cannot be used: what came, and what was expected
    │   ├── VectorError                     an array of vectors: type, shape, NaN, infinity, zero under cosine
    │   ├── ParameterError                  a setting outside its range
    │   └── IdError                         ids that are duplicated, of the wrong type, or already present
    │       └── UnknownIdError (also a KeyError)   ids that are not there
    ├── IsaError (also an ImportError)      LETHEVEC_ISA names instructions that this CPU or build does not have
    ├── FileError                           a file that cannot be read or written
    │   ├── FormatError                     it is not ours, is damaged, or is of a newer version
    │   ├── DownloadError                   it could not be fetched from the network
    │   ├── StoreLockedError                another process writes to this store
    │   ├── KeysError                       the key file of a store is missing, damaged, or belongs to another store
    │   └── IncompleteWriteError            it could not be written; what was there before is unharmed
    ├── ForkError                           an index or a store that this process has inherited and did not make
    ├── HoldError                           records that must be kept: somebody has set a legal hold on their subject
    ├── BlockedError                        a subject for whom nothing may be written
    ├── ErasureIncompleteError              the records are unfindable, but bytes of them are still in a file
    ├── ReceiptError (also a ValueError)    something that is not a receipt, or is not of a form this version knows
    ├── ServerError                         a server that cannot be reached, is too busy, or failed
    │   └── AccessError                     the key is unknown to the server, or may not do this
    ├── UnavailableError                    no member of a cluster's shard answers
    ├── MissingDependencyError (also an ImportError)   an optional package is not installed: which, and how to get it
    └── UnsupportedError                    the configuration has no such operation (reconstruct for simhash, ...)

A refused call leaves everything as it was.
"""

from __future__ import annotations

__all__ = [
    "AccessError",
    "BlockedError",
    "DownloadError",
    "ErasureIncompleteError",
    "FileError",
    "ForkError",
    "FormatError",
    "HoldError",
    "IdError",
    "IncompleteWriteError",
    "InputError",
    "IsaError",
    "KeysError",
    "LethevecError",
    "MissingDependencyError",
    "ParameterError",
    "ReceiptError",
    "ServerError",
    "StoreLockedError",
    "UnavailableError",
    "UnknownIdError",
    "UnsupportedError",
    "VectorError",
]


class LethevecError(Exception):
    """The root: `except LethevecError` catches all of them, and nothing else."""


class InputError(LethevecError, ValueError):
    """An argument that cannot be used."""


class VectorError(InputError):
    """An array that is not a set of vectors of the expected dimension, or holds values that cannot be searched."""


class ParameterError(InputError):
    """A setting outside its range."""


class IdError(InputError):
    """Ids that are duplicated, of the wrong type, or already present."""


class UnknownIdError(IdError, KeyError):
    """Ids that are not there."""

    # KeyError prints the repr of its argument; people should read the message.
    __str__ = Exception.__str__


class IsaError(LethevecError, ImportError):
    """Instructions were asked for that this CPU or build does not have."""


class FileError(LethevecError):
    """A file that cannot be read or written."""


class FormatError(FileError):
    """A file that is not ours, is damaged, or is of a newer version."""


class DownloadError(FileError):
    """A file that could not be fetched from the network. What was there before is unharmed."""


class IncompleteWriteError(FileError):
    """A file that could not be written. What was there before is unharmed."""


class MissingDependencyError(LethevecError, ImportError):
    """An optional package is needed and not installed."""


class UnsupportedError(LethevecError):
    """The configuration has no such operation."""


class StoreLockedError(FileError):
    """Another process, or another object of this one, writes to this store."""


class KeysError(FileError):
    """The key file of a store is missing, damaged, or belongs to another store."""


class ForkError(LethevecError):
    """An index or a store that was made by the process from which this one was forked.

    Its locks, and the state of its database, are those of the other process. Open the store again in this one.
    """


class HoldError(LethevecError):
    """Records that must be kept, because there is a legal hold on their subject. `hold` is its id."""

    def __init__(self, message: str, hold: str = "") -> None:
        """Keep the id of the hold beside the message."""
        super().__init__(message)
        self.hold = hold


class BlockedError(LethevecError):
    """A subject for whom nothing may be written until the block is lifted."""


class ErasureIncompleteError(LethevecError):
    """The records are gone from every answer, but bytes of them are still in a file.

    The erasure is recorded and completes by itself: at the next call, at the next open, or when `complete_erasures` is
    called. No receipt exists until then. `pending` counts the erasures that wait; in a cluster, `members` are those
    that have not erased yet, and `number` is that of the erasure.
    """

    def __init__(self, message: str, pending: int = 1, *, members: tuple[str, ...] = (), number: int = 0) -> None:
        """Keep the number of waiting erasures beside the message."""
        super().__init__(message)
        self.pending = pending
        self.members = members
        self.number = number


class ReceiptError(LethevecError, ValueError):
    """Something that is not a receipt, or is not of a form that this version knows."""


class ServerError(LethevecError):
    """A server that cannot be reached, is too busy, or failed. `status` is that of its answer, 0 if there was none."""

    def __init__(self, message: str, status: int = 0) -> None:
        """Keep the status beside the message."""
        super().__init__(message)
        self.status = status


class AccessError(ServerError):
    """The key is unknown to the server, or may not do this."""


class UnavailableError(LethevecError):
    """No member of a cluster's shard answers in time. Whether a write was carried out is not known; asked again, it is
    carried out once.
    """
