"""Celery's `revoke`, mapped to our cancellation."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from celery import states
from celery.worker.control import Panel

from hexgen_celery.errors import UnknownWorkflow
from workers.revocation import RevocationService, leave_revoke_to_control_workers


@pytest.fixture(autouse=True)
def _celerys_own_command_back() -> object:
    command, meta = Panel.data["revoke"], Panel.meta["revoke"]
    yield
    Panel.data["revoke"], Panel.meta["revoke"] = command, meta


class _Backend:
    READY_STATES = states.READY_STATES

    def __init__(self, state: str) -> None:
        self.state = state
        self.revoked: list[str] = []

    def get_state(self, _task_id: str) -> str:
        return self.state

    def mark_as_revoked(self, task_id: str, *, reason: str, store_result: bool) -> None:
        assert store_result
        self.revoked.append(task_id)


class _App:
    def __init__(self, state: str = states.PENDING) -> None:
        self.backend = _Backend(state)


class _Questions:
    def __init__(self, known: bool, error: Exception | None = None, *, ended: bool = False) -> None:
        self.known = known
        self.ended = ended
        self.error = error
        self.cancelled: list[str] = []

    def cancel(self, workflow_id: str, reason: str = "cancelled") -> bool:
        self.cancelled.append(workflow_id)
        if self.error is not None and len(self.cancelled) == 1:
            raise self.error
        return self.known

    def record(self, workflow_id: str) -> object:
        if not (self.known or self.ended):
            raise UnknownWorkflow(f"no question {workflow_id!r} is known")
        return object()


def _send(ids: Any) -> dict[str, str]:
    reply: dict[str, str] = Panel.data["revoke"](None, ids, terminate=True, signal="KILL")
    return reply


def test_a_running_question_is_cancelled_and_its_result_left_to_the_coordinator() -> None:
    app, questions = _App(), _Questions(known=True)
    RevocationService(app, questions).revoke("w1")
    assert questions.cancelled == ["w1"]
    assert app.backend.revoked == []


def test_a_question_that_has_not_begun_ends_for_its_client_at_once() -> None:
    app = _App()
    RevocationService(app, _Questions(known=False)).revoke("w1")
    assert app.backend.revoked == ["w1"]


def test_a_finished_question_keeps_its_result() -> None:
    app = _App(states.SUCCESS)
    RevocationService(app, _Questions(known=False)).revoke("w1")
    assert app.backend.revoked == []


def test_a_question_that_ended_a_moment_ago_keeps_the_result_that_is_on_its_way() -> None:
    app = _App(states.PENDING)
    RevocationService(app, _Questions(known=False, ended=True)).revoke("w1")
    assert app.backend.revoked == []


@pytest.mark.parametrize("error", [redis.ConnectionError("gone"), RuntimeError("a bug")])
def test_the_command_takes_one_id_or_many_and_survives_trouble(error: Exception) -> None:
    questions = _Questions(known=True, error=error)
    service = RevocationService(_App(), questions)
    service.start()
    assert _send("w1") == {"ok": "1 revoked"}
    assert _send(["w2", "w3"]) == {"ok": "2 revoked"}
    service.stop()
    assert questions.cancelled == ["w1", "w2", "w3"]


def test_stage_workers_accept_the_command_and_do_nothing() -> None:
    leave_revoke_to_control_workers()
    assert _send(["w1"]) == {"ok": "1 revoked"}
