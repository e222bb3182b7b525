"""What an sql worker knows about registered databases: files, names and stored texts."""

from __future__ import annotations

import threading
from collections import defaultdict

from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.databases import DatabaseRegistry
from hexgen_celery.sql.execution import DatabaseFile
from hexgen_celery.sql.value_index import ValueIndex


class RegisteredDatabases:
    """Registered databases, refreshed when their files change. Safe from many threads."""

    def __init__(self, registry: DatabaseRegistry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._names: dict[str, tuple[str, SchemaNames]] = {}
        self._refreshing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def file(self, name: str) -> DatabaseFile:
        """How to open `name` now; raises `UnknownDatabase` or `InvalidDatabase`."""
        with self._refresh(name):
            return self._registry.current(name).file

    def schema_names(self, name: str) -> SchemaNames:
        """The names in the database's catalog; raises `UnknownDatabase`."""
        version = self._registry.entry(name).catalog_sha256
        with self._lock:
            known = self._names.get(name)
            if known is None or known[0] != version:
                known = (version, SchemaNames(self._registry.catalog(name)))
                self._names[name] = known
        return known[1]

    def values(self, name: str) -> ValueIndex | None:
        """The index of its texts, built here if need be; None where there can be none."""
        with self._refresh(name):
            return self._registry.values(name)

    def _refresh(self, name: str) -> threading.Lock:
        """Held while a changed file is read again, so that one thread does it for all."""
        with self._lock:
            return self._refreshing[name]
