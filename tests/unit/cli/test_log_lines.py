"""A command's output holds no log lines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from hexgen_celery.cli.log_lines import to_standard_error
from hexgen_celery.cli.root import COMMANDS


@pytest.fixture
def _unconfigured() -> Iterator[None]:
    before = structlog.get_config() if structlog.is_configured() else None
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    if before is not None:
        structlog.configure(**before)


@pytest.mark.usefixtures("_unconfigured")
def test_once_a_command_is_loaded_log_lines_go_to_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    COMMANDS["instances"].load()
    structlog.get_logger("test").warning("an instance is left out", name="a1")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "an instance is left out" in printed.err


@pytest.mark.usefixtures("_unconfigured")
def test_what_was_arranged_stays(capsys: pytest.CaptureFixture[str]) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory())
    to_standard_error()
    structlog.get_logger("test").warning("arranged")
    assert "arranged" in capsys.readouterr().out
