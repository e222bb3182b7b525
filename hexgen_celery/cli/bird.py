"""`hexgen bird run`: the questions of a BIRD directory through the whole system, scored by EX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hexgen_celery.cli.benchmark_figures import show_run
from hexgen_celery.cli.benchmark_options import RunOptions, run_options
from hexgen_celery.cli.benchmark_run import BenchmarkRun
from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.output import json_option, print_json
from hexgen_celery.evaluation.bird import Subset, load_bird


@click.group("bird")
def bird_group() -> None:
    """Work with the BIRD benchmark."""


@bird_group.command("run")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--subset",
    type=click.Choice(["auto", "dev", "mini", "train"]),
    default="auto",
    show_default=True,
    help="Which question file of the directory.",
)
@run_options
@json_option
@pass_cli
def bird_command(
    cli: CliContext,
    /,
    directory: Path,
    subset: Subset,
    database: str | None,
    limit: int | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Ask the questions of DIRECTORY (BIRD's layout) and report EX by difficulty."""
    chosen = load_bird(directory, database, limit, subset)
    figures = BenchmarkRun("bird", chosen, RunOptions(**options), subset).execute(
        cli, quiet=as_json
    )
    print_json(figures) if as_json else show_run(figures)
    return 0 if figures["lost"] == 0 else 1
