"""`hexgen top` while Redis goes away and comes back."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.integration.terminal import TerminalProgram
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

PROJECT = Path(__file__).resolve().parents[3]
TOP = "import sys; from hexgen_celery.cli import main; sys.exit(main(['top', '--refresh', '0.2']))"


def test_it_says_that_redis_is_away_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "redis") as server:
        environment = {
            **os.environ,
            "HEXGEN_BROKER__URL": server.url,
            "PYTHONPATH": str(PROJECT),
            "TERM": "xterm",
        }
        with TerminalProgram([sys.executable, "-c", TOP], environment) as program:
            program.wait_for(b"questions running")
            server.stop()
            program.wait_for(b"Trying again")
            server.start()
            program.wait_for(b"questions running", times=2)
            assert program.status(b"q") == 0
