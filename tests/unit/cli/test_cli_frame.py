"""The command line's frame: the overview, and what a user sees of an error."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import click
import pytest
import redis

from hexgen_celery import cli
from hexgen_celery.cli.frame import describe
from hexgen_celery.cli.root import COMMANDS, LazyCommand, hexgen
from hexgen_celery.errors import HexgenError, InvalidSubmission


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[BaseException]:
    """`hexgen fail` raises the one exception that the test puts into the list."""
    raised: list[BaseException] = []

    @click.command("fail")
    def fail() -> None:
        raise raised[0]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LazyCommand, "load", lambda self: fail)
    monkeypatch.setitem(COMMANDS, "fail", LazyCommand("unused:unused", "fails"))
    return raised


def test_overview_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert f"  {name} " in shown
        assert command.summary.split()[0] in shown


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_can_be_loaded(name: str) -> None:
    assert COMMANDS[name].load().name == name


def test_overview_imports_no_command() -> None:
    program = (
        "import sys\n"
        "from hexgen_celery.cli import main\n"
        "main(['--help'])\n"
        "heavy = {'celery', 'redis', 'aiohttp', 'sqlglot', 'pydantic'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_our_errors_are_one_line_with_field_and_hint(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(InvalidSubmission("it is empty", field="question", hint="Write one"))
    assert cli.main(["fail"]) == 2
    shown = capsys.readouterr().err
    assert shown == "error: it is empty [question]. Write one\n"


def test_field_is_not_said_twice() -> None:
    error = HexgenError("slo_seconds must be positive", field="slo_seconds")
    assert describe(error) == "slo_seconds must be positive"


def test_unexpected_errors_say_where_the_trace_is(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(KeyError("lost"))
    assert cli.main(["fail"]) == 70
    shown = capsys.readouterr().err
    assert "unexpected KeyError" in shown
    assert "Traceback" not in shown
    log = Path(".hexgen/logs/cli-error.log")
    assert str(log) in shown
    assert "Traceback" in log.read_text()


def test_interrupt_is_silent(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(KeyboardInterrupt())
    assert cli.main(["fail"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_wrong_usage_is_clicks(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["no-such-command"]) == 2
    assert "No such command" in capsys.readouterr().err


def test_a_misspelt_command_is_answered_by_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["queus"]) == 2
    assert "Did you mean 'queues'?" in capsys.readouterr().err
    assert cli.main(["xyzzy"]) == 2
    assert "Did you mean" not in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("hexgen, version ")


def test_lazy_command_must_be_one() -> None:
    with pytest.raises(TypeError, match="is not a command"):
        LazyCommand("hexgen_celery.cli.root:COMMANDS", "").load()


def test_missing_configuration_is_a_clear_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main(["--config", str(tmp_path / "absent.toml"), "status"]) == 2
    assert "cannot read the configuration" in capsys.readouterr().err
    assert hexgen.name == "hexgen"


@pytest.mark.parametrize("error", [redis.ConnectionError("refused"), redis.TimeoutError("late")])
def test_a_broker_lost_under_way_is_no_mistake_of_ours(
    error: Exception, failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(error)
    assert cli.main(["fail"]) == 2
    assert "connection to Redis was lost" in capsys.readouterr().err
    assert not Path(".hexgen").exists()


def test_a_path_that_cannot_be_used_is_named(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(PermissionError(errno.EACCES, "Permission denied", "/data/logs"))
    assert cli.main(["fail"]) == 2
    assert "/data/logs: Permission denied" in capsys.readouterr().err


def test_a_trace_that_cannot_be_kept_is_shown(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    Path(".hexgen").write_text("in the way")
    failing.append(KeyError("lost"))
    assert cli.main(["fail"]) == 70
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "The trace is above" in shown
