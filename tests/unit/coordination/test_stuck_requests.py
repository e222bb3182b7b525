"""Requests that nobody can take now, and why."""

from __future__ import annotations

from dataclasses import replace

from hexgen_celery.instances import InstanceRecord
from hexgen_celery.observation import NodeStatusView, QuestionStatus, StuckRequest, stuck_requests

NOW = 1000.0
READY = InstanceRecord("a1", "gpu.a.x", "a", "m", "p", "http://1", "w", 64, beat=NOW)


def _node(status: str = "queued", queue: str = "gpu.a.x.a1", why: str = "") -> NodeStatusView:
    return NodeStatusView("n", "chat", "chat", status, 1, queue, "", why)


def _stuck(node: NodeStatusView, *instances: InstanceRecord) -> list[StuckRequest]:
    question = QuestionStatus("w", "running", "q", "", "t", 9.0, 0.0, 9.0, None, (node,))
    return stuck_requests([question], instances, now=NOW, dead_after_seconds=5.0)


def test_what_a_ready_instance_serves_is_not_stuck() -> None:
    assert _stuck(_node(), READY) == []
    assert _stuck(_node(queue="gpu.a.x"), READY) == []
    assert _stuck(_node(status="running"), replace(READY, state="down")) == []
    assert _stuck(_node(queue="sql")) == []


def test_the_reason_is_that_of_the_instances_of_its_queue() -> None:
    down = replace(READY, state="down", reason="connection refused")
    (one,) = _stuck(_node(), down)
    assert (one.question, one.node, one.queue) == ("w", "n", "gpu.a.x.a1")
    assert one.why == "a1 is down: connection refused"
    (silent,) = _stuck(_node(), replace(READY, beat=NOW - 60))
    assert silent.why == "a1 is ready: not heard of"
    (alone,) = _stuck(_node(queue="gpu.b.y"), READY)
    assert alone.why == "no instance of its pool is announced"


def test_one_that_could_not_be_sent_says_why() -> None:
    (one,) = _stuck(_node("ready", "", "no instance serves m"), READY)
    assert one.why == "no instance serves m"
