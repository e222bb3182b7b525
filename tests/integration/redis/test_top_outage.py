"""`hexgen top` while Redis goes away and comes back."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.terminal import TerminalProgram
from workers.embedded_redis import EmbeddedRedis

pytestmark = pytest.mark.integration

PROJECT = Path(__file__).resolve().parents[3]
TOP = "import sys; from hexgen_celery.cli import main; sys.exit(main(['top', '--refresh', '0.2']))"


SCREEN, SCREEN_LEFT = b"\x1b[?1049h", b"\x1b[?1049l"


def _top(url: str) -> TerminalProgram:
    environment = {
        **os.environ,
        "HEXGEN_BROKER__URL": url,
        "HEXGEN_BROKER__SOCKET_TIMEOUT_SECONDS": "3600",
        "PYTHONPATH": str(PROJECT),
        "TERM": "xterm",
    }
    return TerminalProgram([sys.executable, "-c", TOP], environment)


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


@pytest.mark.parametrize(("key", "status"), [(b"q", 0), (b"xq", 0), (b"\x03", 130)])
def test_a_key_ends_it_while_redis_keeps_silent(silent: str, key: bytes, status: int) -> None:
    with _top(silent) as program:
        attributes = program.attributes()
        program.wait_for(SCREEN)
        assert program.status(key) == status
        assert SCREEN_LEFT in program.seen
        assert program.attributes() == attributes


def test_a_key_that_is_pressed_early_is_not_lost(silent: str) -> None:
    with _top(silent) as program:
        assert program.status(b"q") == 0


def test_it_says_that_redis_is_away_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "redis") as server, _top(server.url) as program:
        program.wait_for(b"questions running")
        server.stop()
        program.wait_for(b"Trying again")
        server.start()
        program.wait_for(b"questions running", times=2)
        assert program.status(b"q") == 0
