"""Another OpenAI-compatible server, transformers' own: less than vLLM, and questions are answered.

It has no /tokenize, /metrics or /version, does not list a model in a directory, knows no priority,
no forced length and no cache, ignores response formats and answers one request after another.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hexgen_celery.answers import NoAnswer, Outcome
from hexgen_celery.api import Client, Question
from hexgen_celery.cli.cpu_precision import quick_precision
from hexgen_celery.cli.local_cluster import LocalCluster
from hexgen_celery.demo import build_demo
from hexgen_celery.demo.build import data_directory
from hexgen_celery.errors import HexgenError
from hexgen_celery.llm import ChatRequest, LlmClient
from hexgen_celery.names import ASK
from hexgen_celery.settings import load_settings
from tests.vllm.serving import SMALL
from workers import children
from workers.vllm_cpu import environment, models

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

MODEL = str(models.DIRECTORY / SMALL)
HOST = "127.0.0.1"
READY_SECONDS = 600.0
SLO_SECONDS = 600.0
CHATS = 2
OPTIONS = {
    "linking": "model",
    "candidates": 2,
    "correction_rounds": 1,
    "agreement": 0,
    "degrade": False,
    "max_tokens": 64,
    "temperature": 0.9,
}
LACKING = ("/tokenize", "/metrics", "cached_tokens", "a list of its models")


@dataclass(frozen=True)
class Run:
    """What became of a question and of chats, and what the LLM worker logged meanwhile."""

    outcome: Outcome
    chats: list[str]
    log: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`transformers serve`, once it has answered; gives its URL."""
    home = tmp_path_factory.mktemp("second")
    (home / "hub").mkdir()
    port = _free_port()
    command = [str(environment.DIRECTORY / "bin" / "transformers"), "serve", MODEL]
    command += ["--host", HOST, "--port", str(port), "--device", "cpu"]
    command += ["--dtype", quick_precision().dtype]
    variables = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(home), "OMP_NUM_THREADS": "1"}
    log = home / "server.log"
    with log.open("wb") as output:
        process = children.spawn(command, stdout=output, stderr=output, environment=variables)
    try:
        _wait_ready(f"http://{HOST}:{port}", process, log)
        yield f"http://{HOST}:{port}"
    finally:
        children.stop(process)


@pytest.fixture(scope="module")
def run(
    server: str, tmp_path_factory: pytest.TempPathFactory, _no_settings_of_a_developer: None
) -> Run:
    """A question on the demo database, and two plain chats."""
    home = tmp_path_factory.mktemp("stack")
    config = home / "hexgen.toml"
    config.write_text(_config(home, server))
    demo = build_demo(home / "demo")
    cluster = LocalCluster(config, home / "up")
    cluster.start()
    try:
        cluster.wait_ready(READY_SECONDS)
        with Client(load_settings(config)) as client:
            client.add_database(demo.database)
            asked = demo.questions[0]
            outcome = _outcome(client, asked.question, asked.database)
            chats = [_chat(client) for _ in range(CHATS)]
    finally:
        cluster.stop()
    return Run(outcome, chats, (home / "up" / "logs" / "llm-other-1.log").read_text())


def test_questions_are_answered(run: Run) -> None:
    assert run.chats == ["answered"] * CHATS


def test_only_the_models_sql_keeps_a_question_from_its_answer(run: Run) -> None:
    """A tiny model's statements need not be executable; the server must not be the cause."""
    if isinstance(run.outcome, NoAnswer):
        assert run.outcome.status == "failed"
        assert "candidates" in run.outcome.cause


@pytest.mark.parametrize("lack", LACKING)
def test_what_it_lacks_is_said_in_one_line(run: Run, lack: str) -> None:
    said = Counter(
        name for line in _lines(run.log, "llm.server_lacks") for name in LACKING if name in line
    )
    assert said[lack] == 1


def test_fields_it_does_not_know_are_left_out_with_one_line(run: Run) -> None:
    (line,) = _lines(run.log, "llm.fields_refused")
    assert "priority" in line


def test_it_needs_no_forced_length(server: str) -> None:
    request = ChatRequest(MODEL, (("user", "hello"),), 8, forced_output_tokens=4, priority=1.0)
    with LlmClient(server) as client:
        answer = client.complete(request)
    assert answer.finish_reason
    assert answer.output_tokens <= 4
    assert answer.usage_reported
    assert not answer.cache_reported


def _outcome(client: Client, question: str, database: str) -> Outcome:
    asked = Question(question, database, SLO_SECONDS, options=OPTIONS)
    return client.ask_many([asked])[0].outcome(SLO_SECONDS + 30)


def _chat(client: Client) -> str:
    """The end of a plain request through the whole stack."""
    payload = {
        "workflow": "chat",
        "question": "Say hello.",
        "database": "",
        "slo_seconds": SLO_SECONDS,
        "options": {"max_tokens": 16},
    }
    sent = client.app.send_task(ASK, kwargs=payload, task_id=str(uuid.uuid4()))
    return str(sent.get(timeout=SLO_SECONDS)["status"])


def _lines(log: str, event: str) -> list[str]:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", log)
    return [line for line in plain.splitlines() if event in line]


def _wait_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            with LlmClient(url) as client:
                client.complete(ChatRequest(MODEL, (("user", "hello"),), max_tokens=2))
            return
        except HexgenError:
            time.sleep(1.0)
    last = log.read_text(errors="replace").splitlines()[-5:]
    pytest.fail(f"the server answered nothing: {' | '.join(last)}")


def _config(home: Path, url: str) -> str:
    profile = str(data_directory() / "cpu-x1-smollm2-135m.toml")
    return (
        f"[up]\ndirectory = {json.dumps(str(home / 'up'))}\n"
        f"[sql]\nhome = {json.dumps(str(home / 'databases'))}\n"
        f'[[pools]]\nname = "other"\ngpu = "cpu"\nmodel = {json.dumps(MODEL)}\n'
        f"profile = {json.dumps(profile)}\nconcurrency = 2\n"
        f'[[pools.instances]]\nname = "other-1"\nurl = {json.dumps(url)}\n'
    )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])
