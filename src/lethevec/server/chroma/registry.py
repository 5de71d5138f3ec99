"""What Chroma knows beside records: tenants, databases, and which collection of ours is which of theirs.

Each is a record without a vector in the collection `chroma`. Dropping forgets it, so a name that was a person's is
gone like a record.
"""

from __future__ import annotations

import re
import threading
import uuid
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..problems import Problem

__all__ = ["DEFAULT_DATABASE", "DEFAULT_TENANT", "Entry", "Registry"]

STORE = "chroma"
DEFAULT_TENANT = "default_tenant"
DEFAULT_DATABASE = "default_database"
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")  # names that are ours as well
_METRICS = {"l2": "l2", "cosine": "cosine", "ip": "ip"}


@dataclass(frozen=True)
class Entry:
    """One collection of Chroma. `store` is its name with us; it is made with the first record, which says the dim."""

    uuid: str
    name: str
    tenant: str
    database: str
    store: str
    metric: str
    metadata: dict[str, Any] | None = None
    configuration: dict[str, Any] | None = None
    schema: Any = None
    dim: int | None = None

    def model(self) -> dict[str, Any]:
        """What clients read."""
        return {
            "id": self.uuid,
            "name": self.name,
            "configuration_json": _configuration(self.configuration, self.metric),
            "schema": self.schema,
            "metadata": self.metadata,
            "dimension": self.dim,
            "tenant": self.tenant,
            "database": self.database,
            "log_position": 0,
            "version": 0,
        }


class Registry:
    """The entries, read when they have changed."""

    def __init__(self, db: Any) -> None:
        """Nothing is written before something is made."""
        self._db = db
        self._stamp = ""
        self._entries: dict[str, Entry] = {}
        self._databases: dict[tuple[str, str], str] = {}
        self._tenants: set[str] = set()
        self.lock = threading.RLock()  # reading and then writing records, in one piece

    def _load(self) -> None:
        if STORE not in self._db.collections():
            stamp, records = "", []
        else:
            store = self._db.collection(STORE)
            stamp = store.digest()
            if stamp == self._stamp:
                return
            records = store.get()
        with self.lock:
            self._entries = {}
            self._databases = {(DEFAULT_TENANT, DEFAULT_DATABASE): "00000000-0000-0000-0000-000000000000"}
            self._tenants = {DEFAULT_TENANT}
            for record in records:
                payload = dict(record.payload)
                kind = payload.pop("kind")
                if kind == "collection":
                    self._entries[payload["uuid"]] = Entry(**payload)
                elif kind == "database":
                    self._databases[payload["tenant"], payload["name"]] = payload["uuid"]
                else:
                    self._tenants.add(payload["name"])
            self._stamp = stamp

    def _put(self, id: str, payload: dict[str, Any]) -> None:
        store = self._db.collection(STORE, dim=1, metric="l2")
        store.upsert(None, ids=[id], payloads=[payload])

    def _forget(self, ids: list[str]) -> Any:
        return self._db.collection(STORE).forget(ids)

    def tenants(self) -> set[str]:
        """All tenants."""
        self._load()
        return self._tenants

    def make_tenant(self, name: str) -> None:
        """A new tenant."""
        if len(name) < 3:
            raise Problem(400, "InvalidArgumentError", "name: expected at least 3 characters")
        with self.lock:
            if name in self.tenants():
                raise Problem(409, "UniqueConstraintError", "expected a tenant that is not there yet")
            self._put(f"tenant/{name}", {"kind": "tenant", "name": name})

    def databases(self, tenant: str) -> list[dict[str, str]]:
        """The databases of a tenant, by name."""
        self._load()
        found = sorted((name, id) for (owner, name), id in self._databases.items() if owner == tenant)
        return [{"id": id, "name": name, "tenant": tenant} for name, id in found]

    def database(self, tenant: str, name: str) -> dict[str, str]:
        """One database."""
        self._load()
        id = self._databases.get((tenant, name))
        if id is None:
            raise Problem(404, "NotFoundError", f"Database [{name}] not found")
        return {"id": id, "name": name, "tenant": tenant}

    def make_database(self, tenant: str, name: str) -> None:
        """A new database."""
        check_name(name)
        with self.lock:
            if tenant not in self.tenants():
                raise Problem(404, "NotFoundError", f"Tenant [{tenant}] not found")
            if (tenant, name) in self._databases:
                raise Problem(409, "UniqueConstraintError", "expected a database that is not there yet")
            self._put(
                f"database/{tenant}/{name}",
                {"kind": "database", "tenant": tenant, "name": name, "uuid": str(uuid.uuid4())},
            )

    def drop_database(self, tenant: str, name: str) -> Any:
        """Erase a database and its collections; the last receipt."""
        with self.lock:
            self.database(tenant, name)
            receipt = None
            for entry in self.entries(tenant, name):
                receipt = self.drop(entry)
            if (tenant, name) == (DEFAULT_TENANT, DEFAULT_DATABASE):
                return receipt
            return self._forget([f"database/{tenant}/{name}"])

    def entries(self, tenant: str, database: str) -> list[Entry]:
        """The collections of a database, by name."""
        self.database(tenant, database)
        found = [e for e in self._entries.values() if (e.tenant, e.database) == (tenant, database)]
        return sorted(found, key=lambda entry: entry.name)

    def by_name(self, tenant: str, database: str, name: str) -> Entry:
        """The collection of this name."""
        for entry in self.entries(tenant, database):
            if entry.name == name:
                return entry
        raise Problem(404, "NotFoundError", f"Collection [{name}] does not exist")

    def by_id(self, text: str) -> Entry:
        """The collection with this UUID."""
        self._load()
        entry = self._entries.get(text)
        if entry is not None:
            return entry
        try:
            uuid.UUID(text)
        except ValueError:
            raise Problem(400, "InvalidArgumentError", "Collection ID is not a valid UUIDv4") from None
        raise Problem(404, "NotFoundError", f"Collection [{text}] does not exist.")

    def make(
        self,
        tenant: str,
        database: str,
        name: str,
        metadata: dict[str, Any] | None,
        configuration: dict[str, Any] | None,
        schema: Any,
        get_or_create: bool,
    ) -> Entry:
        """A new collection, or the one that is there."""
        check_name(name)
        with self.lock:
            for entry in self.entries(tenant, database):
                if entry.name == name:
                    if get_or_create:
                        return entry
                    raise Problem(409, "ChromaError", f"Collection [{name}] already exists")
            id = str(uuid.uuid4())
            entry = Entry(
                uuid=id,
                name=name,
                tenant=tenant,
                database=database,
                store=self._store_name(tenant, database, name, id),
                metric=_metric(metadata, configuration, schema),
                metadata=metadata or None,
                configuration=configuration,
                schema=schema,
            )
            self.save(entry)
            return entry

    def _store_name(self, tenant: str, database: str, name: str, id: str) -> str:
        """Its own name where that is free and possible, so that it is the same collection under /v1."""
        taken = {*self._db.collections(), *(entry.store for entry in self._entries.values()), STORE}
        plain = (tenant, database) == (DEFAULT_TENANT, DEFAULT_DATABASE) and _PLAIN.fullmatch(name)
        return name if plain and name not in taken else f"chroma-{id}"

    def save(self, entry: Entry) -> None:
        """Write an entry, new or changed."""
        self._put(f"collection/{entry.uuid}", {"kind": "collection", **asdict(entry)})

    def change(
        self, id: str, name: str | None, metadata: dict[str, Any] | None, configuration: dict[str, Any] | None
    ) -> None:
        """What `modify` changes."""
        with self.lock:
            entry = self.by_id(id)
            if name is not None and name != entry.name:
                check_name(name)
                if any(other.name == name for other in self.entries(entry.tenant, entry.database)):
                    raise Problem(409, "UniqueConstraintError", f"Collection [{name}] already exists")
                entry = replace(entry, name=name)
            if metadata is not None:
                entry = replace(entry, metadata=metadata)
            if configuration is not None:
                entry = replace(entry, configuration=_merged(entry.configuration, configuration))
            self.save(entry)

    def drop(self, entry: Entry) -> Any:
        """Erase a collection with everything in it; the receipt of its records if it had any."""
        with self.lock:
            receipt = self._db.drop(entry.store) if entry.store in self._db.collections() else None
            self._forget([f"collection/{entry.uuid}"])
            return receipt

    def reset(self) -> None:
        """Erase everything that came through this API."""
        with self.lock:
            self._load()
            for entry in list(self._entries.values()):
                if entry.store in self._db.collections():
                    self._db.drop(entry.store)
            if STORE in self._db.collections():
                self._db.drop(STORE)
            self._stamp = "reset"
            self._load()


