"""The store's tables: made, changed back, checked, in both kinds of database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Engine, inspect, text

from hexgen_celery.errors import InvalidSettings
from hexgen_celery.settings import Settings
from hexgen_celery.store.engine import open_store
from hexgen_celery.store.errors import StoreNotEmpty, StoreOutdated, StoreUnavailable
from hexgen_celery.store.models import Base
from hexgen_celery.store.reading import StoreReader
from hexgen_celery.store.schema import check_schema, drift, migrate, schema_version
from hexgen_celery.store.writing import StoreWriter
from tests.integration.store.conftest import stored_at
from tests.integration.store.postgres import PostgresServer
from tests.unit.store import question_samples as samples

pytestmark = pytest.mark.integration


def test_migrations_make_exactly_the_tables_of_the_models(empty_store: Engine) -> None:
    assert schema_version(empty_store).current == ""
    assert migrate(empty_store).up_to_date
    assert drift(empty_store) == []
    assert set(Base.metadata.tables) < set(inspect(empty_store).get_table_names())


def test_migrations_lead_back_to_nothing(empty_store: Engine) -> None:
    migrate(empty_store)
    assert migrate(empty_store, "base").current == ""
    assert inspect(empty_store).get_table_names() in (["alembic_version"], [])
    assert migrate(empty_store).up_to_date


def test_what_is_stored_is_deleted_only_when_that_is_said(store: Engine) -> None:
    StoreWriter(store).write([samples.question("kept", 1_000.0)])
    with pytest.raises(StoreNotEmpty, match="workflows") as refused:
        migrate(store, "base")
    assert "--discard" in refused.value.hint
    assert StoreReader(store, samples.DEPLOYMENT).question("kept") is not None
    assert migrate(store, "base", discard=True).current == ""


def test_migrating_twice_and_at_once_is_harmless(empty_store: Engine) -> None:
    with ThreadPoolExecutor(2) as pool:
        versions = list(pool.map(migrate, [empty_store, empty_store]))
    assert all(version.up_to_date for version in versions)
    assert drift(empty_store) == []


def test_a_difference_between_tables_and_models_is_found(store: Engine) -> None:
    with store.begin() as connection:
        connection.execute(text("ALTER TABLE tenants ADD COLUMN odd INTEGER"))
    assert any("odd" in each for each in drift(store))


def test_an_unknown_revision_is_named(empty_store: Engine) -> None:
    with pytest.raises(StoreOutdated, match="no migration leads from base to 9999"):
        migrate(empty_store, "9999")


def test_a_store_of_a_newer_program_is_refused_and_called_so(store: Engine) -> None:
    with store.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9998'"))
    with pytest.raises(StoreOutdated, match=r"has version 9998.*a newer program made its tables"):
        check_schema(store)
    with pytest.raises(StoreOutdated, match="a newer program made its tables"):
        migrate(store)


def test_an_empty_sqlite_file_gets_its_tables(settings: Settings, sqlite_url: str) -> None:
    engine = open_store(stored_at(settings, sqlite_url), writing=True)
    check_schema(engine)
    assert schema_version(engine).up_to_date
    engine.dispose()


def test_an_empty_postgres_database_does_not(settings: Settings, postgres_url: str) -> None:
    engine = open_store(stored_at(settings, postgres_url), writing=True)
    with pytest.raises(StoreOutdated, match=r"has no tables.*hexgen store migrate"):
        check_schema(engine)
    engine.dispose()


def test_reading_tables_that_are_missing_names_the_command(empty_store: Engine) -> None:
    with empty_store.begin() as connection:
        connection.execute(text("CREATE TABLE something_else (id INTEGER)"))
    with pytest.raises(StoreOutdated, match="hexgen store migrate"):
        StoreReader(empty_store, "d").question("q")


def test_a_sqlite_file_is_never_made_by_reading(settings: Settings, sqlite_url: str) -> None:
    engine = open_store(stored_at(settings, sqlite_url), writing=False)
    reader = StoreReader(engine, "d")
    assert reader.question("q") is None
    assert (reader.answered(), reader.recent(3), reader.tenants(), reader.alpha()) == ([],) * 4
    assert not Path(sqlite_url.removeprefix("sqlite:///")).exists()
    engine.dispose()


def test_a_file_that_is_no_database_is_unusable_not_poison(
    settings: Settings, sqlite_url: str
) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database at all, but long enough to be taken for one" * 20)
    engine = open_store(stored_at(settings, sqlite_url), writing=True)
    with pytest.raises(StoreUnavailable, match="not a database"):
        check_schema(engine)
    engine.dispose()


def test_a_server_that_is_away_is_unavailable(settings: Settings) -> None:
    engine = open_store(stored_at(settings, "postgresql://u:secret@127.0.0.1:1/d"), writing=False)
    with pytest.raises(StoreUnavailable) as caught:
        StoreReader(engine, "d").question("q")
    assert "secret" not in str(caught.value)
    engine.dispose()


@pytest.mark.parametrize("url", ["mysql://h/d", "nonsense", "sqlite://", "sqlite:///:memory:"])
def test_other_stores_are_refused_with_an_example(settings: Settings, url: str) -> None:
    with pytest.raises(InvalidSettings, match="postgresql://user:password@host"):
        open_store(stored_at(settings, url), writing=False)


def test_the_test_server_is_its_own(postgres: PostgresServer) -> None:
    assert str(postgres.port) in postgres.url()
