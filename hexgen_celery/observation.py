"""What runs: questions with their requests, queues with their load. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hexgen_celery.coordination.state import StoredNode, WorkflowRecord
from hexgen_celery.instances import InstanceRecord
from hexgen_celery.ledger import LedgerView, Load
from hexgen_celery.names import ASK_QUEUE, GPU_QUEUES
from hexgen_celery.workflows.definition import NodeStatus


@dataclass(frozen=True, slots=True)
class NodeStatusView:
    """One request of a question and where it is; `why` nobody can take it, where that is so."""

    id: str
    stage: str
    step: str
    status: str
    attempt: int
    queue: str
    instance: str
    why: str = ""


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
class StuckRequest:
    """A request that waits while no instance can take it, and why."""

    question: str
    node: str
    queue: str
    why: str


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


def stuck_requests(
    running: Iterable[QuestionStatus],
    instances: Sequence[InstanceRecord],
    *,
    now: float,
    dead_after_seconds: float,
) -> list[StuckRequest]:
    """The requests of `running` that nobody can take now: not sent anywhere, or in queues that no
    ready instance serves."""
    usable = {
        queue
        for record in instances
        if record.alive(now, dead_after_seconds)
        for queue in (record.queue, record.own_queue)
    }
    return [
        StuckRequest(question.id, node.id, node.queue, node.why or _unserved(node.queue, instances))
        for question in running
        for node in question.nodes
        if node.why or (_waits_for_gpu(node) and node.queue not in usable)
    ]


def _waits_for_gpu(node: NodeStatusView) -> bool:
    return node.status == NodeStatus.QUEUED and node.queue.startswith(GPU_QUEUES)


def _unserved(queue: str, instances: Iterable[InstanceRecord]) -> str:
    known = [one for one in instances if queue in (one.queue, one.own_queue)]
    told = ", ".join(f"{one.name} is {one.state}: {one.reason or 'not heard of'}" for one in known)
    return told or "no instance of its pool is announced"


def _why_not_sent(node: StoredNode) -> str:
    error = node.outcome.get("error") if node.status is NodeStatus.READY else None
    return str(error.get("message", "")) if error else ""


def _node_status(node: StoredNode) -> NodeStatusView:
    return NodeStatusView(
        id=node.spec.id,
        stage=node.spec.stage,
        step=node.spec.step,
        status=str(node.status),
        attempt=node.attempt,
        queue=str(node.record.get("queue") or ""),
        instance=str(node.record.get("instance") or node.record.get("worker") or ""),
        why=_why_not_sent(node),
    )
