"""`hexgen status` and `cancel`: looking at a running deployment."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from hexgen_celery.cli.attainment import Attainment
from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.estimates import show_estimates
from hexgen_celery.cli.history import show_history
from hexgen_celery.cli.output import console, json_option, moment, print_json, table
from hexgen_celery.errors import BrokerUnavailable
from hexgen_celery.observation import QuestionStatus, StuckRequest
from hexgen_celery.store.lookup import open_reader


@click.command("status")
@click.argument("question_id", metavar="[ID]", required=False)
@click.option("--history", is_flag=True, help="What the store has, in place of what runs.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="The last.")
@json_option
@pass_cli
def status_command(
    cli: CliContext, question_id: str | None, history: bool, limit: int, as_json: bool
) -> None:
    """Show what runs, met deadlines by tenant and how right estimates are; or one question.

    A question that Redis has forgotten comes from the store.
    """
    if history:
        show_history(cli, limit, as_json)
        return
    if question_id is None:
        _show_running(cli, as_json)
        return
    status = _status_of(cli, question_id)
    if as_json:
        print_json(asdict(status))
        return
    console.print(table("", ("", ""), [(name, value) for name, value in _facts(asdict(status))]))
    rows = [
        (node.id, node.stage, node.status, node.attempt, node.queue, node.instance)
        for node in status.nodes
    ]
    console.print(table("", ("request", "stage", "status", "attempt", "queue", "instance"), rows))


def _status_of(cli: CliContext, question_id: str) -> QuestionStatus:
    """From the cluster, or from the store alone where Redis is away."""
    try:
        return cli.client.status(question_id)
    except BrokerUnavailable:
        reader = open_reader(cli.settings)
        stored = reader.question(question_id) if reader else None
        if reader is None or stored is None:
            raise
        from hexgen_celery.store.questions import stored_status

        return stored_status(stored, f"the store {reader.place}")


def _facts(status: dict[str, Any]) -> list[tuple[str, Any]]:
    times = ("submitted_at", "deadline", "finished_at")
    return [
        (name.replace("_", " "), moment(value) if name in times else value)
        for name, value in status.items()
        if name != "nodes"
    ]


def _show_running(cli: CliContext, as_json: bool) -> None:
    running, attainment = cli.client.running(), Attainment.read(cli.client)
    stuck, estimates = cli.client.stuck(running), cli.client.calibration()
    tuned = cli.client.tunings(1)
    if as_json:
        print_json(
            {
                "running": [asdict(status) for status in running],
                "stuck": [asdict(request) for request in stuck],
                "tenants": attainment.to_json(),
                "estimates": asdict(estimates),
                "tuned": [entry.to_json() for entry in tuned],
            }
        )
        return
    rows = [
        (one.id, one.question, one.database, moment(one.submitted_at), moment(one.deadline))
        for one in running
    ]
    console.print(table("", ("id", "question", "database", "submitted", "deadline"), rows))
    console.print(f"{len(rows)} running")
    if stuck:
        _show_stuck(stuck)
    attainment.show()
    show_estimates(estimates)
    for entry in tuned:
        alpha = entry.chosen.get("alpha")
        console.print(f"last tuned {moment(entry.at)}: α {alpha} for {entry.scope}, {entry.why}")


def _show_stuck(stuck: list[StuckRequest]) -> None:
    rows = [(one.question, one.node, one.queue or "—", one.why) for one in stuck]
    columns = ("question", "request", "queue", "why")
    console.print(table("requests that no instance can take now", columns, rows))


@click.command("cancel")
@click.argument("question_ids", metavar="ID…", nargs=-1, required=True)
@pass_cli
def cancel_command(cli: CliContext, question_ids: tuple[str, ...]) -> None:
    """Stop all work on the questions with these IDs."""
    for question_id in question_ids:
        done = cli.client.cancel(question_id)
        console.print(f"{question_id} {'cancelled' if done else 'had ended already'}")
