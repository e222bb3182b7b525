"""How the vLLM server of an instance is started."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hexgen_celery.settings.section import Positive, PositiveInt, Section


class VllmSettings(Section):
    """The vLLM server that `hexgen vllm serve` starts for an instance (docs/vllm.md).

    What is not said comes from the pool (model, context) and its profile (GPUs, sequences), else is
    left to vLLM. `model`: a directory or a repository's name, where it is not the pool's `model`.
    `cpu_kv_gib` and `cpu_cores` (numbers like `0-3`) are for vLLM's CPU build; `chunked_prefill` is
    off with it unless it is said, because a seeded request ends its engine then. The server must
    answer within `ready_seconds`; one that has not ended `stop_seconds` after SIGTERM is killed.
    """

    executable: str = "vllm"
    model: str | None = None
    host: str = "127.0.0.1"
    tensor_parallel: PositiveInt | None = None
    pipeline_parallel: PositiveInt = 1
    max_num_seqs: PositiveInt | None = None
    max_num_batched_tokens: PositiveInt | None = None
    max_queued_requests: PositiveInt | None = None
    scheduling_policy: Literal["priority", "fcfs"] = "priority"
    prefix_caching: bool = True
    chunked_prefill: bool | None = None
    enforce_eager: bool = False
    dtype: str | None = None
    load_format: str | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    kv_blocks: PositiveInt | None = None
    cpu_kv_gib: PositiveInt | None = None
    cpu_cores: str | None = None
    extra_args: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    ready_seconds: Positive = 900.0
    stop_seconds: Positive = 8.0

    @property
    def is_cpu_build(self) -> bool:
        """Whether it says something that only vLLM's CPU build understands."""
        return self.cpu_kv_gib is not None or self.cpu_cores is not None

    @property
    def chunks_prefill(self) -> bool:
        """Whether long prompts are computed in several steps."""
        return not self.is_cpu_build if self.chunked_prefill is None else self.chunked_prefill
