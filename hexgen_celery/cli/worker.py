"""`hexgen worker …` and `hexgen flower`: this process becomes one worker, or Flower."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cluster import resolve_broker

_PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True}


@click.group("worker")
def worker_group() -> None:
    """Run one worker in this process; SIGTERM ends it when its running requests are done."""


@worker_group.command("llm", context_settings=_PASS_ON)
@click.option("--instance", required=True, help="Name of a declared instance, or of a new one.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@pass_cli
def llm_command(cli: CliContext, instance: str, options: tuple[str, ...]) -> None:
    """Take requests to one LLM server; a new one joins a pool with --pool NAME --url URL."""
    if not options:
        cli.settings.instance(instance)
    _become(cli, "workers.llm", "--instance", instance, *options)


@worker_group.command("sql", context_settings=_PASS_ON)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@pass_cli
def sql_command(cli: CliContext, options: tuple[str, ...]) -> None:
    """Run the models' SQL in sandboxes; needs the database files on this machine."""
    _become(cli, "workers.sql", *options)


@worker_group.command("control", context_settings=_PASS_ON)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@pass_cli
def control_command(cli: CliContext, options: tuple[str, ...]) -> None:
    """Accept questions and keep the timers; run two or more for safety."""
    _become(cli, "workers.control", *options)


@worker_group.command("tuner", context_settings=_PASS_ON)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@pass_cli
def tuner_command(cli: CliContext, options: tuple[str, ...]) -> None:
    """Follow the load: tune the dispatch weight on the recent past, at the lowest priority."""
    _become(cli, "workers.tuner", *options)


@worker_group.command("recorder", context_settings=_PASS_ON)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@pass_cli
def recorder_command(cli: CliContext, options: tuple[str, ...]) -> None:
    """Write what began and ended from Redis into the store; one is enough."""
    _become(cli, "workers.recorder", *options)


@worker_group.command("emulate", context_settings={**_PASS_ON, "help_option_names": []})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def emulate_command(options: tuple[str, ...]) -> None:
    """Serve an emulated LLM server: OpenAI's HTTP interface with the timing of a profile."""
    _replace_process("workers.emulator", *options)


@click.command("flower", context_settings=_PASS_ON)
@click.option("--port", default=5555, show_default=True, help="Port of the web page.")
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@pass_cli
def flower_command(cli: CliContext, port: int, address: str, options: tuple[str, ...]) -> None:
    """Run Flower on the cluster's broker; OPTIONS go to Flower."""
    _become(cli, "hexgen_celery.flower", f"--port={port}", f"--address={address}", *options)


def _become(cli: CliContext, module: str, *arguments: str) -> NoReturn:
    """Become `module`, with the running cluster's broker where the settings say `embedded`."""
    settings = resolve_broker(cli.settings)
    os.environ["HEXGEN_BROKER__URL"] = settings.broker.url.get_secret_value()
    if cli.config is not None:
        os.environ["HEXGEN_CONFIG"] = str(cli.config.absolute())
    _replace_process(module, *arguments)


def _replace_process(module: str, *arguments: str) -> NoReturn:
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