def check_name(name: Any) -> None:
    """Chroma's rule."""
    if type(name) is not str or not _NAME.fullmatch(name):
        raise Problem(
            400,
            "InvalidArgumentError",
            "Expected a name containing 3-512 characters from [a-zA-Z0-9._-], starting and ending with a character in "
            "[a-zA-Z0-9]",
        )


def _metric(metadata: dict[str, Any] | None, configuration: dict[str, Any] | None, schema: Any) -> str:
    """The space that was asked for, wherever it was said; l2 unless it was."""
    space: Any = None
    for part in ("hnsw", "spann"):
        inside = (configuration or {}).get(part)
        if type(inside) is dict and inside.get("space"):
            space = inside["space"]
    if space is None and type(schema) is dict:
        try:
            space = schema["keys"]["#embedding"]["float_list"]["vector_index"]["config"].get("space")
        except (KeyError, TypeError, AttributeError):
            space = None
    if space is None:
        space = (metadata or {}).get("hnsw:space") or "l2"
    if space not in _METRICS:
        raise Problem(400, "InvalidArgumentError", "space: expected l2, cosine or ip")
    return _METRICS[space]


def _configuration(given: dict[str, Any] | None, metric: str) -> dict[str, Any]:
    """What was given, with what clients expect to find."""
    hnsw = {
        "space": metric,
        "ef_construction": 100,
        "ef_search": 100,
        "max_neighbors": 16,
        "resize_factor": 1.2,
        "sync_threshold": 1000,
    }
    made: dict[str, Any] = {"hnsw": hnsw, "spann": None, "embedding_function": None}
    return _merged(made, given or {})


def _merged(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    merged = dict(old or {})
    for name, value in new.items():
        if type(value) is dict and type(merged.get(name)) is dict:
            merged[name] = {**merged[name], **{k: v for k, v in value.items() if v is not None}}
        elif value is not None or name not in merged:
            merged[name] = value
    return merged
