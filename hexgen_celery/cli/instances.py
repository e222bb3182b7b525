"""`hexgen instances` and `hexgen policy`: which servers are used, and by which rule."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.estimates import show_estimates
from hexgen_celery.cli.output import console, json_option, print_json, table
from hexgen_celery.cluster import resolve_broker
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.instances import InstanceDirectory, InstanceRecord
from hexgen_celery.keys import Keys
from hexgen_celery.learning.store import KnowledgeStore
from hexgen_celery.policies import PolicyChoice, PolicyStore
from hexgen_celery.redis_client import connect
from hexgen_celery.settings import DEFAULT_TENANT, Settings

_MODEL = click.option("--model", default="", help="Only for requests for this model.")
_TENANT = click.option("--tenant", default="", help="Only for requests of this tenant.")


@click.group("instances", invoke_without_command=True)
@json_option
@click.pass_context
def instances_group(context: click.Context, as_json: bool) -> None:
    """Show the LLM instances with their states, and how right the estimates about them are."""
    if context.invoked_subcommand is None:
        _show(_found(context), as_json)


@instances_group.command("drain")
@click.argument("name")
@pass_cli
def drain_command(cli: CliContext, name: str) -> None:
    """Let instance NAME finish what it runs and take nothing more."""
    with connect(resolve_broker(cli.settings)) as client:
        directory = InstanceDirectory(client, Keys(cli.settings.broker.prefix))
        _require_known(name, directory, cli.settings)
        directory.drain(name)
    console.print(f"{name} drains")


@instances_group.command("resume")
@click.argument("name")
@pass_cli
def resume_command(cli: CliContext, name: str) -> None:
    """Let a drained instance NAME take requests again."""
    with connect(resolve_broker(cli.settings)) as client:
        directory = InstanceDirectory(client, Keys(cli.settings.broker.prefix))
        done = directory.resume(name)
        if not done:
            _require_known(name, directory, cli.settings)
    console.print(f"{name} {'resumes' if done else 'was not drained'}")


def _found(context: click.Context) -> CliContext:
    cli = context.find_object(CliContext)
    assert cli is not None, "the root command makes one"
    return cli


def _require_known(name: str, directory: InstanceDirectory, settings: Settings) -> None:
    announced = {record.name for record in directory.snapshot()[1]}
    declared = {instance.name for pool in settings.pools for instance in pool.instances}
    if name not in announced | declared:
        known = ", ".join(sorted(announced | declared)) or "none"
        raise InvalidSettings(f"unknown instance {name!r}", field="NAME", hint=f"known: {known}")


def _why(record: InstanceRecord, now: float, dead_after_seconds: float) -> str:
    """Why it is in its state; an instance that is not heard of cannot say so itself."""
    silent = now - record.beat
    if silent > dead_after_seconds:
        return f"its worker has not been heard of for {silent:.0f} s"
    return record.reason


def _show(cli: CliContext, as_json: bool) -> None:
    settings = resolve_broker(cli.settings)
    keys = Keys(settings.broker.prefix)
    with connect(settings) as client:
        now, records = InstanceDirectory(client, keys).snapshot()
        report = KnowledgeStore(client, keys).calibration()
    dead_after = settings.workers.dead_after_seconds
    states = {record.name: record.state_at(now, dead_after) for record in records}
    why = {record.name: _why(record, now, dead_after) for record in records}
    if as_json:
        listed = [{**asdict(r), "state": states[r.name], "reason": why[r.name]} for r in records]
        print_json({"instances": listed, "estimates": asdict(report)})
        return
    rows = [(r.name, r.queue, r.model, states[r.name], why[r.name] or "—", r.url) for r in records]
    console.print(table("", ("instance", "pool", "model", "state", "why", "server"), rows))
    show_estimates(report)


@click.group("policy", invoke_without_command=True)
@click.pass_context
def policy_group(context: click.Context) -> None:
    """Show which dispatch policy is in force, by tenant@model; change it while everything runs."""
    if context.invoked_subcommand is None:
        cli = _found(context)
        configured = cli.settings.router
        rows = [("configured", configured.dispatch, json.dumps(configured.parameters))]
        with connect(resolve_broker(cli.settings)) as client:
            stored = PolicyStore(client, Keys(cli.settings.broker.prefix)).stored()
        for name, c in stored.usable.items():
            rows.append((_named(name), c.dispatch, json.dumps(dict(c.parameters))))
        rows += [(_named(name), "not usable", why) for name, why in stored.unusable.items()]
        console.print(table("", ("for", "policy", "parameters"), rows))


def _named(scope: str) -> str:
    return "all" if scope == "@" else scope


@policy_group.command("set")
@click.argument("dispatch")
@click.option("--parameters", default="{}", help="JSON, for example '{\"alpha\": 0.3}'.")
@_MODEL
@_TENANT
@pass_cli
def set_command(cli: CliContext, dispatch: str, parameters: str, model: str, tenant: str) -> None:
    """Put dispatch policy DISPATCH in force, from the next decision on."""
    try:
        values = json.loads(parameters)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--parameters") from error
    if not isinstance(values, dict):
        raise click.BadParameter("give a JSON object", param_hint="--parameters")
    with connect(resolve_broker(cli.settings)) as client:
        keys = Keys(cli.settings.broker.prefix)
        _require_scope(model, tenant, InstanceDirectory(client, keys), cli.settings)
        store = PolicyStore(client, keys)
        store.set(PolicyChoice(dispatch, values), model=model, tenant=tenant)
    console.print(f"{dispatch} is in force")


def _require_scope(
    model: str, tenant: str, directory: InstanceDirectory, settings: Settings
) -> None:
    """Refuse a scope that no request can have, as a misspelt name would."""
    models = {record.model for record in directory.snapshot()[1]}
    models |= {pool.model for pool in settings.pools}
    tenants = {each.name for each in settings.tenants}
    if tenants:
        tenants.add(DEFAULT_TENANT)
    for field, value, known in (("model", model, models), ("tenant", tenant, tenants)):
        if value and known and value not in known:
            hint = f"known: {', '.join(sorted(known))}"
            raise InvalidSettings(f"unknown {field} {value!r}", field=f"--{field}", hint=hint)


@policy_group.command("clear")
@_MODEL
@_TENANT
@pass_cli
def clear_command(cli: CliContext, model: str, tenant: str) -> None:
    """Go back to what is configured, or set for a wider scope."""
    with connect(resolve_broker(cli.settings)) as client:
        store = PolicyStore(client, Keys(cli.settings.broker.prefix))
        done = store.clear(model=model, tenant=tenant)
    console.print("cleared" if done else "nothing was set")
