"""`hexgen prompts …`: what the models are asked, word for word."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.output import console, json_option, print_json, table

if TYPE_CHECKING:
    from hexgen_celery.sql.databases import DatabaseRegistry
    from hexgen_celery.workflows.linking import Retrieved
    from hexgen_celery.workflows.prompt_preview import PreviewPart, PromptPreview
    from hexgen_celery.workflows.stage_contract import LinkedSchema, Question, Stages

EXAMPLE_QUESTION = "How many rows are there?"


@click.group("prompts")
def prompts_group() -> None:
    """Look at the prompts that questions become."""


@prompts_group.command("show")
@click.option("--db", "database", required=True, help="Registered database.")
@click.option("--question", default=EXAMPLE_QUESTION, show_default=True, help="What is asked.")
@click.option("--evidence", default="", help="A hint that comes with the question.")
@click.option("--only", default="", help="Only prompts whose name contains this text.")
@click.option("--counts", is_flag=True, help="Only the token counts, without the texts.")
@json_option
@pass_cli
def show_command(
    cli: CliContext,
    database: str,
    question: str,
    evidence: str,
    only: str,
    counts: bool,
    as_json: bool,
) -> None:
    """Print each prompt of a question, part by part, with token counts.

    Tokens are estimated from the length of the text. Keywords are found by rules and looked up in
    the database, as for a question in haste; no model is asked.
    """
    previews = [each for each in _previews(cli, database, question, evidence) if only in each.name]
    if as_json:
        print_json([{**asdict(each), "tokens": each.tokens} for each in previews])
        return
    if not counts:
        for each in previews:
            _print_texts(each)
    console.print(table("", ("prompt", "tokens", "shared", "parts"), map(_counts, previews)))


def _previews(cli: CliContext, database: str, text: str, evidence: str) -> list[PromptPreview]:
    from hexgen_celery.workflows.prompt_preview import preview_prompts
    from hexgen_celery.workflows.registered_schemas import RegisteredSchemas
    from hexgen_celery.workflows.registry import load_stages
    from hexgen_celery.workflows.stage_contract import Question
    from hexgen_celery.workflows.tokens import RatioCounter

    registry, counter = cli.client.registry, RatioCounter()
    schema = RegisteredSchemas(registry, counter).schema(database)
    stages, question = load_stages(cli.settings.stages_module), Question(text, evidence)
    linked = _linked(registry, database, stages, question)
    return preview_prompts(
        stages, question, linked, schema, counter, cli.settings.pipeline.candidates
    )


def _linked(
    registry: DatabaseRegistry, database: str, stages: Stages, question: Question
) -> LinkedSchema:
    from hexgen_celery.workflows.linking import linked_by_rules

    keywords = stages.schema_linking.keywords(question)
    return linked_by_rules(keywords, _retrieved(registry, database, keywords))


def _retrieved(registry: DatabaseRegistry, database: str, keywords: tuple[str, ...]) -> Retrieved:
    from hexgen_celery.errors import InvalidDatabase
    from hexgen_celery.sql.retrieval import retrieve
    from hexgen_celery.workflows.linking import Retrieved, retrieved_from

    try:
        index = registry.values(database)
    except InvalidDatabase as error:
        return Retrieved(note=f"the file is not on this machine ({error.message})")
    return retrieved_from(retrieve(registry.catalog(database), index, keywords))


def _print_texts(preview: PromptPreview) -> None:
    click.secho(f"═══ {preview.name}: about {preview.tokens} tokens ═══", bold=True)
    for number, part in enumerate(preview.parts, start=1):
        click.secho(_boundary(number, len(preview.parts), part), fg="cyan")
        click.echo(part.text.rstrip("\n"))
    click.echo()


def _boundary(number: int, of: int, part: PreviewPart) -> str:
    return (
        f"─── part {number} of {of}: {part.name} ({part.role}), {part.tokens} tokens, "
        f"shared by {part.shared_by}, {part.hash[:12]} ───"
    )


def _counts(preview: PromptPreview) -> tuple[str, int, str, str]:
    share = preview.shared_tokens / preview.tokens if preview.tokens else 0.0
    parts = " + ".join(f"{part.tokens} {part.name}" for part in preview.parts)
    return preview.name, preview.tokens, f"{share:.0%}", parts
