"""A deployment with one instance and no questions yet."""

from __future__ import annotations

import pytest
import redis

from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from tests.integration.live_tuning.ground import Ground


@pytest.fixture
def ground(redis_client: redis.Redis, keys: Keys, settings: Settings) -> Ground:
    return Ground(redis_client, keys, settings)
