"""Tenants: how many questions of theirs run, and how many met their deadlines."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import redis

from hexgen_celery.coordination import Coordinator
from hexgen_celery.errors import TenantFull, UnknownWorkflow
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings, TenantSettings
from hexgen_celery.tenants import DAY, HOUR, ClassAttainment, TenantReader
from hexgen_celery.workflows.definition import Submission
from tests.integration.coordination.support import Dag, MemoryBroker, make_submission

LIMIT = 2
MOST_COUNTED = 20_000


@pytest.fixture
def coordinator(
    redis_client: redis.Redis, keys: Keys, settings: Settings, broker: MemoryBroker
) -> Coordinator:
    tenants = (TenantSettings(name="acme", max_in_flight=LIMIT),)
    limited = settings.model_copy(update={"tenants": tenants})
    return Coordinator(redis_client, keys, limited, {"dag": Dag()}, broker)


@pytest.fixture
def reader(redis_client: redis.Redis, keys: Keys) -> TenantReader:
    return TenantReader(redis_client, keys)


def _question(tenant: str = "acme", slo_class: str = "fast", **changes: Any) -> Submission:
    submission = make_submission(nodes={"a": []}, **changes)
    return replace(submission, tenant=tenant, slo_class=slo_class)


def _one(reader: TenantReader) -> ClassAttainment:
    (only,) = reader.read()
    return only


def _answer(coordinator: Coordinator, broker: MemoryBroker) -> None:
    entry = broker.take()
    assert coordinator.claim(entry.ref, worker="w") is not None
    coordinator.complete(entry.ref, {"text": "x"})


def test_a_question_beyond_the_limit_is_refused_and_leaves_nothing(
    coordinator: Coordinator, reader: TenantReader
) -> None:
    for _ in range(LIMIT):
        coordinator.start(_question())
    further = _question()
    with pytest.raises(TenantFull, match="'acme' has 2 questions in flight") as refused:
        coordinator.start(further)
    assert refused.value.field == "tenant"
    with pytest.raises(UnknownWorkflow):
        coordinator.status(further.workflow_id)
    assert (_one(reader).in_flight, _one(reader).refused) == (LIMIT, 1)


def test_the_first_look_at_a_question_beyond_the_limit_decides(
    coordinator: Coordinator, reader: TenantReader
) -> None:
    first, further = _question(), _question()
    coordinator.start(first)
    coordinator.start(_question())
    with pytest.raises(TenantFull):
        coordinator.start(further)
    assert coordinator.cancel(first.workflow_id)
    with pytest.raises(TenantFull):
        coordinator.start(further)
    assert (_one(reader).accepted, _one(reader).refused) == (LIMIT, 1)
    coordinator.start(_question())
    assert (_one(reader).accepted, _one(reader).refused) == (LIMIT + 1, 1)


def test_the_same_question_delivered_again_is_no_further_one(
    coordinator: Coordinator, reader: TenantReader
) -> None:
    question = _question()
    for _ in range(LIMIT + 2):
        coordinator.start(question)
    assert (_one(reader).accepted, _one(reader).in_flight) == (1, 1)


def test_an_ended_question_makes_room(
    coordinator: Coordinator, broker: MemoryBroker, reader: TenantReader
) -> None:
    first = _question()
    coordinator.start(first)
    coordinator.start(_question())
    assert coordinator.cancel(first.workflow_id)
    coordinator.start(_question())
    assert _one(reader).in_flight == LIMIT


def test_others_are_not_limited(coordinator: Coordinator, reader: TenantReader) -> None:
    for _ in range(LIMIT + 2):
        coordinator.start(_question("other"))
    assert _one(reader).in_flight == LIMIT + 2


def test_attainment_counts_answers_in_time_among_what_ended(
    coordinator: Coordinator, broker: MemoryBroker, reader: TenantReader
) -> None:
    coordinator.start(_question())
    _answer(coordinator, broker)
    assert _one(reader).attainment == 1.0
    late = _question(slo=0.05)
    coordinator.start(late)
    time.sleep(0.1)
    coordinator.tick()
    seen = _one(reader)
    assert (seen.accepted, seen.ended, seen.answered, seen.met) == (2, 2, 1, 1)
    assert seen.attainment == 0.5
    assert seen.in_flight == 0


def test_cancelled_questions_say_nothing_about_deadlines(
    coordinator: Coordinator, reader: TenantReader
) -> None:
    question = _question()
    coordinator.start(question)
    coordinator.cancel(question.workflow_id)
    assert _one(reader).attainment is None


def test_classes_are_told_apart(coordinator: Coordinator, reader: TenantReader) -> None:
    coordinator.start(_question(slo_class="fast"))
    coordinator.start(_question(slo_class="slow/quoted"))
    assert [one.slo_class for one in reader.read()] == ["fast", "slow/quoted"]


def test_a_question_that_nobody_could_end_does_not_hold_its_place_for_ever(
    coordinator: Coordinator, redis_client: redis.Redis, keys: Keys
) -> None:
    redis_client.zadd(f"{keys.tenants}:acme", {"forgotten-1": 1, "forgotten-2": 1})
    coordinator.start(_question())


def test_the_last_hour_and_day_are_counted_apart_and_forgotten(
    coordinator: Coordinator,
    broker: MemoryBroker,
    reader: TenantReader,
    redis_client: redis.Redis,
    keys: Keys,
) -> None:
    coordinator.start(_question())
    _answer(coordinator, broker)
    coordinator.start(_question())
    for past in (HOUR, DAY):
        (seen,) = reader.recent(past)
        assert (seen.tenant, seen.slo_class) == ("acme", "fast")
        assert (seen.accepted, seen.ended, seen.met, seen.in_flight) == (2, 1, 1, 1)
        number = int(time.time()) // past.seconds
        names = [keys.tenants_in(past.seconds, number - back) for back in (0, 1)]
        (name,) = [name for name in names if redis_client.exists(name)]
        span = past.seconds * past.periods
        assert span <= int(str(redis_client.ttl(name))) <= 2 * span
        # What was counted just before the stretch began is left out.
        redis_client.rename(name, keys.tenants_in(past.seconds, number - past.periods))
        assert reader.recent(past) == []
    assert _one(reader).accepted == 2


def test_tenants_beyond_all_that_are_counted_are_counted_together(
    coordinator: Coordinator,
    broker: MemoryBroker,
    reader: TenantReader,
    redis_client: redis.Redis,
    keys: Keys,
) -> None:
    """Who is known keeps every measure of its own, the first answer too."""
    coordinator.start(_question("known"))
    flood: dict[Any, Any] = {f'["t{number}","","accepted"]': 1 for number in range(MOST_COUNTED)}
    redis_client.hset(keys.tenants, mapping=flood)
    for _ in range(2):
        coordinator.start(_question("late"))
        coordinator.start(_question("later", slo_class="slow"))
    for _ in range(5):
        _answer(coordinator, broker)
    assert redis_client.hlen(keys.tenants) == MOST_COUNTED + 3 + 2 * 3
    read = {(one.tenant, one.slo_class): one for one in reader.read()}
    assert len(read) == MOST_COUNTED + 3
    counted = [read[name] for name in (("known", "fast"), ("other", "fast"), ("other", "slow"))]
    assert [(one.accepted, one.answered, one.met) for one in counted] == [
        (1, 1, 1),
        (2, 2, 2),
        (2, 2, 2),
    ]
    assert {one.tenant for one in reader.recent(HOUR)} == {"known", "late", "later"}


def test_clients_at_the_limit_together_do_not_exceed_it(
    coordinator: Coordinator, reader: TenantReader
) -> None:
    """Counted and taken in one script, so that nobody comes between."""
    together = threading.Barrier(8)

    def ask(_number: int) -> bool:
        question = _question()
        together.wait(10)
        try:
            coordinator.start(question)
        except TenantFull:
            return False
        return True

    with ThreadPoolExecutor(8) as clients:
        accepted = sum(clients.map(ask, range(8)))
    seen = _one(reader)
    assert accepted == LIMIT
    assert (seen.accepted, seen.refused, seen.in_flight) == (LIMIT, 8 - LIMIT, LIMIT)
