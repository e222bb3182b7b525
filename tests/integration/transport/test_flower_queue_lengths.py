"""Flower over HTTP: its Broker page and API show what really waits in each queue."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from hexgen_celery.app import create_app
from hexgen_celery.settings import Settings
from tests.integration.transport.probe import PROJECT, wait_for
from workers.embedded_redis import free_port

pytestmark = pytest.mark.integration


@pytest.fixture
def flower_url(settings: Settings, tmp_path: Path) -> Iterator[str]:
    port = free_port()
    environment = {
        **os.environ,
        "HEXGEN_BROKER__URL": settings.broker.url.get_secret_value(),
        "HEXGEN_BROKER__PREFIX": settings.broker.prefix,
        "PYTHONPATH": str(PROJECT),
    }
    with (tmp_path / "flower.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "hexgen_celery.flower", f"--port={port}"],
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def fetch(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError:
        raise
    except OSError:
        return ""


def test_page_and_api_show_the_real_lengths(settings: Settings, flower_url: str) -> None:
    app = create_app(settings)
    for _ in range(3):
        app.send_task("hexgen.execute_sql", queue="sql")
    for _ in range(2):
        app.send_task("hexgen.ask")
    app.close()
    body = wait_for(lambda: fetch(f"{flower_url}/api/queues/length"), 40.0)
    lengths = {queue["name"]: queue["messages"] for queue in json.loads(body)["active_queues"]}
    assert (lengths["sql"], lengths["hexgen.ask"], lengths["celery"]) == (3, 2, 0)
    page = fetch(f"{flower_url}/broker")
    assert "hexgen.ask" in page
    cells = page.split("<td>sql</td>")[1].split("</tr>")[0]
    assert re.findall(r">\s*(\d+)\s*<", cells)[0] == "3"
