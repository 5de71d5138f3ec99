"""The collections of a folder as open stores: made, opened when they are first asked for, removed, closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from .._durable import sync_folder
from .._store import Store
from .._store.chain import Chain
from .._store.files import StoreFiles
from .._store.retention import Clock
from .._store.rules import Rules
from .._store.session import Session
from .._store.store import open_store
from ..errors import FileError, IncompleteWriteError
from .catalog import Catalog, Entry
from .ledger import CollectionLedger
from .requests import Requests

__all__ = ["Maker"]


class Maker:
    """Opens the collections of an open folder."""

    def __init__(
        self,
        catalog: Catalog,
        chain: Chain,
        requests: Requests,
        keys: Path,
        timeout: float,
        rules: Rules,
        *,
        clock: Clock,
        drop_unreadable: bool,
        max_setup: int,
    ) -> None:
        """Nothing is opened yet."""
        self._catalog = catalog
        self._chain = chain
        self._requests = requests
        self._keys = keys
        self._timeout = timeout
        self._rules = rules
        self._clock = clock
        self._drop_unreadable = drop_unreadable
        self._max_setup = max_setup
        self._stores: dict[str, Store] = {}
        self.ledgers: dict[str, CollectionLedger] = {}

    def open(
        self,
        entry: Entry,
        dim: int | None = None,
        metric: str | None = None,
        index: dict[str, Any] | None = None,
        encrypt: bool | None = None,
    ) -> Store:
        """The store of a collection; what it was made with is checked against what is asked for."""
        self._catalog.require_open()
        store = self._stores.get(entry.id)
        if store is not None and not store.closed:
            store.check_same(dim, metric, index, encrypt)
            return store
        path = self._catalog.path_of(entry.id)
        if not path.exists():
            raise FileError(f"{path}: expected the file of collection {entry.name!r}, got nothing there")
        return self._open(entry.id, dim, metric, index, encrypt, _duration(entry.expires))

    def make(
        self,
        name: str,
        dim: int,
        metric: str | None,
        index: dict[str, Any] | None,
        encrypt: bool | None,
        retention: timedelta | None,
    ) -> Store:
        """A new collection: first its row, then its file, and only then it is ready. One that died is removed."""
        self.remove_unready()  # one of this name could be left that could not be made
        id = self._catalog.new_id()
        seconds = None if retention is None else retention.total_seconds()
        self._catalog.write("INSERT INTO collections VALUES (?, ?, ?, 0)", id, name, seconds)
        try:
            store = self._open(id, dim, metric, index, encrypt, retention)
            self._catalog.write("UPDATE collections SET ready = 1 WHERE id = ?", id)
        except BaseException:
            with suppress(IncompleteWriteError):  # the next one tries again
                self.remove(id)
            raise
        return store

    def _open(
        self,
        id: str,
        dim: int | None,
        metric: str | None,
        index: dict[str, Any] | None,
        encrypt: bool | None,
        retention: timedelta | None,
    ) -> Store:
        def ledger(session: Session) -> CollectionLedger:
            self.ledgers[id] = CollectionLedger(session, id, self._chain, self._requests)
            return self.ledgers[id]

        store = open_store(
            self._catalog.path_of(id),
            dim,
            metric,
            index=index,
            encrypt=encrypt,
            read_only=self._catalog.read_only,
            timeout=self._timeout,
            vault=self._vault(id),
            ledger=ledger,
            rules=self._rules,
            clock=self._clock,
            retention=retention,
            drop_unreadable=self._drop_unreadable,
            max_setup=self._max_setup,
        )
        self._stores[id] = store
        return store

    def all(self) -> Iterator[Store]:
        """Every collection, opened."""
        for entry in self._catalog.entries():
            yield self.open(entry)

    def close(self) -> None:
        """Close what is open; an error is raised when all are closed."""
        with ExitStack() as stack:
            for store in self._stores.values():
                stack.callback(store.close)
            self._stores = {}

    def remove(self, id: str) -> None:
        """Remove the files of a collection that holds nothing, and then its row."""
        store = self._stores.pop(id, None)
        self.ledgers.pop(id, None)
        if store is not None:
            store.close()
        files = StoreFiles(self._catalog.path_of(id))
        try:
            for path in [
                *files.everything(),
                self._vault(id),
                self._vault(id).with_name(self._vault(id).name + ".new"),
            ]:
                path.unlink(missing_ok=True)
            for folder in {self._catalog.folder, self._keys.parent}:  # keys may be elsewhere
                sync_folder(folder)
        except OSError as error:
            raise IncompleteWriteError(
                f"{error.filename}: a file of a collection could not be removed: {error}"
            ) from error
        self._catalog.write("DELETE FROM collections WHERE id = ?", id)
        self._catalog.scrub()

    def remove_unready(self) -> None:
        """Remove what was being made, or dropped, when a process died."""
        for id in self._catalog.unready():
            with suppress(IncompleteWriteError):  # the next one tries again
                self.remove(id)

    def _vault(self, id: str) -> Path:
        return self._keys.with_name(f"{self._keys.name}-{id}-vault")


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
