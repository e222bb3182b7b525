"""Tenants through real workers, asked by a plain Celery client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hexgen_celery.api import Client
from hexgen_celery.errors import QuestionFailed
from hexgen_celery.settings import SloClassSettings, TenantSettings
from tests.integration.workers.fake_llm import FakeLlm
from tests.integration.workers.local_workers import LocalWorkers, deployment_settings, pool_of
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

PATIENCE = 60.0
ACME = TenantSettings(
    name="acme",
    max_in_flight=2,
    classes=(
        SloClassSettings(name="interactive", seconds=40),
        SloClassSettings(name="relaxed", seconds=90),
    ),
)


@pytest.fixture(scope="module")
def workers(
    llm: FakeLlm, redis_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalWorkers]:
    directory = tmp_path_factory.mktemp("tenants")
    settings = deployment_settings(redis_server, "tenants", directory, pool_of(llm.url))
    settings = settings.model_copy(update={"tenants": (ACME,)})
    with LocalWorkers(settings, directory) as running:
        yield running.start()


def _ask(workers: LocalWorkers, **fields: Any) -> Any:
    asked = {"question": "hi", "workflow": "chat", "tenant": "acme", **fields}
    return workers.client.send_task("hexgen.ask", kwargs=asked)


def _refusal(pending: Any) -> dict[str, Any]:
    with pytest.raises(Exception) as raised:
        pending.get(timeout=PATIENCE)
    (refusal,) = raised.value.args
    assert type(raised.value).__name__ == QuestionFailed.__name__
    return dict(refusal)


def test_the_third_question_of_two_is_refused_until_one_has_ended(
    workers: LocalWorkers, llm: FakeLlm
) -> None:
    llm.reset()
    llm.holding = True
    running = [_ask(workers), _ask(workers, slo_class="relaxed")]
    llm.wait_open(2)
    refused = _refusal(_ask(workers))
    assert (refused["code"], refused["field"]) == ("tenant_full", "tenant")
    assert "2 questions in flight" in refused["message"]
    other = _ask(workers, tenant="default")
    llm.holding = False
    answers = [pending.get(timeout=PATIENCE) for pending in running]
    assert [answer["slo_seconds"] for answer in answers] == [40, 90]
    assert [answer["slo_class"] for answer in answers] == ["interactive", "relaxed"]
    assert other.get(timeout=PATIENCE)["status"] == "answered"
    assert _ask(workers).get(timeout=PATIENCE)["status"] == "answered"
    with Client(workers.settings) as client:
        seen = {(one.tenant, one.slo_class): one for one in client.attainment()}
    assert seen["acme", "interactive"].refused == 1
    assert seen["acme", "interactive"].met == 2
    assert seen["acme", "relaxed"].attainment == 1.0


def test_unknown_tenants_and_classes_are_refused_by_the_workers(workers: LocalWorkers) -> None:
    assert _refusal(_ask(workers, tenant="acne"))["field"] == "tenant"
    refused = _refusal(_ask(workers, slo_class="fast"))
    assert refused["field"] == "slo_class"
    assert "interactive (40 s)" in refused["hint"]
