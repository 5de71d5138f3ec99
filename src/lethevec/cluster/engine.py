"""Ray as the engine: it places members where their disks are, starts them again, and carries sealed bytes.

Nodes say which disk they have by a resource whose name begins with `lethevec_disk_`:

    ray start --address=HEAD:6379 --resources='{"lethevec_disk_a": 1}'

A member is a detached actor that needs a thousandth of the resource of its disk, so it is only ever started where its
files are, however often the node itself is started again. It also listens on the node's address (see `lines`), and
what is short goes there; Ray carries what is long, and the first exchange of each session.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import LethevecError, MissingDependencyError, ParameterError, UnavailableError
from .calling import UnreachableError
from .epoch import MemberEntry
from .lines import Lined, Listener, introduced
from .member import Member
from .registry import REGISTRY, Registry
from .sealing import Secret

__all__ = [
    "DISK",
    "ENVIRONMENT",
    "MemberActor",
    "RayLauncher",
    "RayTransport",
    "RegistryActor",
    "ray_module",
    "ray_transport",
]

DISK = "lethevec_disk_"
NAMESPACE = "lethevec"
_SHARE = 0.001
_THREADS = 16
#: Python asks glibc for every block, and glibc overwrites what is freed. Its caches of small blocks for each thread are
#: left out of that, so they are switched off.
ENVIRONMENT = {
    "PYTHONMALLOC": "malloc",
    "MALLOC_PERTURB_": "170",
    "GLIBC_TUNABLES": "glibc.malloc.perturb=170:glibc.malloc.tcache_count=0",
}


def ray_module() -> Any:
    """Ray, or the error that says how to install it."""
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise MissingDependencyError("a cluster runs on Ray: pip install 'lethevec[ray]'") from None
    return ray


class _Actor:
    """An end that Ray runs. It opens its files in the background: an error in a constructor would end it for good."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._end: Any = None
        self._address = ""
        self._make = make
        threading.Thread(target=self._open, name="open", daemon=True).start()

    def _open(self) -> None:
        while self._end is None:
            try:
                end = self._make()
                if isinstance(end, Member):
                    end.start()
                with suppress(OSError):  # without lines, everything goes through Ray
                    self._address = Listener(ray_module().util.get_node_ip_address(), end.endpoint).address
                self._end = end
            except LethevecError:  # another process may still have the files, or the disk is not there yet
                time.sleep(0.3)

    def hello(self, content: bytes) -> bytes:
        """Begin a session; nothing while the files are not open."""
        end = self._end
        return b"" if end is None else introduced(self._address, end.endpoint.hello(content))

    def call(self, content: bytes) -> bytes:
        """Carry out what is sealed in these bytes; the answer is sealed too."""
        end = self._end
        return b"\0" if end is None else end.endpoint.call(content)


class MemberActor(_Actor):
    """A member as an actor."""

    def __init__(self, name: str, cluster: str, folder: str, secret: str) -> None:
        """On the node that has its disk."""

        def make() -> Member:
            return Member(name, cluster, Path(folder), ray_transport(cluster), Secret.load(Path(secret)))

        super().__init__(make)


class RegistryActor(_Actor):
    """The registry as an actor."""

    def __init__(self, cluster: str, folder: str, secret: str, lease: float, term: float) -> None:
        """On the node that has its disk."""

        def make() -> Registry:
            known = Secret.load(Path(secret))
            return Registry(Path(folder), cluster, ray_transport(cluster), known, lease=lease, term=term)

        super().__init__(make)


class RayTransport:
    """Carries bytes to actors by name."""

    def __init__(self, cluster: str) -> None:
        """From a process that is connected to Ray."""
        self._cluster = cluster
        self._ray = ray_module()
        self._handles: dict[str, Any] = {}

    def _handle(self, target: str) -> Any:
        handle = self._handles.get(target)
        if handle is None:
            try:
                handle = self._ray.get_actor(actor_name(self._cluster, target), namespace=NAMESPACE)
            except (ValueError, self._ray.exceptions.RayError):
                raise UnreachableError(f"{target}: there is no such actor") from None
            self._handles[target] = handle
        return handle

    def start(self, target: str, method: str, content: bytes) -> Any:
        """Begin a call."""
        try:
            return getattr(self._handle(target), method).remote(content)
        except self._ray.exceptions.RayError as error:
            self._handles.pop(target, None)
            raise UnreachableError(f"{target}: {type(error).__name__}") from None

    def wait(self, handles: Sequence[Any], timeout: float | None) -> list[Any]:
        """Those that have an answer."""
        if not handles:
            return []
        ready, _ = self._ray.wait(list(handles), num_returns=1, timeout=timeout)
        return list(ready)

    def gather(self, handles: Sequence[Any], timeout: float) -> list[bytes] | None:
        """The answers of all: asked for together they take a fraction of the time."""
        try:
            return list(self._ray.get(list(handles), timeout=timeout))
        except (self._ray.exceptions.RayError, TimeoutError):
            return None

    def result(self, handle: Any, timeout: float | None) -> bytes:
        """The answer. What Ray says went wrong is not repeated: the name of the error is enough."""
        try:
            answer: bytes = self._ray.get(handle, timeout=timeout)
        except self._ray.exceptions.ActorDiedError as error:
            self._handles.clear()  # made again by somebody, it has another handle
            raise UnreachableError(type(error).__name__) from None
        except (self._ray.exceptions.RayError, TimeoutError) as error:
            raise UnreachableError(type(error).__name__) from None
        return answer

    def close(self) -> None:
        """Nothing: the program may use Ray for more."""


