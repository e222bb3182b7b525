"""`hexgen up` and `hexgen down`: a whole cluster on this machine."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click

from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.local_cluster import LocalCluster, stop_running
from hexgen_celery.cli.output import console, table
from hexgen_celery.cluster import ClusterState, read_cluster

_READY_SECONDS = 120.0


@click.command("up")
@click.argument("config", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--detach", is_flag=True, help="Return when the cluster is ready; see `hexgen down`.")
@pass_cli
def up_command(cli: CliContext, config: Path | None, detach: bool) -> int:
    """Run Redis, emulated servers and all workers of CONFIG until Ctrl-C."""
    cli.config = config or cli.config
    directory = cli.settings.up.directory
    cluster = LocalCluster(cli.config, directory, attached=not detach)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ready = False
    try:
        cluster.start()
        console.print(f"starting; logs in {directory / 'logs'}")
        _show(cluster.wait_ready(_READY_SECONDS), detach)
        ready = True
        return 0 if detach else cluster.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        if cluster.started and not (detach and ready):
            cluster.stop()
            console.print("stopped")


@click.command("down")
@pass_cli
def down_command(cli: CliContext) -> None:
    """Stop the cluster that runs on this machine (the one of `up.directory`)."""
    directory = cli.settings.up.directory
    pid = stop_running(directory)
    if pid is None:
        console.print(f"no cluster runs in {directory}")
    elif read_cluster(directory) is None:
        console.print(f"stopped (process {pid})")


def _show(state: ClusterState, detached: bool) -> None:
    rows = [
        (instance.name, instance.gpu, instance.model, instance.queue, instance.url, _kind(instance))
        for instance in state.instances
    ]
    console.print(table("", ("instance", "gpu", "model", "queue", "url", "engine"), rows))
    stop = "hexgen down" if detached else "Ctrl-C"
    console.print(f'ready. Ask with: hexgen ask "…" --db NAME    Stop with: {stop}')


def _kind(instance: object) -> str:
    return "emulated" if getattr(instance, "emulated", False) else "external"
