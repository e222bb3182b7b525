"""The cluster that `hexgen up` runs on this machine, as other commands find it.

The supervisor writes `cluster.json` into its directory (readable by the owner alone, because the
broker's URL may hold a password) and removes it when it stops. As long as it lives it holds a lock
there, which the kernel takes back however it ends: a process id alone may be another's by now.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError, field_serializer

from hexgen_celery.errors import BrokerUnavailable
from hexgen_celery.settings import Settings

STATE_FILE = "cluster.json"
LOCK_FILE = "supervisor.lock"
_LOCK_SECONDS = 1.0
_LOCK_POLL_SECONDS = 0.02
EMBEDDED = "embedded"


class RunningInstance(BaseModel):
    """One LLM server of the running cluster; the cluster has started it unless it is external."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    queue: str
    gpu: str
    model: str
    url: str
    emulated: bool
    engine: str = "external"

    @property
    def is_ours(self) -> bool:
        """Whether the cluster has started it."""
        return self.engine != "external"


class ClusterState(BaseModel):
    """What runs. `started_at` is Unix seconds; `pid` the supervisor's; `config` its TOML file."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    pid: int
    broker_url: SecretStr
    prefix: str
    started_at: float
    config: Path | None = None
    ready: bool = False
    instances: tuple[RunningInstance, ...] = ()

    @field_serializer("broker_url", when_used="json")
    def _reveal(self, url: SecretStr) -> str:
        return url.get_secret_value()


@contextlib.contextmanager
def only_supervisor(directory: Path) -> Iterator[bool]:
    """Hold the lock of `directory`; yields False when another supervisor has it."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / LOCK_FILE).open("wb") as file:
        yield _locked(file)


def _locked(file: BinaryIO) -> bool:
    """Whether the lock could be taken; readers hold it for a moment, so it is tried for longer."""
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(_LOCK_POLL_SECONDS)
        else:
            return True


def _supervisor_lives(directory: Path) -> bool:
    try:
        with (directory / LOCK_FILE).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def write_cluster(directory: Path, state: ClusterState) -> None:
    """Write `state` at once (never half), readable by the owner alone."""
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / STATE_FILE
    draft = directory / f"{STATE_FILE}.{os.getpid()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(state.model_dump_json(indent=2))
    draft.replace(target)


def read_cluster(directory: Path) -> ClusterState | None:
    """The cluster whose supervisor is alive, or None."""
    try:
        state = ClusterState.model_validate_json((directory / STATE_FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    return state if _supervisor_lives(directory) else None


def forget_cluster(directory: Path) -> None:
    """Remove the state file; harmless when there is none."""
    (directory / STATE_FILE).unlink(missing_ok=True)


def embedded_broker_url(directory: Path) -> str:
    """The URL of the Redis that `hexgen up` started with `up.directory` = `directory`.

    Raises:
        BrokerUnavailable: none runs.
    """
    state = read_cluster(directory)
    if state is None:
        raise BrokerUnavailable(
            f"no cluster runs here (looked in {directory})",
            field="broker.url",
            hint="start one with `hexgen up`, or set HEXGEN_BROKER__URL=redis://host:6379/0",
        )
    return state.broker_url.get_secret_value()


def resolve_broker(settings: Settings) -> Settings:
    """`settings` with the running cluster's broker in place of `embedded`.

    Raises:
        BrokerUnavailable: the broker is `embedded` and no cluster runs.
    """
    if settings.broker.url.get_secret_value() != EMBEDDED:
        return settings
    url = SecretStr(embedded_broker_url(settings.up.directory))
    return settings.model_copy(update={"broker": settings.broker.model_copy(update={"url": url})})
