"""A deployment without workers on a real Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from tests.integration.scheduling.live_world import LiveWorld


@pytest.fixture
def world(redis_client: redis.Redis, keys: Keys, settings: Settings) -> Iterator[LiveWorld]:
    live = LiveWorld(redis_client, keys, settings)
    yield live
    live.close()
