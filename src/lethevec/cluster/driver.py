"""A driver: what a program that uses a cluster has in its process. It asks members, and one of all drivers writes.

**Questions** go to one member of each shard, the one that has been the fastest; where it takes longer than usual, the
next one is asked as well, and the first answer counts. An answer is put together from one epoch alone.

**Writes** go to every live member of a shard, in turn with other writes to it. A member that does not answer, or fails
where another does not, is taken out before the write is acknowledged.
"""

from __future__ import annotations

import gc
import math
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Protocol

from .._forgetting.keys import AuditKey
from ..errors import (
    ErasureIncompleteError,
    InputError,
    LethevecError,
    ServerError,
    StoreLockedError,
    UnavailableError,
    UnsupportedError,
)
from .buckets import bucket_of
from .calling import Caller, Pending, RefusalError, UnreachableError
from .epoch import Epoch, MemberEntry
from .messages import Array, Message, pack
from .registry import REGISTRY
from .wiping import scrub_small_arrays, wipe

__all__ = ["Driver", "Launcher"]

_LEAST_HEDGE = 0.003  # seconds before a second member is asked
_FIRST_HEDGE = 0.05  # while it is not known how fast a member is
_KNOWN = 8  # times after which it is
_REST = 1.0  # seconds that a member is left alone after it did not answer
_SHORT = 1.5  # seconds for a new session with a member that may be gone
_GREETING = 3.0  # the same where a change depends on it
_LOOK = 1.0  # seconds between two looks at the leases of members that do not answer a change
_LOOKS = 3  # so many times without a lease, and a member is not waited for

_Work = tuple[str, int]  # a question, and how large it is: the bits of its number of queries
_Key = tuple[int, int]  # a shard, and a part of the question


class Launcher(Protocol):
    """Starts the registry and members where their files are."""

    def disks(self) -> list[str]:
        """Where members may be."""
        ...

    def start_registry(self) -> None:
        """Start the registry unless it runs."""
        ...

    def start_member(self, entry: MemberEntry) -> None:
        """Start a member unless it runs."""
        ...

    def stop_member(self, name: str) -> None:
        """End a member for good; its files stay."""
        ...


class _StaleError(Exception):
    """The epoch has changed, or nobody could answer yet: look again."""


