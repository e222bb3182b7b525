"""What the processes hold on to: Redis, the coordinator, the servers, logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from hexgen_celery.settings.section import (
    Name,
    Positive,
    PositiveInt,
    Section,
)


class BrokerSettings(Section):
    """Redis: broker, results and state. `url = "embedded"` starts one beside the processes.

    `transport = "kombu"` takes Kombu's own lists in place of urgency-ordered queues with leases.
    `sentinel_master` is the name that the Sentinels in a `sentinel://` URL know the Redis by, and
    `sentinel_password_file` holds their own password where they have one.
    """

    url: SecretStr = SecretStr("embedded")
    password_file: Path | None = None
    sentinel_master: str | None = None
    sentinel_password_file: Path | None = None
    prefix: Name = "hexgen"
    transport: Literal["urgency", "kombu"] = "urgency"
    result_ttl_seconds: Positive = 3600.0
    socket_timeout_seconds: Positive = 10.0
    visibility_timeout_seconds: Positive = 60.0


class CoordinatorSettings(Section):
    """Outbox, leases and attempts of the coordinator. Times in seconds.

    A message that is not claimed within `requeue_after_seconds` is sent again, then after twice
    that, and so on, in case the queue lost it. `orphan_ttl_seconds` after its deadline a workflow
    that nobody could end is forgotten.
    """

    resend_after_seconds: Positive = 2.0
    requeue_after_seconds: Positive = 30.0
    orphan_ttl_seconds: Positive = 86_400.0
    lease_seconds: Positive = 15.0
    tick_seconds: Positive = 0.2
    max_attempts: PositiveInt = 3
    trace_stream_entries: PositiveInt = 200_000


class LlmSettings(Section):
    """The LLM client. `api_key` comes from the environment or from `api_key_file`.

    A server that runs requests and sends no token of any for `stalled_after_seconds`, or thrice
    the longest prefill by its profile where that is longer, must complete a probe in as long.
    """

    api_key: SecretStr | None = None
    api_key_file: Path | None = None
    connect_timeout_seconds: Positive = 5.0
    idle_timeout_seconds: Positive = 300.0
    stalled_after_seconds: Positive = 60.0
    retries: Annotated[int, Field(ge=0)] = 3
    backoff_seconds: Positive = 0.25
    backoff_max_seconds: Positive = 5.0


class WorkerSettings(Section):
    """Celery workers. A worker is alive while its last heartbeat is younger than `dead_after`.

    At shutdown, requests that still run after `shutdown_grace_seconds` are handed back.
    """

    heartbeat_seconds: Positive = 2.0
    dead_after_seconds: Positive = 10.0
    shutdown_grace_seconds: Annotated[float, Field(ge=0)] = 20.0
    sql_concurrency: PositiveInt = 8
    control_concurrency: PositiveInt = 8

    @model_validator(mode="after")
    def _lives_longer_than_a_heartbeat(self) -> Self:
        if self.dead_after_seconds <= self.heartbeat_seconds:
            raise ValueError(
                f"dead_after_seconds = {self.dead_after_seconds:g} must exceed heartbeat_seconds = "
                f"{self.heartbeat_seconds:g}, or every instance is dead between two heartbeats"
            )
        return self


class MetricsSettings(Section):
    """Prometheus endpoints, one in each process (docs/monitoring.md).

    A process listens at `host`, on the first free one of `ports` ports from `port` on; with `port`
    0 on any. Scrapers reach it by the name `advertise`, else by `host`, or by the host's own name
    where that is every address. `tenants` have a label of their own, all further ones share one.
    """

    enabled: bool = False
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 9464
    ports: PositiveInt = 64
    advertise: str | None = None
    tenants: PositiveInt = 20
    cache_seconds: Annotated[float, Field(ge=0)] = 1.0


class UpSettings(Section):
    """How many processes `hexgen up` starts on this machine."""

    control_workers: PositiveInt = 1
    sql_workers: PositiveInt = 1
    directory: Path = Path(".hexgen")


class LogSettings(Section):
    """Structured logs to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console"] = "console"
