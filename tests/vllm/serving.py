"""Clusters of one real vLLM server each, on the CPU build, that the tests share."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from hexgen_celery.api import Client
from hexgen_celery.cli.cpu_precision import quick_precision
from hexgen_celery.cli.local_cluster import LocalCluster
from hexgen_celery.cluster import read_cluster
from hexgen_celery.llm import ChatRequest, LlmClient
from hexgen_celery.settings import LlmSettings, load_settings
from workers.vllm_cpu import environment, models

READY_SECONDS = 900.0
TINY = "tiny"
SMALL = "smollm2"
TINY_CONTEXT = 4096
TINY_KV_TOKENS = 16_384
BLOCK_TOKENS = 128
SEQUENCES = 4
UNFINISHED = 8
"""Of the tiny server: so many run at once, and one more than that many is refused with 503."""
_NO_ENDLESS_SPACES = [
    "--structured-outputs-config",
    '{"backend": "xgrammar", "disable_any_whitespace": true}',
]
"""A grammar of JSON allows spaces for ever, which random weights make use of."""

_TINY_PROFILE = """name = "cpu-x1-tiny"
gpu = "CPU"
gpus = 1
model = "tiny"
"""
_TINY_NUMBERS = {
    "prefill_tokens_per_second": 20_000.0,
    "prefill_quadratic": 0.0,
    "decode_base": 0.008,
    "decode_per_sequence": 0.001,
    "decode_per_context_token": 0.0,
    "kv_tokens": TINY_KV_TOKENS,
    "max_sequences": SEQUENCES,
    "max_model_len": TINY_CONTEXT,
    "block_tokens": BLOCK_TOKENS,
}


@dataclass(frozen=True)
class ServedModel:
    """A running cluster with one vLLM server; `client` asks the cluster, `url` is the server."""

    home: Path
    cluster: LocalCluster
    client: Client
    url: str
    model: str

    def chat(
        self, text: str, tokens: int, *, priority: float | None = None, forced: bool = True
    ) -> ChatRequest:
        """A request of this model for (exactly, if `forced`) so many tokens."""
        return ChatRequest(
            self.model,
            (("user", text),),
            max_tokens=tokens,
            priority=priority,
            forced_output_tokens=tokens if forced else None,
        )

    def server(self, **settings: float) -> LlmClient:
        """A client of the server itself; close it."""
        return LlmClient(self.url, LlmSettings(**settings))  # type: ignore[arg-type]

    @property
    def log(self) -> Path:
        """What vLLM wrote."""
        return self.home / "up" / "logs" / "vllm-cpu-1.log"

    def processes(self) -> list[psutil.Process]:
        """All processes of vLLM: the server, its engine, its workers."""
        state = read_cluster(self.home / "up")
        if state is None:
            return []
        below = psutil.Process(state.pid).children(recursive=True)
        return [process for process in below if _is_vllm(process)]


@contextmanager
def served(home: Path, text: str, model: str) -> Iterator[ServedModel]:
    """Run the cluster of configuration `text` for the length of a `with` block."""
    config = home / "hexgen.toml"
    config.write_text(text)
    cluster = LocalCluster(config, home / "up")
    cluster.start()
    try:
        url = cluster.wait_ready(READY_SECONDS).instances[0].url
        with Client(load_settings(config)) as client:
            yield ServedModel(home, cluster, client, url, model)
    finally:
        cluster.stop()


def tiny_config(home: Path) -> str:
    """Two layers of random weights: quick, and nothing it says means anything."""
    profile = home / "tiny.toml"
    numbers = [
        f'{name} = {{ value = {value}, kind = "modelled", source = "a guess for tests" }}'
        for name, value in _TINY_NUMBERS.items()
    ]
    profile.write_text(_TINY_PROFILE + "\n".join(numbers) + "\n")
    return _config(
        home,
        TINY,
        profile,
        concurrency=SEQUENCES,
        core=_last_core(),
        more=f'load_format = "dummy"\nkv_blocks = {TINY_KV_TOKENS // BLOCK_TOKENS}\n'
        f"max_queued_requests = {UNFINISHED}\nextra_args = {json.dumps(_NO_ENDLESS_SPACES)}\n",
    )


def small_config(home: Path, profile: Path) -> str:
    """The small real model."""
    return _config(home, SMALL, profile, concurrency=8, core=0, more="")


def _config(
    home: Path, model: str, profile: Path, *, concurrency: int, core: int, more: str
) -> str:
    precision = quick_precision()
    return (
        f"[up]\ndirectory = {json.dumps(str(home / 'up'))}\n"
        f"[sql]\nhome = {json.dumps(str(home / 'databases'))}\n"
        "[pipeline]\nmax_tokens = 256\n"
        "[deadline]\ndefault_slo_seconds = 600\n"
        f'[[pools]]\nname = "test"\ngpu = "cpu"\nmodel = "{model}"\n'
        f"profile = {json.dumps(str(profile))}\nconcurrency = {concurrency}\n"
        '[[pools.instances]]\nname = "cpu-1"\nengine = "vllm"\n'
        "[pools.instances.vllm]\n"
        f"executable = {json.dumps(str(environment.DIRECTORY / 'bin' / 'vllm'))}\n"
        f"model = {json.dumps(str(models.DIRECTORY / model))}\n"
        f'dtype = "{precision.dtype}"\nenforce_eager = true\n'
        f'cpu_kv_gib = {precision.kv_gib}\ncpu_cores = "{core}"\n{more}'
    )


def until(condition: Callable[[], bool], seconds: float, what: str) -> float:
    """Wait for `condition`; returns the seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"{what}: not after {seconds:g} s"
        time.sleep(0.02)
    return time.monotonic() - began


def _last_core() -> int:
    return max(os.sched_getaffinity(0))


def _is_vllm(process: psutil.Process) -> bool:
    try:
        words = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return "VLLM::" in words or "bin/vllm" in words
