"""Questions that go well, from start to result."""

from __future__ import annotations

from hexgen_celery.coordination import Coordinator
from hexgen_celery.workflows.definition import WorkflowStatus
from tests.integration.coordination.support import (
    QUEUE,
    Leftovers,
    MemoryBroker,
    make_submission,
    named,
    run_all,
)

DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "x": ["b", "c"]}


def test_a_question_is_answered(
    coordinator: Coordinator, broker: MemoryBroker, leftovers: Leftovers
) -> None:
    submission = make_submission(nodes=DIAMOND)
    coordinator.start(submission)
    assert named(broker.messages) == ["a"]
    rows = {"columns": ["n"], "rows": [[1], ["ä"]], "truncated": False}
    assert run_all(coordinator, broker, rows) == 4
    result = broker.result(submission.workflow_id)
    assert result.status is WorkflowStatus.ANSWERED
    assert result.body["rows"] == [[1], ["ä"]]
    assert result.body["done"] == ["a", "b", "c", "x"]
    assert result.body["deadline_met"] is True
    assert [stage["node"] for stage in result.body["stages"]] == ["a", "b", "c", "x"]
    assert result.body["tokens"]["output"] == 20
    assert leftovers() == {}


def test_a_node_waits_for_all_of_its_predecessors(
    coordinator: Coordinator, broker: MemoryBroker
) -> None:
    coordinator.start(make_submission(nodes=DIAMOND))
    first = broker.take()
    assert coordinator.claim(first.ref, worker="w", queue=QUEUE)
    coordinator.complete(first.ref, {})
    assert named(broker.messages) == ["b", "c"]
    b, c = broker.take(), broker.take()
    coordinator.claim(b.ref, worker="w")
    coordinator.complete(b.ref, {})
    assert broker.messages == []
    coordinator.claim(c.ref, worker="w")
    coordinator.complete(c.ref, {})
    assert named(broker.messages) == ["x"]
