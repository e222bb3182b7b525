"""`hexgen spider run`: the questions of a Spider directory, scored by Spider's execution match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hexgen_celery.cli.benchmark_figures import show_run
from hexgen_celery.cli.benchmark_options import RunOptions, run_options
from hexgen_celery.cli.benchmark_run import BenchmarkRun
from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.output import json_option, print_json
from hexgen_celery.evaluation.spider import load_spider


@click.group("spider")
def spider_group() -> None:
    """Work with the Spider benchmark."""


@spider_group.command("run")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@run_options
@json_option
@pass_cli
def spider_command(
    cli: CliContext,
    /,
    directory: Path,
    database: str | None,
    limit: int | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Ask the questions of DIRECTORY (Spider's layout) and report its execution match."""
    chosen = load_spider(directory, database, limit)
    figures = BenchmarkRun("spider", chosen, RunOptions(**options)).execute(cli, quiet=as_json)
    print_json(figures) if as_json else show_run(figures)
    return 0 if figures["lost"] == 0 else 1
