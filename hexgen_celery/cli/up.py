"""`hexgen up` and `hexgen down`: a whole cluster on this machine."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click
from rich.text import Text

from hexgen_celery.cli.answering_servers import server_problem
from hexgen_celery.cli.context import CliContext, pass_cli
from hexgen_celery.cli.local_cluster import LocalCluster, stop_running
from hexgen_celery.cli.output import console, table
from hexgen_celery.cli.starting_notes import StartingNotes
from hexgen_celery.cluster import ClusterState, read_cluster
from hexgen_celery.errors import HexgenError
from hexgen_celery.settings import LlmSettings, Settings

_READY_SECONDS = 120.0


@click.command("up")
@click.argument("config", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--detach", is_flag=True, help="Return when the cluster is ready; see `hexgen down`.")
@pass_cli
def up_command(cli: CliContext, config: Path | None, detach: bool) -> int:
    """Run Redis, emulated and vLLM servers and all workers of CONFIG until Ctrl-C."""
    cli.config = config or cli.config
    directory = cli.settings.up.directory
    cluster = LocalCluster(cli.config, directory, attached=not detach)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ready = False
    try:
        cluster.start()
        logs = directory / "logs"
        console.print(f"starting; logs in {logs}")
        state = cluster.wait_ready(_ready_seconds(cli.settings), StartingNotes(console, logs))
        _show(state, detach)
        _warn_of_servers(state, cli.settings.llm)
        _warn_of_store(cli.settings)
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


def _ready_seconds(settings: Settings) -> float:
    """How long the slowest of the servers started here may take."""
    servers = (
        instance.serving.ready_seconds
        for pool in settings.pools
        for instance in pool.instances
        if instance.engine == "vllm"
    )
    return max((_READY_SECONDS, *servers))


def _show(state: ClusterState, detached: bool) -> None:
    rows = [
        (instance.name, instance.gpu, instance.model, instance.queue, instance.url, instance.engine)
        for instance in state.instances
    ]
    console.print(table("", ("instance", "gpu", "model", "queue", "url", "engine"), rows))
    stop = "hexgen down" if detached else "Ctrl-C"
    console.print(f'ready. Ask with: hexgen ask "…" --db NAME    Stop with: {stop}')


def _warn_of_servers(state: ClusterState, settings: LlmSettings) -> None:
    """One line for each external server that cannot serve its model now; it may yet come up."""
    for instance in state.instances:
        if instance.is_ours:
            continue
        problem = server_problem(instance.url, instance.model, settings)
        if problem is not None:
            _warn(f"{instance.name} cannot answer yet: {problem}")


def _warn_of_store(settings: Settings) -> None:
    """One line where questions are answered but nothing of them is recorded."""
    if not settings.store.enabled:
        return
    from hexgen_celery.store.engine import open_store, sqlite_file
    from hexgen_celery.store.schema import outdated

    try:
        engine = open_store(settings, writing=False)
        file = sqlite_file(engine.url)
        problem: HexgenError | None = outdated(engine) if file is None or file.exists() else None
        engine.dispose()
    except HexgenError as error:
        problem = error
    if problem is not None:
        _warn(f"nothing is recorded: {problem}")


def _warn(text: str) -> None:
    console.print(Text(f"warning: {text}", style="yellow"), soft_wrap=True)
