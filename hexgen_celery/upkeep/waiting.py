"""The requests that wait in a queue, with the questions that they belong to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hexgen_celery.coordination.state import WorkflowRecord, WorkflowStore
from hexgen_celery.outbox import OutboxEntry
from hexgen_celery.references import RequestRef
from hexgen_celery.transport.messages import Queued
from hexgen_celery.transport.scripts import QueueScripts
from hexgen_celery.workflows.definition import NodeStatus


@dataclass(frozen=True, slots=True)
class Waiting:
    """One waiting message and the request it is of."""

    message: Queued
    entry: OutboxEntry


class WaitingRequests:
    """Looks into the sorted sets of one deployment."""

    def __init__(self, scripts: QueueScripts, workflows: WorkflowStore) -> None:
        self._scripts = scripts
        self._workflows = workflows

    def of(self, queue: str, most: int, skip: int = 0) -> Iterator[Waiting]:
        """Of up to `most` of the most urgent in `queue`, without the first `skip`, those whose
        requests still wait for it."""
        return self.requests(self.page(queue, most, skip))

    def page(self, queue: str, most: int, skip: int) -> list[Queued]:
        """Up to `most` messages of `queue`, the most urgent first, without the first `skip`."""
        return [message for message, _demoted in self._scripts.peek(queue, most, skip)]

    def requests(self, messages: Iterable[Queued]) -> Iterator[Waiting]:
        """Those of `messages` whose requests still wait."""
        records: dict[str, WorkflowRecord | None] = {}
        for message in messages:
            ref = request_of(message)
            if ref is None:
                continue
            if ref.workflow_id not in records:
                records[ref.workflow_id] = self._workflows.load(ref.workflow_id)
            record = records[ref.workflow_id]
            if record is not None and _waits(record, ref):
                yield Waiting(message, record.entry(ref, resent=True))


def request_of(message: Queued) -> RequestRef | None:
    """Which request a message is of; None where it is none of ours."""
    try:
        return RequestRef.parse(str(json.loads(message.payload)["headers"]["id"]))
    except (ValueError, KeyError, TypeError):
        return None


def _waits(record: WorkflowRecord, ref: RequestRef) -> bool:
    node = record.nodes.get(ref.node_id)
    return node is not None and node.status is NodeStatus.QUEUED and node.attempt == ref.attempt
