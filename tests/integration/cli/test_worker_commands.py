"""`hexgen worker …` and `hexgen doctor` where something is missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hexgen_celery import cli
from hexgen_celery.cli.cluster_file import real_server_cluster
from workers.embedded_redis import EmbeddedRedis, free_port

from .conftest import RunningCluster

pytestmark = pytest.mark.integration
HEXGEN = [sys.executable, "-c", "import sys; from hexgen_celery.cli import main; sys.exit(main())"]


@pytest.mark.parametrize(("kind", "name"), [("control", "control-extra"), ("sql", "sql-extra")])
def test_a_worker_joins_the_running_cluster_and_leaves(
    cluster: RunningCluster, kind: str, name: str
) -> None:
    command = [*HEXGEN, "--config", str(cluster.config), "worker", kind, "--name", name]
    worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while not _answers(cluster, name):
            assert worker.poll() is None
            assert time.monotonic() < until
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    assert not _answers(cluster, name)


def _answers(cluster: RunningCluster, name: str) -> bool:
    replies = cluster.client.app.control.ping(timeout=0.5)
    return any(node.startswith(f"{name}@") for reply in replies for node in reply)


def test_an_emulated_server_runs_alone() -> None:
    options = ["--model", "m", "--constant-seconds", "0", "--port", str(free_port())]
    server = subprocess.Popen(
        [*HEXGEN, "worker", "emulate", *options], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    with server.stdout as output:
        assert output.readline().startswith("http://127.0.0.1:")
    server.terminate()
    server.wait(30)


def test_workers_without_a_cluster_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["worker", "sql"]) == 2
    assert "no cluster runs here" in capsys.readouterr().err


def test_doctor_without_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["doctor", "--json"]) == 1
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert checks["python"]["verdict"] == "ok"
    assert checks["redis program"]["verdict"] == "ok"
    assert checks["broker"]["verdict"] == "failed"
    assert "hexgen up" in checks["broker"]["hint"]
    assert checks["instances"]["verdict"] == "failed"


def test_doctor_with_redis_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "hexgen.toml"
    config.write_text(real_server_cluster(tmp_path, url="http://127.0.0.1:1", model="m"))
    with EmbeddedRedis(tmp_path / "redis") as redis_server:
        environment = {**os.environ, "HEXGEN_BROKER__URL": redis_server.url}
        done = subprocess.run(
            [*HEXGEN, "--config", str(config), "doctor"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    for part in ("✓ broker: Redis", "✗ llm workers", "! databases: none", "✗ instance server-1"):
        assert part in done.stdout
    assert "hexgen worker llm" in done.stdout
