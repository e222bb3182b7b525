"""Fixtures shared by all tests: one real Redis per session, settings that point at it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from pydantic import SecretStr

from hexgen_celery.keys import Keys
from hexgen_celery.settings import BrokerSettings, Settings
from workers.embedded_redis import EmbeddedRedis

_PROJECT = Path(__file__).resolve().parent.parent
_prefixes = (f"test{number}" for number in itertools.count())


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own configuration must not change what a test sees."""
    for name in list(os.environ):
        if name.startswith("HEXGEN_") and name != "HEXGEN_DATA":
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """A real Redis for the session; restart or crash your own instead of this one."""
    with EmbeddedRedis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: EmbeddedRedis) -> str:
    """The URL of the session's Redis, emptied for this test."""
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    return redis_server.url


@pytest.fixture
def redis_client(redis_url: str) -> Iterator[redis.Redis]:
    """A client of the session's Redis, emptied for this test; answers are `str`."""
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        yield client


@pytest.fixture
def keys() -> Keys:
    """Keys under a prefix that no other test uses."""
    return Keys(next(_prefixes))


@pytest.fixture
def settings(redis_url: str, keys: Keys, tmp_path: Path) -> Settings:
    """Default settings on the session's Redis, with every file below `tmp_path`."""
    defaults = Settings()
    return Settings(
        broker=BrokerSettings(url=SecretStr(redis_url), prefix=keys.prefix),
        sql=defaults.sql.model_copy(update={"home": tmp_path / "databases"}),
        up=defaults.up.model_copy(update={"directory": tmp_path / "up"}),
    )


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The directory of shared benchmark data; the test skips where it is absent."""
    path = Path(os.environ.get("HEXGEN_DATA", _PROJECT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no benchmark data at {path} (set HEXGEN_DATA)")
    return path
