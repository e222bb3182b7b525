"""From one instance of the configuration to the command that serves it with vLLM. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hexgen_celery.core.profiles import Profile
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.llm.endpoint import Endpoint
from hexgen_celery.settings import InstanceSettings, PoolSettings, VllmSettings

ALL_ADDRESSES = "0.0.0.0"
HIDDEN = "***"
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
LEAST_BATCHED_TOKENS = 2048
QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
"""vLLM reports its use to its makers unless it is told not to."""

OWN_FLAGS = {
    "--model": "vllm.model",
    "--served-model-name": "pools.model",
    "--host": "vllm.host",
    "--port": "instances.port",
    "--max-model-len": "pools.max_model_len",
    "--tensor-parallel-size": "vllm.tensor_parallel",
    "-tp": "vllm.tensor_parallel",
    "--pipeline-parallel-size": "vllm.pipeline_parallel",
    "-pp": "vllm.pipeline_parallel",
    "--max-num-seqs": "vllm.max_num_seqs",
    "--max-num-batched-tokens": "vllm.max_num_batched_tokens",
    "--max-num-queued-reqs": "vllm.max_queued_requests",
    "--scheduling-policy": "vllm.scheduling_policy",
    "--enable-prefix-caching": "vllm.prefix_caching",
    "--no-enable-prefix-caching": "vllm.prefix_caching",
    "--enable-chunked-prefill": "vllm.chunked_prefill",
    "--no-enable-chunked-prefill": "vllm.chunked_prefill",
    "--enforce-eager": "vllm.enforce_eager",
    "--dtype": "vllm.dtype",
    "--load-format": "vllm.load_format",
    "--gpu-memory-utilization": "vllm.gpu_memory_utilization",
    "--num-gpu-blocks-override": "vllm.kv_blocks",
    "--api-key": "llm.api_key",
}


@dataclass(frozen=True, slots=True)
class VllmCommand:
    """What to run: arguments, the first the program, and variables beside the caller's own."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]

    def shown(self) -> str:
        """The command for a person or a shell, with secrets hidden."""
        variables = (
            f"{name}={HIDDEN if SECRET.search(name) else shlex.quote(value)}"
            for name, value in sorted(self.environment.items())
        )
        return " ".join((*variables, shlex.join(self.arguments)))


def vllm_command(
    pool: PoolSettings, instance: InstanceSettings, profile: Profile, api_key: str = ""
) -> VllmCommand:
    """The command for `instance` of `pool`, whose speed is `profile`.

    The server says by its flags what the profile and the pool say of it, because estimates and
    admission rely on that.

    Raises:
        InvalidSettings: settings contradict each other; the message names both.
    """
    if instance.engine != "vllm":
        raise InvalidSettings(
            f'instance {instance.name!r} has engine = "{instance.engine}"',
            field="pools.instances.engine",
            hint='set engine = "vllm", or name another instance',
        )
    if not instance.listening_port:
        raise InvalidSettings(
            f"instance {instance.name!r} has no port to listen on",
            field="pools.instances.port",
            hint="give it one: port = 8000",
        )
    refuse_contradictions(pool, instance, profile)
    serving = instance.serving
    arguments = (
        serving.executable,
        "serve",
        model_of(pool, instance),
        *_identity(pool, instance),
        *_sizes(pool, serving, profile),
        *_behaviour(serving),
        *serving.extra_args,
    )
    return VllmCommand(arguments, _environment(serving, api_key))


def model_of(pool: PoolSettings, instance: InstanceSettings) -> str:
    """What vLLM loads: a directory or a repository's name."""
    return instance.serving.model or pool.model


def context_of(pool: PoolSettings, profile: Profile) -> int:
    """The context that the server is to have, in tokens."""
    return pool.max_model_len or profile.max_model_len


