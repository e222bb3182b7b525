"""One question through real workers: asked with plain Celery, answered by a real HTTP server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hexgen_celery.settings import Settings
from tests.integration.workers.fake_llm import FakeLlm
from tests.integration.workers.local_workers import LocalWorkers, pool_of

pytestmark = pytest.mark.integration

PATIENCE = 60.0


@pytest.fixture
def llm() -> Iterator[FakeLlm]:
    with FakeLlm() as server:
        yield server


@pytest.fixture
def workers(llm: FakeLlm, settings: Settings, tmp_path: Path) -> Iterator[LocalWorkers]:
    pooled = settings.model_copy(update={"pools": (pool_of(llm.url),)})
    with LocalWorkers(pooled, tmp_path) as running:
        yield running.start()


def test_a_question_is_answered(workers: LocalWorkers, llm: FakeLlm) -> None:
    result = workers.chat("hello there").get(timeout=PATIENCE)
    assert result["status"] == "answered"
    assert "hello there" in str(result)
    assert result["deadline_met"] is True
    assert len(llm.requests) == 1
