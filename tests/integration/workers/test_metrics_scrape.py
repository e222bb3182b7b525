"""Real workers with metrics on, scraped over HTTP."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hexgen_celery.api import Client
from hexgen_celery.metrics.catalogue import CATALOGUE
from hexgen_celery.settings import MetricsSettings, SloClassSettings, TenantSettings
from tests.integration.workers.fake_llm import FakeLlm
from tests.integration.workers.local_workers import LocalWorkers, deployment_settings, pool_of
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

PATIENCE = 60.0
QUESTIONS = 5
ACME = TenantSettings(
    name="acme", max_in_flight=50, classes=(SloClassSettings(name="relaxed", seconds=60),)
)
Series = dict[str, dict[frozenset[tuple[str, str]], float]]


@pytest.fixture(scope="module")
def workers(
    llm: FakeLlm, redis_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalWorkers]:
    """One control, one sql and one LLM worker, and questions that they answered and refused."""
    directory = tmp_path_factory.mktemp("metrics")
    settings = deployment_settings(redis_server, "metrics", directory, pool_of(llm.url))
    metrics = MetricsSettings(enabled=True, port=0, cache_seconds=0.0)
    settings = settings.model_copy(update={"metrics": metrics, "tenants": (ACME,)})
    with LocalWorkers(settings, directory) as running:
        running.start(sql=1)
        asked = [_ask(running, "relaxed") for _ in range(QUESTIONS)]
        for pending in asked:
            pending.get(timeout=PATIENCE)
        with pytest.raises(Exception, match=r"slo_class"):
            _ask(running, "unheard-of").get(timeout=PATIENCE)
        yield running


def _ask(workers: LocalWorkers, slo_class: str) -> Any:
    asked = {"question": "hi", "workflow": "chat", "tenant": "acme", "slo_class": slo_class}
    return workers.client.send_task("hexgen.ask", kwargs=asked)


def _get(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
        return str(answer.read().decode())


def _targets(workers: LocalWorkers) -> dict[str, str]:
    """Kind of worker → address, as a scraper finds them out from a control worker alone."""
    with Client(workers.settings) as client:
        control = next(each for each in client.processes() if each.kind == "control")
    groups = json.loads(_get(control.endpoint, "/targets"))
    return {group["labels"]["kind"]: group["targets"][0] for group in groups}


def _scrape(address: str) -> Series:
    series: Series = {}
    for family in text_string_to_metric_families(_get(address, "/metrics")):
        for sample in family.samples:
            series.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return series


def _total(series: Series, name: str, **labels: str) -> float:
    """The sum over all series with these labels."""
    wanted = set(labels.items())
    return sum(value for found, value in series.get(name, {}).items() if wanted <= found)


def test_a_control_worker_tells_where_all_endpoints_are(workers: LocalWorkers) -> None:
    targets = _targets(workers)
    assert set(targets) == {"control", "sql", "llm"}
    assert len(set(targets.values())) == 3
    for address in targets.values():
        assert json.loads(_get(address, "/healthz")) == {"status": "ok"}


def test_the_llm_worker_tells_stages_waiting_laxity_and_tokens(workers: LocalWorkers) -> None:
    series = _scrape(_targets(workers)["llm"])
    pool = workers.settings.pools[0].queue
    ended = {"stage": "chat", "pool": pool, "verdict": "done"}
    assert _total(series, "hexgen_requests_total", **ended) == QUESTIONS
    instance = {"stage": "chat", "llm_instance": "x1"}
    assert _total(series, "hexgen_request_seconds_count", **instance) == QUESTIONS
    assert _total(series, "hexgen_request_first_token_seconds_count", **instance) == QUESTIONS
    assert _total(series, "hexgen_request_wait_seconds_count", pool=pool) == QUESTIONS
    assert 0 < _total(series, "hexgen_request_wait_seconds_sum", pool=pool) < PATIENCE * QUESTIONS
    assert _total(series, "hexgen_request_laxity_seconds_count", pool=pool) == QUESTIONS
    assert _total(series, "hexgen_request_laxity_seconds_bucket", pool=pool, le="0.0") == 0
    assert _total(series, "hexgen_request_laxity_seconds_bucket", pool=pool, le="60.0") == QUESTIONS
    assert _total(series, "hexgen_tokens_total", llm_instance="x1", kind="output") > 0
    assert _total(series, "hexgen_process_info", kind="llm") == 1


def test_control_workers_tell_attainment_queues_instances_and_refusals(
    workers: LocalWorkers,
) -> None:
    series = _scrape(_targets(workers)["control"])
    labels = {"tenant": "acme", "slo_class": "relaxed"}
    for outcome in ("accepted", "answered", "met"):
        found = _total(series, "hexgen_questions_total", outcome=outcome, **labels)
        assert found == QUESTIONS, outcome
    assert _total(series, "hexgen_submissions_refused_total") == 1
    pool = workers.settings.pools[0].queue
    assert _total(series, "hexgen_queue_waiting", pool=pool) == 0
    assert _total(series, "hexgen_instance_state", llm_instance="x1", state="ready") == 1
    assert _total(series, "hexgen_instance_state", llm_instance="x1") == 1
    assert _total(series, "hexgen_redis_up") == 1
    assert _total(series, "hexgen_questions_running") == 0
    assert _total(series, "hexgen_timers_age_seconds") < PATIENCE
    assert _total(series, "hexgen_processes") == 3


def test_every_series_of_ours_is_in_the_catalogue(workers: LocalWorkers) -> None:
    known = {sample for metric in CATALOGUE for sample in metric.samples}
    known |= {sample.replace("_total", "_created") for sample in known}
    known |= {sample.replace("_count", "_created") for sample in known}
    for kind, address in _targets(workers).items():
        ours = {name for name in _scrape(address) if name.startswith("hexgen_")}
        assert ours, kind
        assert ours <= known, kind


def test_no_label_names_a_question(workers: LocalWorkers) -> None:
    pending = _ask(workers, "relaxed")
    pending.get(timeout=PATIENCE)
    for address in _targets(workers).values():
        assert pending.id not in _get(address, "/metrics")


def test_a_worker_that_ends_is_no_target_any_more(workers: LocalWorkers) -> None:
    workers.stop("sql-1")
    until = time.monotonic() + PATIENCE
    while "sql" in _targets(workers):
        assert time.monotonic() < until
        time.sleep(0.1)
    workers.sql()
    workers.wait_ready()
    while "sql" not in _targets(workers):
        assert time.monotonic() < until
        time.sleep(0.1)
