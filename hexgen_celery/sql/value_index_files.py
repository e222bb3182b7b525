"""The value indexes of registered databases as files: one per version of a database."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import structlog

from hexgen_celery.sql.catalog import Catalog
from hexgen_celery.sql.execution import DatabaseFile
from hexgen_celery.sql.sources import Fingerprint
from hexgen_celery.sql.value_index import (
    BuildProgress,
    ValueIndex,
    build_value_index,
    no_build_progress,
)

log = structlog.get_logger(__name__)

SUFFIX = ".values"
VERSION_CHARS = 16


def index_version(head_sha256: str, fingerprint: Fingerprint) -> str:
    """What tells the index of one state of a database from that of another."""
    return hashlib.sha256(f"{head_sha256} {fingerprint}".encode()).hexdigest()[:VERSION_CHARS]


class ValueIndexFiles:
    """Builds, finds and opens indexes in one directory. Safe from many threads and processes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._open: dict[str, tuple[str, ValueIndex | None]] = {}

    def path(self, name: str, version: str) -> Path:
        """Where the index of that version of the database `name` is, or would be."""
        return self._directory / f"{name}.{version}{SUFFIX}"

    def build(
        self,
        name: str,
        version: str,
        file: DatabaseFile,
        catalog: Catalog,
        progress: BuildProgress = no_build_progress,
    ) -> bool:
        """Build the index unless it is there; False, with a warning in the log, if it cannot be.

        Answers are possible without an index, so that this is no reason to refuse a database.
        """
        target = self.path(name, version)
        if target.exists():
            return True
        try:
            build_value_index(file, catalog, target, progress=progress)
        except (sqlite3.Error, OSError) as error:
            log.warning("value_index.not_built", database=name, error=str(error))
            return False
        self._delete(name, keep=target)
        return True

    def open(
        self, name: str, version: str, file: DatabaseFile, catalog: Callable[[], Catalog]
    ) -> ValueIndex | None:
        """The index of that version, built first if it is missing; None if it cannot be."""
        with self._lock:
            known = self._open.get(name)
            if known is not None and known[0] == version:
                return known[1]
            built = self.path(name, version).exists() or self.build(name, version, file, catalog())
            index = ValueIndex(self.path(name, version)) if built else None
            self._open[name] = (version, index)
            return index

    def remove(self, name: str) -> None:
        """Delete every index of the database."""
        with self._lock:
            self._open.pop(name, None)
        self._delete(name, keep=None)

    def _delete(self, name: str, keep: Path | None) -> None:
        for path in self._directory.glob(f"{name}.*{SUFFIX}"):
            version = path.name.removeprefix(f"{name}.").removesuffix(SUFFIX)
            if path != keep and len(version) == VERSION_CHARS and version.isalnum():
                path.unlink(missing_ok=True)