def ray_transport(cluster: str) -> Lined:
    """What carries calls from this process, which is connected to Ray: lines, and Ray where there are none."""
    return Lined(RayTransport(cluster))


def actor_name(cluster: str, end: str) -> str:
    """What Ray knows an end by."""
    return f"lethevec-{cluster}-{end}"


class RayLauncher:
    """Starts the registry and members as actors on the nodes that have their disks."""

    def __init__(self, cluster: str, folder: str, secret: str, *, lease: float, term: float, timeout: float) -> None:
        """`folder` and `secret` are paths on every node."""
        self._cluster = cluster
        self._folder = folder
        self._secret = secret
        self._lease = lease
        self._term = term
        self._timeout = timeout
        self._ray = ray_module()

    def disks(self) -> list[str]:
        """The disks of the nodes that are there."""
        names = {
            name for node in self._ray.nodes() if node["Alive"] for name in node["Resources"] if name.startswith(DISK)
        }
        return sorted(names)

    def start_registry(self) -> None:
        """Start the registry unless it runs: on the disk that has its files, or on the first one for a new cluster."""
        name = actor_name(self._cluster, REGISTRY)
        try:
            self._ray.get_actor(name, namespace=NAMESPACE)
            return
        except ValueError:
            pass
        disks = self.disks()
        if not disks:
            raise ParameterError(
                f"cluster: expected nodes with a resource {DISK}NAME, got none; start them with "
                f"ray start --resources='{{\"{DISK}a\": 1}}'"
            )
        found = {disk: self._probe(disk) for disk in disks}
        homes = [disk for disk, (registry, _) in found.items() if registry]
        if len(homes) > 1:
            raise ParameterError(f"cluster: expected one disk with a registry, got {', '.join(homes)}")
        if not homes and any(members for _, members in found.values()):
            raise UnavailableError(
                "cluster: expected the disk with the registry, got only disks with members: its node is away, or "
                "another folder was given"
            )
        disk = homes[0] if homes else disks[0]
        self._actor(RegistryActor, name, disk).remote(
            self._cluster, self._path(disk, "registry"), self._secret, self._lease, self._term
        )

    def start_member(self, entry: MemberEntry) -> None:
        """Start a member unless it runs, or let it wait for its disk."""
        name = actor_name(self._cluster, entry.name)
        self._actor(MemberActor, name, entry.disk).remote(
            entry.name, self._cluster, self._path(entry.disk, entry.name), self._secret
        )

    def stop_member(self, name: str) -> None:
        """End a member for good."""
        try:
            handle = self._ray.get_actor(actor_name(self._cluster, name), namespace=NAMESPACE)
        except ValueError:
            return
        self._ray.kill(handle, no_restart=True)

    def _actor(self, kind: type, name: str, disk: str) -> Any:
        return self._ray.remote(kind).options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=_THREADS,
            num_cpus=0,
            resources={disk: _SHARE},
            runtime_env={"env_vars": ENVIRONMENT},
            enable_task_events=False,  # a dashboard has no use for them, and they take a twentieth of a call
        )

    def _path(self, disk: str, end: str) -> str:
        return str(Path(self._folder) / self._cluster / disk.removeprefix(DISK) / end)

    def _probe(self, disk: str) -> tuple[bool, bool]:
        """Whether a disk has the registry's files, and those of members."""
        look = self._ray.remote(probe).options(num_cpus=0, resources={disk: _SHARE}, max_retries=1)
        try:
            found: tuple[bool, bool] = self._ray.get(
                look.remote(str(Path(self._path(disk, "registry")).parent)), timeout=self._timeout
            )
        except self._ray.exceptions.RayError as error:
            raise UnavailableError(f"cluster: expected to look at disk {disk}, got {type(error).__name__}") from None
        return found


def probe(folder: str) -> tuple[bool, bool]:
    """Runs on a node: whether a folder has a registry, and members."""
    place = Path(folder)
    names = [path.name for path in place.iterdir()] if place.is_dir() else []
    return (place / "registry" / "registry.json").exists(), any(name != "registry" for name in names)
