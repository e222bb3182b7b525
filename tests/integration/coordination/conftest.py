"""A coordinator on a real Redis."""

from __future__ import annotations

from functools import partial

import pytest
import redis

from hexgen_celery.coordination import Coordinator, OutboxEntry
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from tests.integration.coordination import support
from tests.integration.coordination.support import (
    CHAIN,
    Dag,
    Leftovers,
    MemoryBroker,
    PassTime,
    make_submission,
)


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def coordinator(
    redis_client: redis.Redis, keys: Keys, settings: Settings, broker: MemoryBroker
) -> Coordinator:
    return Coordinator(redis_client, keys, settings, {"dag": Dag()}, broker)


@pytest.fixture
def one(coordinator: Coordinator, broker: MemoryBroker) -> OutboxEntry:
    """The message of the first of two requests."""
    coordinator.start(make_submission(nodes=CHAIN))
    return broker.take()


@pytest.fixture
def pass_time(redis_client: redis.Redis, keys: Keys) -> PassTime:
    return partial(support.let_pass, redis_client, keys)


@pytest.fixture
def leftovers(redis_client: redis.Redis, keys: Keys) -> Leftovers:
    return partial(support.leftovers, redis_client, keys)
