"""`hexgen tune`: choose the dispatch weight on a window of the past."""

from __future__ import annotations

from typing import Any

import click

from hexgen_celery.cli.context import CliContext
from hexgen_celery.cli.output import console, json_option, moment, print_json, table
from hexgen_celery.core.dispatch import DISPATCH
from hexgen_celery.declared_fleet import read_fleet
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.live_tuning import TuningEntry
from hexgen_celery.named_modules import register_policies
from hexgen_celery.parallel import usable_processes
from hexgen_celery.simulator import Choice, Policies
from hexgen_celery.tuning import Objective, Tuning, TuningPlan, candidates, tune, window_of
from hexgen_celery.tuning.search import ALPHA_GRID
from hexgen_celery.workloads import read_workload

FORMS = ("alpha", "published", "published-code")


@click.command("tune")
@click.argument("workload", type=click.Path(), required=False)
@click.option("--history", is_flag=True, help="What the live tuner decided, newest first.")
@click.option(
    "--cluster",
    default="het-70b",
    show_default=True,
    help="Cluster file or name, or a configuration.",
)
@click.option("--rate", type=float, help="Questions per second, where the trace has no times.")
@click.option(
    "--objective",
    type=click.Choice([objective.value for objective in Objective]),
    default=Objective.P95.value,
    show_default=True,
)
@click.option(
    "--form",
    "forms",
    multiple=True,
    default=("alpha",),
    show_default=True,
    type=click.Choice(FORMS),
    help="Dispatch forms to try. May be repeated.",
)
@click.option("--incumbent", default="alpha", show_default=True, help="Dispatch in use now.")
@click.option("--alpha", type=float, help="Its α; default: the form's own.")
@click.option("--databases", default=1, show_default=True, help="Copies of the schema.")
@click.option("--questions", default=500, show_default=True, help="Questions per simulation.")
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--processes", type=click.IntRange(1), help="Default: one per usable core.")
@json_option
@click.pass_context
def tune_command(
    context: click.Context, /, workload: str | None, history: bool, as_json: bool, **options: Any
) -> None:
    """Try every α on the recorded window WORKLOAD; move only when the gain exceeds its noise."""
    if history:
        _show_history(context.ensure_object(CliContext).client.tunings(), as_json)
        return
    if workload is None:
        raise click.UsageError("name a WORKLOAD, or give --history")
    options["workload"] = workload
    register_policies(context.ensure_object(CliContext).settings.policy_modules)
    try:
        plan = _plan(options)
        tuning = tune(plan, options["processes"] or usable_processes())
    except ValueError as error:
        raise InvalidSettings(str(error), hint="see hexgen tune --help") from error
    if as_json:
        print_json(tuning.to_json())
    else:
        _show(tuning)


def _show_history(entries: list[TuningEntry], as_json: bool) -> None:
    if as_json:
        print_json([entry.to_json() for entry in entries])
        return
    rows = [
        (
            moment(entry.at),
            entry.scope,
            entry.chosen.get("alpha"),
            "reverted" if entry.reverted else "moved" if entry.moved else "stayed",
            entry.why,
            entry.questions,
            entry.rate,
            entry.predicted,
            entry.measured,
            "—" if entry.error is None else f"{entry.error:+.0%}",
            entry.backoff,
        )
        for entry in entries
    ]
    columns = (
        "at",
        "tenant@model",
        "α",
        "",
        "why",
        "questions",
        "per s",
        "predicted",
        "measured",
        "error",
        "backoff",
    )
    console.print(table("", columns, rows))


def _plan(options: dict[str, Any]) -> TuningPlan:
    parameters = {} if options["alpha"] is None else {"alpha": options["alpha"]}
    configured = DISPATCH.entry(options["incumbent"]).configure(parameters)
    if hasattr(configured, "alpha"):
        parameters["alpha"] = configured.alpha
    incumbent = Choice(options["incumbent"], parameters)
    return TuningPlan(
        window=window_of(read_workload(options["workload"]), rate=options["rate"]),
        fleet=read_fleet(options["cluster"]),
        policies=Policies(dispatch=incumbent),
        tried=candidates(options["forms"], ALPHA_GRID),
        objective=Objective(options["objective"]),
        questions=options["questions"],
        seeds=tuple(range(options["seeds"])),
        databases=options["databases"],
    )


def _show(tuning: Tuning) -> None:
    rows = [
        (
            _name(tried.dispatch),
            tried.p95,
            tried.attainment,
            "" if tried.stable else "backlog grows",
            "chosen" if tried.dispatch == tuning.chosen else "",
        )
        for tried in tuning.tried
    ]
    columns = ("dispatch", "P95, s", "deadlines met", "", "")
    console.print(table(f"At {tuning.rate:.4g} questions/s", columns, rows))
    decision = tuning.decision
    verdict = "move to" if decision.moved else "stay with"
    console.print(
        f"{verdict} {_name(tuning.chosen)}: gain {decision.gain:.1%} of the {tuning.objective} "
        f"({decision.gain_p10:.1%} to {decision.gain_p90:.1%}), "
        f"confidence {decision.confidence:.0%}"
    )


def _name(choice: Choice) -> str:
    alpha = choice.parameters.get("alpha")
    return choice.name if alpha is None else f"{choice.name} α {alpha:g}"
