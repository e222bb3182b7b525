"""`hexgen trace`: the timeline of one question, and the export of many as a workload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.output import cell, console, json_option, print_json, seconds, table
from hexgen_celery.store.lookup import find_trace, open_reader
from hexgen_celery.tracing.page import timeline_page
from hexgen_celery.tracing.timeline import AttemptSpan, Timeline, timeline_of

BAR_CELLS = 40
EXPORTED = 10_000
_COLUMNS = (
    "stage",
    "request",
    "where",
    "waited",
    "worked",
    "in",
    "cached",
    "out",
    "budget",
    "debit",
)
SYMBOLS = {"wait": "·", "prefill": "▒", "decode": "█", "work": "█"}


class TraceGroup(click.Group):
    """`trace ID` is `trace show ID`, so that an id needs no word before it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `show` before anything that is no command."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group("trace", cls=TraceGroup)
def trace_command() -> None:
    """Show what happened to a question: `hexgen trace ID`; or export many as a workload."""


@trace_command.command("show")
@click.argument("question_id", metavar="ID")
@click.option("--events", is_flag=True, help="Every event, one a line, in place of the timeline.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page.")
@json_option
@pass_cli
def show_command(
    cli: CliContext, question_id: str, events: bool, html: Path | None, as_json: bool
) -> None:
    """Show the timeline of question ID: stages, requests, waits, instances, budgets and debits.

    What Redis has forgotten comes from the store; which it was stands below (with --json on
    standard error).
    """
    found = find_trace(cli.settings, question_id)
    happened = found.events
    if html is not None:
        html.write_text(timeline_page(question_id, timeline_of(happened)), encoding="utf-8")
        console.print(f"{html} written")
    elif as_json:
        print_json(happened)
    elif events:
        _show_events(happened)
    else:
        _show_timeline(timeline_of(happened))
    click.echo(f"from {found.source}", err=as_json)


@trace_command.command("export")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Default: stdout.")
@click.option(
    "--limit", type=click.IntRange(1), default=EXPORTED, show_default=True, help="The last so many."
)
@pass_cli
def export_command(cli: CliContext, output: Path | None, limit: int) -> None:
    """Write the questions answered last as a workload, one a line, with times.

    Those that Redis has forgotten come from the store. `hexgen simulate`, `hexgen tune` and the
    trace workflow read it.
    """
    from hexgen_celery.store.export import export_workload
    from hexgen_celery.workloads.canonical import dump_question

    found = export_workload(cli.client.history, open_reader(cli.settings), limit)
    lines = [json.dumps(dump_question(one)) for one in found.workload.questions]
    text = "".join(f"{line}\n" for line in lines)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
    click.echo(f"{len(lines)} questions: {found.origins}", err=True)


def timeline_table(timeline: Timeline) -> Table:
    """The attempts of a question, each with its numbers and its bar."""
    rows = [(*_row(span), bar(timeline, span)) for span in timeline.attempts]
    title = f"{timeline.status} after {timeline.end - timeline.submitted_at:.3f} s"
    return table(title, (*_COLUMNS, "· wait ▒ prefill █ decode"), rows)


def _show_timeline(timeline: Timeline) -> None:
    console.print(timeline_table(timeline))
    if timeline.deadline is not None:
        left = timeline.deadline - timeline.end
        console.print(f"deadline: {abs(left):.2f} s {'left' if left >= 0 else 'too late'}")
    for span in timeline.attempts:
        if span.cause:
            console.print(Text(f"{_name(span)}: {span.cause}", style="red"), soft_wrap=True)
    for span in timeline.attempts:
        if span.reasons:
            console.print(Text(f"{_name(span)} → {span.queue}: {_reasons(span)}"))


def bar(timeline: Timeline, span: AttemptSpan, cells: int = BAR_CELLS) -> str:
    """The span's phases on the question's own time, in `cells` characters."""
    scale = cells / max(timeline.end - timeline.submitted_at, 1e-9)
    drawn = [" "] * cells
    for name, start, end in span.phases(timeline.end):
        first = min(cells - 1, max(0, int((start - timeline.submitted_at) * scale)))
        last = min(cells, max(first + 1, round((end - timeline.submitted_at) * scale)))
        drawn[first:last] = SYMBOLS[name] * (last - first)
    return "".join(drawn)


def _row(span: AttemptSpan) -> tuple[Any, ...]:
    numbers = span.numbers
    return (
        span.stage,
        f"{_name(span)}{'' if span.ending in ('done', '') else f' {span.ending}'}",
        span.where or span.queue,
        seconds(span.waited),
        seconds(span.worked),
        *(numbers.get(f"{name}_tokens") for name in ("input", "cached", "output")),
        seconds(numbers.get("budget")),
        seconds(numbers.get("debit")),
    )


def _name(span: AttemptSpan) -> str:
    return span.node if span.attempt == 1 else f"{span.node} #{span.attempt}"


def _reasons(span: AttemptSpan) -> str:
    return " ".join(f"{name}={cell(value)}" for name, value in span.reasons.items())


_EVENT_COLUMNS = ("t", "event", "node", "attempt", "queue", "worker", "instance")


def _show_events(events: list[dict[str, Any]]) -> None:
    start = events[0]["t"]
    rows = [
        (
            seconds(event["t"] - start),
            event["event"],
            event.get("node"),
            event.get("attempt"),
            event.get("queue"),
            event.get("instance") or event.get("worker"),
            _rest(event),
        )
        for event in events
    ]
    columns = ("after", "event", "request", "attempt", "queue", "where", "more")
    console.print(table("", columns, rows))


def _rest(event: dict[str, Any]) -> str:
    rest = {name: value for name, value in event.items() if name not in _EVENT_COLUMNS}
    return " ".join(f"{name}={cell(value)}" for name, value in rest.items())
