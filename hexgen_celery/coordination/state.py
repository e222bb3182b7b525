"""A workflow as Redis holds it, read in one round trip."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import redis

from hexgen_celery.core.estimates import Interval, rounds_over
from hexgen_celery.keys import Keys
from hexgen_celery.outbox import OutboxEntry
from hexgen_celery.references import RequestRef
from hexgen_celery.workflows.codec import decode_outcome, decode_spec, decode_submission, loads
from hexgen_celery.workflows.definition import (
    Json,
    NodeSpec,
    NodeState,
    NodeStatus,
    Outcome,
    Submission,
    WorkflowStatus,
    WorkflowView,
)

_SPEC = "/spec"
_RESULT = "/result"
HOPELESS = (NodeStatus.FAILED, NodeStatus.DROPPED)


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A node with its record, which the scripts write: where it went and when (Unix seconds)."""

    spec: NodeSpec
    record: Json
    outcome: Json

    @property
    def status(self) -> NodeStatus:
        """Where in its life the node is."""
        return NodeStatus(self.record["status"])

    @property
    def attempt(self) -> int:
        """The attempt that counts: the one that won, else the latest."""
        return int(self.record.get("won") or self.record["attempt"])

    def state(self) -> NodeState:
        """The node as a definition sees it."""
        return NodeState(
            spec=self.spec,
            status=self.status,
            attempt=self.attempt,
            result=self.outcome.get("result"),
            error=self.outcome.get("error"),
        )

    @property
    def interval(self) -> Interval | None:
        """When it was ready and done, and the seconds it took; None as long as it is not over."""
        ready, finished = self.record.get("ready_at"), self.record.get("finished_at")
        if ready is None or finished is None:
            return None
        claimed = float(self.record.get("claimed_at") or ready)
        result = self.outcome.get("result") or {}
        seconds = float(result.get("seconds", float(finished) - claimed))
        spec = self.spec
        return Interval(spec.id, spec.stage, spec.step, float(ready), float(finished), seconds)


@dataclass(frozen=True, slots=True)
class WorkflowRecord:
    """A workflow at one version. Nodes are in the order of their addition."""

    submission: Submission
    status: WorkflowStatus
    version: int
    memory: Json
    nodes: Mapping[str, StoredNode]
    outcome: Outcome | None
    best_effort: bool
    started_at: float | None
    finished_at: float | None

    def view(self, now: float) -> WorkflowView:
        """What the definition may decide by, at `now` (Unix seconds)."""
        nodes = {node_id: node.state() for node_id, node in self.nodes.items()}
        return WorkflowView(self.submission, nodes, self.memory, now)

    def entry(self, ref: RequestRef, *, resent: bool) -> OutboxEntry:
        """One of its requests, to be sent."""
        node = self.nodes[ref.node_id]
        spec = node.spec
        return OutboxEntry(
            ref,
            spec,
            self.submission,
            resent,
            round=rounds_of(spec.step, self.nodes),
            siblings_until=siblings_until(spec, self.nodes),
            ready_at=float(node.record.get("ready_at") or 0.0),
            too_short=int((node.outcome.get("error") or {}).get("context_tokens", 0)),
        )


def rounds_of(step: str, nodes: Mapping[str, StoredNode]) -> int:
    """How many rounds of `step` are over among `nodes`."""
    over = (node.interval for node in nodes.values() if node.spec.step == step)
    return rounds_over(step, [each for each in over if each is not None])


def siblings_until(spec: NodeSpec, nodes: Mapping[str, StoredNode]) -> float:
    """When the slowest other request of the stage of `spec` was expected to end when it was placed
    (Unix seconds); 0 where there is none. Those that will never be done hold nothing up."""
    ends = (
        float(node.record.get("expected_end") or 0.0)
        for name, node in nodes.items()
        if name != spec.id and node.spec.stage == spec.stage and node.status not in HOPELESS
    )
    return max(ends, default=0.0)


class WorkflowStore:
    """Reads workflows."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def load(self, workflow_id: str) -> WorkflowRecord | None:
        """The workflow, or None when it is not known (any more).

        The hash with the version is read first, so that nodes newer than their version can only
        make a transition planned on them run into a conflict.
        """
        pipeline = self._client.pipeline(transaction=False)
        pipeline.hgetall(self._keys.workflow(workflow_id))
        pipeline.hgetall(self._keys.nodes(workflow_id))
        fields, nodes = cast("list[dict[str, str]]", pipeline.execute())
        if "submission" not in fields:
            return None
        return workflow_record(fields, nodes)

    def rows(self, workflow_id: str, node_id: str) -> Json:
        """The bulk result of a node; empty when there is none."""
        text = self._client.hget(self._keys.bulk(workflow_id), node_id)
        return loads(cast("str", text)) if text else {}

    def exists(self, workflow_id: str) -> bool:
        """Whether the workflow is known."""
        return bool(self._client.exists(self._keys.workflow(workflow_id)))

    def existing(self, workflow_ids: Sequence[str]) -> set[str]:
        """Those of them that are known."""
        with self._client.pipeline(transaction=False) as pipeline:
            for name in workflow_ids:
                pipeline.exists(self._keys.workflow(name))
            found = pipeline.execute()
        return {name for name, there in zip(workflow_ids, found, strict=True) if there}


def workflow_record(fields: Mapping[str, str], nodes: Mapping[str, str]) -> WorkflowRecord:
    """The workflow of its two hashes; `fields` must hold its submission."""
    outcome, best_effort = (
        decode_outcome(fields["outcome"]) if "outcome" in fields else (None, False)
    )
    return WorkflowRecord(
        submission=decode_submission(fields["submission"]),
        status=WorkflowStatus(fields["status"]),
        version=int(fields.get("version", 0)),
        memory=loads(fields.get("memory", "{}")),
        nodes=_nodes(nodes),
        outcome=outcome,
        best_effort=best_effort,
        started_at=_time(fields, "started_at"),
        finished_at=_time(fields, "finished_at"),
    )


def _nodes(fields: Mapping[str, str]) -> dict[str, StoredNode]:
    records: dict[str, Any] = {
        name: json.loads(text) for name, text in fields.items() if "/" not in name
    }
    ordered = sorted(records, key=lambda node_id: int(records[node_id]["order"]))
    return {
        node_id: StoredNode(
            spec=decode_spec(fields[node_id + _SPEC]),
            record=records[node_id],
            outcome=loads(fields.get(node_id + _RESULT, "{}")),
        )
        for node_id in ordered
    }


def _time(fields: Mapping[str, str], name: str) -> float | None:
    return float(fields[name]) if name in fields else None
