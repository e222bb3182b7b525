"""`hexgen bench policies`: the protocol's comparison of scheduling policies."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hexgen_celery.cli.output import console
from hexgen_celery.parallel import usable_processes
from hexgen_celery.reports.campaign import Campaign
from hexgen_celery.reports.pages import write_pages
from hexgen_celery.reports.policy_report import build_report, run_matrix
from hexgen_celery.reports.scenarios import full_matrix, quick_matrix

DATA_VARIABLE = "HEXGEN_DATA"
DEFAULT_DATA = Path("../shared/data")


@click.group("bench")
def bench_group() -> None:
    """Comparisons that take minutes."""


@bench_group.command("policies")
@click.option("--quick", is_flag=True, help="A small version that shows the report's shape.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/policies"),
    show_default=True,
    help="Directory of the pages and the raw results.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Directory that holds workloads/ (default: ${DATA_VARIABLE}, else {DEFAULT_DATA}).",
)
@click.option("--processes", type=click.IntRange(1), help="Default: one per usable core.")
def bench_policies_command(
    quick: bool, output: Path, data: Path | None, processes: int | None
) -> None:
    """Compare scheduling policies by simulation and write a report.

    Every run is kept as JSON; interrupted, the command goes on where it stopped.
    """
    matrix = quick_matrix() if quick else full_matrix()
    place = data or Path(os.environ.get(DATA_VARIABLE, DEFAULT_DATA))
    campaign = Campaign(output, place, processes or usable_processes())
    with console.status("simulating") as status:
        run_matrix(campaign, matrix, lambda done, of: status.update(f"{done} of {of} runs"))
        markdown, page = write_pages(build_report(campaign, matrix), output)
    console.print(f"{markdown}\n{page}\nraw results in {campaign.directory}")
