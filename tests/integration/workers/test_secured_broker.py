"""Workers on a Redis with a password, on both transports; the password is in no log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.workers.fake_llm import FakeLlm
from tests.integration.workers.local_workers import (
    LocalWorkers,
    deployment_settings,
    pool_of,
)
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

PASSWORD = "p@ss/wörd:1"
PATIENCE = 60.0


@pytest.mark.parametrize("transport", ["urgency", "kombu"])
def test_a_question_is_answered_and_the_password_is_never_logged(
    tmp_path: Path, transport: str
) -> None:
    with (
        FakeLlm() as llm,
        EmbeddedRedis(tmp_path / "redis", password=PASSWORD) as server,
    ):
        settings = deployment_settings(server, "secured", tmp_path, pool_of(llm.url))
        broker = settings.broker.model_copy(update={"transport": transport})
        settings = settings.model_copy(update={"broker": broker})
        with LocalWorkers(settings, tmp_path) as workers:
            workers.start()
            assert workers.chat("secret").get(timeout=PATIENCE)["text"] == "secret"
            quoted = server.url.rpartition("@")[0].rpartition(":")[2]
            workers.stop()
            for name in workers.processes:
                assert PASSWORD not in workers.log(name)
                assert quoted not in workers.log(name)
