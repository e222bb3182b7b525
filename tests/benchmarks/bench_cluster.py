"""A whole cluster for a benchmark: real Redis, Celery workers and emulated servers."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import redis

from hexgen_celery.api import Client
from hexgen_celery.cli.local_cluster import local_cluster
from hexgen_celery.cluster import ClusterState
from hexgen_celery.settings import Settings, load_settings
from workers import children

MODEL = "benchmark"
PROFILE = "h200-141g-x1-qwen3-30b-a3b"
READY_SECONDS = 60.0
KIB = 1024


@dataclass(frozen=True, slots=True)
class BenchCluster:
    """What a benchmark needs of the running cluster."""

    settings: Settings
    state: ClusterState
    redis: redis.Redis
    client: Client
    server_urls: tuple[str, ...]

    def resident_mib(self, program: str) -> list[float]:
        """Resident memory of every process of the cluster that runs `program`."""
        pids = [pid for pid in _descendants(self.state.pid) if program in _command(pid)]
        return [_resident_kib(pid) / KIB for pid in pids]

    def processor_seconds(self) -> float:
        """Processor time that all processes of the cluster have used so far (Linux)."""
        return sum(map(_processor_seconds, [self.state.pid, *_descendants(self.state.pid)]))


@contextlib.contextmanager
def constant_server(seconds: float, replay: Path | None = None) -> Iterator[str]:
    """A server that answers everything after `seconds`, from `replay` if given; gives its URL."""
    command = [sys.executable, "-m", "workers.emulator", "--model", MODEL]
    command += ["--constant-seconds", str(seconds)]
    command += ["--replay", str(replay)] if replay else []
    process = children.spawn(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().decode().strip()
    finally:
        children.stop(process)


@contextlib.contextmanager
def bench_cluster(
    constant_seconds: float,
    *,
    servers: int = 1,
    concurrency: int = 64,
    replay: Path | None = None,
    extra: str = "",
) -> Iterator[BenchCluster]:
    """A cluster of one pool of `servers` constant servers; `extra` is TOML put in front."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hexgen-bench-")))
        servers_up = [constant_server(constant_seconds, replay) for _ in range(servers)]
        urls = [stack.enter_context(server) for server in servers_up]
        config = directory / "cluster.toml"
        config.write_text(_document(directory, urls, concurrency, extra), encoding="utf-8")
        state = stack.enter_context(local_cluster(config, READY_SECONDS))
        settings = _on_broker(load_settings(config), state)
        yield BenchCluster(
            settings,
            state,
            stack.enter_context(redis.Redis.from_url(state.broker_url.get_secret_value())),
            stack.enter_context(Client(settings)),
            tuple(urls),
        )


def _on_broker(settings: Settings, state: ClusterState) -> Settings:
    broker = settings.broker.model_copy(update={"url": state.broker_url})
    return settings.model_copy(update={"broker": broker})


def _document(directory: Path, urls: Sequence[str], concurrency: int, extra: str) -> str:
    pool = (
        f'[[pools]]\nname = "bench"\ngpu = "h200"\nmodel = "{MODEL}"\nprofile = "{PROFILE}"\n'
        f"concurrency = {concurrency}\n"
    )
    instances = [
        f'[[pools.instances]]\nname = "server-{number}"\nurl = {json.dumps(url)}\n'
        for number, url in enumerate(urls, 1)
    ]
    files = (
        f"[up]\ndirectory = {json.dumps(str(directory))}\n\n"
        f"[sql]\nhome = {json.dumps(str(directory / 'databases'))}\n"
        '[log]\nlevel = "warning"\n'
    )
    return "\n".join([files, extra, pool, *instances])


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *_descendants(child)]
    return found


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise ValueError(f"process {pid} shows no resident memory")
