"""A cluster in one process: threads instead of Ray. For tests and drills, in which members die, hang and are cut off.

Everything above the transport is what runs on Ray: the same registry, members, sealing and drivers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from .calling import Transport, UnreachableError
from .epoch import MemberEntry
from .lines import Lined, Listener, introduced
from .member import Member
from .registry import REGISTRY, Registry
from .sealing import Secret

__all__ = ["LocalNetwork", "LocalTransport"]


class LocalNetwork:
    """Ends by name, and who can reach whom. `launch` is what a driver makes members with."""

    def __init__(
        self,
        folder: Path,
        *,
        disks: Sequence[str] = ("a", "b", "c"),
        lease: float = 0.6,
        term: float = 1.0,
        drills: bool = False,
        lines: bool = False,
    ) -> None:
        """Nothing runs yet. With `drills`, members can be told to be slow; with `lines`, ends listen on loopback too,
        where nobody can be cut off from others."""
        self.folder = folder
        self.cluster = "local"
        self.secret = Secret.create(folder / "cluster.secret")
        self.ends: dict[str, Any] = {}
        self.cuts: set[frozenset[str]] = set()
        self.seen: Callable[[str, str, bytes], None] = lambda target, method, content: None
        self._disks = list(disks)
        self._lease = lease
        self._term = term
        self._drills = drills
        self.lined = lines
        self.listeners: dict[str, Listener] = {}
        self._pool = ThreadPoolExecutor(64, thread_name_prefix="local")
        self._lock = threading.Lock()

    # --- What a launcher does ----------------------------------------------------------------------------------------

    def disks(self) -> list[str]:
        """Where members may be."""
        return list(self._disks)

    def start_registry(self) -> None:
        """Start the registry unless it runs."""
        with self._lock:
            if REGISTRY not in self.ends:
                transport = self.transport(REGISTRY)
                self.ends[REGISTRY] = Registry(
                    self.folder / "registry", self.cluster, transport, self.secret, lease=self._lease, term=self._term
                )
                self._listen(REGISTRY)

    def start_member(self, entry: MemberEntry) -> None:
        """Start a member unless it runs."""
        with self._lock:
            if entry.name in self.ends:
                return
            member = Member(
                entry.name,
                self.cluster,
                self.folder / entry.disk / entry.name,
                self.transport(entry.name),
                self.secret,
                beat=self._lease / 5,
                drills=self._drills,
            )
            self.ends[entry.name] = member
            self._listen(entry.name)
        member.start()

    def stop_member(self, name: str) -> None:
        """End a member for good; its files stay."""
        self.kill(name)

    # --- What goes wrong ---------------------------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        """End a member or the registry; calls to it get no answer."""
        with self._lock:
            end = self.ends.pop(name, None)
            listener = self.listeners.pop(name, None)
        if listener is not None:
            listener.close()
        if end is not None:
            end.close()

    def cut(self, one: str, other: str, *, back: bool = False) -> None:
        """Let two ends not reach each other, or reach each other again."""
        pair = frozenset((one, other))
        if back:
            self.cuts.discard(pair)
        else:
            self.cuts.add(pair)

    def close(self) -> None:
        """End everything."""
        for name in list(self.ends):
            self.kill(name)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def transport(self, name: str) -> Transport:
        """What carries the calls of an end, or of a driver."""
        plain = LocalTransport(self, name)
        return Lined(plain) if self.lined else plain

    def _listen(self, name: str) -> None:
        if self.lined:
            self.listeners[name] = Listener("127.0.0.1", self.ends[name].endpoint)

    def carry(self, source: str, target: str, method: str, content: bytes) -> Future[bytes]:
        """Call an end from another one."""
        return self._pool.submit(self._carry, source, target, method, content)

    def _carry(self, source: str, target: str, method: str, content: bytes) -> bytes:
        self.seen(target, method, content)
        end = self.ends.get(target)
        if end is None or frozenset((source, target)) in self.cuts:
            time.sleep(0.02)
            raise UnreachableError(f"{target}: nobody there")
        answer: bytes = getattr(end.endpoint, method)(content)
        if self.ends.get(target) is not end or frozenset((source, target)) in self.cuts:
            raise UnreachableError(f"{target}: it went away")
        self.seen(target, method, answer)
        if method == "hello" and self.lined:
            answer = introduced(self.listeners[target].address, answer)
        return answer


class LocalTransport:
    """Calls from one end of a local network."""

    def __init__(self, network: LocalNetwork, name: str) -> None:
        """From the end of that name."""
        self._network = network
        self._name = name

    def start(self, target: str, method: str, content: bytes) -> Future[bytes]:
        """Begin a call."""
        return self._network.carry(self._name, target, method, content)

    def wait(self, handles: Sequence[Future[bytes]], timeout: float | None) -> list[Future[bytes]]:
        """Those that have an answer."""
        return list(wait(handles, timeout, FIRST_COMPLETED).done)

    def gather(self, handles: Sequence[Future[bytes]], timeout: float) -> list[bytes] | None:
        """The answers of all."""
        done, others = wait(handles, timeout, FIRST_EXCEPTION)
        if others or any(handle.exception() for handle in done):
            return None
        return [handle.result() for handle in handles]

    def result(self, handle: Future[bytes], timeout: float | None) -> bytes:
        """The answer."""
        try:
            return handle.result(timeout)
        except (TimeoutError, RuntimeError) as error:
            raise UnreachableError(f"no answer: {type(error).__name__}") from None

    def close(self) -> None:
        """Nothing."""
