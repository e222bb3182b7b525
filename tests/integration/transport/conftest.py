"""A Redis of its own for each test that stops, pauses or inspects it, and probe workers on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.integration.transport.probe import Broker, Probe
from workers.embedded_redis import EmbeddedRedis


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tmp_path / "redis", appendfsync="always") as running:
        yield running


@pytest.fixture
def probe(server: EmbeddedRedis, tmp_path: Path) -> Iterator[Probe]:
    with Probe(server.url, tmp_path) as running:
        yield running


@pytest.fixture
def broker(server: EmbeddedRedis) -> Iterator[Broker]:
    with redis.Redis.from_url(server.url) as client:
        yield Broker(client)