def tensor_parallel_of(serving: VllmSettings, profile: Profile) -> int:
    """How many GPUs share each layer."""
    return serving.tensor_parallel or max(1, profile.gpus // serving.pipeline_parallel)


def _identity(pool: PoolSettings, instance: InstanceSettings) -> Iterator[str]:
    yield from ("--served-model-name", pool.model)
    yield from ("--host", instance.serving.host, "--port", str(instance.listening_port))


def _sizes(pool: PoolSettings, serving: VllmSettings, profile: Profile) -> Iterator[str]:
    sizes = {
        "--tensor-parallel-size": tensor_parallel_of(serving, profile),
        "--pipeline-parallel-size": serving.pipeline_parallel,
        "--max-model-len": context_of(pool, profile),
        "--max-num-seqs": serving.max_num_seqs or profile.max_sequences,
        "--max-num-batched-tokens": _batched_tokens(serving, context_of(pool, profile)),
        "--max-num-queued-reqs": serving.max_queued_requests,
        "--gpu-memory-utilization": serving.gpu_memory_utilization,
        "--num-gpu-blocks-override": serving.kv_blocks,
    }
    for flag, value in sizes.items():
        if value is not None:
            yield from (flag, f"{value}")


def _batched_tokens(serving: VllmSettings, context_tokens: int) -> int | None:
    """Without chunks a whole prompt must fit into one step."""
    if serving.max_num_batched_tokens is None and not serving.chunks_prefill:
        return max(context_tokens, LEAST_BATCHED_TOKENS)
    return serving.max_num_batched_tokens


def _behaviour(serving: VllmSettings) -> Iterator[str]:
    yield from ("--scheduling-policy", serving.scheduling_policy)
    yield "--enable-prefix-caching" if serving.prefix_caching else "--no-enable-prefix-caching"
    if not serving.chunks_prefill:
        yield "--no-enable-chunked-prefill"
    # Without this the number of cached tokens is missing from `usage`.
    yield "--enable-prompt-tokens-details"
    yield "--enable-server-load-tracking"
    yield "--disable-uvicorn-access-log"
    if serving.enforce_eager:
        yield "--enforce-eager"
    if serving.dtype:
        yield from ("--dtype", serving.dtype)
    if serving.load_format:
        yield from ("--load-format", serving.load_format)


def _environment(serving: VllmSettings, api_key: str) -> dict[str, str]:
    values = dict(QUIET)
    if serving.cpu_kv_gib is not None:
        values["VLLM_CPU_KVCACHE_SPACE"] = str(serving.cpu_kv_gib)
    if serving.cpu_cores is not None:
        values["VLLM_CPU_OMP_THREADS_BIND"] = serving.cpu_cores
    if api_key:
        values["VLLM_API_KEY"] = api_key
    return {**values, **serving.environment}


def refuse_contradictions(pool: PoolSettings, instance: InstanceSettings, profile: Profile) -> None:
    """Raise InvalidSettings for settings that cannot all be true."""
    serving = instance.serving
    _refuse_other_gpus(serving, pool, profile)
    _refuse_two_kinds_of_memory(serving)
    _refuse_too_few_sequences(serving, pool, profile)
    _refuse_steps_too_short(serving, context_of(pool, profile))
    _refuse_unreachable(instance)
    _refuse_flags_said_twice(serving)


def _refuse_other_gpus(serving: VllmSettings, pool: PoolSettings, profile: Profile) -> None:
    used = tensor_parallel_of(serving, profile) * serving.pipeline_parallel
    if used != profile.gpus:
        raise InvalidSettings(
            f"the instance uses {used} GPUs, but profile {pool.profile!r} is the speed of "
            f"{profile.gpus}",
            field="vllm.tensor_parallel",
            hint=f"use {profile.gpus} GPUs, or give the pool a profile of {used} "
            "(`hexgen profile` measures one)",
        )


def _refuse_two_kinds_of_memory(serving: VllmSettings) -> None:
    for_cpu = [name for name in ("cpu_kv_gib", "cpu_cores") if getattr(serving, name) is not None]
    if serving.gpu_memory_utilization is not None and for_cpu:
        raise InvalidSettings(
            f"gpu_memory_utilization is for GPUs, {' and '.join(for_cpu)} for the CPU build",
            field="vllm.gpu_memory_utilization",
            hint="remove what is not for this machine",
        )


def _refuse_too_few_sequences(serving: VllmSettings, pool: PoolSettings, profile: Profile) -> None:
    """Requests beyond the server's limit would wait there, where urgency does not rule."""
    sent = min(pool.concurrency, profile.max_sequences)
    limits = {name: getattr(serving, name) for name in ("max_num_seqs", "max_queued_requests")}
    for name, limit in limits.items():
        if limit is not None and limit < sent:
            raise InvalidSettings(
                f"up to {sent} requests are sent to an instance of pool {pool.name!r} at once, "
                f"but its server would take only {limit}",
                field=f"vllm.{name}",
                hint=f"set the pool's concurrency = {limit}, or raise {name}",
            )


def _refuse_steps_too_short(serving: VllmSettings, context_tokens: int) -> None:
    step = serving.max_num_batched_tokens
    if step is not None and step < context_tokens and not serving.chunks_prefill:
        raise InvalidSettings(
            f"a prompt of {context_tokens} tokens does not fit into one step of {step}, and is not "
            "to be computed in chunks",
            field="vllm.max_num_batched_tokens",
            hint=f"raise it to {context_tokens}, or set chunked_prefill = true",
        )


def _refuse_unreachable(instance: InstanceSettings) -> None:
    if instance.url is None or Endpoint.parse(instance.url).is_loopback:
        return
    host = instance.serving.host
    if Endpoint.parse(f"http://{host}").is_loopback:
        raise InvalidSettings(
            f"workers are to reach the instance at {instance.url}, but it listens on {host} alone",
            field="vllm.host",
            hint=f'set host = "{ALL_ADDRESSES}" or an address of this machine',
        )


def _refuse_flags_said_twice(serving: VllmSettings) -> None:
    for argument in serving.extra_args:
        flag = argument.partition("=")[0]
        if flag in OWN_FLAGS:
            raise InvalidSettings(
                f"extra_args has {flag}, which the setting {OWN_FLAGS[flag]} decides",
                field="vllm.extra_args",
                hint=f"set {OWN_FLAGS[flag]} instead",
            )
