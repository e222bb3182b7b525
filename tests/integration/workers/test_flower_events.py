"""Task events under the thread pool: every task is seen to its end, by a receiver and by Flower."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from tests.integration.workers.fake_llm import FakeLlm
from tests.integration.workers.local_workers import (
    PROJECT,
    LocalWorkers,
    deployment_settings,
    pool_of,
)
from workers.embedded_redis import EmbeddedRedis, free_port

pytestmark = pytest.mark.integration

QUESTIONS = 150
TERMINAL = ("task-succeeded", "task-failed", "task-revoked")
FINAL_STATES = {"SUCCESS", "FAILURE", "REVOKED"}
PATIENCE = 90.0
ENOUGH = 0.99


class Watcher:
    """Receives the deployment's events in a thread."""

    def __init__(self, app: Celery) -> None:
        self.ended: dict[str, str] = {}
        self.named: dict[str, str] = {}
        self.workers: set[str] = set()
        self._app = app
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        time.sleep(0.5)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        with self._app.connection_for_read() as connection:
            receiver = self._app.events.Receiver(connection, handlers={"*": self._on_event})
            for _ in receiver.itercapture(limit=None, timeout=None, wakeup=False):
                if self._stop.is_set():
                    return

    def _on_event(self, event: dict[str, Any]) -> None:
        if event["type"] == "task-received":
            self.named[event["uuid"]] = event["name"]
        if event["type"] in TERMINAL:
            self.ended[event["uuid"]] = event["type"]
        if event["type"].startswith("worker-"):
            self.workers.add(event["hostname"].split("@")[0])


@pytest.fixture(scope="module")
def server() -> Iterator[FakeLlm]:
    with FakeLlm() as server:
        yield server


@pytest.fixture(scope="module")
def workers(
    server: FakeLlm, redis_server: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalWorkers]:
    directory = tmp_path_factory.mktemp("events")
    pools = (
        pool_of(server.url, name="left", concurrency=32),
        pool_of(server.url, name="right", concurrency=32),
    )
    settings = deployment_settings(redis_server, "events", directory, *pools)
    with LocalWorkers(settings, directory) as running:
        yield running.start()


@pytest.fixture
def flower(workers: LocalWorkers, tmp_path: Path) -> Iterator[str]:
    """The URL of a Flower that watches the workers."""
    port = free_port()
    environment = {**os.environ, "HEXGEN_BROKER__URL": workers.url, "PYTHONPATH": str(PROJECT)}
    with (tmp_path / "flower.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "hexgen_celery.flower", f"--port={port}"],
            cwd=tmp_path,
            env=environment,
            stdout=log,
            stderr=log,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + PATIENCE
        while not _flower_sees_workers(url, 3):
            assert process.poll() is None, (tmp_path / "flower.log").read_text()
            assert time.monotonic() < until, "Flower sees no workers"
            time.sleep(0.5)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as response:
        return json.load(response)


def _flower_sees_workers(url: str, count: int) -> bool:
    with contextlib.suppress(urllib.error.URLError, ConnectionError):
        return len(_get(f"{url}/api/workers?status=true")) >= count
    return False


def _ask_and_wait(workers: LocalWorkers, server: FakeLlm) -> dict[str, str]:
    """Task ids of questions and of their requests, with the event each must end by."""
    pending = [workers.chat(f"question {number}") for number in range(QUESTIONS)]
    for waiting in pending:
        waiting.get(timeout=PATIENCE)
    server.status = 400
    refused = workers.chat("refused")
    with pytest.raises(Exception, match="told to"):
        refused.get(timeout=PATIENCE)
    server.status = 200
    wrong = workers.chat("wrong", slo_seconds=-1)
    with pytest.raises(Exception, match="slo_seconds"):
        wrong.get(timeout=PATIENCE)
    ends = {waiting.id: "task-succeeded" for waiting in pending}
    ends |= {f"{waiting.id}/chat/1": "task-succeeded" for waiting in pending}
    ends |= {refused.id: "task-failed", f"{refused.id}/chat/1": "task-failed"}
    return {**ends, wrong.id: "task-failed"}


def _wait_for(seen: Any, wanted: int) -> None:
    until = time.monotonic() + 20
    while len(seen()) < wanted and time.monotonic() < until:
        time.sleep(0.2)


def test_every_task_is_seen_to_its_end(workers: LocalWorkers, server: FakeLlm, flower: str) -> None:
    with Watcher(workers.client) as watcher:
        expected = _ask_and_wait(workers, server)
        _wait_for(lambda: watcher.ended, len(expected))
    roots = {task for task in expected if "/" not in task}
    missing = {task for task in expected if task not in watcher.ended}
    assert not missing & roots
    assert len(missing) <= (1 - ENOUGH) * len(expected)
    for task, end in watcher.ended.items():
        assert end == expected[task]
    assert {watcher.named[task] for task in roots} == {"hexgen.ask"}
    assert {name for task, name in watcher.named.items() if "/" in task} == {"hexgen.chat"}
    assert watcher.workers >= {"control-1", "llm-left1", "llm-right1"}

    def final_in_flower() -> dict[str, str]:
        tasks = _get(f"{flower}/api/tasks?limit=10000")
        return {uuid: t["state"] for uuid, t in tasks.items() if t["state"] in FINAL_STATES}

    _wait_for(final_in_flower, len(expected))
    final = final_in_flower()
    assert not roots - set(final)
    assert len(expected.keys() - final.keys()) <= (1 - ENOUGH) * len(expected)


def test_flowers_pages_answer(flower: str) -> None:
    for page in ("/", "/workers", "/tasks", "/broker"):
        with urllib.request.urlopen(flower + page, timeout=30) as response:
            assert response.status == 200, page
