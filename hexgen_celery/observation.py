"""What runs: questions with their requests, queues with their load. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hexgen_celery.coordination.state import StoredNode, WorkflowRecord
from hexgen_celery.instances import InstanceRecord
from hexgen_celery.ledger import LedgerView, Load
from hexgen_celery.names import ASK_QUEUE


@dataclass(frozen=True, slots=True)
class NodeStatusView:
    """One request of a question and where it is."""

    id: str
    stage: str
    step: str
    status: str
    attempt: int
    queue: str
    instance: str


@dataclass(frozen=True, slots=True)
class QuestionStatus:
    """A question and its requests. Times in Unix seconds; `finished_at` None while it runs.

    `source`: where this is known from, `Redis` or the store.
    """

    id: str
    status: str
    question: str
    database: str
    tenant: str
    slo_seconds: float
    submitted_at: float
    deadline: float
    finished_at: float | None
    nodes: tuple[NodeStatusView, ...]
    source: str = "Redis"


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue's load and the instances that serve it."""

    name: str
    load: Load
    instances: tuple[str, ...]


def question_status(record: WorkflowRecord) -> QuestionStatus:
    """The status of a stored workflow."""
    asked = record.submission
    return QuestionStatus(
        id=asked.workflow_id,
        status=str(record.status),
        question=asked.question,
        database=asked.database,
        tenant=asked.tenant,
        slo_seconds=asked.slo_seconds,
        submitted_at=asked.submitted_at,
        deadline=asked.deadline,
        finished_at=record.finished_at,
        nodes=tuple(_node_status(node) for node in record.nodes.values()),
    )


def queue_statuses(
    ledger: LedgerView, instances: Iterable[InstanceRecord], unaccepted: int
) -> list[QueueStatus]:
    """Every pool with an instance and every queue with work; `unaccepted` questions wait for a
    control worker."""
    serving: dict[str, list[str]] = {}
    for record in instances:
        serving.setdefault(record.queue, []).append(record.name)
        if record.own_queue in ledger.queues:
            serving[record.own_queue] = [record.name]
    names = sorted({*ledger.queues, *serving})
    known = [QueueStatus(name, ledger.queue(name), tuple(serving.get(name, ()))) for name in names]
    return [QueueStatus(ASK_QUEUE, Load(waiting=unaccepted), ()), *known]


def _node_status(node: StoredNode) -> NodeStatusView:
    return NodeStatusView(
        id=node.spec.id,
        stage=node.spec.stage,
        step=node.spec.step,
        status=str(node.status),
        attempt=node.attempt,
        queue=str(node.record.get("queue") or ""),
        instance=str(node.record.get("instance") or node.record.get("worker") or ""),
    )
