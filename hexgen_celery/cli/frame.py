"""What a user of the command `hexgen` sees when something goes wrong."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path

import click

from hexgen_celery.cli.root import hexgen
from hexgen_celery.errors import HexgenError, UnusablePath

USER_ERROR = 2
INTERNAL_ERROR = 70


def run(arguments: Sequence[str] | None) -> int:
    """Run one command; returns the exit code (0, 2 for a user's error, 70 for one of ours).

    Raises:
        KeyboardInterrupt: on Ctrl-C.
    """
    try:
        result = hexgen.main(args=arguments, prog_name="hexgen", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except Exception as error:
        return _report(error)
    return result if isinstance(result, int) else 0


def describe(error: HexgenError) -> str:
    """The error in one line: what is wrong, which input, how to mend it."""
    place = f" [{error.field}]" if error.field and error.field not in error.message else ""
    hint = f". {error.hint}" if error.hint else ""
    return f"{error.message.removesuffix('.')}{place}{hint}"


def _report(error: Exception) -> int:
    """Tell what went wrong; returns the exit code. To be called where `error` is handled."""
    known = _as_ours(error)
    if known is not None:
        _complain(describe(known))
        return USER_ERROR
    _complain(f"unexpected {type(error).__name__}: {error}. The trace is {_keep_trace()}")
    return INTERNAL_ERROR


def _as_ours(error: Exception) -> HexgenError | None:
    """`error` in our words, None if it is a mistake of ours."""
    if isinstance(error, HexgenError):
        return error
    if isinstance(error, OSError) and error.filename is not None:
        return UnusablePath(
            f"{error.filename}: {error.strerror}",
            hint="check the path, its permissions and the space on its disk",
        )
    return _lost_broker(error)


def _lost_broker(error: Exception) -> HexgenError | None:
    """`error` in our words if Redis went away under way; imported late, for a quick overview."""
    import redis

    from hexgen_celery.redis_client import lost_broker

    lost = isinstance(error, redis.ConnectionError | redis.TimeoutError)
    return lost_broker(error) if lost else None


def _complain(line: str) -> None:
    click.echo(f"{click.style('error', fg='red', bold=True)}: {line}", err=True)


def _keep_trace() -> str:
    """Write the trace into a file, else to standard error; returns where it is."""
    path = Path(".hexgen") / "logs" / "cli-error.log"
    trace = traceback.format_exc()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(trace, encoding="utf-8")
    except OSError:
        click.echo(trace, err=True)
        return "above"
    return f"in {path}"
