"""A collection of a cluster: the calls of a store, each asked of all shards or split over them."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from .._forgetting.elsewhere import read_elsewhere
from .._forgetting.multiset import MultisetHash
from .._forgetting.records import canonical_json
from .._hits import Hits, Work
from .._record import KEEP, Keep, Record
from .._shown import shown
from .._store import exporting
from .._store.batch import Batch, check_payloads, check_subjects, make_batch
from .._store.forgetting import Preview
from .._store.ids import Id, check_id, check_ids, check_text, number_of, order_of
from .._store.importing import check_batch, read_source
from .._store.retention import check_expires
from .._store.survey import Survey, due_of, smallest, step_for
from ..errors import (
    IdError,
    InputError,
    ParameterError,
    UnavailableError,
    UnknownIdError,
    UnsupportedError,
    VectorError,
)
from . import erasing, rights
from .arguments import whole
from .driver import Driver
from .epoch import CollectionEntry, Epoch
from .lines import LONGEST
from .messages import Array, Message
from .receipts import ClusterEntry, ClusterReceipt
from .records import Answers, pack_batch, unpack_records

if TYPE_CHECKING:
    from .database import ClusterDatabase

__all__ = ["ClusterCollection"]

_PART = 20_000  # records that one message of a write has at most
_PAGE = 1000
_MOST = 1 << 62
_INLINE = LONGEST // 2  # bytes of queries or answers in one message, so that it goes over a line
_SHORT = 3.0  # seconds that a look before an erasure may take


class ClusterCollection:
    """A collection of a cluster, with the calls of `lethevec.Store`. Made by `ClusterDatabase.collection`."""

    def __init__(self, database: ClusterDatabase, driver: Driver, entry: CollectionEntry) -> None:
        """Of an open cluster."""
        self._database = database
        self._driver = driver
        self._id = entry.id
        self._known = entry

    # --- What it is --------------------------------------------------------------------------------------------------

    @property
    def _entry(self) -> CollectionEntry:
        """As the epoch has it now."""
        found = self._driver.epoch.collections.get(self._id)
        if found is None:
            raise UnknownIdError(f"name: expected one of the collections, got {self._known.name!r}, which was dropped")
        return found

    @property
    def name(self) -> str:
        """What it is called."""
        return self._entry.name

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return self._entry.dim

    @property
    def metric(self) -> str:
        """The metric: "cosine", "l2" or "ip"."""
        return self._entry.metric or "cosine"

    @property
    def read_only(self) -> bool:
        """Whether this is a reader."""
        return self._driver.read_only

    @property
    def encrypted(self) -> bool:
        """Whether its records are sealed in the members' files."""
        return bool(self._entry.encrypt)

    @property
    def closed(self) -> bool:
        """Whether the cluster was closed, or the collection dropped."""
        return self._driver.closed or self._id not in self._driver.epoch.collections

    @property
    def retention(self) -> timedelta | None:
        """How long records are kept unless they say otherwise; None: for ever."""
        return None if self._entry.expires is None else timedelta(seconds=self._entry.expires)

    def __repr__(self) -> str:
        """Which, and which kind."""
        return f"<ClusterCollection {self._known.name!r}: dim={self._known.dim}, metric={self.metric!r}>"

    def __len__(self) -> int:
        """The number of records."""
        return self.count()

    def digest(self) -> str:
        """The digest of configuration and records: that of one store with the same records."""
        total: MultisetHash | None = None
        for answer in self._ask("sums", {}).values():
            configuration = answer.head["configuration"].encode()
            one = MultisetHash.from_bytes(configuration, bytes.fromhex(answer.head["sum"]))
            if total is None:
                total = one
            else:
                total.merge(one)
        assert total is not None
        return total.digest()

    def stats(self) -> dict[str, int | float]:
        """Counts and bytes by part, added up over one member of each shard (see `Store.stats`)."""
        total: dict[str, int | float] = {}
        for answer in self._ask("stats", {}).values():
            for name, value in answer.head["stats"].items():
                if isinstance(value, int | float):
                    total[name] = total.get(name, 0) + value
        return total

    # --- Asking ------------------------------------------------------------------------------------------------------

    def _ask(self, op: str, head: Mapping[str, Any], arrays: Sequence[Array] = ()) -> dict[int, Message]:
        return self._driver.ask(op, {**head, "collection": self._entry.id}, arrays)

    def _ask_for(self, op: str, ids: Sequence[Id]) -> list[tuple[list[Id], Message]]:
        """Ask the shards that these ids belong to; with each answer, the ids that it is about."""
        asked: dict[int, dict[str, Any]] = {}

        def split(epoch: Epoch) -> dict[int, dict[str, Any]]:
            asked.clear()
            for id in ids:
                asked.setdefault(self._driver.shard_of(id, epoch), {"ids": []})["ids"].append(id)
            return asked

        answers = self._driver.ask(op, {"collection": self._entry.id}, by_shard=split)
        return [(asked[shard]["ids"], answer) for shard, answer in answers.items()]

    def __contains__(self, id: object) -> bool:
        """Whether there is a record with this id."""
        try:
            ids, _ = check_ids([id])
        except IdError:
            return False
        return not self._missing(ids)

    def _missing(self, ids: Sequence[Id]) -> list[Id]:
        there: set[Id] = set()
        for asked, answer in self._ask_for("contains", ids):
            there.update(id for id, found in zip(asked, answer.head["there"], strict=True) if found)
        return [id for id in ids if id not in there]

    def __iter__(self) -> Iterator[Record]:
        """Every record in the order of ids, read in parts."""
        after: Id | None = None
        while part := self.get(limit=_PAGE, after=after):
            yield from part
            after = part[-1].id

    def count(self, where: Mapping[str, Any] | None = None, *, subject: str | None = None) -> int:
        """The number of records, or of those of a subject and those that `where` allows."""
        answers = self._ask("count", _selection(where, subject))
        return sum(int(answer.head["count"]) for answer in answers.values())

    def may_have(self, subject: str) -> bool:
        """Whether there are records of a subject, or may be: a shard that does not answer keeps no erasure waiting."""
        try:
            answers = self._driver.ask(
                "count", {**_selection(None, subject), "collection": self._entry.id}, timeout=_SHORT
            )
        except UnavailableError:
            return True
        return any(answer.head["count"] for answer in answers.values())

    def ids(self, where: Mapping[str, Any] | None = None, *, subject: str | None = None) -> list[Id]:
        """All ids, or those that `where` and `subject` allow, in their order."""
        answers = self._ask("ids", _selection(where, subject))
        found: list[Id] = [id for answer in answers.values() for id in answer.head["ids"]]
        return sorted(found, key=order_of)

    def subjects(self, *, prefix: str = "", after: str | None = None, limit: int | None = None) -> dict[str, int]:
        """Every subject with the number of its records, by code point, or a page of them (see `Store.subjects`)."""
        head = {
            "prefix": check_text(prefix, "prefix") if prefix != "" else "",
            "after": None if after is None else check_text(after, "after"),
            "limit": None if limit is None else whole("limit", limit, _MOST),
        }
        found: dict[str, int] = {}
        for answer in self._ask("subjects", head).values():
            for subject, count in answer.head["subjects"].items():
                found[subject] = found.get(subject, 0) + count
        return dict(sorted(found.items())[:limit])

    def sample(
        self,
        count: int = 1000,
        *,
        where: Mapping[str, Any] | None = None,
        subject: str | None = None,
        seed: int = 0,
    ) -> list[Record]:
        """Up to `count` records picked by a hash of their ids: the sample that one store gives (see `Store.sample`)."""
        most = whole("count", count, _MOST)
        head = {**_selection(where, subject), "count": most, "seed": whole("seed", seed, (1 << 63) - 1)}
        found = [record for answer in self._ask("sample", head).values() for record in unpack_records(answer)]
        numbers = np.array([number_of(record.id) for record in found], dtype=np.int64)
        chosen = [found[place] for place in smallest(numbers, most, seed).tolist()]
        return sorted(chosen, key=lambda record: order_of(record.id))

    def survey(self) -> Survey:
        """Counts without records, over all shards (see `Store.survey`)."""
        answers = [answer.head for answer in self._ask("survey", {}).values()]
        last = max((answer["last"] for answer in answers if answer["last"] is not None), default=None)
        due: Counter[int] = Counter()
        if last is not None:
            step = step_for(last, int(time.time() * 1000))
            for answer in answers:
                due.update(dict(dict(answer["parts"]).get(step, [])))

        def total(name: str) -> int:
            return sum(answer["counts"][name] for answer in answers)

        return Survey(
            records=total("records"),
            subjects=len(self.subjects()),
            without_subject=total("without_subject"),
            without_vector=total("without_vector"),
            without_expiry=total("without_expiry"),
            expired=total("expired"),
            due=() if last is None else due_of(step, sorted(due.items())),
        )

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        where: Mapping[str, Any] | None = None,
        subject: str | None = None,
    ) -> int:
        """Write records to a file on this machine (see `Store.export`); how many. It is a copy: what is forgotten later
        stays in it."""
        target = Path(path)
        return exporting.write_records(target, target.suffix.lower(), self, where, subject)

    def to_arrow(self, *, where: Mapping[str, Any] | None = None, subject: str | None = None) -> Any:
        """The records as an Arrow table (see `Store.to_arrow`)."""
        return exporting.arrow_table(self, where, subject)

    def get(
        self,
        ids: Any = None,
        *,
        where: Mapping[str, Any] | None = None,
        subject: str | None = None,
        limit: int | None = None,
        after: Id | None = None,
    ) -> list[Record]:
        """Records by their ids, in the order asked for; or those that `where` and `subject` allow, ascending by id."""
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
            raise ParameterError(f"limit: expected a whole number from 0, got {shown(limit, 80)}")
        if ids is None:
            begin = None if after is None else check_id(after, "after")
            head = {**_selection(where, subject), "limit": limit, "after": begin}
            found = [record for answer in self._ask("page", head).values() for record in unpack_records(answer)]
            return sorted(found, key=lambda record: order_of(record.id))[:limit]
        if where is not None or subject is not None or limit is not None or after is not None:
            raise ParameterError("get: expected ids alone, or where, subject, limit and after, got both")
        wanted, _ = check_ids(ids)
        if not wanted:
            return []
        answers = self._ask_for("get", wanted)
        records = {record.id: record for _, answer in answers for record in unpack_records(answer)}
        _require(wanted, [id for id in wanted if id not in records])
        return [records[id] for id in wanted]

    def held_count(self, subject: str) -> int:
        """How many records of a subject there are, with those that have expired and are still in the files."""
        answers = self._ask("held-count", {"subject": check_text(subject, "subject")})
        return sum(int(answer.head["count"]) for answer in answers.values())

    def held_of(self, subject: str) -> list[Record]:
        """Every record of a subject in the order of ids, with those that have expired and are still in the files."""
        answers = self._ask("held", {"subject": check_text(subject, "subject")})
        found = [record for answer in answers.values() for record in unpack_records(answer)]
        return sorted(found, key=lambda record: order_of(record.id))

    # --- Search ------------------------------------------------------------------------------------------------------

    def search(
        self,
        queries: npt.ArrayLike,
        k: int = 10,
        *,
        where: Mapping[str, Any] | None = None,
        subject: str | None = None,
        radius: float | None = None,
        effort: float = 1.0,
        threads: int | None = 1,
    ) -> Hits:
        """The k nearest records to each query, among those that `subject` and `where` allow, over all shards.

        `threads` is how many each member takes for the queries of one message (None: all of its cores).
        """
        asked = _queries(queries)
        head = {**_selection(where, subject), "k": _plain(k), "radius": _plain(radius), "threads": _plain(threads)}
        head["effort"] = None if effort == float("inf") else _plain(effort)
        head["collection"] = self._entry.id
        parts = _in_parts(asked, head["k"])
        found = self._driver.ask_in_parts("search", head, [[part] for part in parts])
        made = []
        for place, part in enumerate(parts):
            answers = [Answers(each[place]) for each in found.values()]
            made.append(merged(answers, len(part), max(answer.columns for answer in answers)))
        return made[0] if len(made) == 1 else joined(made)

    def search_radius(
        self,
        queries: npt.ArrayLike,
        radius: float,
        *,
        where: Mapping[str, Any] | None = None,
        subject: str | None = None,
    ) -> Hits:
        """All records within `radius` of each query, among those that `where` and `subject` allow."""
        asked = _queries(queries)
        head = {**_selection(where, subject), "radius": _plain(radius)}
        answers = [Answers(answer) for answer in self._ask("radius", head, [asked]).values()]
        return merged(answers, len(asked), None)

    # --- Changing records --------------------------------------------------------------------------------------------

    def add(
        self,
        vectors: npt.ArrayLike | None,
        ids: Any,
        *,
        subjects: Any = None,
        payloads: Any = None,
        expires: Any = KEEP,
    ) -> None:
        """Add records (see `Store.add`). Ids that are there already are refused, and then nothing is added."""
        batch = self._batch(vectors, ids, subjects, payloads, expires)
        self._driver.require_writer()
        with self._driver.writing(self._driver.epoch.shards()):
            rights.may_write(self._driver, batch.subjects)
            missing = set(self._missing(batch.ids)) if batch.ids else set()
            present = [id for id in batch.ids if id not in missing]
            if present:
                raise IdError(f"ids: expected new ones, got {present[0]!r:.80}, which is there already")
            self._write("add", batch)

    def upsert(
        self,
        vectors: npt.ArrayLike | None,
        ids: Any,
        *,
        subjects: Any = None,
        payloads: Any = None,
        expires: Any = KEEP,
        erase_old: bool = False,
        timeout: float | None = None,
    ) -> ClusterReceipt | None:
        """Add records, or put them in the place of those with the same ids (see `Store.upsert`)."""
        batch = self._batch(vectors, ids, subjects, payloads, expires)
        self._driver.require_writer()
        if not erase_old:
            with self._driver.writing(self._driver.epoch.shards()):
                self._may_replace(batch)
                self._write("upsert", batch)
            return None
        with self._driver.writing(self._driver.epoch.shards()):
            self._may_replace(batch)
            parts = {
                shard: batch_message(batch, places) for shard, places in self._split(batch.ids, every=True).items()
            }
            return self._rectify("upsert", batch.ids, parts, timeout)

    def update(
        self,
        vectors: Any = KEEP,
        ids: Any = None,
        *,
        subjects: Any = KEEP,
        payloads: Any = KEEP,
        expires: Any = KEEP,
        merge: bool = False,
        erase_old: bool = False,
        timeout: float | None = None,
    ) -> ClusterReceipt | None:
        """Replace parts of records (see `Store.update`). Unknown ids are refused, and then nothing is changed."""
        if ids is None:
            raise IdError("ids: expected the ids of the records to update, got none")
        if not isinstance(merge, bool):
            raise ParameterError(f"merge: expected True or False, got {shown(merge, 80)}")
        names, _ = check_ids(ids)
        n = len(names)
        given = None if isinstance(vectors, Keep) else vectors
        keep = self._entry.keep_vectors
        whole = make_batch(self.dim, self.metric, given, names, None, None, keep_vectors=keep)
        batch = Batch(
            names,
            whole.numbers,
            whole.vectors,
            whole.placed,
            [None] * n if isinstance(subjects, Keep) else check_subjects(subjects, n),
            [None] * n if isinstance(payloads, Keep) else check_payloads(payloads, n),
            [None] * n if isinstance(expires, Keep) else check_expires(expires, n, int(time.time() * 1000)),
        )
        parts = {"vectors": vectors, "subjects": subjects, "payloads": payloads, "expires": expires}
        about = {"given": [name for name, value in parts.items() if not isinstance(value, Keep)], "merge": merge}
        self._driver.require_writer()
        with self._driver.writing(self._driver.epoch.shards()):
            _require(names, self._missing(names) if names else [])
            self._may_replace(batch)
            if not erase_old:
                self._write("update", batch, about)
                return None
            split = self._split(names, every=True).items()
            return self._rectify("update", names, {s: batch_message(batch, p, about) for s, p in split}, timeout)

    def load(self, source: Any, *, key: str | None = None, total: int | None = None) -> int:
        """Add many records from a file, a table, a frame or batches (see `Store.load`), batch by batch, not as one
        transaction; the number of records. `ClusterDatabase.load_files` is for very many."""
        given, _ = read_source(source, key, time.time)
        count = 0
        for one in given:
            batch = check_batch(one)
            self.add(**batch)
            count += len(check_ids(batch["ids"])[0])
        return count

    def _may_replace(self, batch: Batch) -> None:
        """Refuse what a block or a legal hold forbids, before anything changes. The caller holds the turns."""
        rights.may_write(self._driver, batch.subjects)
        rights.may_change(self._driver, self._id, batch.ids)

    def _batch(self, vectors: Any, ids: Any, subjects: Any, payloads: Any, expires: Any) -> Batch:
        given = self.retention if isinstance(expires, Keep) else expires
        times: Callable[[int], list[int | None]] = lambda n: check_expires(given, n, int(time.time() * 1000))  # noqa: E731
        keep = self._entry.keep_vectors
        return make_batch(self.dim, self.metric, vectors, ids, subjects, payloads, times, keep_vectors=keep)

    def _split(self, ids: Sequence[Id], *, every: bool = False) -> dict[int, list[int]]:
        """The places of ids, by shard; with `every`, also shards that have none."""
        by_shard: dict[int, list[int]] = {shard: [] for shard in self._driver.epoch.shards()} if every else {}
        for place, id in enumerate(ids):
            by_shard.setdefault(self._driver.shard_of(id), []).append(place)
        return by_shard

    def _write(self, op: str, batch: Batch, about: Mapping[str, Any] | None = None) -> None:
        """The caller holds the turns."""
        split = self._split(batch.ids)
        for begin in range(0, max(map(len, split.values()), default=0), _PART):
            parts = {
                shard: batch_message(batch, places[begin : begin + _PART], about)
                for shard, places in split.items()
                if places[begin : begin + _PART]
            }
            for part in parts.values():
                part.head["collection"] = self._entry.id
            self._driver.write(op, parts)

    def _rectify(
        self, action: str, ids: Sequence[Id], parts: Mapping[int, Message], timeout: float | None
    ) -> ClusterReceipt:
        for part in parts.values():
            part.head.update({"collection": self._entry.id, "action": action, "timeout": timeout})
        tags = self._tags(ids)
        return erasing.erase(
            self._driver, "rectification", self._asked("update", tags), self._wanted(tags), parts, timeout
        )

    # --- Forgetting --------------------------------------------------------------------------------------------------

    def forget(
        self,
        ids: Any = None,
        *,
        subject: str | None = None,
        where: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        ignore_unknown: bool = False,
        search_all: bool = False,
        elsewhere: Mapping[str, int | None] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Forget records (see `Store.forget`), in every member; the combined receipt, or a `Preview` with `dry_run`.

        `ErasureIncompleteError` names the members that have not erased yet. The records are in no answer from then on.
        """
        if ids is not None and (subject is not None or where is not None):
            raise ParameterError("forget: expected either ids or subject and where, got both")
        if ids is None and subject is None and where is None:
            raise ParameterError("forget: expected ids, subject or where, got neither")
        if subject is not None:
            check_text(subject, "subject")
        places = read_elsewhere(elsewhere)
        self._driver.require_writer()
        with self._driver.writing(self._driver.epoch.shards()):
            if ids is not None:
                wanted, _ = check_ids(ids)
                missing = self._missing(wanted) if wanted and not (ignore_unknown and not dry_run) else []
                if not ignore_unknown:
                    _require(wanted, missing)
                by, found = "ids", wanted
            else:
                by = "subject" if where is None else "where"
                found = self.ids(where, subject=subject) if by == "where" or dry_run else []
                if subject is not None and by == "subject" and not ignore_unknown and not self.may_have(subject):
                    raise UnknownIdError(f"subject: expected one that has records, got {subject!r:.80}, which has none")
                missing = []
            if dry_run:
                there = [id for id in found if id not in set(missing)]
                return Preview(len(there), there, missing)
            if by == "subject":
                assert subject is not None
                rights.may_forget(self._driver, subject)
                tag = self._driver.audit.tag_subject(subject)
                asked = {**self._asked(by, []), "subject": tag}
                about = {**self._wanted([]), "subject": tag}
                head: dict[str, Any] = {"action": "subject", "subject": subject}
            else:
                rights.may_change(self._driver, self._id, found)
                tags = self._tags(found)
                asked, about = self._asked(by, tags), self._wanted(tags)
                if where is not None:
                    asked["where"] = self._driver.audit.tag("where", canonical_json(dict(where)).encode())
                head = {"action": "ids", "ids": found}
            if places:
                asked["elsewhere"] = places
            head.update({"collection": self._entry.id, "search_all": search_all, "timeout": timeout})
            return erasing.erase(self._driver, "erasure", asked, about, Message(head, []), timeout)

    def _tags(self, ids: Sequence[Id]) -> list[str]:
        return sorted(self._driver.audit.tag_id(id) for id in ids)

    def _asked(self, by: str, tags: list[str]) -> dict[str, Any]:
        return {"by": by, "subject": None, "collection": self._entry.id, "ids": tags}

    def _wanted(self, tags: list[str]) -> dict[str, Any]:
        return {"collection": self._entry.id, "ids": tags, "subject": None}

    def expired(self) -> int:
        """How many records have expired and are still in the files."""
        return sum(int(answer.head["count"]) for answer in self._ask("expired", {}).values())

    def expire(self, *, timeout: float | None = None) -> ClusterReceipt | None:
        """Erase the records of the cluster whose time has come (see `ClusterDatabase.expire`)."""
        return self._database.expire(timeout=timeout)

    # --- Erasures and receipts ---------------------------------------------------------------------------------------

    def complete_erasures(self, *, timeout: float | None = None) -> list[ClusterReceipt]:
        """See `ClusterDatabase.complete_erasures`."""
        return self._database.complete_erasures(timeout=timeout)

    def pending_erasures(self) -> int:
        """How many erasures wait for a member."""
        return self._database.pending_erasures()

    def receipts(self, *, all_kinds: bool = False) -> list[ClusterReceipt | ClusterEntry]:
        """The combined receipts that are about this collection, oldest first; with `all_kinds` all of the chain."""
        if all_kinds:
            return self._database.receipts(all_kinds=True)
        found = erasing.receipts(self._driver)
        return [one for one in found if one["asked"].get("collection") in (None, self._id)]

    def public_key(self) -> bytes:
        """The public key that combined receipts are signed with."""
        return self._driver.public_key

    def verify(self, receipt: Any, **about: Any) -> Any:
        """Check a combined receipt against the cluster as it is now (see `ClusterDatabase.verify`)."""
        return self._database.verify(receipt, **about)

    def close(self) -> None:
        """Nothing: the cluster is closed as a whole."""

    def __enter__(self) -> ClusterCollection:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing: the cluster is closed as a whole."""

    def transaction(self) -> NoReturn:
        """Refused: a change of several shards is no transaction."""
        raise UnsupportedError("transaction: expected a single store, got a collection of a cluster, which has none")

    def tune(self, *args: Any, **options: Any) -> NoReturn:
        """Refused: effort is found on a single store with the same settings."""
        raise UnsupportedError("tune: expected a single store, got a collection of a cluster; tune one of its shards")

    def backup(self, *args: Any, **options: Any) -> NoReturn:
        """Refused: replicas are the copies of a cluster; `export` writes records to a file."""
        raise UnsupportedError(
            "backup: expected a single store, got a collection of a cluster; replicas are its copies; see export()"
        )

    def rotate_keys(self, *args: Any, **options: Any) -> NoReturn:
        """Refused: the keys of a cluster are the registry's, and stay."""
        raise UnsupportedError("rotate_keys: expected a single store, got a collection of a cluster, whose keys stay")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refused: connect again in the other process."""
        raise UnsupportedError(
            "a collection of a cluster cannot be copied or pickled: connect again where it is needed"
        )


def merged(answers: Sequence[Answers], queries: int, k: int | None) -> Hits:
    """The answers of all shards as one: by distance, then by number, as a single store has them.

    They are of one epoch, in which an id belongs to one shard, so no record is among them twice.
    """
    distances = np.concatenate([one.distances for one in answers], axis=1)
    numbers = np.concatenate([one.numbers for one in answers], axis=1)
    order = np.lexsort((numbers, distances), axis=1)[:, :k]
    columns = order.shape[1] if k is None else k
    if k is None:  # as many as the query has that has most
        columns = int(np.isfinite(distances).sum(axis=1).max(initial=0))
        order = order[:, :columns]

    def put(parts: Sequence[npt.NDArray[Any] | None], like: Sequence[npt.NDArray[Any]], missing: Any) -> Any:
        made = np.full((queries, columns), missing, dtype=object)
        if any(part is not None for part in parts):
            whole = [
                np.full(one.shape, missing, dtype=object) if p is None else p
                for p, one in zip(parts, like, strict=True)
            ]
            made[:, : order.shape[1]] = np.take_along_axis(np.concatenate(whole, axis=1), order, axis=1)
        return made

    shapes = [one.numbers for one in answers]
    ids = put([one.numbers.astype(object) if one.ids is None else one.ids for one in answers], shapes, -1)
    subjects = put([one.subjects for one in answers], shapes, None)
    payloads = put([one.payloads for one in answers], shapes, None)
    nearest = np.full((queries, columns), np.inf, dtype=np.float32)
    nearest[:, : order.shape[1]] = np.take_along_axis(distances, order, axis=1)
    work = Work(*(sum(values) for values in zip(*(one.work for one in answers), strict=True)))
    return Hits(ids, nearest, work, subjects, payloads)


def joined(parts: Sequence[Hits]) -> Hits:
    """The answers to a batch that was asked in parts."""
    work = Work(*(sum(values) for values in zip(*(part.work for part in parts), strict=True)))
    ids, distances, subjects, payloads = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "distances", "subjects", "payloads")
    )
    return Hits(ids, distances, work, subjects, payloads)


def _in_parts(queries: npt.NDArray[np.float32], k: Any) -> list[npt.NDArray[np.float32]]:
    """Queries in parts of which neither question nor answer is too long for a line."""
    answer = 16 * k if isinstance(k, int) and k > 0 else 1  # ids and distances
    most = max(1, _INLINE // max(queries.itemsize * queries.shape[1], answer))
    return np.array_split(queries, -(-len(queries) // most)) if len(queries) > most else [queries]


def _selection(where: Mapping[str, Any] | None, subject: str | None) -> dict[str, Any]:
    if where is None:
        return {"where": None, "subject": subject}
    try:
        return {"where": json.loads(json.dumps(where, allow_nan=False)), "subject": subject}
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"where: expected what JSON can hold, got something else ({error})") from None


def _plain(value: Any) -> Any:
    """A number of NumPy as Python's own; what is no number is for the member to refuse."""
    if isinstance(value, np.generic):
        return value.item()
    if value is not None and not isinstance(value, int | float):
        raise ParameterError(f"search: expected a number, got {type(value).__name__}")
    if isinstance(value, float) and not np.isfinite(value):
        raise ParameterError(f"search: expected a finite number, got {value}")
    return value


def _queries(queries: npt.ArrayLike) -> npt.NDArray[np.float32]:
    try:
        asked = np.asarray(queries, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise VectorError(f"queries: expected numbers, got something else ({error})") from None
    if asked.ndim not in (1, 2) or asked.size == 0:
        raise VectorError(f"queries: expected one query or a list of them, got an array of shape {asked.shape}")
    return asked.reshape(1, -1) if asked.ndim == 1 else asked


def _require(wanted: Sequence[Id], missing: Sequence[Id]) -> None:
    if missing:
        raise UnknownIdError(
            f"ids: expected ids that are there, got {len(missing)} of {len(wanted)} that are not: {missing[0]!r:.80}"
        )


def batch_message(batch: Batch, places: Sequence[int], about: Mapping[str, Any] | None = None) -> Message:
    part = batch.part(places)
    payloads = [None if text is None else json.loads(text) for text in part.payloads]
    made = pack_batch(part.ids, part.vectors, part.placed.tolist(), part.subjects, payloads, part.expires)
    made.head.update(about or {})
    return made
