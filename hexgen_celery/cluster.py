"""The cluster that `hexgen up` runs on this machine, as other commands find it.

The supervisor writes `cluster.json` into its directory (readable by the owner alone, because the
broker's URL may hold a password) and removes it when it stops.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError, field_serializer

from hexgen_celery.errors import BrokerUnavailable
from hexgen_celery.settings import Settings

STATE_FILE = "cluster.json"
EMBEDDED = "embedded"


class RunningInstance(BaseModel):
    """One LLM server of the running cluster."""

    model_config = ConfigDict(frozen=True)

    name: str
    queue: str
    gpu: str
    model: str
    url: str
    emulated: bool


class ClusterState(BaseModel):
    """What runs. `started_at` is Unix seconds; `pid` the supervisor's; `config` its TOML file."""

    model_config = ConfigDict(frozen=True)

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
    return state if _alive(state.pid) else None


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


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
