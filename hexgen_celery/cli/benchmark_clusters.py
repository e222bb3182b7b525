"""Who answers the questions of a benchmark run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from hexgen_celery.api import Client
from hexgen_celery.cli.cluster_file import emulated_cluster
from hexgen_celery.cli.context import CliContext
from hexgen_celery.cli.local_cluster import local_cluster, own_cluster
from hexgen_celery.cluster import EMBEDDED, read_cluster
from hexgen_celery.errors import InvalidSettings

_READY_SECONDS = 120.0


def answering_cluster(
    cli: CliContext, replay: Path | None, speed: float
) -> contextlib.AbstractContextManager[Client]:
    """A client of the cluster that answers: from `replay` at `speed`, else the configured one.

    Raises:
        InvalidSettings: nothing runs, and nothing is configured that could be started.
    """
    return _configured_cluster(cli) if replay is None else _replaying_cluster(replay, speed)


@contextlib.contextmanager
def _replaying_cluster(answers: Path, speed: float) -> Iterator[Client]:
    """A cluster of its own, because emulated servers answer from one replay only."""
    home = answers.parent
    config = home / "cluster.toml"
    config.write_text(emulated_cluster(home, replay=[answers], speed=speed), encoding="utf-8")
    with own_cluster(config, _READY_SECONDS) as client:
        yield client


@contextlib.contextmanager
def _configured_cluster(cli: CliContext) -> Iterator[Client]:
    """The running cluster, else the configured one for the length of the run."""
    settings = cli.settings
    embedded = settings.broker.url.get_secret_value() == EMBEDDED
    if not embedded or read_cluster(settings.up.directory) is not None:
        with Client(settings) as client:
            yield client
        return
    if not settings.pools:
        raise InvalidSettings(
            "nobody can answer: no cluster runs and no pool is configured",
            field="pools",
            hint="declare [[pools]] in hexgen.toml, or replay predictions with --replay DIR",
        )
    with local_cluster(cli.config, _READY_SECONDS), Client(settings) as client:
        yield client
