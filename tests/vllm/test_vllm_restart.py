"""A vLLM server that dies in mid-answer, and the end of everything. The last to use its cluster."""

from __future__ import annotations

import time

import psutil
import pytest

from hexgen_celery.api import Question
from tests.vllm.serving import READY_SECONDS, ServedModel, until

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]


def _server(processes: list[psutil.Process]) -> psutil.Process:
    """The process that speaks HTTP: the parent of all others of vLLM."""
    pids = {process.pid for process in processes}
    (top,) = (process for process in processes if process.ppid() not in pids)
    return top


def test_a_request_outlives_the_server_that_worked_on_it(tiny: ServedModel) -> None:
    """Its second attempt is answered by the server that came back on the same port."""
    before = tiny.processes()
    question = Question(
        "tell a long story",
        "",
        READY_SECONDS,
        workflow="chat",
        options={"max_tokens": 3000, "temperature": 1.5},
    )
    pending = tiny.client.ask_many([question])[0]
    with tiny.server() as server:
        until(lambda: "num_requests_running" in server.metrics(), 30, "no metrics")
        until(lambda: _claimed(tiny, pending.id), 60, "the request does not run")
        time.sleep(0.3)
    _server(before).kill()
    answer = pending.result(timeout=READY_SECONDS)
    (stage,) = answer.stages
    assert stage["attempt"] > 1, stage
    after = tiny.processes()
    assert {process.pid for process in after}.isdisjoint(process.pid for process in before)
    assert not any(process.is_running() and _alive(process) for process in before)


def test_nothing_is_left_when_the_cluster_has_ended(tiny: ServedModel) -> None:
    processes = tiny.processes()
    assert len(processes) >= 2, "a server and its engine"
    tiny.cluster.stop()
    until(lambda: not any(map(_alive, processes)), 30, "a process of vLLM lives on")


def _claimed(tiny: ServedModel, workflow: str) -> bool:
    return any(event["event"] == "first_token" for event in tiny.client.trace(workflow))


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
