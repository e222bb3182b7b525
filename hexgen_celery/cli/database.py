"""`hexgen db …`: the databases that questions may name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.output import console, json_option, print_json, table

if TYPE_CHECKING:
    from hexgen_celery.sql.catalog import Column, Table
    from hexgen_celery.sql.databases import AddProgress


@click.group("db")
def db_group() -> None:
    """Register SQLite databases and look at what is known of them."""


@db_group.command("add")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--name", help="Name to ask by (default: the file's).")
@pass_cli
def add_command(cli: CliContext, path: Path, name: str | None) -> None:
    """Register the SQLite file at PATH, or every database of a BIRD directory.

    The file itself is never written to, and nothing is put beside it.
    """
    client = cli.client
    with adding_progress() as progress:
        entries = client.add_database(path, name, progress)
    for entry in entries:
        copied = " (read through a private copy)" if entry.snapshot else ""
        console.print(f"{entry.name}: {entry.tables} tables, {entry.rows} rows{copied}")


@db_group.command("list")
@json_option
@pass_cli
def list_command(cli: CliContext, as_json: bool) -> None:
    """List the registered databases."""
    entries = cli.client.databases()
    if as_json:
        facts = ("name", "path", "tables", "rows")
        print_json([{fact: getattr(entry, fact) for fact in facts} for entry in entries])
        return
    rows = [(entry.name, entry.tables, entry.rows, entry.path) for entry in entries]
    console.print(table("", ("database", "tables", "rows", "file"), rows))


@db_group.command("show")
@click.argument("name")
@click.option("--prompt", is_flag=True, help="Show the schema as the model sees it.")
@pass_cli
def show_command(cli: CliContext, name: str, prompt: bool) -> None:
    """Show the tables and columns of database NAME."""
    if prompt:
        click.echo(cli.client.registry.schema(name))
        return
    for each in cli.client.registry.catalog(name).tables:
        rows = [(c.name, c.type, _role(each, c), c.description or c.title) for c in each.columns]
        title = f"{each.name} ({'view' if each.view else f'{each.rows} rows'})"
        console.print(table(title, ("column", "type", "key", "description"), rows))


@db_group.command("remove")
@click.argument("name")
@pass_cli
def remove_command(cli: CliContext, name: str) -> None:
    """Forget database NAME; its file stays as it is."""
    cli.client.registry.remove(name)
    console.print(f"{name} forgotten")


@contextmanager
def adding_progress() -> Iterator[AddProgress]:
    """A bar over the tables that are profiled and the columns whose values are indexed.

    It shows on a terminal only, and is gone at the end.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=None)

        def show(database: str, at_work: str, done: int, total: int) -> None:
            what = escape(f"{database} {at_work}".strip())
            bar.update(task, description=what, completed=done, total=total)

        yield show


def _role(table_: Table, column: Column) -> str:
    if column.primary_key:
        return "primary"
    targets = (key.table for key in table_.foreign_keys if column.name in key.columns)
    return next((f"→ {target}" for target in targets), "")
