"""`hexgen ask` and `hexgen batch`: questions in, answers out."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from hexgen_celery.answers import Answer, NoAnswer, Outcome
from hexgen_celery.api import Question
from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.output import console, json_option, print_json, seconds, table
from hexgen_celery.errors import InvalidSubmission
from hexgen_celery.submission import TEXT_TO_SQL

_GRACE_SECONDS = 15.0
_SHOWN_ROWS = 50


@click.command("ask")
@click.argument("question")
@click.option("--db", "database", default="", help="Name of a registered database.")
@click.option("--slo", "slo_seconds", type=float, help="Seconds the answer may take.")
@click.option("--evidence", default="", help="Hints on the question or the data.")
@click.option("--tenant", default=None, help="Who asks.")
@click.option("--class", "slo_class", default=None, help="An SLO class of the tenant.")
@click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the workflow for this question, such as candidates=5.",
)
@click.option(
    "--workflow", default=TEXT_TO_SQL, show_default=True, help="The workflow that answers."
)
@click.option("--no-wait", is_flag=True, help="Print the id and return.")
@json_option
@pass_cli
def ask_command(
    cli: CliContext,
    /,
    options: tuple[str, ...],
    no_wait: bool,
    as_json: bool,
    **asked: Any,
) -> int:
    """Ask QUESTION and wait for the answer."""
    (pending,) = cli.client.ask_many([Question(**asked, options=read_options(options))])
    if no_wait:
        print_json({"id": pending.id}) if as_json else console.print(pending.id)
        return 0
    with _left_running(f"question {pending.id}", f"hexgen cancel {pending.id}"):
        outcome = pending.outcome(pending.slo_seconds + _GRACE_SECONDS)
    if as_json:
        print_json(outcome_json(outcome))
    else:
        show_outcome(outcome)
    return 0 if isinstance(outcome, Answer) else 1


@click.command("batch")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--db", "database", help="Database of the lines that name none.")
@click.option("--slo", type=float, help="Seconds for the lines that name none.")
@json_option
@pass_cli
def batch_command(
    cli: CliContext, file: Path, database: str | None, slo: float | None, as_json: bool
) -> int:
    """Ask every question of FILE at once; one JSON object a line.

    Keys: question, database, slo_seconds, slo_class, evidence, tenant, options. Answers come in
    the order in which they are ready.
    """
    questions = read_questions(file, {"database": database, "slo_seconds": slo})
    pendings = cli.client.ask_many(questions)
    longest = max((pending.slo_seconds for pending in pendings), default=0.0)
    outcomes = []
    with _left_running("what has not ended", "hexgen cancel ID, with the ids of hexgen status"):
        for _, outcome in cli.client.completed(pendings, timeout=longest + _GRACE_SECONDS):
            outcomes.append(outcome)
            print_json(outcome_json(outcome)) if as_json else show_line(outcome)
    answered = sum(isinstance(outcome, Answer) for outcome in outcomes)
    if not as_json:
        console.print(f"{answered} of {len(pendings)} answered")
    return 0 if answered == len(pendings) else 1


@contextlib.contextmanager
def _left_running(what: str, remedy: str) -> Iterator[None]:
    """Say on Ctrl-C that questions do not end with the command that asked them."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"\n{what} goes on; stop it with: {remedy}", err=True)
        raise


def read_options(pairs: Iterable[str]) -> dict[str, Any]:
    """`NAME=VALUE` pairs by name; a value that is no JSON is taken as text.

    Raises:
        InvalidSubmission: a pair has no name or no `=`.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not name or not equals:
            raise InvalidSubmission(
                f"{pair!r} is no option", field="--option", hint="write it as NAME=VALUE"
            )
        try:
            options[name] = json.loads(text)
        except json.JSONDecodeError:
            options[name] = text
    return options


def read_questions(file: Path, defaults: dict[str, Any]) -> list[Question]:
    """The questions of a JSON-lines file, `defaults` filling what a line leaves out.

    Raises:
        InvalidSubmission: naming the line that cannot be read.
    """
    questions = []
    # Not splitlines(): it also breaks at U+2028 and others, which JSON allows within a text.
    for number, line in enumerate(file.read_bytes().split(b"\n"), start=1):
        if line.strip():
            questions.append(_read_question(f"{file}:{number}", line, defaults))
    return questions


def _read_question(place: str, line: bytes, defaults: dict[str, Any]) -> Question:
    known = {name: value for name, value in defaults.items() if value is not None}
    given = {**known, **_json_object(place, line)}
    keys = [field.name for field in fields(Question)]
    hint = f"keys: {', '.join(keys)}"
    for name in given:
        if name not in keys:
            raise InvalidSubmission(f"{place}: unknown key {name!r}", field=place, hint=hint)
    # Whether another workflow needs a database, its own validation says.
    named = {"database": ""} if given.get("workflow", TEXT_TO_SQL) != TEXT_TO_SQL else {}
    for name in ("question", "database"):
        if name not in {**named, **given}:
            raise InvalidSubmission(f"{place} names no {name}", field=place, hint=hint)
    return Question(**{**named, **given})


def _json_object(place: str, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidSubmission(
            f"{place} is not UTF-8", field=place, hint="save the file in the encoding UTF-8"
        ) from error
    except (json.JSONDecodeError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidSubmission(
            f"{place} is not a JSON object",
            field=place,
            hint='write one object a line: {"question": "…", "database": "…", "slo_seconds": 30}',
        )
    return value


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """The end of a question as the root task carries it, with `status` and `workflow_id`."""
    if isinstance(outcome, Answer):
        return outcome.detail
    return {**outcome.detail, "workflow_id": outcome.workflow_id, "status": outcome.status}


def show_outcome(outcome: Outcome) -> None:
    """Print rows, SQL or text, and times, or what went wrong."""
    if isinstance(outcome, NoAnswer):
        console.print(Text(str(outcome), style="red"), soft_wrap=True)
        if outcome.last_sql:
            console.print(Text(outcome.last_sql), soft_wrap=True)
        return
    if outcome.columns:
        _show_rows(outcome)
    if text := outcome.detail.get("text"):
        console.print(Text(str(text)), soft_wrap=True)
    if outcome.why:
        console.print(Text(f"why: {outcome.why}", style="dim"))
    for warning in outcome.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
    console.print(
        f"{outcome.id}  {seconds(outcome.latency_seconds)} of {outcome.slo_seconds:g} s  "
        f"{_deadline(outcome)}  {outcome.tokens.input}+{outcome.tokens.output} tokens"
    )


def _show_rows(answer: Answer) -> None:
    console.print(table("", answer.columns, answer.rows[:_SHOWN_ROWS]))
    if len(answer.rows) > _SHOWN_ROWS or answer.truncated:
        cut = ", cut by the row limit" if answer.truncated else ""
        console.print(f"({_SHOWN_ROWS} of {len(answer.rows)} rows shown{cut})", style="dim")
    console.print(Text(answer.sql), soft_wrap=True)


def show_line(outcome: Outcome) -> None:
    """Print one line on a question's end."""
    if isinstance(outcome, NoAnswer):
        console.print(Text(str(outcome), style="red"), soft_wrap=True)
        return
    line = f"{outcome.id}  {seconds(outcome.latency_seconds)}  {_deadline(outcome)}  "
    console.print(Text(f"{line}{len(outcome.rows)} rows  {outcome.question}"), soft_wrap=True)


def _deadline(answer: Answer) -> str:
    met = "deadline met" if answer.deadline_met else "deadline missed"
    return f"{met} (best effort)" if answer.best_effort else met
