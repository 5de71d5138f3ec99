"""Buckets: which of 1,024 parts of the ids a record belongs to, and which shard each part belongs to.

The hash is keyed with bytes that the cluster drew when it was made, so nobody can choose ids that all fall into one
shard. It depends on the id alone: a record stays in its bucket for ever, and only buckets move between shards.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

__all__ = ["BUCKETS", "assign", "bucket_of", "moves"]

BUCKETS = 1024
_PERSON = b"lethevec-bucket1"


def bucket_of(id: int | str, key: bytes) -> int:
    """The bucket of an id; the int 7 and the string "7" are two ids.

    >>> bucket_of(7, bytes(32)), bucket_of("7", bytes(32))
    (621, 13)
    """
    content = b"s" + id.encode() if isinstance(id, str) else b"i%d" % id
    return int.from_bytes(hashlib.blake2b(content, digest_size=4, key=key, person=_PERSON).digest(), "big") % BUCKETS


def assign(current: Sequence[int], shards: Sequence[int]) -> list[int]:
    """The shard of each bucket, spread evenly over these shards with as few moves as that takes.

    >>> made = assign([], [0, 1, 2])
    >>> sorted(Counter(made).values())
    [341, 341, 342]
    >>> len(moves(made, assign(made, [0, 1, 2, 3])))
    256
    """
    wanted = sorted(set(shards))
    given = list(current) or [wanted[0]] * BUCKETS
    counts = Counter(dict.fromkeys(wanted, 0))
    counts.update(shard for shard in given if shard in counts)
    least, more = divmod(BUCKETS, len(wanted))
    # The fullest shards keep one bucket more: that is what the remainder is for.
    order = sorted(wanted, key=lambda shard: (-counts[shard], shard))
    room = {shard: least + (place < more) for place, shard in enumerate(order)}
    made: list[int] = [-1] * BUCKETS
    for bucket, shard in enumerate(given):
        if room.get(shard, 0) > 0:
            made[bucket] = shard
            room[shard] -= 1
    free = [shard for shard in wanted for _ in range(room[shard])]
    for bucket, shard in enumerate(made):
        if shard < 0:
            made[bucket] = free.pop()
    return made


def moves(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """The buckets that have another shard."""
    return [bucket for bucket, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
