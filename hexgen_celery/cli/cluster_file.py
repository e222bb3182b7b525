"""The configuration of a small cluster for the demo and for BIRD runs, as a TOML file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hexgen_celery.cli.cpu_precision import quick_precision
from hexgen_celery.demo.build import data_directory

DEMO_MODEL = "Qwen3-30B-A3B"
SMALL_MODEL = "SmolLM2-135M-Instruct"
SMALL_MODEL_FILES = Path("build/models/smollm2")
CPU_VLLM = Path(".venv-vllm/bin/vllm")
SMALL_MODEL_PROFILE = "cpu-x1-smollm2-135m.toml"
SMALL_MODEL_PIPELINE = """[pipeline]
candidates = 7          # one of the model's statements in a few can be executed
temperature = 0.3       # more makes fewer of them executable
max_tokens = 128        # what is longer is a loop
correction_rounds = 1   # a second round seldom mends what the first did not
structured = true       # it strays from JSON else
"""
REAL_SERVER_PROFILE = "a100-80g-x1-qwen3-30b-a3b"


@dataclass(frozen=True, slots=True)
class EmulatedPool:
    """One emulated server of a kind of GPU."""

    gpu: str
    profile: str


HETEROGENEOUS = (
    EmulatedPool("a100", "a100-80g-x1-qwen3-30b-a3b"),
    EmulatedPool("l40s", "l40s-x1-qwen3-30b-a3b"),
    EmulatedPool("a6000", "a6000-x1-qwen3-30b-a3b"),
)


def emulated_cluster(
    directory: Path,
    *,
    replay: Iterable[Path],
    speed: float,
    pipeline: str = "",
    kinds: Iterable[EmulatedPool] = HETEROGENEOUS,
) -> str:
    """One emulated server of each of `kinds`, answering from `replay`."""
    sources = json.dumps([str(path.absolute()) for path in replay])
    head = f"[emulator]\nspeed = {speed:g}\nreplay = {sources}\n"
    return _document(directory, head + pipeline, map(_emulated_pool, kinds))


def real_server_cluster(directory: Path, *, url: str, model: str) -> str:
    """One pool with the server at `url`; the profile is a prior until it has been measured."""
    instance = f'[[pools.instances]]\nname = "server-1"\nurl = {json.dumps(url)}\n'
    pool = _pool("gpu", "server", model, REAL_SERVER_PROFILE)
    return _document(directory, "", [pool + instance])


def cpu_vllm_cluster(directory: Path) -> str:
    """One real vLLM server on one core of this machine, with the model of `make model`."""
    profile = str(data_directory() / SMALL_MODEL_PROFILE)
    precision = quick_precision()
    instance = (
        '[[pools.instances]]\nname = "cpu-1"\nengine = "vllm"\n\n'
        "[pools.instances.vllm]\n"
        f"executable = {json.dumps(str(CPU_VLLM.absolute()))}\n"
        f"model = {json.dumps(str(SMALL_MODEL_FILES.absolute()))}\n"
        f'dtype = "{precision.dtype}"\nenforce_eager = true\n'
        f'cpu_kv_gib = {precision.kv_gib}\ncpu_cores = "0"\n'
    )
    pool = _pool("cpu", "demo", SMALL_MODEL, profile)
    return _document(directory, SMALL_MODEL_PIPELINE, [pool + instance])


def _document(directory: Path, head: str, pools: Iterable[str]) -> str:
    files = (
        f"[up]\ndirectory = {json.dumps(str(directory))}\n\n"
        f"[sql]\nhome = {json.dumps(str(directory / 'databases'))}\n"
    )
    return "\n".join([files, head, *pools])


def _emulated_pool(kind: EmulatedPool) -> str:
    instance = f'[[pools.instances]]\nname = "{kind.gpu}-1"\nengine = "emulated"\n'
    return _pool(kind.gpu, "demo", DEMO_MODEL, kind.profile) + instance


def _pool(gpu: str, name: str, model: str, profile: str) -> str:
    return (
        f'[[pools]]\nname = "{name}"\ngpu = "{gpu}"\n'
        f"model = {json.dumps(model)}\nprofile = {json.dumps(profile)}\n\n"
    )
