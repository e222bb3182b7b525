"""Whole questions while every kind of worker is killed, at every fault point.

The ledger is independent: what the client asked and got, and what the language model was asked.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, cast

import pytest
import redis
from celery.result import AsyncResult

from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from tests.integration.workers.fake_llm import FakeLlm
from tests.integration.workers.local_workers import LocalWorkers, deployment_settings, pool_of
from workers.embedded_redis import EmbeddedRedis

pytestmark = [pytest.mark.integration, pytest.mark.slow]

QUESTIONS, KILLS, SEED = 60, 8, 5
SLO_SECONDS = 300.0
FAULTS = "after-claim=0.01,after-transition=0.01,before-send=0.01,before-ack=0.01"


class ImmortalWorkers(LocalWorkers):
    """Starts every worker again that has ended."""

    ended: ClassVar[Counter[str]] = Counter()

    def revive(self) -> None:
        for name, process in list(self.processes.items()):
            status = process.poll()
            if status is None:
                continue
            self.ended[str(status)] += 1
            kind = name.split("-")[0]
            if kind == "llm":
                self.llm(name.removeprefix("llm-"))
            else:
                {"control": self.control, "sql": self.sql}[kind](name)


@pytest.fixture
def llm() -> Iterator[FakeLlm]:
    with FakeLlm(seconds=0.05) as server:
        yield server


@pytest.fixture
def workers(
    llm: FakeLlm, redis_server: EmbeddedRedis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ImmortalWorkers]:
    settings = deployment_settings(redis_server, "chaos", tmp_path, pool_of(llm.url, llm.url))
    monkeypatch.setenv("HEXGEN_FAULTS", FAULTS)
    monkeypatch.setenv("HEXGEN_FAULT_SEED", str(SEED))
    with ImmortalWorkers(settings, tmp_path) as running:
        for name in ("control-1", "control-2"):
            running.control(name)
        for instance in ("x1", "x2"):
            running.llm(instance)
        yield running


def test_every_question_is_answered_once_and_nothing_is_left(
    workers: ImmortalWorkers, llm: FakeLlm
) -> None:
    rng = random.Random(SEED)
    asked = [workers.chat(f"question {n}", slo_seconds=SLO_SECONDS) for n in range(QUESTIONS)]
    for _ in range(KILLS):
        time.sleep(1.0)
        workers.kill(rng.choice(sorted(workers.processes)))
        workers.revive()
    answers = _answers(workers, asked)
    assert answers == {f"question {number}": 1 for number in range(QUESTIONS)}
    _settle(workers)
    texts = [str(request["messages"][-1]["content"]) for request in llm.requests]
    # A worker that starts tries its server out with a request of its own.
    prompts = Counter(text for text in texts if text in answers)
    assert set(prompts) == set(answers)
    repeated = sum(prompts.values()) - QUESTIONS
    killed = sum(workers.ended.values())
    assert killed >= KILLS
    # A worker that dies repeats at most what its threads had under way.
    assert repeated <= killed * workers.settings.pools[0].concurrency


def _answers(workers: ImmortalWorkers, asked: list[AsyncResult[object]]) -> Counter[str]:
    """What the client got, whichever way it went."""
    texts: Counter[str] = Counter()
    for result in asked:
        until = time.monotonic() + 120.0
        while not result.ready():
            workers.revive()
            assert time.monotonic() < until, f"{result.id} never ended"
            time.sleep(0.1)
        answer = cast("dict[str, str]", result.get(timeout=1.0))
        assert answer["status"] == "answered", json.dumps(answer)
        texts[answer["text"]] += 1
    return texts


def _settle(workers: ImmortalWorkers) -> None:
    """Wait until leases, outbox, counters and queues are empty."""
    until = time.monotonic() + 60.0
    while left := _leftovers(workers.settings):
        workers.revive()
        assert time.monotonic() < until, left
        time.sleep(0.2)


def _leftovers(settings: Settings) -> list[str]:
    keys = Keys(settings.broker.prefix)
    root = keys.queue_root
    parts = ("messages", "leases", "holders", "deliveries", "passed", "load")
    names = [keys.outbox, keys.deadlines, keys.running, keys.load, "hexgen.ask", "celery"]
    names += [f"{root}:{part}" for part in parts]
    with redis.Redis.from_url(settings.broker.url.get_secret_value()) as client:
        return [name for name in names if client.exists(name)]
