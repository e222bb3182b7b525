"""What docker-compose.yml and the Dockerfile promise, without a Docker engine."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest

from tests.integration.deployment.compose_file import (
    COMPOSE,
    PROJECT,
    VariableMissing,
    services,
    volumes,
)

SECRETS = {"REDIS_PASSWORD": "secret1", "POSTGRES_PASSWORD": "secret2"}
ONE_SHOT = {"migrate", "cli"}
SERVICES = services(SECRETS)
OURS = {
    name: service for name, service in SERVICES.items() if service["image"].startswith("hexgen-")
}
DOCKERFILE = (PROJECT / "Dockerfile").read_text(encoding="utf-8")


def test_everything_that_a_deployment_needs_is_there() -> None:
    needed = {"redis", "postgres", "control", "sql", "recorder", "tuner", "flower", "cli"}
    assert needed <= set(SERVICES)
    workers = [
        each["command"][-1]
        for each in OURS.values()
        if each.get("command", [""])[-2:-1] == ["--instance"]
    ]
    servers = [
        each["command"][-1] for each in OURS.values() if each.get("command", [""])[0] == "vllm"
    ]
    assert sorted(workers) == sorted(servers)
    assert len(servers) == 2
    assert SERVICES["control"]["deploy"]["replicas"] >= 2


@pytest.mark.parametrize("missing", sorted(SECRETS))
def test_no_password_has_a_default(missing: str) -> None:
    with pytest.raises(VariableMissing, match=missing):
        services({name: value for name, value in SECRETS.items() if name != missing})


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_lasting_service_restarts_and_says_whether_it_is_well(name: str) -> None:
    service = SERVICES[name]
    if name in ONE_SHOT:
        assert service["restart"] == "no"
        return
    assert service["restart"] == "unless-stopped"
    assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
    assert len(service["healthcheck"]["test"]) > 1


@pytest.mark.parametrize("name", sorted(OURS))
def test_ours_run_without_privileges(name: str) -> None:
    service = OURS[name]
    assert "user" not in service, "the image's own user"
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "privileged" not in service


def test_redis_runs_without_privileges_although_its_command_is_not_the_images() -> None:
    assert SERVICES["redis"]["user"] == "redis"


@pytest.mark.parametrize("target", ["runtime", "vllm"])
def test_images_end_with_an_unprivileged_user(target: str) -> None:
    assert {service["build"]["target"] for service in OURS.values()} == {"runtime", "vllm"}
    stage = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    (text,) = [each for each in stage if each.splitlines()[0].endswith(f" AS {target}")]
    users = re.findall(r"^USER (\w+)$", text, re.MULTILINE)
    assert users == ["hexgen"]
    assert text.index("USER hexgen") < text.index("ENTRYPOINT")


def test_volumes_are_declared_and_used_and_bound_files_exist() -> None:
    used = set()
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if not source.startswith("."):
                used.add(source)
            elif source != "./databases":
                assert (PROJECT / source).exists(), source
    assert used == volumes()


def test_the_image_is_built_from_what_there_is_and_nothing_else_is_sent() -> None:
    copied = {
        name
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for name in line.split()[:-1]
    }
    ignore = (PROJECT / ".dockerignore").read_text(encoding="utf-8").split()
    assert ignore[0] == "*"
    assert copied == {name[1:] for name in ignore if name.startswith("!")}
    for name in copied:
        assert (PROJECT / name).exists(), name


def test_redis_keeps_everything_and_evicts_nothing() -> None:
    command = "\n".join(SERVICES["redis"]["command"])
    assert "appendonly yes" in command
    assert "maxmemory-policy noeviction" in command
    assert "secret1" not in command, "a command line is public"


@pytest.mark.parametrize("name", [name for name in OURS if name.startswith("vllm-")])
def test_vllm_servers_reserve_a_gpu_of_their_own(name: str) -> None:
    (device,) = OURS[name]["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
    assert len(device["device_ids"]) == 1
    others = [
        each["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
        for other, each in OURS.items()
        if other.startswith("vllm-") and other != name
    ]
    assert device["device_ids"] not in others


def test_compose_itself_accepts_the_file() -> None:
    docker = shutil.which("docker")
    if (
        docker is None
        or subprocess.run(
            [docker, "compose", "version"], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("this machine's docker has no `compose`")
    command: list[Any] = [docker, "compose", "-f", str(COMPOSE), "--profile", "*", "config", "-q"]
    done = subprocess.run(
        command,
        env={**SECRETS, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
