"""Submissions that mean no good, from a stock Celery client to running workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.celery_api.heroes import ANSWER, add_heroes
from tests.integration.celery_api.stock_client import StockClient, stock_python
from tests.integration.workers.fake_llm import FakeLlm
from tests.integration.workers.local_workers import LocalWorkers, deployment_settings, pool_of
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

PROGRAM = Path(__file__).with_name("hostile_client.py")
RUN_SECONDS = 300.0
SHORT = 1_500
ACCEPTED = (("answered", ["answered"]), ("unsent", ["UnicodeEncodeError"]))
"""An answer; or Celery's client itself refused to send it."""


@pytest.fixture(scope="module")
def workers(
    redis_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalWorkers]:
    directory = tmp_path_factory.mktemp("hostile")
    with FakeLlm() as server:
        server.answer = ANSWER
        settings = deployment_settings(redis_server, "hostile", directory, pool_of(server.url))
        add_heroes(settings, directory / "heroes.sqlite")
        with LocalWorkers(settings, directory) as running:
            yield running.start(sql=1)


@pytest.fixture(scope="module")
def client(workers: LocalWorkers) -> StockClient:
    return StockClient(stock_python(), workers.url, RUN_SECONDS)


@pytest.fixture(scope="module")
def ended(client: StockClient, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """How each submission ended, by its name."""
    found: dict[str, list[Any]] = client.run(
        PROGRAM.read_text(encoding="utf-8"), tmp_path_factory.mktemp("client")
    )
    return found


def test_each_ends_in_an_answer_or_one_clear_error(ended: dict[str, list[Any]]) -> None:
    assert len(ended) > 300
    wrong = {}
    for name, (kind, *rest) in ended.items():
        if (kind, rest) in ACCEPTED:
            continue
        if kind == "failed" and rest[:2] == ["QuestionFailed", True]:
            text = str(rest[2])
            if "Traceback" not in text and len(text) < SHORT:
                continue
        wrong[name] = (kind, *rest)
    assert wrong == {}


def test_what_is_refused_names_the_field(ended: dict[str, list[Any]]) -> None:
    assert ended["slo_seconds=nan"][3]["field"] == "slo_seconds"
    assert ended["tenant=list"][3]["field"] == "tenant"
    assert ended["database=path"][3]["field"] == "database"
    assert ended["options=deep"][3]["field"]
    assert ended["field-named-task"][3]["field"] == "task"
    assert ended["replayed-3"][0] in ("answered", "failed")


def test_the_workers_live_and_logged_no_traceback(
    ended: dict[str, list[Any]], workers: LocalWorkers
) -> None:
    assert ended
    for name, process in workers.processes.items():
        assert process.poll() is None, f"{name} ended"
        assert "Traceback" not in workers.log(name), workers.log(name)[-4_000:]
    assert_answers(workers)


def test_messages_that_are_no_tasks_do_no_harm(
    client: StockClient, workers: LocalWorkers, tmp_path: Path
) -> None:
    assert client.run(PROGRAM.read_text(encoding="utf-8"), tmp_path, "raw") > 20
    assert_answers(workers)
    assert all(process.poll() is None for process in workers.processes.values())


def assert_answers(workers: LocalWorkers) -> None:
    good = workers.client.send_task("hexgen.ask", ("Who can fly?", "heroes", 60))
    assert good.get(timeout=60)["status"] == "answered"
