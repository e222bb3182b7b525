"""`hexgen top`: instances, queues and questions at risk, as they are now."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click
from rich.live import Live

from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.keyboard import Keyboard
from hexgen_celery.cli.output import console, json_option, print_json
from hexgen_celery.cli.top_view import render
from hexgen_celery.cluster import resolve_broker
from hexgen_celery.errors import BrokerUnavailable
from hexgen_celery.overview import Overview, OverviewReader

PLAIN_ROWS = 20
Read = Callable[[], Overview]


@click.command("top")
@click.option(
    "--refresh",
    default=1.0,
    show_default=True,
    type=click.FloatRange(min=0.1),
    help="Seconds between two looks.",
)
@click.option("--once", is_flag=True, help="Look once and end.")
@click.option(
    "--urgent",
    default=3,
    show_default=True,
    type=click.IntRange(0, 100),
    help="How many of the most urgent requests to show per queue.",
)
@json_option
@pass_cli
def top_command(cli: CliContext, refresh: float, once: bool, urgent: int, as_json: bool) -> None:
    """Watch instances, queues, the most urgent requests and questions at risk; q ends it.

    Without a terminal it prints one look after the other; with --json one object per line.
    """
    with OverviewReader(resolve_broker(cli.settings)) as reader:

        def read() -> Overview:
            return reader.read(urgent)

        if once or as_json or not console.is_terminal:
            _print(read, refresh, once=once, as_json=as_json)
        else:
            _watch(read, refresh)


def as_plain(overview: Overview) -> dict[str, Any]:
    """What is shown, as plain values for programs."""
    counts = overview.counts
    return {
        "now": counts.now,
        "instances": [asdict(each) for each in counts.instances],
        "queues": [asdict(pool) for pool in counts.pools],
        "urgent": [asdict(request) for request in overview.urgent],
        "at_risk": [asdict(question) for question in overview.at_risk],
        "tenants": [asdict(tenant) for tenant in counts.tenants],
        "questions_running": counts.questions_running,
        "submissions_waiting": counts.submissions_waiting,
        "outbox": asdict(counts.outbox),
        "leases_overdue": counts.leases_overdue,
        "dead_letters": counts.dead_letters,
        "timers_age_seconds": counts.timers_age_seconds,
        "processes": [asdict(process) for process in counts.processes],
    }


def _print(read: Read, refresh: float, *, once: bool, as_json: bool) -> None:
    while True:
        overview = read()
        if as_json:
            print_json(as_plain(overview))
        else:
            console.print(render(overview, PLAIN_ROWS))
        sys.stdout.flush()
        if once:
            return
        time.sleep(refresh)


def _watch(read: Read, refresh: float) -> None:
    """Redraw until q or Ctrl-C; a Redis that is away is said so, and looked for again."""
    with Keyboard() as keyboard, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                live.update(render(read(), console.height), refresh=True)
            except BrokerUnavailable as error:
                live.update(f"{error.message}\nTrying again; q ends this.", refresh=True)
            if keyboard.pressed(refresh) in ("q", "Q"):
                return
