"""`hexgen vllm …`: real vLLM servers on this machine."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from hexgen_celery.cli.context import CliContext, pass_cli

_SERVER = "workers.vllm_server"


@click.group("vllm")
def vllm_group() -> None:
    """Run vLLM servers of instances with `engine = "vllm"`."""


@vllm_group.command("serve")
@click.argument("instance")
@click.option("--dry-run", is_flag=True, help="Print the command and its environment only.")
@pass_cli
def serve_command(cli: CliContext, instance: str, dry_run: bool) -> None:
    """Serve INSTANCE with vLLM and keep it running until Ctrl-C.

    The first line on standard output is its URL, once it has completed a request. Its log is
    `<up.directory>/logs/vllm-INSTANCE.log`.
    """
    cli.settings.instance(instance)
    if cli.config is not None:
        os.environ["HEXGEN_CONFIG"] = str(cli.config.absolute())
    _become(instance, *(["--dry-run"] if dry_run else []))


def _become(*arguments: str) -> NoReturn:
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", _SERVER, *arguments])
