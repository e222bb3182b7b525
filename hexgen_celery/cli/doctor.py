"""`hexgen doctor`: what is missing or broken, and how to mend it."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.text import Text

from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.output import console, json_option, print_json
from hexgen_celery.health import Check, Verdict, check_all

_MARKS = {
    Verdict.OK: ("✓", "green"),
    Verdict.WARNING: ("!", "yellow"),
    Verdict.FAILED: ("✗", "red"),
}


@click.command("doctor")
@click.option("--strict", is_flag=True, help="Let warnings fail too.")
@json_option
@pass_cli
def doctor_command(cli: CliContext, strict: bool, as_json: bool) -> int:
    """Check Redis, workers, instances, queues, databases, the store, clocks and versions.

    Exit code 0: questions are answered; 1: something keeps them from it, or, with --strict,
    something needs care.
    """
    checks = []
    for check in check_all(cli.settings):
        checks.append(check)
        if not as_json:
            _show(check)
    if as_json:
        print_json([asdict(check) for check in checks])
    bad = (Verdict.FAILED, Verdict.WARNING) if strict else (Verdict.FAILED,)
    return int(any(check.verdict in bad for check in checks))


def _show(check: Check) -> None:
    mark, style = _MARKS[check.verdict]
    line = Text.assemble((f"{mark} ", style), (f"{check.name}: ", "bold"), check.detail)
    if check.hint:
        line.append(f" — {check.hint}", style=style)
    console.print(line, soft_wrap=True)
