"""Real worker processes on the test's Redis, and a Celery client of theirs."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis
from celery import Celery
from celery.result import AsyncResult
from pydantic import SecretStr

from hexgen_celery.settings import BrokerSettings, InstanceSettings, PoolSettings, Settings
from workers.embedded_redis import EmbeddedRedis

PROJECT = Path(__file__).resolve().parents[3]
PROFILE = "a100-80g-x1-qwen3-30b-a3b"
START_SECONDS = 40.0
STOP_SECONDS = 30.0

_database_numbers = itertools.cycle(range(1, 16))


def pool_of(*urls: str, name: str = "x", concurrency: int = 16, model: str = "") -> PoolSettings:
    """A pool with one instance for each URL."""
    instances = tuple(
        InstanceSettings(name=f"{name}{number}", url=url) for number, url in enumerate(urls, 1)
    )
    return PoolSettings(
        name=name,
        gpu="a100",
        model=model or "fake-model",
        profile=PROFILE,
        concurrency=concurrency,
        instances=instances,
    )


def deployment_settings(
    server: EmbeddedRedis, prefix: str, directory: Path, *pools: PoolSettings
) -> Settings:
    """A deployment of its own on the session's Redis, with short leases and grace.

    It has a database number to itself, which is emptied: the queues that clients send to have the
    same names in every deployment.
    """
    defaults = Settings()
    url = server.url.removesuffix("/0") + f"/{next(_database_numbers)}"
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return defaults.model_copy(
        update={
            "broker": BrokerSettings(url=SecretStr(url), prefix=prefix),
            "sql": defaults.sql.model_copy(update={"home": directory / "databases"}),
            "pools": pools,
            "coordinator": defaults.coordinator.model_copy(update={"lease_seconds": 3.0}),
            "queues": defaults.queues.model_copy(update={"lease_seconds": 3.0}),
            "workers": defaults.workers.model_copy(update={"shutdown_grace_seconds": 0.5}),
        }
    )


class LocalWorkers:
    """Starts workers of one deployment and stops each by its own process id."""

    def __init__(self, settings: Settings, directory: Path) -> None:
        self.settings = settings
        self.directory = directory
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.client = Celery("client", broker=self.url, backend=self.url, set_as_current=False)

    @property
    def url(self) -> str:
        return self.settings.broker.url.get_secret_value()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.stop()
        self.client.close()
        if error is not None:
            for name in self.processes:
                sys.stderr.write(f"--- {name}\n{self.log(name)[-6000:]}\n")

    def control(self, name: str = "control-1") -> None:
        self._spawn(name, "workers.control", "--name", name)

    def sql(self, name: str = "sql-1") -> None:
        self._spawn(name, "workers.sql", "--name", name)

    def llm(self, instance: str) -> None:
        self._spawn(f"llm-{instance}", "workers.llm", "--instance", instance)

    def start(self, *, control: int = 1, sql: int = 0) -> Self:
        """Control and sql workers, and one LLM worker for each declared instance."""
        for number in range(1, control + 1):
            self.control(f"control-{number}")
        for number in range(1, sql + 1):
            self.sql(f"sql-{number}")
        for pool in self.settings.pools:
            for instance in pool.instances:
                self.llm(instance.name)
        self.wait_ready()
        return self

    def wait_ready(self) -> None:
        """Wait until every process that was started answers a ping."""
        until = time.monotonic() + START_SECONDS
        waiting = set(self.processes)
        while waiting:
            assert time.monotonic() < until, f"{waiting} did not start"
            for name in waiting:
                assert self.processes[name].poll() is None, f"{name} ended:\n{self.log(name)}"
            replies = self.client.control.ping(timeout=1.0, limit=len(self.processes))
            waiting -= {node.split("@")[0] for reply in replies for node in reply}

    def stop(self, *names: str) -> None:
        """SIGTERM `names` (all), then wait for them."""
        chosen = [self.processes[name] for name in names or self.processes]
        for process in chosen:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in chosen:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.processes[name].kill()
        self.processes[name].wait()

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def chat(self, text: str, *, slo_seconds: float = 60.0, **options: Any) -> AsyncResult[Any]:
        """Ask through the chat workflow; one LLM request each."""
        return self.client.send_task(
            "hexgen.ask",
            kwargs={
                "question": text,
                "slo_seconds": slo_seconds,
                "workflow": "chat",
                "options": options,
            },
        )

    def _spawn(self, name: str, module: str, *arguments: str) -> None:
        pools = [pool.model_dump(mode="json") for pool in self.settings.pools]
        tenants = [tenant.model_dump(mode="json") for tenant in self.settings.tenants]
        environment = {
            **os.environ,
            "HEXGEN_BROKER__URL": self.url,
            "HEXGEN_BROKER__PREFIX": self.settings.broker.prefix,
            "HEXGEN_BROKER__TRANSPORT": self.settings.broker.transport,
            "HEXGEN_POOLS": json.dumps(pools),
            "HEXGEN_TENANTS": json.dumps(tenants),
            "HEXGEN_SQL__HOME": str(self.settings.sql.home),
            "HEXGEN_COORDINATOR": self.settings.coordinator.model_dump_json(),
            "HEXGEN_WORKERS": self.settings.workers.model_dump_json(),
            "HEXGEN_QUEUES": self.settings.queues.model_dump_json(),
            "HEXGEN_ROUTER": self.settings.router.model_dump_json(),
            "HEXGEN_DEADLINE": self.settings.deadline.model_dump_json(),
            "HEXGEN_METRICS": self.settings.metrics.model_dump_json(),
            "HEXGEN_LOG__FORMAT": "json",
            "PYTHONPATH": str(PROJECT),
        }
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=self.directory,
                env=environment,
                stdout=log,
                stderr=log,
            )
