"""`hexgen simulate`: a workload over a cluster in virtual time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from hexgen_celery.cli.context import CliContext
from hexgen_celery.cli.output import console, json_option, print_json, table
from hexgen_celery.core.admission import ADMISSION
from hexgen_celery.core.dispatch import DISPATCH
from hexgen_celery.core.order import ORDER
from hexgen_celery.core.registry import Registry
from hexgen_celery.core.stealing import STEALING
from hexgen_celery.declared_fleet import read_fleet
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.named_modules import register_policies
from hexgen_celery.simulator import (
    ARRIVALS,
    RECORDED,
    ChatLoad,
    Choice,
    Incident,
    IncidentKind,
    Policies,
    SimulationConfig,
    capacity,
)
from hexgen_celery.simulator.repeats import run_seeds, summarise
from hexgen_celery.workloads import read_workload

DEFAULTS = Policies()
REGISTRIES: dict[str, Registry[Any]] = {
    "dispatch": DISPATCH,
    "order": ORDER,
    "admission": ADMISSION,
    "stealing": STEALING,
    "arrivals": ARRIVALS,
}
GROUPS = tuple(REGISTRIES)
SHOWN = (
    ("p50", "median latency, s"),
    ("p95", "95th percentile, s"),
    ("p99", "99th percentile, s"),
    ("attainment", "deadlines met, share"),
    ("throughput", "answers per second"),
    ("stable", "backlog bounded"),
    ("bound_p95", "95th percentile no policy can beat, s"),
    ("bound_throughput", "answers per second no policy can beat"),
    ("cache_hits", "prompt tokens found in cache, share"),
    ("simulated_seconds_per_second", "times faster than real time"),
)


@click.command("simulate")
@click.argument("workload", type=click.Path())
@click.option(
    "--cluster",
    default="het-70b",
    show_default=True,
    help="Cluster file or name, or a configuration.",
)
@click.option("--load", type=float, help="Arrival rate as a share of the cluster's capacity.")
@click.option("--rate", type=float, help="Arrival rate in questions per second.")
@click.option("--dispatch", default=DEFAULTS.dispatch.name, show_default=True)
@click.option("--order", default=DEFAULTS.order.name, show_default=True)
@click.option("--admission", default=DEFAULTS.admission.name, show_default=True)
@click.option("--stealing", default=DEFAULTS.stealing.name, show_default=True)
@click.option("--alpha", type=float, help="The dispatch weight; the same as --set dispatch.alpha.")
@click.option("--databases", default=11, show_default=True, help="Copies of the schema.")
@click.option("--questions", default=600, show_default=True, help="Measured questions.")
@click.option("--warmup", default=100, show_default=True, help="Questions before these.")
@click.option(
    "--arrivals",
    default="poisson",
    show_default=True,
    help=f"One of {', '.join([*ARRIVALS.names(), RECORDED])}.",
)
@click.option("--seeds", default=1, show_default=True, help="How many seeds; medians are shown.")
@click.option("--chat-rate", type=float, help="Chat requests per second beside the questions.")
@click.option(
    "--incident",
    "incidents",
    multiple=True,
    metavar="KIND:INSTANCE:SECONDS",
    help="Something happens to an instance: down, up or drain. May be repeated.",
)
@click.option("--no-prefix-cache", is_flag=True, help="Servers without a prefix cache.")
@click.option(
    "--set",
    "parameters",
    multiple=True,
    metavar="GROUP.NAME=VALUE",
    help=f"A parameter of a policy; GROUP is one of {', '.join(GROUPS)}. May be repeated.",
)
@json_option
@click.pass_context
def simulate_command(context: click.Context, /, as_json: bool, **options: Any) -> None:
    """Simulate WORKLOAD (canonical, published or recorded) and show latencies and deadlines."""
    register_policies(context.ensure_object(CliContext).settings.policy_modules)
    try:
        config = _config(options)
        config, capacity_rate = _with_rate(config, options["load"], options["rate"])
        results = run_seeds(config, range(_at_least_one(options["seeds"])))
    except ValueError as error:
        raise InvalidSettings(str(error), hint="see hexgen simulate --help") from error
    figures = {**summarise(results), "capacity": capacity_rate, "load": options["load"]}
    if as_json:
        print_json(figures)
    else:
        _show(figures)


def _config(options: dict[str, Any]) -> SimulationConfig:
    parameters = _parameters(options["parameters"], options["alpha"])
    chosen = {group: Choice(options[group], parameters[group]) for group in GROUPS}
    _check_names(chosen)
    return SimulationConfig(
        workload=read_workload(options["workload"]),
        fleet=read_fleet(options["cluster"]),
        rate=1.0,
        policies=Policies(
            dispatch=chosen["dispatch"],
            order=chosen["order"],
            admission=chosen["admission"],
            stealing=chosen["stealing"],
        ),
        questions=options["questions"],
        warmup=options["warmup"],
        databases=options["databases"],
        arrivals=chosen["arrivals"],
        chat=_chat(options["chat_rate"]),
        incidents=tuple(_incident(text) for text in options["incidents"]),
        prefix_cache=not options["no_prefix_cache"],
    )


def _check_names(chosen: dict[str, Choice]) -> None:
    """Fail on an unknown name or parameter before anything is computed."""
    for group, choice in chosen.items():
        if group != "arrivals" or choice.name != RECORDED:
            entry = REGISTRIES[group].entry(choice.name)
            entry.configure(dict(choice.parameters))


def _with_rate(
    config: SimulationConfig, load: float | None, rate: float | None
) -> tuple[SimulationConfig, float | None]:
    """The configuration at the asked rate, and the capacity if it had to be found."""
    if config.arrivals.name == RECORDED:
        return config, None
    if (load is None) == (rate is None):
        raise InvalidSettings(
            "give either --load or --rate", field="load", hint="for example --load 0.9"
        )
    if rate is not None:
        return replace(config, rate=rate), None
    found = capacity(
        config.workload, config.fleet, config.databases, prefix_cache=config.prefix_cache
    )
    assert load is not None
    return replace(config, rate=load * found), found


def _parameters(texts: tuple[str, ...], alpha: float | None) -> dict[str, dict[str, Any]]:
    """`group.name=value` texts by group."""
    values: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
    for text in texts:
        path, equals, value = text.partition("=")
        group, dot, name = path.partition(".")
        if not (equals and dot) or group not in values:
            raise InvalidSettings(
                f"--set {text!r} is not GROUP.NAME=VALUE",
                field="set",
                hint=f"GROUP is one of {', '.join(GROUPS)}, for example dispatch.alpha=0.2",
            )
        values[group][name] = _value(value)
    if alpha is not None:
        values["dispatch"]["alpha"] = alpha
    return values


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _chat(rate: float | None) -> ChatLoad | None:
    if rate is not None and rate <= 0:
        raise InvalidSettings(
            f"--chat-rate must be greater than 0, got {rate}",
            field="chat-rate",
            hint="leave it out",
        )
    return None if rate is None else ChatLoad(rate)


def _incident(text: str) -> Incident:
    kind, _, rest = text.partition(":")
    instance, _, at = rest.rpartition(":")
    try:
        return Incident(float(at), instance, IncidentKind(kind))
    except ValueError as error:
        raise InvalidSettings(
            f"--incident {text!r} is not KIND:INSTANCE:SECONDS",
            field="incident",
            hint="for example down:a100-1:600 and up:a100-1:900",
        ) from error


def _at_least_one(seeds: int) -> int:
    if seeds < 1:
        raise InvalidSettings(
            f"--seeds must be at least 1, got {seeds}", field="seeds", hint="use 5 for a figure"
        )
    return seeds


def _show(figures: dict[str, Any]) -> None:
    title = (
        f"{figures['dispatch']} + {figures['order']} at {figures['rate']:.4g} questions/s, "
        f"{figures['questions']:g} questions, {figures['seeds']} seed(s)"
    )
    rows = [(text, figures[name]) for name, text in SHOWN]
    rows += [(f"deadlines met, {name}", v) for name, v in figures["attainment_by_class"].items()]
    rows += [(f"busy, pool {name}", share) for name, share in figures["utilisation"].items()]
    console.print(table(title, ("figure", "value"), rows))
