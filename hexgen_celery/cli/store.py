"""`hexgen store`: the database of what happened."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.output import console, json_option, moment, print_json, table
from hexgen_celery.errors import BrokerUnavailable
from hexgen_celery.store.errors import StoreUnavailable

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from hexgen_celery.settings import Settings
    from hexgen_celery.store.stream import RecordStream


@click.group("store")
def store_group() -> None:
    """Look after the store: migrate it, see what it holds and what waits, prune it."""


@store_group.command("migrate")
@click.option("--to", "revision", default="head", show_default=True, help="Or `base`: no tables.")
@click.option("--discard", is_flag=True, help="Going back may delete what is stored.")
@pass_cli
def migrate_command(cli: CliContext, revision: str, discard: bool) -> None:
    """Bring the tables to this program's version, or to another one, up or down."""
    from hexgen_celery.store.engine import open_store, place_of
    from hexgen_celery.store.schema import migrate

    engine = open_store(cli.settings, writing=True)
    version = migrate(engine, revision, discard=discard)
    console.print(f"{place_of(engine.url)} has version {version.current or 'none'}")


@store_group.command("status")
@json_option
@pass_cli
def status_command(cli: CliContext, as_json: bool) -> int:
    """Show the store's version, its rows, and what waits in Redis; status 1 if it needs care."""
    from hexgen_celery.store.engine import open_store, place_of, sqlite_file

    engine = open_store(cli.settings, writing=False)
    file = sqlite_file(engine.url)
    shown: dict[str, Any] = {"store": place_of(engine.url), "waiting": _waiting(cli.settings)}
    if file is not None and not file.exists():
        hint = "there is no such file; the recorder makes it, or `hexgen store migrate`"
        shown |= {"version": "", "up_to_date": False, "rows": {}, "hint": hint}
    else:
        shown |= _held(engine, cli.settings)
    shown["enabled"] = cli.settings.store.enabled
    if as_json:
        print_json(shown)
    else:
        _show(shown)
    waiting = shown["waiting"] or {}
    is_cared_for = shown["up_to_date"] or not shown["enabled"]
    return 0 if is_cared_for and not waiting.get("loses") else 1


@store_group.command("prune")
@json_option
@pass_cli
def prune_command(cli: CliContext, as_json: bool) -> None:
    """Delete now what is older than `store.keep_…_days`, as recorders do now and then."""
    from hexgen_celery.store.engine import open_store
    from hexgen_celery.store.retention import Pruner, Retention

    engine = open_store(cli.settings, writing=True)
    deleted = Pruner(engine, Retention.of(cli.settings.store)).prune(time.time())
    if as_json:
        print_json(deleted)
        return
    console.print(table("", ("table", "rows deleted"), list(deleted.items())))


@store_group.command("retry")
@pass_cli
def retry_command(cli: CliContext) -> None:
    """Record again what was set aside because it could not be stored."""
    console.print(f"{_stream(cli.settings).try_again()} put back")


@store_group.command("forget")
@pass_cli
def forget_command(cli: CliContext) -> None:
    """Give up what was set aside: it is never recorded."""
    console.print(f"{_stream(cli.settings).forget_aside()} forgotten")


@store_group.command("alpha")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="The last.")
@json_option
@pass_cli
def alpha_command(cli: CliContext, limit: int, as_json: bool) -> None:
    """Show the history of the dispatch policies: the tuner's decisions and operators' changes."""
    from hexgen_celery.store.lookup import open_reader

    reader = open_reader(cli.settings)
    rows = reader.alpha(limit) if reader else []
    if as_json:
        print_json(rows)
        return
    cells = [
        (moment(row["at"]), row["source"], row["scope"], row["policy"] or "—", row["alpha"])
        for row in rows
    ]
    console.print(table("", ("at", "source", "tenant@model", "policy", "α"), cells))


def _held(engine: Engine, settings: Settings) -> dict[str, Any]:
    """Version and rows; no rows where the store cannot be read or has another version."""
    from hexgen_celery.store.reading import StoreReader
    from hexgen_celery.store.schema import schema_version

    try:
        version = schema_version(engine)
        reader = StoreReader(engine, settings.broker.prefix)
        rows = reader.counts() if version.up_to_date else {}
    except StoreUnavailable as error:
        return {"version": None, "up_to_date": False, "rows": {}, "hint": str(error)}
    return {
        "version": version.current,
        "up_to_date": version.up_to_date,
        "rows": rows,
        "hint": "" if version.up_to_date else version.mending,
    }


def _waiting(settings: Settings) -> dict[str, Any] | None:
    """What is not in the store yet; None where Redis is away."""
    from hexgen_celery.redis_client import naming_a_lost_broker

    try:
        with naming_a_lost_broker():
            stream = _stream(settings)
            last = [asdict(one) for one in stream.aside(5)]
            backlog = stream.backlog()
    except BrokerUnavailable:
        return None
    told = {"dropped_text": backlog.dropped_text, "loses": backlog.loses}
    return {**asdict(backlog), **told, "last_aside": last}


def _stream(settings: Settings) -> RecordStream:
    from hexgen_celery.cluster import resolve_broker
    from hexgen_celery.keys import Keys
    from hexgen_celery.redis_client import connect
    from hexgen_celery.store.stream import RecordStream

    resolved = resolve_broker(settings)
    return RecordStream(connect(resolved), Keys(resolved.broker.prefix))


def _show(shown: dict[str, Any]) -> None:
    version = "unknown version" if shown["version"] is None else shown["version"] or "no tables"
    console.print(f"{shown['store']}: {version}", markup=False)
    if not shown["enabled"]:
        console.print("  nothing is recorded: store.enabled = false")
    elif shown["hint"]:
        console.print(f"  {shown['hint']}", markup=False, soft_wrap=True)
    if shown["rows"]:
        console.print(table("", ("table", "rows"), list(shown["rows"].items())))
    waiting = shown["waiting"]
    if waiting is None:
        console.print("Redis cannot be reached: what waits there is unknown")
        return
    console.print(
        f"{waiting['waiting']} wait in Redis, the oldest for {waiting['oldest_seconds']:.1f} s; "
        f"{waiting['dropped_text']}; {waiting['aside']} set aside"
    )
    for one in waiting["last_aside"]:
        console.print(f"  {one['workflow_id']}: {one['reason']}", markup=False)
