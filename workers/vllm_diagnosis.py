"""Why a vLLM server ended, told from the end of its log. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

_QUOTED_CHARACTERS = 220
_QUOTED_LINES = 4
_NOISE = re.compile(r"^\s*(?:File \"|\^+$|~|return |await |\w+\(|raise |with |self\.)|^\W*$")
_PROCESS = r"(?:\((?:APIServer|EngineCore|Worker)[^)]*\)\s*)?"
_PREFIX = re.compile(rf"^{_PROCESS}(?:(?:INFO|WARNING|ERROR) \S+ \S+ \[[^\]]*\]\s*)?")


@dataclass(frozen=True, slots=True)
class _Cause:
    words: re.Pattern[str]
    hint: str


_CAUSES = (
    _Cause(
        re.compile(
            r"out of memory|OutOfMemory|No available memory|KV cache.*(needed|larger)", re.I
        ),
        "it ran out of memory: lower max_model_len, max_num_seqs or gpu_memory_utilization (CPU "
        "build: cpu_kv_gib), or use more GPUs",
    ),
    _Cause(
        re.compile(r"Address already in use", re.I),
        "another program has the port: stop it, or choose another `port`",
    ),
    _Cause(
        re.compile(r"unrecognized arguments|vllm serve: error: argument"),
        "this version of vLLM refuses an argument: look at extra_args, or install the "
        "version that pyproject.toml names",
    ),
    _Cause(
        re.compile(r"No module named|cannot import name|operator \S+ does not exist"),
        "the environment of vLLM is broken: install it anew (CPU build: make vllm-env)",
    ),
    _Cause(
        re.compile(r"Failed to infer device|no CUDA|CUDA driver|NVIDIA driver", re.I),
        "vLLM found no GPU that it can use: look at nvidia-smi and CUDA_VISIBLE_DEVICES",
    ),
    _Cause(
        re.compile(
            r"not a valid (?:model identifier|JSON)|Repo(?:sitory)?.?Not.?Found|OfflineMode", re.I
        ),
        "the model was not found: set `model` to a directory or a repository that this machine "
        "can fetch",
    ),
)
_UNKNOWN = "look at the log"


def ending(exit_code: int | None) -> str:
    """An exit code in words."""
    if exit_code is None:
        return "did not answer"
    if exit_code < 0:
        return f"was killed by {signal.Signals(-exit_code).name}"
    return f"ended with status {exit_code}"


def hint_for(lines: Sequence[str], exit_code: int | None) -> str:
    """How to mend what the lines complain of."""
    text = "\n".join(lines)
    for cause in _CAUSES:
        if cause.words.search(text):
            return cause.hint
    if exit_code == -signal.SIGKILL:
        return "the kernel may have killed it for want of memory: see dmesg"
    return _UNKNOWN


def quoted(lines: Sequence[str]) -> str:
    """The last lines that say something, for an error in one line."""
    telling = [_PREFIX.sub("", line).strip() for line in lines if not _NOISE.match(line)]
    shown = [line[:_QUOTED_CHARACTERS] for line in telling if line][-_QUOTED_LINES:]
    return " | ".join(shown) or "(nothing)"
