"""The router and the publisher on a real Redis: where requests go, and what clients find."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.exceptions import TaskRevokedError

from hexgen_celery.app import create_app, use_route
from hexgen_celery.eligibility import NoPool
from hexgen_celery.errors import InvalidProfile, InvalidSettings, QuestionFailed
from hexgen_celery.instances import InstanceDirectory, InstanceRecord
from hexgen_celery.keys import Keys
from hexgen_celery.names import ASK, ASK_QUEUE, SQL_QUEUE
from hexgen_celery.outbox import OutboxEntry, TerminalResult
from hexgen_celery.publisher import CeleryPublisher
from hexgen_celery.references import RequestRef
from hexgen_celery.router import LiveRouter
from hexgen_celery.settings import InstanceSettings, PoolSettings, RouterSettings, Settings
from hexgen_celery.workflows.definition import (
    LlmCall,
    NodeKind,
    NodeSpec,
    SqlCall,
    Submission,
    WorkflowStatus,
)

pytestmark = pytest.mark.integration

FAST, SLOW = "a100-80g-x1-qwen3-30b-a3b", "a6000-x1-qwen3-30b-a3b"
SUBMISSION = Submission("w", "chat", "q", "", 60.0, 0.0, 60.0)
LLM = NodeSpec("n", NodeKind.LLM, "chat", "chat", LlmCall((), "q", 4000, 200.0, 300))
SQL = NodeSpec("s", NodeKind.SQL, "execute_sql", "execute", SqlCall("db", "SELECT 1"))


def _record(name: str, gpu: str, profile: str, model: str = "m") -> InstanceRecord:
    return InstanceRecord(name, f"gpu.{gpu}.x", gpu, model, profile, "http://1", f"{name}@h", 64)


def _entry(spec: NodeSpec = LLM, **options: Any) -> OutboxEntry:
    submission = replace(SUBMISSION, options=options)
    return OutboxEntry(RequestRef("w", spec.id, 1), spec, submission)


@pytest.fixture
def directory(redis_client: redis.Redis, keys: Keys) -> InstanceDirectory:
    return InstanceDirectory(redis_client, keys)


@pytest.fixture
def router(redis_client: redis.Redis, keys: Keys, settings: Settings) -> Iterator[LiveRouter]:
    shortest = settings.model_copy(
        update={"router": RouterSettings(dispatch="shortest-expected-delay")}
    )
    with LiveRouter(redis_client, keys, shortest, random.Random(1)) as router:
        yield router


def test_an_idle_cluster_serves_from_its_fastest_pool(
    router: LiveRouter, directory: InstanceDirectory
) -> None:
    directory.announce(_record("slow", "a6000", SLOW))
    directory.announce(_record("fast", "a100", FAST))
    placement = router.place(_entry())
    assert placement.queue == "gpu.a100.x.fast"
    assert placement.prefill_tokens == 4000
    assert placement.output_tokens == 200
    assert placement.prefill_us is not None
    assert placement.prefill_us > 0
    assert float(placement.reasons["score"]) > 0


def test_load_drives_requests_to_the_other_pool(
    router: LiveRouter, directory: InstanceDirectory, redis_client: redis.Redis, keys: Keys
) -> None:
    directory.announce(_record("slow", "a6000", SLOW))
    directory.announce(_record("fast", "a100", FAST))
    redis_client.hset(keys.load, "gpu.a100.x:waiting", 50)
    assert router.place(_entry()).queue == "gpu.a6000.x.slow"


def test_a_model_goes_where_it_is_served(router: LiveRouter, directory: InstanceDirectory) -> None:
    directory.announce(_record("slow", "a6000", SLOW, model="small"))
    directory.announce(_record("fast", "a100", FAST, model="big"))
    assert router.place(_entry(model="small")).queue == "gpu.a6000.x.slow"
    with pytest.raises(NoPool, match=r"no instance serves huge .* announced: fast"):
        router.place(_entry(model="huge"))


def test_without_any_instance_the_request_is_kept(router: LiveRouter) -> None:
    with pytest.raises(NoPool, match=r"no instance is ready .* announced: none"):
        router.place(_entry())


def test_a_withdrawn_instance_gets_nothing_more(
    router: LiveRouter, directory: InstanceDirectory
) -> None:
    directory.announce(_record("fast", "a100", FAST))
    directory.withdraw("fast")
    with pytest.raises(NoPool):
        router.place(_entry())


def test_statements_go_to_the_sql_workers(router: LiveRouter) -> None:
    assert router.place(_entry(SQL)).queue == SQL_QUEUE


def test_messages_that_are_not_requests_are_left_to_the_fixed_routes(router: LiveRouter) -> None:
    assert router.route("anything", (), {}, {}) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"router": RouterSettings(dispatch="clairvoyant")},
        {"router": RouterSettings(dispatch="alpha", parameters={"beta": 1.0})},
    ],
)
def test_an_unknown_policy_is_refused_at_start(
    redis_client: redis.Redis, keys: Keys, settings: Settings, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidSettings):
        LiveRouter(redis_client, keys, settings.model_copy(update=wrong))


def test_an_unknown_profile_is_refused_at_start(
    redis_client: redis.Redis, keys: Keys, settings: Settings
) -> None:
    pool = PoolSettings(
        name="x",
        gpu="a100",
        model="m",
        profile="no-such-profile",
        instances=(InstanceSettings(name="a", url="http://1"),),
    )
    with pytest.raises(InvalidProfile, match="no-such-profile"):
        LiveRouter(redis_client, keys, settings.model_copy(update={"pools": (pool,)}))


@pytest.fixture
def app(settings: Settings, router: LiveRouter) -> Celery:
    app = create_app(settings)
    use_route(app, router.route)
    return app


def _terminal(status: WorkflowStatus, **body: Any) -> TerminalResult:
    return TerminalResult("w", status, body, SUBMISSION)


def test_a_request_is_published_to_the_pool_that_was_chosen(
    app: Celery, router: LiveRouter, directory: InstanceDirectory
) -> None:
    directory.announce(_record("fast", "a100", FAST))
    placement = CeleryPublisher(app, router, "me@h").publish(_entry())
    assert placement.queue == "gpu.a100.x.fast"
    with app.connection_for_read() as connection:
        message = connection.default_channel.basic_get("gpu.a100.x.fast")
    assert message.headers["task"] == "hexgen.chat"
    assert message.headers["id"] == "w/n/1"
    assert message.headers["root_id"] == "w"
    _, kwargs, _ = message.payload
    assert kwargs == {"workflow_id": "w", "node_id": "n", "attempt": 1}


def test_a_publisher_without_the_route_says_so(settings: Settings, router: LiveRouter) -> None:
    publisher = CeleryPublisher(create_app(settings), router)
    with pytest.raises((LookupError, NoPool)):
        publisher.publish(_entry())


def test_questions_have_their_own_queue(app: Celery) -> None:
    assert app.amqp.router.route({}, ASK, (), {})["queue"].name == ASK_QUEUE


def test_an_answer_is_a_success(app: Celery, router: LiveRouter) -> None:
    publisher = CeleryPublisher(app, router)
    publisher.finish(_terminal(WorkflowStatus.ANSWERED, rows=[[1]], latency_seconds=2.0))
    publisher.finish(_terminal(WorkflowStatus.ANSWERED, rows=[[1]], latency_seconds=3.0))
    assert app.AsyncResult("w").get(timeout=5) == {"rows": [[1]], "latency_seconds": 2.0}


@pytest.mark.parametrize("status", [WorkflowStatus.FAILED, WorkflowStatus.EXPIRED])
def test_a_failure_carries_its_json(
    app: Celery, router: LiveRouter, status: WorkflowStatus
) -> None:
    CeleryPublisher(app, router).finish(_terminal(status, stage="evaluation", cause="why"))
    with pytest.raises(QuestionFailed) as caught:
        app.AsyncResult("w").get(timeout=5)
    assert caught.value.args == ({"stage": "evaluation", "cause": "why"},)
    assert app.AsyncResult("w").state == "FAILURE"


def test_a_cancelled_question_is_revoked(app: Celery, router: LiveRouter) -> None:
    CeleryPublisher(app, router).finish(_terminal(WorkflowStatus.CANCELLED, cause="by the user"))
    with pytest.raises(TaskRevokedError, match="by the user"):
        app.AsyncResult("w").get(timeout=5)
    assert app.AsyncResult("w").state == "REVOKED"
