"""Emulated servers that can be killed and started again, and the pools that declare them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pydantic import SecretStr

from hexgen_celery.settings import BrokerSettings, InstanceSettings, PoolSettings, Settings
from tests.integration.workers.local_workers import LocalWorkers
from workers import children
from workers.embedded_redis import EmbeddedRedis

MODEL = "m"
ANSWER_TOKENS = 64
# Longer pieces than a server's, so that sending them leaves the machine time for everything else.
CHUNK_SECONDS = 0.5
SPEED_VARIABLE = "HEXGEN_EMULATOR__SPEED"


class EmulatedServers:
    """Servers by instance name (name → profile), each on a port of its own that it keeps.

    Answers have `answer_tokens`.
    """

    def __init__(
        self, profiles: Mapping[str, str], speed: float, answer_tokens: int = ANSWER_TOKENS
    ) -> None:
        self._answer_tokens = answer_tokens
        self._profiles = profiles
        self._speed = speed
        self._ports = {name: _free_port() for name in profiles}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start a server; returns when it listens."""
        options = ["--profile", self._profiles[name], "--model", MODEL]
        options += ["--port", str(self._ports[name]), "--speed", str(self._speed)]
        options += ["--filler-tokens", str(self._answer_tokens)]
        options += ["--chunk-seconds", str(CHUNK_SECONDS)]
        command = [sys.executable, "-m", "workers.emulator", *options]
        process = children.spawn(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        self._processes[name] = process

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self._processes[name].kill()
        self._processes[name].wait()

    def stop(self) -> None:
        """End all of them."""
        for process in self._processes.values():
            children.stop(process)

    def pools(self, concurrency: int = 64) -> tuple[PoolSettings, ...]:
        """A pool of one instance for each server."""
        return tuple(
            PoolSettings(
                name=name,
                gpu=profile.split("-")[0],
                model=MODEL,
                profile=profile,
                concurrency=concurrency,
                instances=(
                    InstanceSettings(
                        name=name, url=f"http://127.0.0.1:{self._ports[name]}", engine="emulated"
                    ),
                ),
            )
            for name, profile in self._profiles.items()
        )


@contextmanager
def emulated_cluster(
    profiles: Mapping[str, str],
    speed: float,
    *,
    concurrency: int = 64,
    answer_tokens: int = ANSWER_TOKENS,
    environment: Mapping[str, str] | None = None,
) -> Iterator[tuple[LocalWorkers, EmulatedServers]]:
    """Redis, workers and servers; `environment` holds further settings of the workers."""
    variables = {SPEED_VARIABLE: str(speed), **(environment or {})}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hexgen-emul-")))
        redis = stack.enter_context(EmbeddedRedis(directory / "redis"))
        servers = EmulatedServers(profiles, speed, answer_tokens)
        stack.callback(servers.stop)
        for name in profiles:
            servers.start(name)
        for name, value in variables.items():
            os.environ[name] = value
            stack.callback(os.environ.pop, name)
        broker = BrokerSettings(url=SecretStr(redis.url), prefix="emulated")
        settings = Settings(broker=broker, pools=servers.pools(concurrency))
        workers = stack.enter_context(LocalWorkers(settings, directory))
        workers.start()
        yield workers, servers


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
