"""A worker killed under `hexgen up`: its requests go on at once, not when its leases end."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from hexgen_celery.api import Client
from hexgen_celery.cli.cluster_file import HETEROGENEOUS, emulated_cluster
from hexgen_celery.cli.local_cluster import LocalCluster
from hexgen_celery.cluster import read_cluster
from hexgen_celery.errors import UnknownWorkflow
from hexgen_celery.settings import load_settings

from .conftest import write_database, write_replay

pytestmark = pytest.mark.integration

LEASE = 150.0
"""Seconds; a sweep follows a fifteenth of it after the last."""

PATIENCE = 60.0


def _events(client: Client, question: str, kind: str) -> list[dict[str, object]]:
    try:
        return [event for event in client.trace(question) if event["event"] == kind]
    except UnknownWorkflow:
        return []  # not accepted yet


def _wait_for(client: Client, question: str, kind: str, count: int) -> list[dict[str, object]]:
    until = time.monotonic() + PATIENCE
    while len(found := _events(client, question, kind)) < count:
        assert time.monotonic() < until, f"no {kind} event number {count}"
        time.sleep(0.1)
    return found


def _kill_llm_worker(directory: Path) -> None:
    state = read_cluster(directory)
    assert state is not None
    (worker,) = (
        child for child in psutil.Process(state.pid).children() if "workers.llm" in child.cmdline()
    )
    worker.kill()


def test_its_request_is_claimed_anew_long_before_its_lease_would_end(tmp_path: Path) -> None:
    replay = write_replay(tmp_path / "replay.jsonl")
    leases = f"[coordinator]\nlease_seconds = {LEASE}\n[queues]\nlease_seconds = {LEASE}\n"
    config = tmp_path / "hexgen.toml"
    config.write_text(
        emulated_cluster(
            tmp_path / "up", replay=[replay], speed=50, pipeline=leases, kinds=HETEROGENEOUS[:1]
        )
    )
    cluster = LocalCluster(config, tmp_path / "up")
    try:
        cluster.start()
        cluster.wait_ready(120)
        with Client(load_settings(config)) as client:
            client.add_database(write_database(tmp_path / "cities.sqlite"))
            options = {"question_key": "cities:slow", "max_tokens": 25_000}
            question = client.ask("Slowly?", "cities", 600, options=options).id
            (first,) = _wait_for(client, question, "claimed", 1)
            _kill_llm_worker(tmp_path / "up")
            (retried,) = _wait_for(client, question, "retried", 1)
            _, second = _wait_for(client, question, "claimed", 2)
            assert (retried["node"], retried["attempt"]) == (first["node"], 1)
            assert (second["node"], second["attempt"]) == (first["node"], 2)
            client.cancel(question)
    finally:
        cluster.stop()
