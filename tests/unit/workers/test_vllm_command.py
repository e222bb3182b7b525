"""One instance of the configuration as a command of vLLM, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hexgen_celery.core.profiles import Profile
from hexgen_celery.errors import InvalidSettings
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.settings import InstanceSettings, PoolSettings, VllmSettings
from workers.vllm_command import OWN_FLAGS, VllmCommand, vllm_command

PROFILE = load_profile("a100-80g-x4-llama-3.1-70b")
ALWAYS = {"DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1"}


def _command(
    profile: Profile = PROFILE,
    pool: dict[str, Any] | None = None,
    instance: dict[str, Any] | None = None,
    api_key: str = "",
    **serving: Any,
) -> VllmCommand:
    served = InstanceSettings(
        **{
            "name": "a100-1",
            "engine": "vllm",
            "port": 8000,
            "vllm": VllmSettings(**serving),
            **(instance or {}),
        }
    )
    of = {"name": "llama", "gpu": "a100", "model": "llama-70b", "profile": "p", **(pool or {})}
    return vllm_command(PoolSettings(**of, instances=(served,)), served, profile, api_key)


def _flags(command: VllmCommand) -> dict[str, str]:
    """Flags with their values; an empty text for those without."""
    found: dict[str, str] = {}
    name = ""
    for argument in command.arguments[3:]:
        if argument.startswith("-"):
            name = argument
            found[name] = ""
        else:
            found[name] = argument
    return found


def test_an_instance_without_a_port_has_no_command() -> None:
    with pytest.raises(InvalidSettings, match="'a100-1' has no port") as refused:
        _command(instance={"port": 0})
    assert refused.value.field == "pools.instances.port"
    assert refused.value.hint == "give it one: port = 8000"


def test_what_is_not_said_comes_from_pool_and_profile() -> None:
    command = _command()
    assert command.arguments[:3] == ("vllm", "serve", "llama-70b")
    assert _flags(command) == {
        "--served-model-name": "llama-70b",
        "--host": "127.0.0.1",
        "--port": "8000",
        "--tensor-parallel-size": "4",
        "--pipeline-parallel-size": "1",
        "--max-model-len": str(PROFILE.max_model_len),
        "--max-num-seqs": str(PROFILE.max_sequences),
        "--scheduling-policy": "priority",
        "--enable-prefix-caching": "",
        "--enable-prompt-tokens-details": "",
        "--enable-server-load-tracking": "",
        "--disable-uvicorn-access-log": "",
    }
    assert command.environment == ALWAYS


def test_every_setting_has_its_flag() -> None:
    command = _command(
        profile=replace(PROFILE, gpus=8),
        pool={"max_model_len": 4096, "concurrency": 32},
        executable="/opt/vllm",
        model="/models/llama",
        host="0.0.0.0",
        tensor_parallel=4,
        pipeline_parallel=2,
        max_num_seqs=32,
        max_num_batched_tokens=2048,
        max_queued_requests=64,
        scheduling_policy="fcfs",
        prefix_caching=False,
        enforce_eager=True,
        dtype="bfloat16",
        load_format="dummy",
        gpu_memory_utilization=0.85,
        kv_blocks=64,
        extra_args=("--quantization", "fp8"),
        environment={"CUDA_VISIBLE_DEVICES": "0,1"},
    )
    assert command.arguments[:3] == ("/opt/vllm", "serve", "/models/llama")
    assert _flags(command) == {
        "--served-model-name": "llama-70b",
        "--host": "0.0.0.0",
        "--port": "8000",
        "--tensor-parallel-size": "4",
        "--pipeline-parallel-size": "2",
        "--max-model-len": "4096",
        "--max-num-seqs": "32",
        "--max-num-batched-tokens": "2048",
        "--max-num-queued-reqs": "64",
        "--gpu-memory-utilization": "0.85",
        "--num-gpu-blocks-override": "64",
        "--scheduling-policy": "fcfs",
        "--no-enable-prefix-caching": "",
        "--enable-prompt-tokens-details": "",
        "--enable-server-load-tracking": "",
        "--disable-uvicorn-access-log": "",
        "--enforce-eager": "",
        "--dtype": "bfloat16",
        "--load-format": "dummy",
        "--quantization": "fp8",
    }
    assert command.environment == {**ALWAYS, "CUDA_VISIBLE_DEVICES": "0,1"}


def test_the_cpu_build_is_told_by_variables() -> None:
    command = _command(cpu_kv_gib=2, cpu_cores="0-3")
    assert command.environment == {
        **ALWAYS,
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_CPU_OMP_THREADS_BIND": "0-3",
    }


def test_the_cpu_build_computes_prompts_whole_unless_told() -> None:
    """Its engine ends at a seeded request whose prompt it computes in chunks."""
    flags = _flags(_command(cpu_cores="0"))
    assert "--no-enable-chunked-prefill" in flags
    assert flags["--max-num-batched-tokens"] == flags["--max-model-len"]
    told = _flags(_command(cpu_cores="0", chunked_prefill=True))
    assert not {"--no-enable-chunked-prefill", "--max-num-batched-tokens"} & set(told)
    on_gpus = _flags(_command(pool={"max_model_len": 512}, chunked_prefill=False))
    assert on_gpus["--max-num-batched-tokens"] == "2048"


def test_variables_of_the_user_outrank_ours() -> None:
    assert _command(environment={"DO_NOT_TRACK": "0"}).environment["DO_NOT_TRACK"] == "0"


def test_the_key_is_a_variable_and_is_never_shown() -> None:
    command = _command(api_key="s3cret", environment={"HF_TOKEN": "t0ken"})
    assert command.environment["VLLM_API_KEY"] == "s3cret"
    assert not any("s3cret" in argument for argument in command.arguments)
    assert "VLLM_API_KEY=***" in command.shown()
    assert "s3cret" not in command.shown()
    assert "t0ken" not in command.shown()


def test_what_is_shown_can_be_pasted_into_a_shell() -> None:
    shown = _command(environment={"EXTRA": "two words"}, model="/my models/llama").shown()
    assert "EXTRA='two words' " in shown
    assert "vllm serve '/my models/llama' " in shown


def test_the_port_may_come_from_the_url() -> None:
    instance = {"port": 0, "url": "http://gpu-1:9000/v1"}
    assert _flags(_command(instance=instance, host="0.0.0.0"))["--port"] == "9000"


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"tensor_parallel": 2}, "vllm.tensor_parallel", "uses 2 GPUs, but profile 'p'"),
        ({"pipeline_parallel": 8}, "vllm.tensor_parallel", "uses 8 GPUs"),
        (
            {"gpu_memory_utilization": 0.9, "cpu_kv_gib": 1, "cpu_cores": "0"},
            "vllm.gpu_memory_utilization",
            "cpu_kv_gib and cpu_cores for the CPU build",
        ),
        ({"max_num_seqs": 8}, "vllm.max_num_seqs", "up to 64 requests"),
        ({"max_queued_requests": 9}, "vllm.max_queued_requests", "concurrency = 9"),
        (
            {"instance": {"port": 0, "url": "http://gpu-1:8000"}},
            "vllm.host",
            "listens on 127.0.0.1 alone",
        ),
        (
            {"cpu_cores": "0", "max_num_batched_tokens": 99},
            "vllm.max_num_batched_tokens",
            "chunked_prefill = true",
        ),
        ({"extra_args": ("--port=1",)}, "vllm.extra_args", "instances.port"),
        ({"extra_args": ("-tp", "2")}, "vllm.extra_args", "vllm.tensor_parallel"),
        ({"extra_args": ("--max-model-len", "9")}, "vllm.extra_args", "pools.max_model_len"),
        (
            {"instance": {"engine": "emulated", "vllm": None}},
            "pools.instances.engine",
            'engine = "emulated"',
        ),
    ],
)
def test_contradictions_are_refused_with_a_way_out(
    changes: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(InvalidSettings) as refused:
        _command(**changes)
    assert refused.value.field == field
    assert words in refused.value.message + refused.value.hint
    assert refused.value.hint


def test_fewer_sequences_are_fine_where_fewer_requests_are_sent() -> None:
    command = _command(pool={"concurrency": 8}, max_num_seqs=8)
    assert _flags(command)["--max-num-seqs"] == "8"


def test_every_flag_that_a_setting_decides_is_refused_in_extra_args() -> None:
    command = _command(
        max_num_batched_tokens=1,
        max_queued_requests=99,
        enforce_eager=True,
        dtype="auto",
        load_format="auto",
        gpu_memory_utilization=0.5,
        kv_blocks=1,
    )
    unguarded = set(_flags(command)) - set(OWN_FLAGS)
    assert unguarded == {
        "--enable-prompt-tokens-details",
        "--enable-server-load-tracking",
        "--disable-uvicorn-access-log",
    }


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"engine": "external", "url": "http://h:1", "vllm": {}}, "has a table `vllm`"),
        ({"engine": "vllm", "url": "http://h:1", "port": 2}, "its url says 1"),
        ({"engine": "vllm", "url": "http://h", "port": 2}, "its url says none"),
        ({"engine": "external"}, "needs `url`"),
    ],
)
def test_an_instance_cannot_say_two_things(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        InstanceSettings.model_validate({"name": "a", **fields})


def test_with_a_port_it_is_reached_on_this_machine_unless_told() -> None:
    here = InstanceSettings(name="a", engine="vllm", port=8000)
    there = InstanceSettings(name="a", engine="vllm", port=8000, url="http://gpu-1:8000")
    later = InstanceSettings(name="a", engine="vllm")
    assert [each.url for each in (here, there, later)] == [
        "http://127.0.0.1:8000",
        "http://gpu-1:8000",
        None,
    ]
