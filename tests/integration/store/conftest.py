"""Stores to test with: a SQLite file and a PostgreSQL database, each empty and migrated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from pydantic import SecretStr
from sqlalchemy import Engine

from hexgen_celery.coordination import Coordinator
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from hexgen_celery.store.engine import open_store
from hexgen_celery.store.schema import migrate
from tests.integration.coordination.support import Dag, MemoryBroker
from tests.integration.store.postgres import PostgresServer, binaries

_databases = (f"store{number}" for number in itertools.count())


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL server programs (Debian: apt-get install postgresql)")
    with PostgresServer(programs) as server:
        yield server


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store' / 'store.sqlite'}"


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    return postgres.create(next(_databases))


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def store_settings(settings: Settings, store_url: str) -> Settings:
    return stored_at(settings, store_url)


@pytest.fixture
def empty_store(store_settings: Settings) -> Iterator[Engine]:
    """A store without tables."""
    engine = open_store(store_settings, writing=True)
    yield engine
    engine.dispose()


@pytest.fixture
def store(empty_store: Engine) -> Engine:
    """A store with its tables."""
    migrate(empty_store)
    return empty_store


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def coordinator(
    redis_client: redis.Redis, keys: Keys, store_settings: Settings, broker: MemoryBroker
) -> Coordinator:
    return Coordinator(redis_client, keys, store_settings, {"dag": Dag()}, broker)


def stored_at(settings: Settings, url: str) -> Settings:
    """`settings` with the store at `url`."""
    store = settings.store.model_copy(update={"url": SecretStr(url)})
    return settings.model_copy(update={"store": store})
