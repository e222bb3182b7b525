"""Which processes a configuration means on one machine."""

from __future__ import annotations

import json
import signal
from itertools import count
from pathlib import Path

import pytest
from pydantic import SecretStr

from hexgen_celery.settings import (
    BrokerSettings,
    EmulatorSettings,
    InstanceSettings,
    PoolSettings,
    Settings,
    TunerSettings,
    UpSettings,
)
from workers.cluster_plan import place_instances, plan_cluster

URL = "redis://:secret@127.0.0.1:6390/0"


def _settings() -> Settings:
    return Settings(
        broker=BrokerSettings(url=SecretStr(URL)),
        emulator=EmulatorSettings(speed=4, replay=(Path("answers.jsonl"),)),
        up=UpSettings(control_workers=2),
        pools=(
            PoolSettings(
                name="small",
                gpu="l40s",
                model="m",
                profile="p",
                instances=(
                    InstanceSettings(name="a", engine="emulated"),
                    InstanceSettings(name="b", engine="emulated", port=7000),
                ),
            ),
            PoolSettings(
                name="real",
                gpu="h100",
                model="m",
                profile="p",
                instances=(InstanceSettings(name="c", url="http://gpu-host:8000/v1"),),
            ),
        ),
    )


def test_every_process_is_planned_once() -> None:
    ports = count(9000)
    settings = place_instances(_settings(), lambda: next(ports))
    plan = plan_cluster(settings, {"HOME": "/home"}, Path("cluster.toml"))
    assert [spec.name for spec in plan.servers] == ["server-a", "server-b"]
    assert [spec.name for spec in plan.workers] == [
        "control-1",
        "control-2",
        "sql-1",
        "llm-a",
        "llm-b",
        "llm-c",
    ]
    assert [spec.name for spec in plan.services] == ["recorder"]
    assert [each.url for each in plan.instances] == [
        "http://127.0.0.1:9000",
        "http://127.0.0.1:7000",
        "http://gpu-host:8000/v1",
    ]
    assert [each.emulated for each in plan.instances] == [True, True, False]
    assert plan.processes == (*plan.servers, *plan.workers, *plan.services)


def test_emulated_servers_get_profile_port_speed_and_answers() -> None:
    plan = plan_cluster(place_instances(_settings(), lambda: 9000), {}, None)
    command = plan.servers[0].command
    assert command[1:3] == ("-m", "workers.emulator")
    options = dict(zip(command[3::2], command[4::2], strict=True))
    assert options == {
        "--profile": "p",
        "--model": "m",
        "--port": "9000",
        "--speed": "4",
        "--chunk-seconds": "0.1",
        "--scheduling-policy": "priority",
        "--replay": "answers.jsonl",
    }


def test_what_was_chosen_reaches_the_workers_through_the_environment() -> None:
    plan = plan_cluster(place_instances(_settings(), lambda: 9000), {"HOME": "/home"}, Path("c"))
    environment = plan.workers[0].environment
    assert environment["HOME"] == "/home"
    assert environment["HEXGEN_BROKER__URL"] == URL
    assert environment["HEXGEN_CONFIG"] == str(Path("c").absolute())
    pools = json.loads(environment["HEXGEN_POOLS"])
    assert pools[0]["instances"][0]["url"] == "http://127.0.0.1:9000"
    assert URL not in " ".join(plan.workers[0].command)


def test_settings_read_back_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_cluster(place_instances(_settings(), lambda: 9000), {}, None)
    for name, value in plan.workers[0].environment.items():
        monkeypatch.setenv(name, value)
    read = Settings()
    pool, instance = read.instance("a")
    assert (pool.queue, instance.url) == ("gpu.l40s.small", "http://127.0.0.1:9000")
    assert read.broker.url.get_secret_value() == URL


def test_vllm_servers_are_kept_by_a_program_that_may_end_them_itself() -> None:
    settings = _settings()
    here = InstanceSettings(name="v", engine="vllm")
    told = InstanceSettings(name="w", engine="vllm", url="http://gpu-1:8000")
    pool = settings.pools[0].model_copy(update={"instances": (here, told)})
    placed = place_instances(settings.model_copy(update={"pools": (pool,)}), lambda: 9000)
    plan = plan_cluster(placed, {}, None)
    assert [spec.command[1:] for spec in plan.servers] == [
        ("-m", "workers.vllm_server", "v"),
        ("-m", "workers.vllm_server", "w"),
    ]
    assert plan.servers[0].death_signal == signal.SIGTERM
    assert plan.servers[0].stop_seconds > here.serving.stop_seconds
    assert [(each.url, each.engine, each.is_ours) for each in plan.instances] == [
        ("http://127.0.0.1:9000", "vllm", True),
        ("http://gpu-1:8000", "vllm", True),
    ]
    assert [each.instances[1].port for each in placed.pools] == [8000]


def test_questions_need_neither_the_recorder_nor_the_tuner() -> None:
    settings = _settings().model_copy(update={"tuner": TunerSettings(enabled=True)})
    plan = plan_cluster(place_instances(settings, lambda: 9000), {}, Path("cluster.toml"))
    spared = {spec.name for spec in plan.processes if not spec.needed}
    assert spared == {"recorder", "tuner"}
