"""The version of the store's tables: what it is, what it should be, and how to get there."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, Select, inspect, literal, select, table, text

import hexgen_celery
from hexgen_celery.store.engine import naming_a_lost_store, place_of, sqlite_file
from hexgen_celery.store.errors import StoreNotEmpty, StoreOutdated

HEAD = "head"
_VERSIONS = "alembic_version"
_LOCK = 0x68657867656E
"""Of PostgreSQL's advisory locks: two processes must not migrate at once."""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """The revision of the store ("" where it has no tables) and the one of this program."""

    current: str
    wanted: str
    known: tuple[str, ...] = ()
    """The revisions that this program has migrations for, oldest first."""

    @property
    def up_to_date(self) -> bool:
        """Whether both are the same."""
        return self.current == self.wanted

    @property
    def mending(self) -> str:
        """What to do where they are not the same."""
        if self.current and self.current not in self.known:
            return "a newer program made its tables: install that one"
        return "run `hexgen store migrate`"


def migrations_directory() -> Path:
    """The directory of the migrations, installed or in the project's sources."""
    package = Path(hexgen_celery.__file__).parent
    installed = package / "_migrations"
    return installed if installed.is_dir() else package.parent / "migrations"


def schema_version(engine: Engine) -> SchemaVersion:
    """Which version the store has.

    Raises:
        StoreUnavailable: it cannot be reached.
    """
    script = ScriptDirectory(str(migrations_directory()))
    with naming_a_lost_store(engine), engine.connect() as connection:
        heads = MigrationContext.configure(connection).get_current_heads()
    wanted = script.get_current_head() or ""
    return SchemaVersion(", ".join(sorted(heads)), wanted, _revisions(script))


def check_schema(engine: Engine) -> None:
    """Make sure that the tables are those of this version. An empty SQLite file gets them.

    Raises:
        StoreOutdated: they are older, newer or missing.
        StoreUnavailable: the store cannot be reached.
    """
    version = schema_version(engine)
    if version.up_to_date:
        return
    if _is_new_file(engine, version):
        migrate(engine)
        return
    raise _outdated(engine, version)


def outdated(engine: Engine) -> StoreOutdated | None:
    """Why a recorder would refuse the store; None for one with the right tables, or a new SQLite
    file, which a recorder fills.

    Raises:
        StoreUnavailable: the store cannot be reached.
    """
    version = schema_version(engine)
    if version.up_to_date or _is_new_file(engine, version):
        return None
    return _outdated(engine, version)


def _is_new_file(engine: Engine, version: SchemaVersion) -> bool:
    return not version.current and sqlite_file(engine.url) is not None and not _tables(engine)


def _outdated(engine: Engine, version: SchemaVersion) -> StoreOutdated:
    has = f"has version {version.current}" if version.current else "has no tables"
    return StoreOutdated(
        f"the store {place_of(engine.url)} {has}; this program needs {version.wanted}",
        field="store.url",
        hint=version.mending,
    )


def migrate(engine: Engine, revision: str = HEAD, *, discard: bool = False) -> SchemaVersion:
    """Bring the store to `revision`, up or down to it; the version it then has.

    Going down deletes what the earlier version has no place for: with `discard` alone, or where
    nothing is stored.

    Raises:
        StoreUnavailable: the store cannot be reached.
        StoreOutdated: there is no such revision.
        StoreNotEmpty: it holds rows, and the way leads down.
    """
    version = schema_version(engine)
    order = ["base", *version.known]
    target = version.wanted if revision == HEAD else revision
    current = version.current or "base"
    if current not in order:
        raise StoreOutdated(
            f"no migration leads from {current} to {target}",
            field="store.url",
            hint=version.mending,
        )
    if target not in order:
        raise StoreOutdated(
            f"no migration leads from {current} to {target}",
            field="revision",
            hint=f"known: {', '.join(order)}",
        )
    step = command.upgrade if order.index(target) >= order.index(current) else command.downgrade
    if step is command.downgrade and not discard:
        _refuse_to_discard(engine, target)
    with naming_a_lost_store(engine), _alone(engine), engine.begin() as connection:
        _lock(connection)
        step(_configuration(connection), target)
    return schema_version(engine)


def drift(engine: Engine) -> list[str]:
    """How the tables differ from the models, in words; empty when they do not."""
    from alembic.autogenerate import compare_metadata

    from hexgen_celery.store.models import Base

    with naming_a_lost_store(engine), engine.connect() as connection:
        context = MigrationContext.configure(connection)
        return [str(each) for each in compare_metadata(context, Base.metadata)]


def _revisions(script: ScriptDirectory) -> tuple[str, ...]:
    return tuple(each.revision for each in reversed(list(script.walk_revisions())))


def _configuration(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_directory()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _tables(engine: Engine) -> list[str]:
    with naming_a_lost_store(engine):
        return inspect(engine).get_table_names()


def _refuse_to_discard(engine: Engine, target: str) -> None:
    names = [name for name in _tables(engine) if name != _VERSIONS]
    with naming_a_lost_store(engine), engine.connect() as connection:
        filled = [name for name in names if connection.execute(_one_row(name)).first()]
    if filled:
        raise StoreNotEmpty(
            f"going back to {target} deletes what is in {', '.join(filled)}",
            field="store.url",
            hint="make a back-up (docs/operations.md), then add --discard",
        )


def _one_row(name: str) -> Select[Any]:
    return select(literal(1)).select_from(table(name)).limit(1)


def _lock(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})


@contextlib.contextmanager
def _alone(engine: Engine) -> Iterator[None]:
    """Keep other processes of this machine from migrating the same file."""
    file = sqlite_file(engine.url)
    if file is None:
        yield
        return
    with file.with_name(f"{file.name}.migration").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
