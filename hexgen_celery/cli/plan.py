"""`hexgen plan`: the cheapest mix of instances for a load and an SLO."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hexgen_celery.capacity_planner import Judged, PlanRequest, kinds_of, plan
from hexgen_celery.cli.output import console, json_option, print_json, table
from hexgen_celery.core.profiles import Profile
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.parallel import usable_processes
from hexgen_celery.profiles_io import load_prices, load_profile, shipped_profiles
from hexgen_celery.workloads import read_workload


@click.command("plan")
@click.argument("workload", type=click.Path())
@click.option("--slo", type=float, required=True, help="Seconds a question may take.")
@click.option("--attainment", default=0.95, show_default=True, help="Share to answer in time.")
@click.option("--rate", type=float, required=True, help="Questions per second.")
@click.option("--model", default="Llama-3.1-70B", show_default=True, help="Model to serve.")
@click.option("--prices", type=click.Path(), help="TOML file with a [gpu_hour] table.")
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    help="Offer only these kinds of instance (file or name). May be repeated.",
)
@click.option("--databases", default=11, show_default=True, help="Copies of the schema.")
@click.option("--most", default=8, show_default=True, help="Instances together at most.")
@click.option("--questions", default=600, show_default=True, help="Questions per simulation.")
@click.option("--processes", type=click.IntRange(1), help="Default: one per usable core.")
@json_option
def plan_command(as_json: bool, **options: Any) -> None:
    """Find the cheapest cluster that answers WORKLOAD in time, by simulation."""
    offered = [load_profile(name) for name in options["profiles"]] or _shipped()
    request = PlanRequest(
        workload=read_workload(options["workload"]),
        kinds=kinds_of(offered, load_prices(options["prices"]), options["model"]),
        slo_seconds=options["slo"],
        attainment=options["attainment"],
        rate=options["rate"],
        databases=options["databases"],
        most_instances=options["most"],
        questions=options["questions"],
    )
    found = plan(request, options["processes"] or usable_processes())
    if as_json:
        print_json(found.to_json())
    elif found.chosen is None:
        raise InvalidSettings(
            f"no mix of up to {request.most_instances} instances holds",
            field="most",
            hint="allow more instances, offer faster ones, or relax the SLO",
        )
    else:
        _show(found.chosen, found.judged, found.pruned)


def _shipped() -> list[Profile]:
    return [
        load_profile(path)
        for path in sorted(Path(shipped_profiles()).glob("*.toml"))
        if path.name != "prices.toml"
    ]


def _show(chosen: Judged, judged: tuple[Judged, ...], pruned: int) -> None:
    rows = [
        (
            _mix(one),
            one.price,
            one.attainment,
            one.p95,
            "chosen" if one is chosen else "too slow",
        )
        for one in judged[-10:]
    ]
    columns = ("instances", "price per hour", "deadlines met", "P95, s", "")
    console.print(table("The cheapest mixes that could hold", columns, rows))
    console.print(
        f"{len(judged)} mixes simulated, {pruned} excluded by bounds. "
        f"Take {_mix(chosen)} at {chosen.price:.2f} per hour."
    )


def _mix(judged: Judged) -> str:
    return " + ".join(f"{count} × {name}" for name, count in judged.instances.items())
