"""`hexgen top`: instances, queues and questions at risk, as they are now."""

from __future__ import annotations

import click

from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.interrupt import Interrupt
from hexgen_celery.cli.output import console, json_option
from hexgen_celery.cli.top_watch import opened_looks, print_looks, watch


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
    on_screen = console.is_terminal and not (once or as_json)
    with (
        Interrupt(raising=not on_screen) as interrupt,
        opened_looks(cli.settings, urgent) as looks,
    ):
        if on_screen:
            watch(looks, interrupt, refresh)
        else:
            print_looks(looks, interrupt, refresh, once=once, as_json=as_json)
