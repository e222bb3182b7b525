"""Which processes make up the cluster of one configuration on this machine. Pure."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from hexgen_celery.cluster import RunningInstance
from hexgen_celery.settings import InstanceSettings, PoolSettings, Settings
from workers.managed_process import ProcessSpec

LOOPBACK = "127.0.0.1"
_KEEPER_SECONDS = 3.0
_POOLS: TypeAdapter[tuple[PoolSettings, ...]] = TypeAdapter(tuple[PoolSettings, ...])


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The programs by kind, in the order of starting: servers first, then who uses them.

    `workers` are Celery workers, which answer a ping; `services` are programs that do not.
    """

    servers: tuple[ProcessSpec, ...]
    workers: tuple[ProcessSpec, ...]
    services: tuple[ProcessSpec, ...]
    instances: tuple[RunningInstance, ...]

    @property
    def processes(self) -> tuple[ProcessSpec, ...]:
        """All programs in the order of starting."""
        return (*self.servers, *self.workers, *self.services)


def place_instances(settings: Settings, free_port: Callable[[], int]) -> Settings:
    """`settings` with a port and URL for every instance started here that names none."""
    pools = tuple(_placed_pool(pool, free_port) for pool in settings.pools)
    return settings.model_copy(update={"pools": pools})


def plan_cluster(
    settings: Settings, environment: Mapping[str, str], config: Path | None
) -> ClusterPlan:
    """The plan for `settings`, whose instances are placed and whose broker is a URL.

    What the configuration file cannot say (the broker that was started, ports that were chosen)
    reaches the processes through `environment`, which outranks the file.
    """
    shared = {**environment, **_overrides(settings, config)}
    return ClusterPlan(
        servers=tuple(_servers(settings, shared)),
        workers=tuple(_workers(settings, shared)),
        services=tuple(_recorders(settings, shared)),
        instances=tuple(_instances(settings)),
    )


def _placed_pool(pool: PoolSettings, free_port: Callable[[], int]) -> PoolSettings:
    placed = tuple(_placed_instance(instance, free_port) for instance in pool.instances)
    return pool.model_copy(update={"instances": placed})


def _placed_instance(instance: InstanceSettings, free_port: Callable[[], int]) -> InstanceSettings:
    if not instance.is_ours:
        return instance
    port = instance.listening_port or free_port()
    url = instance.url if instance.engine == "vllm" else None
    return instance.model_copy(update={"port": port, "url": url or f"http://{LOOPBACK}:{port}"})


def _overrides(settings: Settings, config: Path | None) -> dict[str, str]:
    values = {
        "HEXGEN_BROKER__URL": settings.broker.url.get_secret_value(),
        "HEXGEN_POOLS": _POOLS.dump_json(settings.pools).decode(),
        "PYTHONUNBUFFERED": "1",
    }
    if config is not None:
        values["HEXGEN_CONFIG"] = str(config.absolute())
    return values


def _servers(settings: Settings, environment: Mapping[str, str]) -> list[ProcessSpec]:
    return [
        _vllm_server(instance, environment)
        if instance.engine == "vllm"
        else ProcessSpec(
            f"server-{instance.name}",
            _emulator_command(settings, pool, instance),
            environment,
        )
        for pool in settings.pools
        for instance in pool.instances
        if instance.is_ours
    ]


def _vllm_server(instance: InstanceSettings, environment: Mapping[str, str]) -> ProcessSpec:
    """The program that keeps a vLLM server running, which has to end that server itself."""
    return ProcessSpec(
        f"server-{instance.name}",
        _module("workers.vllm_server", instance.name),
        environment,
        stop_seconds=instance.serving.stop_seconds + _KEEPER_SECONDS,
        death_signal=signal.SIGTERM,
    )


def _emulator_command(
    settings: Settings, pool: PoolSettings, instance: InstanceSettings
) -> tuple[str, ...]:
    options = ["--profile", pool.profile, "--model", pool.model, "--port", str(instance.port)]
    emulator = settings.emulator
    options += ["--speed", f"{emulator.speed:g}", "--chunk-seconds", f"{emulator.chunk_seconds:g}"]
    options += ["--scheduling-policy", emulator.scheduling_policy]
    for source in emulator.replay:
        options += ["--replay", str(source)]
    return _module("workers.emulator", *options)


def _workers(settings: Settings, environment: Mapping[str, str]) -> list[ProcessSpec]:
    control = [
        ProcessSpec(
            f"control-{number}",
            _module("workers.control", "--name", f"control-{number}"),
            environment,
        )
        for number in range(1, settings.up.control_workers + 1)
    ]
    sql = [
        ProcessSpec(f"sql-{number}", _module("workers.sql", "--name", f"sql-{number}"), environment)
        for number in range(1, settings.up.sql_workers + 1)
    ]
    llm = [
        ProcessSpec(
            f"llm-{instance.name}",
            _module("workers.llm", "--instance", instance.name),
            environment,
        )
        for pool in settings.pools
        for instance in pool.instances
    ]
    return control + sql + llm + _tuners(settings, environment)


def _tuners(settings: Settings, environment: Mapping[str, str]) -> list[ProcessSpec]:
    if not settings.tuner.enabled:
        return []
    command = _module("workers.tuner", "--name", "tuner")
    return [ProcessSpec("tuner", command, environment, needed=False)]


def _recorders(settings: Settings, environment: Mapping[str, str]) -> list[ProcessSpec]:
    if not settings.store.enabled:
        return []
    command = _module("workers.recorder", "--name", "recorder")
    return [ProcessSpec("recorder", command, environment, needed=False)]


def _instances(settings: Settings) -> list[RunningInstance]:
    return [
        RunningInstance(
            name=instance.name,
            queue=pool.queue,
            gpu=pool.gpu,
            model=pool.model,
            url=instance.url or "",
            emulated=instance.engine == "emulated",
            engine=instance.engine,
        )
        for pool in settings.pools
        for instance in pool.instances
    ]


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)
