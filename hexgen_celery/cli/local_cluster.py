"""The cluster on this machine as a child process: `up`, the demo and BIRD runs start it here."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from hexgen_celery.api import Client
from hexgen_celery.cluster import ClusterState, read_cluster
from hexgen_celery.errors import HexgenError
from hexgen_celery.settings import load_settings

_SUPERVISOR = "workers.supervisor"
_POLL_SECONDS = 0.05
_STOP_SECONDS = 30.0
_KEPT_SETTINGS = ("HEXGEN_LLM__", "HEXGEN_LOG__")


class ClusterNotStarted(HexgenError):
    """Raised when the cluster on this machine ended or was not ready in time."""

    code = "cluster_not_started"


class LocalCluster:
    """A supervisor process and what it started. `config` is its TOML file, None for the default.

    With `attached` (the default) the cluster ends when this process ends, however it ends.
    """

    def __init__(self, config: Path | None, directory: Path, *, attached: bool = True) -> None:
        self.config = config
        self.directory = directory
        self._attached = attached
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start the supervisor; returns at once.

        Raises:
            ClusterNotStarted: a cluster already runs in this directory, or it cannot be written.
        """
        refuse_second_cluster(self.directory)
        with _new_log(self._logs) as output:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    @property
    def started(self) -> bool:
        """Whether there is something to stop."""
        return self._process is not None

    def wait_ready(
        self, seconds: float, on_wait: Callable[[], object] = lambda: None
    ) -> ClusterState:
        """Wait until questions can be asked; `on_wait` is called some times a second.

        Raises:
            ClusterNotStarted: the supervisor ended, or `seconds` passed.
        """
        assert self._process is not None, "start() comes first"
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            state = read_cluster(self.directory)
            if state is not None and state.ready and self._process.pid == state.pid:
                return state
            if self._process.poll() is not None:
                raise ClusterNotStarted(self._last_words(), hint=f"see {self._logs}")
            on_wait()
            time.sleep(_POLL_SECONDS)
        raise ClusterNotStarted(f"not ready after {seconds:g} s", hint=f"see {self._logs}")

    def wait(self) -> int:
        """Wait for the supervisor's end; returns its exit code."""
        return self._process.wait() if self._process else 0

    def stop(self) -> None:
        """Stop everything the supervisor started, and the supervisor."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def _logs(self) -> Path:
        return self.directory / "logs"

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", _SUPERVISOR]
        if self._attached:
            command += ["--parent", str(os.getpid())]
        return command + ([str(self.config)] if self.config else [])

    def _last_words(self) -> str:
        text = (self._logs / "supervisor.log").read_text(encoding="utf-8", errors="replace")
        complaints = [line for line in text.splitlines() if line.startswith("error: ")]
        last = complaints[-1].removeprefix("error: ") if complaints else "the supervisor ended"
        return f"the cluster did not start: {last.rstrip('.')}"


def _new_log(logs: Path) -> BinaryIO:
    try:
        logs.mkdir(parents=True, exist_ok=True)
        return (logs / "supervisor.log").open("wb")
    except OSError as error:
        raise ClusterNotStarted(
            f"cannot write into {logs}: {error.strerror}",
            field="up.directory",
            hint="change to a directory of yours, or name one in HEXGEN_UP__DIRECTORY",
        ) from error


def refuse_second_cluster(directory: Path) -> None:
    """Raise ClusterNotStarted when a cluster runs in `directory`."""
    running = read_cluster(directory)
    if running is not None:
        raise ClusterNotStarted(
            f"a cluster already runs in {directory} (process {running.pid})",
            field="up.directory",
            hint="stop it with `hexgen down`, or choose another HEXGEN_UP__DIRECTORY",
        )


def fresh_home(directory: Path) -> Path:
    """`directory`, emptied: a place for a cluster that is to know nothing of an earlier one.

    Raises:
        ClusterNotStarted: one still runs there.
    """
    refuse_second_cluster(directory)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


@contextlib.contextmanager
def local_cluster(
    config: Path | None, ready_seconds: float, on_wait: Callable[[], object] = lambda: None
) -> Iterator[ClusterState]:
    """Run the cluster of `config` for the length of a `with` block.

    `on_wait` is called some times a second until it is ready.

    Raises:
        ClusterNotStarted: it is not ready after `ready_seconds`.
    """
    cluster = LocalCluster(config, load_settings(config).up.directory)
    cluster.start()
    try:
        yield cluster.wait_ready(ready_seconds, on_wait)
    finally:
        cluster.stop()


@contextlib.contextmanager
def own_cluster(
    config: Path, ready_seconds: float, on_wait: Callable[[], object] = lambda: None
) -> Iterator[Client]:
    """Run the cluster of `config`, and nothing but it, for the length of a `with` block.

    Settings in the environment would outrank the file and lead the run to somebody's real cluster,
    so all but those in `_KEPT_SETTINGS` are put aside meanwhile. `on_wait` as in `local_cluster`.

    Raises:
        ClusterNotStarted: it is not ready after `ready_seconds`.
    """
    with (
        _without_settings_from_outside(),
        local_cluster(config, ready_seconds, on_wait),
        Client(load_settings(config)) as client,
    ):
        yield client


@contextlib.contextmanager
def _without_settings_from_outside() -> Iterator[None]:
    outside = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("HEXGEN_") and not name.startswith(_KEPT_SETTINGS)
    }
    for name in outside:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(outside)


def stop_running(directory: Path) -> int | None:
    """Stop the cluster that runs in `directory`; its supervisor's process id, None without one."""
    state = read_cluster(directory)
    if state is None:
        return None
    os.kill(state.pid, signal.SIGTERM)
    until = time.monotonic() + _STOP_SECONDS
    while read_cluster(directory) is not None and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
    return state.pid
