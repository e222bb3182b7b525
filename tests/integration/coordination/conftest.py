"""A coordinator on a real Redis."""

from __future__ import annotations

import pytest
import redis

from hexgen_celery.coordination import Coordinator
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from tests.integration.coordination.support import Dag, MemoryBroker


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def coordinator(
    redis_client: redis.Redis, keys: Keys, settings: Settings, broker: MemoryBroker
) -> Coordinator:
    return Coordinator(redis_client, keys, settings, {"dag": Dag()}, broker)
