"""The registered databases: names, files and catalogs, shared by all workers through Redis."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog
from rapidfuzz import process

from hexgen_celery.core.clock import Clock, WallClock
from hexgen_celery.errors import InvalidDatabase, UnknownDatabase
from hexgen_celery.sql.catalog import Catalog
from hexgen_celery.sql.descriptions import read_descriptions
from hexgen_celery.sql.execution import DatabaseFile
from hexgen_celery.sql.profiling import ProfilingBounds, profile_database
from hexgen_celery.sql.schema_prompt import schema_prompt
from hexgen_celery.sql.sources import (
    DatabaseSource,
    Fingerprint,
    find_sources,
    head_digest,
    prepare,
)
from hexgen_celery.sql.text_hash import TextHash
from hexgen_celery.sql.value_index import ValueIndex
from hexgen_celery.sql.value_index_files import ValueIndexFiles, index_version

log = structlog.get_logger(__name__)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
SIMILAR_ENOUGH = 60

AddProgress = Callable[[str, str, int, int], None]
"""Called with database, table or column at work, how many are done and how many there are; first
over the tables that are profiled, then over the columns whose values are indexed."""


def silent(_database: str, _table: str, _done: int, _total: int) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class DatabaseEntry:
    """One registered database.

    `path` is the user's file and `file` what is actually read (see `sql.sources`). `size` is in
    bytes, `added_at` Unix seconds. The digests are SHA-256 in hex: of the file's head, of the
    catalog, and of the schema as prompts show it.
    """

    name: str
    path: str
    file: DatabaseFile
    fingerprint: Fingerprint
    head_sha256: str
    descriptions: str
    catalog_sha256: str
    schema_sha256: str
    tables: int
    rows: int
    added_at: float

    @property
    def snapshot(self) -> bool:
        """Whether a copy of ours is read instead of the user's file."""
        return self.file.path != self.path

    def to_json(self) -> str:
        """The entry as JSON text."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> DatabaseEntry:
        """The inverse of `to_json`."""
        data = json.loads(text)
        fingerprint = data.pop("fingerprint")
        sides = tuple(tuple(side) for side in fingerprint.pop("sides"))
        file = DatabaseFile(**data.pop("file"))
        return cls(file=file, fingerprint=Fingerprint(**fingerprint, sides=sides), **data)


class DatabaseRegistry:
    """Adds, finds and refreshes databases. `entries` and `catalogs` are two separate hashes.

    Adding and refreshing read the file, so they belong on machines that have it: the client's at
    `hexgen db add`, and the sql workers'. `entry`, `catalog` and `schema` need only the hashes.
    """

    def __init__(
        self,
        entries: TextHash,
        catalogs: TextHash,
        snapshots: Path,
        clock: Clock | None = None,
        bounds: ProfilingBounds | None = None,
    ) -> None:
        self._entries = entries
        self._catalogs = catalogs
        self._snapshots = snapshots
        self._values = ValueIndexFiles(snapshots)
        self._clock = clock or WallClock()
        self._bounds = bounds or ProfilingBounds()

    def add(
        self, path: Path, name: str | None = None, progress: AddProgress = silent
    ) -> list[DatabaseEntry]:
        """Register the database or databases at `path`; one that is known is refreshed.

        Raises:
            InvalidDatabase: naming the field at fault (`path` or `name`) and how to mend it.
        """
        sources = find_sources(path, name)
        for source in sources:
            self._check_name(source)
        return [self._register(source, progress) for source in sources]

    def names(self) -> list[str]:
        """The registered names, sorted."""
        return sorted(self._entries.names())

    def entry(self, name: str) -> DatabaseEntry:
        """The entry as it was stored last.

        Raises:
            UnknownDatabase: if no database of that name was added; suggests the nearest name.
        """
        text = self._entries.get(name)
        if text is None:
            raise self._unknown(name)
        return DatabaseEntry.from_json(text)

    def current(self, name: str) -> DatabaseEntry:
        """The entry, refreshed first if the file changed since.

        Raises:
            UnknownDatabase: if no database of that name was added.
            InvalidDatabase: if the file is gone, no longer readable, or a link by now.
        """
        entry = self.entry(name)
        if os.path.realpath(entry.path) != entry.path:
            raise InvalidDatabase(
                f"the file of {name} has become a link: {entry.path}",
                hint=f"If that is meant, run: hexgen db remove {name}, and add it again",
                field="database",
            )
        try:
            unchanged = Fingerprint.of(Path(entry.path)) == entry.fingerprint
        except OSError as error:
            raise InvalidDatabase(
                f"the file of {name} cannot be read: {entry.path}: {error.strerror or error}",
                hint="Restore it, or add the database again from where it is now",
                field="database",
            ) from error
        if unchanged and Path(entry.file.path).exists():
            return entry
        log.info("database.changed", database=name, path=entry.path)
        return self._register(_source_of(entry), silent)

    def file(self, name: str) -> DatabaseFile:
        """How to open the database as it is now; raises as `current` does."""
        return self.current(name).file

    def catalog(self, name: str) -> Catalog:
        """The catalog of a registered database.

        Raises:
            UnknownDatabase: if no database of that name was added.
        """
        text = self._catalogs.get(name)
        if text is None:
            raise self._unknown(name)
        return Catalog.from_json(text)

    def schema(self, name: str) -> str:
        """The schema as prompts show it; the same text for the same `schema_sha256`.

        Raises:
            UnknownDatabase: if no database of that name was added.
        """
        return schema_prompt(self.catalog(name))

    def values(self, name: str) -> ValueIndex | None:
        """The index of the texts in the database as it is now, built here if it is not yet.

        None where no index can be built (this SQLite lacks FTS5, the directory is not writable).
        Needs the file, and raises as `current` does.
        """
        entry = self.current(name)
        version = index_version(entry.head_sha256, entry.fingerprint)
        return self._values.open(name, version, entry.file, lambda: self.catalog(name))

    def remove(self, name: str) -> None:
        """Forget a database and delete our files about it; never the user's file.

        Raises:
            UnknownDatabase: if no database of that name was added.
        """
        entry = self.entry(name)
        self._entries.delete(name)
        self._catalogs.delete(name)
        self._values.remove(name)
        if entry.snapshot:
            Path(entry.file.path).unlink(missing_ok=True)

    def _check_name(self, source: DatabaseSource) -> None:
        if not NAME.match(source.name):
            raise InvalidDatabase(
                f"{source.name!r} is no name for a database",
                hint="Give one with --name: up to 64 letters, digits, '_', '-' and '.'",
                field="name",
            )
        text = self._entries.get(source.name)
        if text is not None and DatabaseEntry.from_json(text).path != str(source.path):
            raise InvalidDatabase(
                f"another database is called {source.name}: {DatabaseEntry.from_json(text).path}",
                hint="Give this one another name, or remove the other first",
                field="name",
            )

    def _register(self, source: DatabaseSource, progress: AddProgress) -> DatabaseEntry:
        try:
            entry, catalog = self._read(source, progress)
        except (OSError, sqlite3.Error) as error:
            raise InvalidDatabase(
                f"{source.path} cannot be read: {error}",
                hint="Check the file and its descriptions with other programs",
                field="path",
            ) from error
        self._catalogs.put(source.name, catalog.to_json())
        self._entries.put(source.name, entry.to_json())
        return entry

    def _read(self, source: DatabaseSource, progress: AddProgress) -> tuple[DatabaseEntry, Catalog]:
        fingerprint = Fingerprint.of(source.path)
        file = prepare(source, self._snapshots)
        catalog = profile_database(
            file,
            source.name,
            read_descriptions(source.descriptions),
            self._bounds,
            lambda table, done, total: progress(source.name, table, done, total),
        )
        entry = DatabaseEntry(
            name=source.name,
            path=str(source.path),
            file=file,
            fingerprint=fingerprint,
            head_sha256=head_digest(source.path),
            descriptions=str(source.descriptions or ""),
            catalog_sha256=catalog.digest(),
            schema_sha256=hashlib.sha256(schema_prompt(catalog).encode("utf-8")).hexdigest(),
            tables=len(catalog.tables),
            rows=catalog.rows,
            added_at=self._clock.now(),
        )
        self._values.build(
            source.name,
            index_version(entry.head_sha256, fingerprint),
            file,
            catalog,
            lambda column, done, total: progress(source.name, column, done, total),
        )
        return entry, catalog

    def _unknown(self, name: str) -> UnknownDatabase:
        near = process.extractOne(name, self.names(), score_cutoff=SIMILAR_ENOUGH)
        hint = f"Did you mean {near[0]}?" if near else "Add it with: hexgen db add PATH"
        return UnknownDatabase(f"no database is called {name!r}", hint=hint, field="database")


def _source_of(entry: DatabaseEntry) -> DatabaseSource:
    descriptions = Path(entry.descriptions) if entry.descriptions else None
    return DatabaseSource(entry.name, Path(entry.path), descriptions)
