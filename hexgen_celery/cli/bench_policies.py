"""`hexgen bench policies`: the protocol's comparison of scheduling policies."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.output import console
from hexgen_celery.core.dispatch import DISPATCH
from hexgen_celery.core.order import ORDER
from hexgen_celery.core.registry import UnknownName
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.named_modules import register_policies
from hexgen_celery.parallel import usable_processes
from hexgen_celery.reports.campaign import Campaign
from hexgen_celery.reports.pages import write_pages
from hexgen_celery.reports.policy_report import build_report, run_matrix
from hexgen_celery.reports.scenarios import (
    Variant,
    full_matrix,
    quick_matrix,
    simple,
    with_others,
)
from hexgen_celery.simulator import Policies

DEFAULTS = Policies()
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
@click.option(
    "--also",
    "others",
    multiple=True,
    metavar="DISPATCH[+ORDER]",
    help="Compare this one too, in every table; it may be your own. May be repeated.",
)
@pass_cli
def bench_policies_command(
    cli: CliContext,
    /,
    quick: bool,
    output: Path,
    data: Path | None,
    processes: int | None,
    others: tuple[str, ...],
) -> None:
    """Compare scheduling policies by simulation and write a report.

    Every run is kept as JSON; interrupted, the command goes on where it stopped.
    """
    register_policies(cli.settings.policy_modules)
    matrix = with_others(quick_matrix() if quick else full_matrix(), map(_variant, others))
    place = data or Path(os.environ.get(DATA_VARIABLE, DEFAULT_DATA))
    campaign = Campaign(output, place, processes or usable_processes())
    with console.status("simulating") as status:
        run_matrix(campaign, matrix, lambda done, of: status.update(f"{done} of {of} runs"))
        markdown, page = write_pages(build_report(campaign, matrix), output)
    console.print(f"{markdown}\n{page}\nraw results in {campaign.directory}")


def _variant(text: str) -> Variant:
    dispatch, _, order = text.partition("+")
    order = order or DEFAULTS.order.name
    try:
        DISPATCH.entry(dispatch)
        ORDER.entry(order)
    except UnknownName as error:
        raise InvalidSettings(
            str(error), field="--also", hint="your own stand in policy_modules of the configuration"
        ) from error
    return simple(dispatch, order)
