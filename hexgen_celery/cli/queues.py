"""`hexgen queues`: what waits and runs, what is most urgent, and the dead letters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

import click

from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.output import console, json_option, moment, print_json, seconds, table
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.keys import Keys
from hexgen_celery.names import ASK_QUEUE, CONTROL_QUEUE, DEFAULT_QUEUE, SQL_QUEUE
from hexgen_celery.observation import QueueStatus
from hexgen_celery.redis_client import connect_binary
from hexgen_celery.transport.channel import is_sorted
from hexgen_celery.transport.inspection import QueueInspector, QueueLength, WaitingRequest

SHOWN = 1000
FIXED_QUEUES = (ASK_QUEUE, DEFAULT_QUEUE, CONTROL_QUEUE, SQL_QUEUE)


@click.group("queues", invoke_without_command=True)
@click.option(
    "--urgent", default=5, show_default=True, help="How many of the most urgent to show per queue."
)
@json_option
@click.pass_context
def queues_group(context: click.Context, urgent: int, as_json: bool) -> None:
    """Show what waits and runs in every queue, and the most urgent requests.

    Waiting and running are messages of the broker; the tokens are what the ledger says is left.
    """
    if context.invoked_subcommand is not None:
        return
    cli: CliContext = context.find_object(CliContext)  # type: ignore[assignment]
    if cli.client.settings.broker.transport == "kombu":
        _show([QueueLength(q.name, q.load.waiting) for q in cli.client.queues()], cli, [], as_json)
        return
    with _inspector(cli) as inspector:
        others = {*(queue.name for queue in cli.client.queues()), *inspector.known()}
        lengths = inspector.lengths([*FIXED_QUEUES, *sorted(others.difference(FIXED_QUEUES))])
        now = time.time()
        waiting = [
            request
            for queue in lengths
            if queue.waiting and is_sorted(queue.name)
            for request in inspector.most_urgent(queue.name, urgent, now)
        ]
        _show(lengths, cli, waiting, as_json)


def _show(
    lengths: list[QueueLength], cli: CliContext, waiting: list[WaitingRequest], as_json: bool
) -> None:
    ledger = {queue.name: queue for queue in cli.client.queues()}
    if as_json:
        print_json([_as_json(queue, ledger.get(queue.name), waiting) for queue in lengths])
        return
    rows = [_row(queue, ledger.get(queue.name)) for queue in lengths]
    columns = ("queue", "waiting", "late", "running", "prefill", "output", "instances")
    console.print(table("", columns, rows))
    if waiting:
        urgent = [(r.queue, r.task_id, r.task, seconds(r.laxity), _late(r)) for r in waiting]
        console.print(table("most urgent", ("queue", "request", "task", "laxity", ""), urgent))


def _row(queue: QueueLength, ledger: QueueStatus | None) -> tuple[object, ...]:
    tokens = (ledger.load.prefill_tokens, ledger.load.output_tokens) if ledger else (0, 0)
    instances = ", ".join(ledger.instances) if ledger else ""
    counts = (queue.waiting, queue.demoted, queue.running)
    return (queue.name, *counts, *tokens, instances or "—")


def _late(request: WaitingRequest) -> str:
    return "too late" if request.demoted else ""


def _as_json(
    queue: QueueLength, ledger: QueueStatus | None, waiting: Iterable[WaitingRequest]
) -> dict[str, object]:
    known = asdict(ledger) if ledger else {"load": {}, "instances": ()}
    urgent = [asdict(request) for request in waiting if request.queue == queue.name]
    return {**known, **asdict(queue), "most_urgent": urgent}


@queues_group.command("dead")
@json_option
@pass_cli
def dead_command(cli: CliContext, as_json: bool) -> None:
    """Show the dead letters: messages that were refused, or whose workers died again and again."""
    with _inspector(cli) as inspector:
        letters = inspector.dead_letters(SHOWN)
        kept, dropped = inspector.dead_letter_counts()
    if as_json:
        print_json([asdict(letter) for letter in letters])
        return
    rows = [(d.token, d.queue, d.task, d.task_id, moment(d.since), d.cause) for d in letters]
    console.print(table("", ("token", "queue", "task", "id", "since", "cause"), rows))
    console.print(_dead_letter_counts(len(rows), kept, dropped))


def _dead_letter_counts(shown: int, kept: int, dropped: int) -> str:
    """Both what the table leaves out and what is gone for good must not go unseen."""
    text = f"{kept} dead letters" if shown == kept else f"the latest {shown} of {kept} dead letters"
    return f"{text}; {dropped} older ones were dropped (queues.dead_letters)" if dropped else text


@queues_group.command("redrive")
@click.argument("tokens", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All dead letters.")
@pass_cli
def redrive_command(cli: CliContext, tokens: tuple[str, ...], everything: bool) -> None:
    """Put dead letters TOKENS back into their queues."""
    with _inspector(cli) as inspector:
        count = inspector.redrive(_chosen(inspector, tokens, everything))
    console.print(f"{count} put back")


@queues_group.command("drop")
@click.argument("tokens", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All dead letters.")
@pass_cli
def drop_command(cli: CliContext, tokens: tuple[str, ...], everything: bool) -> None:
    """Remove dead letters TOKENS for good."""
    with _inspector(cli) as inspector:
        count = inspector.drop(_chosen(inspector, tokens, everything))
    console.print(f"{count} removed")


def _chosen(inspector: QueueInspector, tokens: tuple[str, ...], everything: bool) -> list[str]:
    if tokens and not everything:
        unknown = set(tokens) - set(inspector.dead_tokens())
        if unknown:
            listed = ", ".join(sorted(unknown))
            raise click.UsageError(f"no dead letter has the token {listed}; see hexgen queues dead")
        return list(tokens)
    if everything and not tokens:
        return inspector.dead_tokens()
    raise click.UsageError("name tokens as `hexgen queues dead` shows them, or give --all")


@contextmanager
def _inspector(cli: CliContext) -> Iterator[QueueInspector]:
    settings = cli.client.settings
    if settings.broker.transport == "kombu":
        raise InvalidSettings(
            "Kombu's own queues have no dead letters",
            field="broker.transport",
            hint='set broker.transport = "urgency"',
        )
    with connect_binary(settings) as client:
        yield QueueInspector(client, Keys(settings.broker.prefix).queue_root)
