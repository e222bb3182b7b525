"""Logs: one line per record, and no secrets in it."""

from __future__ import annotations

import json
import logging

import pytest
import structlog

from hexgen_celery.logs import configure_logs, mask_text
from hexgen_celery.settings import LogSettings


def _records(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("redis://:hunter2@host:6379/0", "redis://***@host:6379/0"),
        ("cannot reach rediss://bob:pw@h/1 now", "cannot reach rediss://***@h/1 now"),
        ("Authorization: Bearer sk-123", "Authorization: Bearer ***"),
        ("http://host/path?a=1@2", "http://host/path?a=1@2"),
        ("nothing secret", "nothing secret"),
    ],
)
def test_credentials_in_text_are_masked(text: str, masked: str) -> None:
    assert mask_text(text) == masked


def test_our_lines_and_those_of_libraries_share_one_form(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs(LogSettings(format="json"), process="control-1")
    structlog.get_logger("ours").info("question received", workflow="w1")
    logging.getLogger("celery.worker").warning("lost %s", "redis://:pw@h/0")
    ours, theirs = _records(capsys)
    assert ours["event"] == "question received"
    assert ours["workflow"] == "w1"
    assert ours["process"] == theirs["process"] == "control-1"
    assert theirs["event"] == "lost redis://***@h/0"
    assert theirs["level"] == "warning"


def test_secret_fields_are_masked_wherever_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(format="json"))
    structlog.get_logger("x").info(
        "connect", api_key="sk-1", broker={"password": "pw", "host": "h"}, url="redis://a:b@h"
    )
    (record,) = _records(capsys)
    assert record["api_key"] == "***"
    assert record["broker"] == {"password": "***", "host": "h"}
    assert record["url"] == "redis://***@h"


def test_a_traceback_holds_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(format="json"))
    try:
        raise ValueError("redis://:hunter2@h/0 refused")
    except ValueError:
        structlog.get_logger("x").exception("failed")
    assert "hunter2" not in capsys.readouterr().err


def test_the_level_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(format="json", level="warning"))
    structlog.get_logger("x").info("quiet")
    logging.getLogger("y").info("quiet")
    assert _records(capsys) == []


def test_console_text_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(format="console"))
    structlog.get_logger("x").info("hello", workflow="w1")
    text = capsys.readouterr().err
    assert "hello" in text
    assert "workflow=w1" in text
