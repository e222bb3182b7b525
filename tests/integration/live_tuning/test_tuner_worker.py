"""The tuner's process: beat asks, the worker tunes, and it ends when it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hexgen_celery.settings import TunerSettings
from tests.integration.live_tuning.ground import Ground

pytestmark = pytest.mark.integration

PROJECT = Path(__file__).resolve().parents[3]
PATIENCE = 60.0


def test_the_process_tunes_by_itself_and_ends_cleanly(ground: Ground, tmp_path: Path) -> None:
    ground.answer()
    tuner = TunerSettings(interval_seconds=1, least_questions=40, questions=20, seeds=1)
    environment = {
        **os.environ,
        "HEXGEN_BROKER__URL": ground.settings.broker.url.get_secret_value(),
        "HEXGEN_BROKER__PREFIX": ground.settings.broker.prefix,
        "HEXGEN_WORKERS__DEAD_AFTER_SECONDS": "600",
        "HEXGEN_TUNER": tuner.model_dump_json(),
        "PYTHONPATH": str(PROJECT),
    }
    log = tmp_path / "tuner.log"
    with log.open("wb") as file:
        command = [sys.executable, "-m", "workers.tuner", "--name", "tuner-1"]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=file, stderr=file)
    try:
        until = time.monotonic() + PATIENCE
        while not ground.entries.recent():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        nice = os.getpriority(os.PRIO_PROCESS, process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert nice == 19
    assert ground.entries.recent()[0].predicted > 0
