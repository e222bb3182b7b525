"""A real vLLM server on the CPU, and a cluster of the whole stack in front of it.

vLLM's worker computes on the first core, to which vLLM binds it; Redis, our workers and the
benchmark keep off that core. vLLM's other processes go where the kernel puts them: its scheduler
waits for its worker by spinning, and bound to one core it starves its own threads.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from hexgen_celery.api import Client
from hexgen_celery.cli.cpu_precision import quick_precision
from hexgen_celery.cli.local_cluster import local_cluster
from hexgen_celery.errors import HexgenError
from hexgen_celery.llm import ChatRequest, LlmClient
from hexgen_celery.settings import load_settings
from tests.benchmarks.rows import BenchmarkSkipped
from workers import children
from workers.vllm_cpu import environment, models

MODEL = "smollm2"
LOOPBACK = "127.0.0.1"
READY_SECONDS = 240.0
CLUSTER_SECONDS = 60.0
ENGINE_CORE = 0
_RESET_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """How the server is started. Tokens, except `sequences`."""

    sequences: int = 8
    batched_tokens: int = 2048
    context: int = 4096


def command(port: int, limits: ServerLimits) -> list[str]:
    """The command line of the server."""
    vllm = environment.DIRECTORY / "bin" / "vllm"
    return [
        *(str(vllm), "serve", str(models.DIRECTORY / models.REAL)),
        *("--host", LOOPBACK, "--port", str(port), "--served-model-name", MODEL),
        *("--dtype", quick_precision().dtype, "--enforce-eager", "--scheduling-policy", "priority"),
        *("--max-model-len", str(limits.context), "--max-num-seqs", str(limits.sequences)),
        *("--max-num-batched-tokens", str(limits.batched_tokens)),
        *("--enable-prompt-tokens-details", "--disable-uvicorn-access-log"),
    ]


def variables() -> dict[str, str]:
    """The environment of the server: no look-ups outside, one core for the engine."""
    return {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        # Only so does it offer to forget its prefix cache, with which every run begins.
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_CPU_KVCACHE_SPACE": str(quick_precision().kv_gib),
        "VLLM_CPU_OMP_THREADS_BIND": str(ENGINE_CORE),
    }


@contextlib.contextmanager
def vllm_server(limits: ServerLimits) -> Iterator[str]:
    """A server that has answered a question; gives its URL.

    Raises:
        BenchmarkSkipped: the environment or the model is not there.
    """
    if not environment.is_ready() or not models.is_made(models.DIRECTORY / models.REAL):
        raise BenchmarkSkipped("real vLLM is not installed here; make it with: make model")
    port = _free_port()
    url = f"http://{LOOPBACK}:{port}"
    with tempfile.TemporaryDirectory(prefix="hexgen-vllm-") as directory:
        log = Path(directory) / "vllm.log"
        with log.open("wb") as output, _on_every_core():
            process = children.spawn(
                command(port, limits), stdout=output, stderr=output, environment=variables()
            )
        try:
            _wait_ready(url, process, log)
            yield url
        finally:
            children.stop(process)


def _wait_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until and process.poll() is None:
        if _listens(url):
            with contextlib.suppress(HexgenError), LlmClient(url) as client:
                client.complete(ChatRequest(MODEL, (("user", "hello"),), max_tokens=4))
                return
        time.sleep(1.0)
    last = " | ".join(log.read_text(errors="replace").splitlines()[-5:])
    raise RuntimeError(f"the vLLM server answered no question in time: {last}")


def forget_prefixes(url: str) -> None:
    """Empty the server's prefix cache, which it can once nothing runs.

    Raises:
        RuntimeError: it still could not after a while.
    """
    request = urllib.request.Request(f"{url}/reset_prefix_cache", method="POST")
    for _ in range(_RESET_ATTEMPTS):
        with urllib.request.urlopen(request, timeout=30.0) as response:
            if json.load(response)["success"]:
                return
        time.sleep(0.5)
    raise RuntimeError(f"{url} does not forget its prefix cache")


class Bystanders:
    """How much of the machine others used: processes that this one did not start."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._others = _cpu_seconds_of_others()

    def share(self) -> float:
        """Their part of all cores' time since then, 0 to 1."""
        available = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        return max(0.0, _cpu_seconds_of_others() - self._others) / available


def _cpu_seconds_of_others() -> float:
    machine = psutil.cpu_times()
    busy = float(sum(machine) - machine.idle - machine.iowait - machine.guest - machine.guest_nice)
    me = psutil.Process()
    ours = 0.0
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            ours += times.user + times.system + times.children_user + times.children_system
    return busy - ours


def _listens(url: str) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex((LOOPBACK, int(url.rpartition(":")[2]))) == 0


@contextlib.contextmanager
def beside_the_engine() -> Iterator[None]:
    """Keep this process, and what it starts, off the engine's core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _other_cores())
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def _on_every_core() -> Iterator[None]:
    """vLLM binds its engine itself, but only to a core that it may use when it starts."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {ENGINE_CORE, *before})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _other_cores() -> set[int]:
    return set(range(os.cpu_count() or 1)) - {ENGINE_CORE} or {ENGINE_CORE}


@contextlib.contextmanager
def stack_before(url: str, profile: Path, sequences: int, extra: str = "") -> Iterator[Client]:
    """Redis, control and LLM workers in front of the server at `url`; `extra` is TOML."""
    with tempfile.TemporaryDirectory(prefix="hexgen-real-") as made:
        directory = Path(made)
        config = directory / "cluster.toml"
        config.write_text(_document(directory, url, profile, sequences, extra), encoding="utf-8")
        with local_cluster(config, CLUSTER_SECONDS) as state:
            settings = load_settings(config)
            broker = settings.broker.model_copy(update={"url": state.broker_url})
            with Client(settings.model_copy(update={"broker": broker})) as client:
                yield client


def _document(directory: Path, url: str, profile: Path, sequences: int, extra: str) -> str:
    return (
        f"[up]\ndirectory = {json.dumps(str(directory))}\n"
        f"[sql]\nhome = {json.dumps(str(directory / 'databases'))}\n"
        f'[log]\nlevel = "warning"\n[deadline]\nmax_slo_seconds = 86400.0\n{extra}'
        f'[[pools]]\nname = "real"\ngpu = "cpu"\nmodel = "{MODEL}"\n'
        f"profile = {json.dumps(str(profile))}\nconcurrency = {sequences}\n"
        f'[[pools.instances]]\nname = "real-1"\nurl = {json.dumps(url)}\n'
    )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        return int(found.getsockname()[1])