class Driver:
    """The connection of one program to a cluster. Threads may share it."""

    def __init__(
        self, caller: Caller, launcher: Launcher, *, read_only: bool, takeover: bool = False, timeout: float = 30.0
    ) -> None:
        """Join the cluster, which is there; as the one that writes unless `read_only`."""
        self.caller = caller
        self.launcher = launcher
        self.read_only = read_only
        self.timeout = timeout
        self.name = secrets.token_hex(8)
        self.closed = False
        joined = self._join({"write": not read_only, "takeover": takeover, "driver": self.name})
        self.epoch = Epoch.from_dict(joined["epoch"])
        self.term = self.epoch.term
        self.bucket_key = bytes.fromhex(joined["bucket_key"])
        self.audit = AuditKey(joined["audit"]["id"], bytes.fromhex(joined["audit"]["key"]))
        self.public_key = bytes.fromhex(joined["public_key"])
        self._beat = float(joined["term_seconds"]) / 5
        self.unsure: set[str] = set()  # live members that may hold what they were to erase: the last of their shards
        self._epoch_lock = threading.Lock()
        self._locks: dict[int, threading.RLock] = {}
        self._locks_lock = threading.Lock()
        self._times: dict[tuple[str, _Work], deque[float]] = {}
        self._resting: dict[str, float] = {}
        self.counts: dict[str, int] = {"questions": 0, "hedged": 0, "writes": 0, "erasures": 0, "set_away": 0}
        self.lost_term = False

    # --- The registry ------------------------------------------------------------------------------------------------

    def _join(self, head: Mapping[str, Any]) -> dict[str, Any]:
        """Join; a term that nobody renews (its driver has died) is waited for, as long as the timeout allows."""
        deadline = time.monotonic() + self.timeout
        renewals: int | None = None
        while True:
            try:
                return self._registry("join", head)
            except StoreLockedError:
                known = int(self._registry("status", {})["renewals"])
                renewals = known if renewals is None else renewals
                if known > renewals + 1 or time.monotonic() >= deadline:
                    raise
                time.sleep(0.1)

    def _registry(self, op: str, head: Mapping[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """Ask the registry; it may be starting, so try for a while."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        while True:
            try:
                return self.caller.call(REGISTRY, op, head, timeout=max(1.0, deadline - time.monotonic())).head
            except UnreachableError as error:
                if time.monotonic() >= deadline:
                    raise UnavailableError(f"cluster: expected the registry to answer, got nothing ({error})") from None
                time.sleep(0.1)
            except RefusalError as error:
                self._expect_term(error)
                raise

    def _expect_term(self, refusal: RefusalError) -> None:
        """A refusal that says that another driver writes now ends this one."""
        if refusal.reason == "term":
            self.lost_term = True
            raise StoreLockedError(
                "cluster: expected to be the driver that writes, got a newer one that has taken over"
            ) from None

    def registry(self, op: str, head: Mapping[str, Any] | None = None, timeout: float | None = None) -> dict[str, Any]:
        """Ask the registry in this driver's term; an epoch in the answer is taken up."""
        answer = self._registry(op, {**(head or {}), "term": self.term}, timeout)
        if answer.get("epoch") is not None:
            self.adopt(Epoch.from_dict(answer["epoch"]))
        return answer

    def adopt(self, epoch: Epoch) -> None:
        """Take an epoch up if it is newer. After an erasure by somebody else, sessions end here too."""
        with self._epoch_lock:
            if epoch.version <= self.epoch.version:
                return
            if epoch.erasures != self.epoch.erasures:
                self.forget_keys()
            self.epoch = epoch

    def refresh(self) -> None:
        """Ask for the epoch in force."""
        answer = self._registry("epoch", {"version": self.epoch.version})
        if "epoch" in answer:
            self.adopt(Epoch.from_dict(answer["epoch"]))

    def forget_keys(self) -> None:
        """What follows an erasure: keys end, and what NumPy keeps of queries and records is overwritten. This process
        may be one of Ray's, as a server on Ray Serve is."""
        self.caller.forget_keys()
        gc.collect()
        scrub_small_arrays()

    def beat(self) -> None:
        """What a driver does now and then: keep its term, and see what others have changed."""
        with suppress(UnavailableError, StoreLockedError):
            if self.read_only:
                self.refresh()
            else:
                answer = self.registry("term", timeout=self._beat)
                if answer["version"] != self.epoch.version:
                    self.refresh()

    @property
    def beat_seconds(self) -> float:
        """How often that has to be."""
        return self._beat

    def close(self) -> None:
        """Give the term back, and forget all keys."""
        if self.closed:
            return
        self.closed = True
        if not self.read_only and not self.lost_term:
            with suppress(UnavailableError, StoreLockedError, LethevecError, RefusalError):
                self._registry("leave", {"term": self.term}, 3.0)
        self.caller.close()

    def require_writer(self) -> None:
        """Refuse changes by a reader."""
        if self.closed:
            raise UnsupportedError("cluster: expected an open connection, got one that was closed")
        if self.read_only:
            raise UnsupportedError(
                "cluster: expected a driver that writes, got one that was opened with read_only=True"
            )

    # --- Where things are --------------------------------------------------------------------------------------------

    def shard_of(self, id: int | str, epoch: Epoch | None = None) -> int:
        """The shard that an id belongs to."""
        return (epoch or self.epoch).buckets[bucket_of(id, self.bucket_key)]

    def shards(self, epoch: Epoch | None = None) -> list[int]:
        """The shards that have buckets."""
        return sorted(set((epoch or self.epoch).buckets))

    @contextmanager
    def writing(self, shards: Iterable[int]) -> Iterator[None]:
        """Hold the turn to write to these shards."""
        with ExitStack() as stack:
            for shard in sorted(set(shards)):
                with self._locks_lock:
                    lock = self._locks.setdefault(shard, threading.RLock())
                stack.enter_context(lock)
            yield

    # --- Questions ---------------------------------------------------------------------------------------------------

    def ask(
        self,
        op: str,
        head: Mapping[str, Any],
        arrays: Sequence[Array] = (),
        *,
        by_shard: Callable[[Epoch], Mapping[int, Mapping[str, Any]]] | None = None,
        timeout: float | None = None,
    ) -> dict[int, Message]:
        """One answer from each shard. `by_shard` says which are asked, and what each is asked beside `head`."""
        found = self.ask_in_parts(op, head, [arrays], by_shard=by_shard, timeout=timeout)
        return {shard: answers[0] for shard, answers in found.items()}

    def ask_in_parts(
        self,
        op: str,
        head: Mapping[str, Any],
        parts: Sequence[Sequence[Array]],
        *,
        by_shard: Callable[[Epoch], Mapping[int, Mapping[str, Any]]] | None = None,
        timeout: float | None = None,
    ) -> dict[int, list[Message]]:
        """The same question about several parts, all under way at once: from each shard an answer to each part."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        self.counts["questions"] += 1
        while True:
            epoch = self.epoch
            wanted = {shard: {} for shard in self.shards(epoch)} if by_shard is None else by_shard(epoch)
            full = {**head, "op": op, "version": epoch.version}
            # What all shards are asked alike is packed once.
            packed = None if any(wanted.values()) else [bytes(pack(full, arrays)) for arrays in parts]
            try:
                return self._fan_out(epoch, op, full, parts, packed, wanted, deadline)
            except _StaleError as error:
                if time.monotonic() >= deadline:
                    raise UnavailableError(
                        f"cluster: expected a member of every shard to answer within the timeout, got none: {error}"
                    ) from None
                self.refresh()
            finally:
                for content in packed or ():
                    wipe(content)

    def _fan_out(
        self,
        epoch: Epoch,
        op: str,
        head: Mapping[str, Any],
        parts: Sequence[Sequence[Array]],
        packed: Sequence[bytes] | None,
        wanted: Mapping[int, Mapping[str, Any]],
        deadline: float,
    ) -> dict[int, list[Message]]:
        work = op, sum(len(arrays[0]) for arrays in parts if arrays).bit_length()
        by_speed = {shard: self._by_speed(epoch, shard, work) for shard in wanted}
        left = {(shard, part): list(by_speed[shard]) for part in range(len(parts)) for shard in wanted}
        under_way: dict[Any, tuple[_Key, str, float, Pending]] = {}
        hedges: dict[_Key, float] = {}
        answers: dict[_Key, Message] = {}

        def begin(key: _Key) -> bool:
            """Ask the next member of a shard about a part."""
            shard, part = key
            while left[key]:
                name = left[key].pop(0)
                begun = time.monotonic()
                try:
                    content = None if packed is None else packed[part]
                    full = {**head, **wanted[shard]}
                    pending = self.caller.start(name, op, full, parts[part], _SHORT, packed=content)
                except (UnreachableError, ServerError):
                    self._rest(name)
                    continue
                under_way[pending.handle] = (key, name, begun, pending)
                if left[key]:
                    hedges[key] = begun + self._hedge(name, work)
                return True
            hedges.pop(key, None)
            return any(entry[0] == key for entry in under_way.values())

        def finish(handle: Any, content: bytes | None) -> None:
            """Take an answer; of two to the same question, the first."""
            key, name, begun, pending = under_way.pop(handle)
            if key in answers:
                return
            try:
                answers[key] = self.caller.finish(pending, max(0.1, deadline - time.monotonic()), content)
                hedges.pop(key, None)
                self._note_time(name, work, time.monotonic() - begun)
            except UnreachableError:
                self._rest(name)
            except RefusalError as error:
                if error.reason == "version":
                    self._wait_a_little(deadline, 0.002)
                    raise _StaleError(f"{name} knows another epoch") from None
                self._rest(name, 0.1)
            if key not in answers and not begin(key):
                self._wait_a_little(deadline)
                raise _StaleError(f"shard {key[0]} has no member that answers")

        for key in list(left):
            if not begin(key):
                self._wait_a_little(deadline)
                raise _StaleError(f"shard {key[0]} has no member that answers")
        while len(answers) < len(left):
            now = time.monotonic()
            if now >= deadline:
                missing = sorted({shard for shard, part in left if (shard, part) not in answers})
                raise _StaleError(f"shards {missing} did not answer in time")
            patience = max(0.0, min(min(hedges.values(), default=deadline), deadline) - now)
            # One part after the other, while members work on the next: to wait for all of its shards at once is
            # cheaper than for each. Where a second member was asked, the first answer counts.
            part = next(part for shard, part in left if (shard, part) not in answers)
            handles = [handle for handle, entry in under_way.items() if entry[0][1] == part]
            if len(handles) == sum((shard, part) not in answers for shard in wanted):
                contents = self.caller.transport.gather(handles, patience)
                if contents is not None:
                    for handle, content in zip(handles, contents, strict=True):
                        finish(handle, content)
                    continue
                patience = 0.0
            ready = self.caller.transport.wait(list(under_way), patience)
            for handle in ready:
                finish(handle, None)
            if not ready:
                now = time.monotonic()
                for key in [key for key, at in hedges.items() if at <= now]:
                    hedges.pop(key)
                    if left[key]:
                        self.counts["hedged"] += 1
                        begin(key)
        return {shard: [answers[shard, part] for part in range(len(parts))] for shard in wanted}

    def _wait_a_little(self, deadline: float, seconds: float = 0.05) -> None:
        time.sleep(max(0.0, min(seconds, deadline - time.monotonic())))

    def _by_speed(self, epoch: Epoch, shard: int, work: _Work) -> list[str]:
        """The live members of a shard, those first that have been fast; who did not answer lately comes last."""
        names = [member.name for member in epoch.of_shard(shard, "live")]
        if len(names) == 1:
            return names
        now = time.monotonic()
        return sorted(
            names, key=lambda name: (self._resting.get(name, 0.0) > now, self._usual(name, work), secrets.randbelow(8))
        )

    def _usual(self, name: str, work: _Work) -> float:
        """About how long a member takes, in steps, so that equally fast ones share the work."""
        times = self._times.get((name, work))
        if not times:
            return 0.0
        return float(int(sorted(times)[len(times) // 2] * 500))

    def _hedge(self, name: str, work: _Work) -> float:
        """When a second member is asked: a batch takes longer than a query, so each size has times of its own."""
        times = self._times.get((name, work))
        if not times or len(times) < _KNOWN:
            return _FIRST_HEDGE * max(1.0, 2.0 ** work[1] / 100)
        return max(_LEAST_HEDGE, 1.5 * sorted(times)[int(0.95 * (len(times) - 1))])

    def _note_time(self, name: str, work: _Work, seconds: float) -> None:
        self._times.setdefault((name, work), deque(maxlen=64)).append(seconds)

    def _rest(self, name: str, seconds: float = _REST) -> None:
        self._resting[name] = time.monotonic() + seconds

    # --- Writes ------------------------------------------------------------------------------------------------------

    def write(self, op: str, parts: Mapping[int, Message], timeout: float | None = None) -> None:
        """A change of each of these shards, in all of their live members. The caller holds the turns.

        A part is carried out by every live member, or by none that answers afterwards.
        """
        self.counts["writes"] += 1
        self.settle(parts)
        failed: list[str] = []
        refused: LethevecError | None = None
        lost: list[int] = []
        outcomes = self.send(
            op,
            {member.name: part for shard, part in parts.items() for member in self.epoch.of_shard(shard, "live")},
            timeout,
            watch=True,
        )
        for shard in parts:
            names = [member.name for member in self.epoch.of_shard(shard, "live") if member.name in outcomes]
            good = [name for name in names if isinstance(outcomes[name], Message)]
            bad = [name for name in names if name not in good]
            inputs = [one for name in bad if isinstance(one := outcomes[name], InputError)]
            errors = [one for name in bad if isinstance(one := outcomes[name], LethevecError)]
            if good:
                failed += bad
            elif inputs and len(inputs) == len(names):
                refused = inputs[0]  # all agree that it cannot be done
            elif errors:
                refused = errors[0]
                failed += [name for name in bad if outcomes[name] is not refused]
            else:
                lost.append(shard)
        if failed:
            self.set_away(failed)
        if refused is not None:
            raise refused
        if lost:
            raise UnavailableError(
                f"cluster: expected a member of shard {lost[0]} to take the write, got no answer; whether it was "
                "carried out is not known"
            )

    def settle(self, shards: Iterable[int]) -> None:
        """See to it that live members of these shards have erased what they were to. The caller holds the turns.

        What is written before a member erases could be of the same subject, and would go with it.
        """
        wanted = set(shards)
        for name in sorted(self.unsure):
            member = self.epoch.members.get(name)
            if member is None or member.state != "live":
                self.unsure.discard(name)
            elif member.shard in wanted:
                try:
                    self.run_pending(name)
                except ErasureIncompleteError:
                    pass  # nothing of it is in an answer, and it is not looked for again
                except (UnreachableError, RefusalError, LethevecError):
                    raise UnavailableError(
                        f"cluster: expected {name} to erase what it was asked to before anything is written to shard "
                        f"{member.shard}, got no answer; nothing was written"
                    ) from None
                self.unsure.discard(name)

    def run_pending(self, name: str, timeout: float | None = None) -> None:
        """Let a member run the erasures that wait for it. `ErasureIncompleteError`: bytes are still in a file."""
        pending = self.registry("pending", {"member": name})["pending"]
        seconds = self.timeout if timeout is None else timeout
        if pending:
            try:
                self.caller.call(name, "run", {"pending": pending, "seconds": seconds}, timeout=seconds)
            finally:
                self.caller.forget_keys()

    def send(
        self, op: str, parts: Mapping[str, Message], timeout: float | None = None, *, watch: bool = False
    ) -> dict[str, Message | Exception]:
        """Send changes to members by name; the answer or what went wrong, for each.

        The time is that of all together. With `watch`, who has no lease any more is not waited for.
        """
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        outcomes: dict[str, Message | Exception] = {}
        left = dict(parts)
        for attempt in range(6):
            outcomes.update(self._greet(left, deadline))
            pending: dict[str, Pending] = {}
            head = {"term": self.term, "version": self.epoch.version}
            for name, part in left.items():
                if not isinstance(outcomes.get(name), UnreachableError | ServerError):
                    try:
                        full = {**part.head, **head}
                        pending[name] = self.caller.start(name, op, full, part.arrays, _left(deadline, _GREETING))
                    except (UnreachableError, ServerError) as error:
                        outcomes[name] = error
            silent = self._wait_for(pending, deadline) if watch else set[str]()
            again: dict[str, Message] = {}
            for name, one in pending.items():
                if name in silent:
                    outcomes[name] = UnreachableError(f"{name}: it did not answer, and has no lease")
                    continue
                try:
                    outcomes[name] = self.caller.finish(one, _left(deadline))
                except RefusalError as error:
                    self._expect_term(error)
                    outcomes[name] = error
                    if error.reason == "version" and attempt < 5:
                        again[name] = left[name]
                except (UnreachableError, LethevecError) as error:
                    outcomes[name] = error
            if not again:
                break
            # It was not carried out: one of the two does not know the newest epoch yet.
            self.refresh()
            for name in again:
                with suppress(UnreachableError, RefusalError, LethevecError):
                    self.caller.call(name, "epoch", {"epoch": self.epoch.to_dict()}, timeout=_left(deadline, 5.0))
            left = again
        return outcomes

    def _greet(self, names: Iterable[str], deadline: float) -> dict[str, Exception]:
        """Sessions with members that have none, all begun at the same time; what went wrong."""

        def greet(name: str) -> Exception | None:
            try:
                self.caller.session(name, _left(deadline, _GREETING))
            except (UnreachableError, ServerError) as error:
                return error
            return None

        new = [name for name in names if not self.caller.knows(name)]
        if len(new) < 2:
            return {}
        with ThreadPoolExecutor(min(len(new), 32)) as pool:
            return {name: error for name, error in zip(new, pool.map(greet, new), strict=True) if error is not None}

    def _wait_for(self, pending: Mapping[str, Pending], deadline: float) -> set[str]:
        """Wait until everybody has answered who has a lease, or the time is over; who has neither."""
        left = {one.handle: name for name, one in pending.items()}
        without: Counter[str] = Counter()
        look = time.monotonic() + _LOOK
        while left and time.monotonic() < deadline:
            ready = self.caller.transport.wait(list(left), _left(min(look, deadline)))
            for handle in ready:
                del left[handle]
            if not ready and time.monotonic() >= look:
                look = time.monotonic() + _LOOK
                with suppress(UnavailableError, RefusalError, LethevecError):
                    leases = self._registry("status", {}, _LOOK)["leases"]
                    without.update(name for name in left.values() if leases.get(name, 1.0) <= 0)
                left = {handle: name for handle, name in left.items() if without[name] < _LOOKS}
        return {name for name, count in without.items() if count >= _LOOKS}

    def set_away(self, names: Sequence[str], *, fence: bool = False) -> list[str]:
        """Set members away; when this returns, nothing that they hold is in any answer. The last of a shard stays
        live: which did."""
        if not names:
            return []
        self.counts["set_away"] += len(names)
        kept: list[str] = self.registry("away", {"members": list(names), "fence": fence})["kept"]
        return kept


def _left(deadline: float, most: float = math.inf) -> float:
    """The seconds until then, and a moment in any case: an answer may be there already."""
    return max(0.05, min(most, deadline - time.monotonic()))
