"""The configuration of a small cluster for the demo and for BIRD runs, as a TOML file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hexgen_celery.demo.build import data_directory

DEMO_MODEL = "Qwen3-30B-A3B"
SMALL_MODEL = "SmolLM2-135M-Instruct"
SMALL_MODEL_FILES = Path("build/models/smollm2")
CPU_VLLM = Path(".venv-vllm/bin/vllm")
SMALL_MODEL_PROFILE = "cpu-x1-smollm2-135m.toml"
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
    """One real vLLM server on one core of this machine, with the model of `make model`.

    A candidate of so small a model seldom needs more than a few lines; what is longer is a loop.
    """
    profile = str(data_directory() / SMALL_MODEL_PROFILE)
    instance = (
        '[[pools.instances]]\nname = "cpu-1"\nengine = "vllm"\n\n'
        "[pools.instances.vllm]\n"
        f"executable = {json.dumps(str(CPU_VLLM.absolute()))}\n"
        f"model = {json.dumps(str(SMALL_MODEL_FILES.absolute()))}\n"
        'dtype = "bfloat16"\nenforce_eager = true\ncpu_kv_gib = 1\ncpu_cores = "0"\n'
    )
    pool = _pool("cpu", "demo", SMALL_MODEL, profile)
    return _document(
        directory, "[pipeline]\nmax_tokens = 192\nstructured = true\n", [pool + instance]
    )


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
