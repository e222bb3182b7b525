"""What every command gets: the settings, and a client of the running cluster."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hexgen_celery.cli.log_lines import to_standard_error

if TYPE_CHECKING:
    from hexgen_celery.api import Client
    from hexgen_celery.settings import Settings


class CliContext:
    """Reads the configuration and connects only when a command asks for it."""

    def __init__(self, config: Path | None = None) -> None:
        self.config = config

    @cached_property
    def settings(self) -> Settings:
        """The configuration.

        Raises:
            InvalidSettings: it cannot be read or holds an impossible value.
        """
        from hexgen_celery.settings import load_settings

        return load_settings(self.config)

    @cached_property
    def client(self) -> Client:
        """A client of the broker in the settings, or of the cluster that runs on this machine.

        Raises:
            BrokerUnavailable: there is none, or it cannot be reached.
        """
        from hexgen_celery.api import Client

        to_standard_error()
        return Client(self.settings)


pass_cli = click.make_pass_decorator(CliContext)
