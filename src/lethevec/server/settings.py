"""Every setting of the server, and where it comes from: a TOML file, then the environment, then flags; the last wins.

In the file the names are those of `Settings`; in the environment they are in capitals behind `LETHEVEC_SERVER_`
(`LETHEVEC_SERVER_PORT=9000`), lists with commas between; on the command line they are flags (`--port 9000`).
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lethevec.errors import FileError, MissingDependencyError, ParameterError

__all__ = ["PREFIX", "Settings", "is_loopback", "load_settings"]

PREFIX = "LETHEVEC_SERVER_"
MIB = 1 << 20


@dataclass(frozen=True)
class Settings:
    """What the server does, with the defaults. `check` says what does not fit together."""

    folder: Path  # of `lethevec.connect`
    cluster: str | None = None  # where Ray is: serve the cluster whose members keep their files below `folder`
    cluster_name: str = "default"  # which, where there are several
    state: Path | None = None  # keys, audit log, request numbers; FOLDER-server unless given
    host: str = "127.0.0.1"
    port: int = 8765
    workers: int = 0  # processes that read, beside the one that writes; 0: one process does both
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False  # TLS ends before us: plain HTTP beyond loopback is meant
    max_body: int = 64 * MIB  # bytes of one request
    max_bodies: int = 256 * MIB  # bytes of all requests that are being read or worked on
    max_batch: int = 10_000  # records in one request (a bulk load has no such limit)
    max_queries: int = 1_000  # in one search
    max_k: int = 10_000
    max_in_flight: int = 128  # requests worked on at a time; more wait for `max_wait` seconds
    max_wait: float = 5.0
    max_connections: int = 1000  # of one process
    max_setup: int = 1 << 24  # numbers that the settings of a collection may ask for (see `lethevec.open`)
    timeout: float = 30.0  # seconds for reading a request, for a read, and for an erasure to complete
    rate: float = 0.0  # requests a second that one key may make; 0: no limit
    burst: int = 100  # requests that may come at once where there is a rate
    drain: float = 10.0  # seconds that a stop waits for requests in flight
    expire_every: float = 60.0  # seconds between two looks for records that are due; 0: never
    console: bool = True  # /console, for people
    session_idle: float = 900.0  # seconds without anything done after which a session of the console ends
    session_longest: float = 28_800.0  # seconds after which it ends in any case
    cors: tuple[str, ...] = ()  # origins that browsers may call from
    chroma: bool = True  # /api/v2
    allow_reset: bool = False  # POST /api/v2/reset, which erases everything
    telemetry: bool = False  # spans by OpenTelemetry
    log: str = "all"  # requests in the log: all, errors, none

    @property
    def state_folder(self) -> Path:
        """Where the server keeps what is not records."""
        if self.state is not None:
            return self.state
        folder = self.folder if self.folder.name not in ("", "..") else self.folder.resolve()  # of "." too
        if not folder.name:
            raise ParameterError(f"folder: expected one that has a name, or state= beside it, got {folder}")
        return folder.with_name(folder.name + "-server")

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted by us."""
        return self.tls_cert is not None

    def check(self) -> None:
        """Refuse values outside their range, and settings that do not fit together."""
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise ParameterError(f"{name}: expected a number from {low} to {high}, got {value}")
        if self.cluster is not None and self.workers:
            raise ParameterError("workers: expected 0 with a cluster, whose members are the processes that read")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ParameterError("tls_cert, tls_key: expected both or neither, got one of them")
        if self.log not in ("all", "errors", "none"):
            raise ParameterError(f"log: expected all, errors or none, got {self.log!r}")
        for origin in self.cors:
            if not origin.startswith(("http://", "https://")):
                raise ParameterError(f"cors: expected origins such as https://example.org, got {origin!r}")

    def check_reach(self, *, has_keys: bool) -> None:
        """Refuse to listen beyond this machine in the open."""
        if is_loopback(self.host):
            return
        if not has_keys:
            raise ParameterError(
                f"host: expected a loopback address while there are no keys, got {self.host}; "
                f"make one first: lethevec keys make {self.folder} --role admin"
            )
        if not self.tls and not self.behind_proxy:
            raise ParameterError(
                f"host: expected a loopback address without TLS, got {self.host}; give --tls-cert and --tls-key, "
                "or --behind-proxy if a proxy before this server does TLS"
            )


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("port", 0, 65535),
    ("workers", 0, 256),
    ("max_body", 1024, 1 << 40),
    ("max_bodies", 1024, 1 << 40),
    ("max_batch", 1, 10_000_000),
    ("max_queries", 1, 1_000_000),
    ("max_k", 1, 1_000_000),
    ("max_in_flight", 1, 100_000),
    ("max_wait", 0, 3600),
    ("max_connections", 1, 1_000_000),
    ("max_setup", 0, 1 << 62),
    ("timeout", 0.05, 86400),
    ("rate", 0, 1e9),
    ("burst", 1, 1_000_000),
    ("drain", 0, 3600),
    ("expire_every", 0, 86400),
    ("session_idle", 1, 86400),
    ("session_longest", 1, 7 * 86400),
)


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load_settings(
    file: Path | None, flags: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> Settings:
    """The settings of a file, the environment and flags (those that are None were not given), checked.

    >>> load_settings(None, {"folder": "data", "port": 9000}, {"LETHEVEC_SERVER_MAX_K": "50"}).max_k
    50
    """
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    if file is not None:
        values |= {name: _convert(name, value, str(file)) for name, value in _read_file(file).items()}
    for variable, text in environment.items():
        if variable.startswith(PREFIX):
            name = variable[len(PREFIX) :].lower()
            values[name] = _convert(name, text, variable)
    values |= {name: _convert(name, value, f"--{name}") for name, value in flags.items() if value is not None}
    if "folder" not in values:
        raise ParameterError("folder: expected the folder of the collections, got none")
    settings = Settings(**values)
    settings.check()
    return settings


def _read_file(path: Path) -> dict[str, Any]:
    try:
        import tomllib
    except ImportError:  # Python 3.10
        try:
            import tomli as tomllib  # type: ignore[no-redef]
        except ImportError:
            raise MissingDependencyError(
                "a configuration file needs the package tomli on Python 3.10: pip install 'lethevec[server]'"
            ) from None
    try:
        with open(path, "rb") as file:
            content: dict[str, Any] = tomllib.load(file)
            return content
    except OSError as error:
        raise FileError(f"{path}: the configuration could not be read: {error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: expected TOML, got something else ({error})") from None


_KINDS = {field.name: str(field.type) for field in fields(Settings)}


def _convert(name: str, value: Any, source: str) -> Any:
    """A value as its field has it; texts come from the environment."""
    kind = _KINDS.get(name)
    if kind is None:
        raise ParameterError(f"{source}: expected one of {', '.join(_KINDS)}, got {name!r:.80}")
    try:
        if kind.startswith("Path"):
            return Path(value)
        if kind == "bool":
            if isinstance(value, str):
                return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[value.lower()]
            if isinstance(value, bool):
                return value
        if kind.startswith("str") and isinstance(value, str):
            return value
        if kind == "int" and not isinstance(value, bool | float):
            return int(value)
        if kind == "float" and not isinstance(value, bool):
            return float(value)
        if kind.startswith("tuple"):
            parts = value.split(",") if isinstance(value, str) else list(value)
            return tuple(str(part).strip() for part in parts if str(part).strip())
    except (KeyError, ValueError, TypeError):
        pass
    raise ParameterError(f"{source}: expected {name} as {kind}, got {value!r:.80}")
