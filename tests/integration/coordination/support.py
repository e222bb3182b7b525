"""Workflows that are easy to follow, and a broker in memory that can misbehave."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import redis

from hexgen_celery.coordination import Coordinator, OutboxEntry, RequestRef, TerminalResult
from hexgen_celery.keys import Keys
from hexgen_celery.workflows.definition import (
    Answer,
    Expansion,
    Failure,
    Json,
    LlmCall,
    NodeKind,
    NodeSpec,
    NodeState,
    NodeStatus,
    PartRef,
    SqlCall,
    Submission,
    WorkflowView,
)

QUEUE = "gpu.a100.test"
SQL = "sql"
PART = "template"
CHAIN: dict[str, list[str]] = {"a": [], "b": ["a"]}
ERROR = {"code": "model_unavailable", "message": "connection refused", "hint": "start it"}
_numbers = itertools.count(1)

PassTime = Callable[[float], None]
"""Lets so many seconds pass for everything that is scheduled."""

Leftovers = Callable[[], dict[str, Any]]
"""What must be empty when no question is running."""


def make_submission(workflow: str = "dag", slo: float = 600.0, **options: Any) -> Submission:
    """A question submitted now, under an id that no other has."""
    now = time.time()
    return Submission(
        workflow_id=f"w{next(_numbers)}",
        workflow=workflow,
        question="Welche Straße?",
        database="demo",
        slo_seconds=slo,
        submitted_at=now,
        deadline=now + slo,
        options=options,
    )


def llm_spec(
    node_id: str, after: tuple[str, ...] = (), parts: tuple[PartRef, ...] = ()
) -> NodeSpec:
    """An LLM node of 100 input and 20 output tokens."""
    call = LlmCall(parts, f"question for {node_id}", 100, 20.0, 64, metadata={"node": node_id})
    return NodeSpec(node_id, NodeKind.LLM, "candidate_generation", "candidate", call, after)


def sql_spec(node_id: str, after: tuple[str, ...] = ()) -> NodeSpec:
    """An execution node."""
    call = SqlCall("demo", f"SELECT '{node_id}'")
    return NodeSpec(node_id, NodeKind.SQL, "self_correction", "execute", call, after)


class Dag:
    """Runs `options["nodes"]` (id → ids it waits for); ids that begin with `x` are executions.

    `lazy` reveals a node when its last predecessor is done; `drops` maps a node to those that its
    end makes needless (with all that depends on them). A failed node fails the question, unless
    `tolerant`: then only its successors are dropped. Once nothing is open the answer is the list
    of what is done.
    """

    name = "dag"

    def begin(self, submission: Submission) -> Expansion:
        wanted = submission.options["nodes"]
        if not submission.options.get("lazy"):
            return Expansion(add=tuple(self._spec(submission, name) for name in wanted))
        first = [name for name, after in wanted.items() if not after]
        return Expansion(add=tuple(self._spec(submission, name) for name in first))

    def advance(self, view: WorkflowView, node: NodeState) -> Expansion:
        options = view.submission.options
        failed = node.status is NodeStatus.FAILED
        if failed and not options.get("tolerant"):
            error = (node.error or {}).get("message", "")
            return Expansion(outcome=Failure(node.spec.stage, error))
        gone = set(view.memory.get("gone", []))
        gone |= set(options.get("drops", {}).get(node.spec.id, [])) - _ended(view)
        gone |= {node.spec.id} if failed else set()
        gone = self._with_successors(options["nodes"], gone)
        added = self._revealed(view, gone)
        drop = tuple(name for name in gone if name in view.nodes and name not in _ended(view))
        memory = {"gone": sorted(gone)}
        open_nodes = set(options["nodes"]) - gone - _ended(view)
        if not open_nodes:
            return Expansion(drop=drop, memory=memory, outcome=self._answer(view))
        return Expansion(add=added, drop=drop, memory=memory)

    def best_effort(self, view: WorkflowView) -> Answer | None:
        return self._answer(view) if _done(view) else None

    def _revealed(self, view: WorkflowView, gone: set[str]) -> tuple[NodeSpec, ...]:
        done = _done(view)
        return tuple(
            self._spec(view.submission, name)
            for name, after in view.submission.options["nodes"].items()
            if name not in view.nodes and name not in gone and set(after) <= done
        )

    @staticmethod
    def _with_successors(nodes: dict[str, list[str]], gone: set[str]) -> set[str]:
        while True:
            more = {name for name, after in nodes.items() if gone & set(after)} - gone
            if not more:
                return gone
            gone = gone | more

    @staticmethod
    def _spec(submission: Submission, name: str) -> NodeSpec:
        after = tuple(submission.options["nodes"][name])
        return sql_spec(name, after) if name.startswith("x") else llm_spec(name, after)

    @staticmethod
    def _answer(view: WorkflowView) -> Answer:
        done = sorted(_done(view))
        return Answer(rows_from=done[-1] if done else None, sql="SELECT 1", detail={"done": done})


def _done(view: WorkflowView) -> set[str]:
    return {name for name, node in view.nodes.items() if node.status is NodeStatus.DONE}


def _ended(view: WorkflowView) -> set[str]:
    final = (NodeStatus.DONE, NodeStatus.FAILED, NodeStatus.DROPPED)
    return {name for name, node in view.nodes.items() if node.status in final}


class InterruptedDag(Dag):
    """Lets something else happen while a transition is being planned."""

    def __init__(self) -> None:
        self.intruder: Callable[[], None] | None = None

    def advance(self, view: WorkflowView, node: NodeState) -> Expansion:
        intruder, self.intruder = self.intruder, None
        if intruder is not None:
            intruder()
        return super().advance(view, node)


class Scripted:
    """A definition made of three functions, for the odd cases."""

    name = "scripted"

    def __init__(
        self,
        begin: Callable[[Submission], Expansion],
        advance: Callable[[WorkflowView, NodeState], Expansion],
        best: Callable[[WorkflowView], Answer | None] = lambda _view: None,
    ) -> None:
        self.begin = begin
        self.advance = advance
        self.best_effort = best


class BrokerDown(Exception):
    """What a publisher raises when the broker is away."""


@dataclass
class MemoryBroker:
    """A publisher whose messages wait in a list until the test delivers them."""

    messages: list[OutboxEntry] = field(default_factory=list)
    results: dict[str, list[TerminalResult]] = field(default_factory=dict)
    down: bool = False

    def publish(self, entry: OutboxEntry) -> str:
        if self.down:
            raise BrokerDown("no broker")
        self.messages.append(entry)
        return SQL if entry.spec.kind is NodeKind.SQL else QUEUE

    def finish(self, terminal: TerminalResult) -> None:
        if self.down:
            raise BrokerDown("no broker")
        self.results.setdefault(terminal.workflow_id, []).append(terminal)

    def take(self) -> OutboxEntry:
        """The oldest message."""
        return self.messages.pop(0)

    def result(self, workflow_id: str) -> TerminalResult:
        """The result of the workflow; the test fails when there are two different ones."""
        first, *others = self.results[workflow_id]
        assert all(other.body == first.body for other in others)
        return first


def run_all(coordinator: Coordinator, broker: MemoryBroker, rows: Json | None = None) -> int:
    """Deliver messages and complete their requests until none is left; how many there were."""
    served = 0
    while broker.messages:
        entry = broker.take()
        queue = SQL if entry.spec.kind is NodeKind.SQL else QUEUE
        if coordinator.claim(entry.ref, worker="w", instance="i1", queue=queue) is not None:
            coordinator.complete(entry.ref, {"text": entry.ref.node_id, "output_tokens": 5}, rows)
            served += 1
    return served


def let_pass(client: redis.Redis, keys: Keys, seconds: float) -> None:
    """Make everything scheduled due `seconds` earlier, which is what waiting would do."""
    for key in (keys.outbox, keys.deadlines, keys.running):
        for member, _ in list(client.zscan_iter(key)):
            client.zincrby(key, -seconds * 1000, member)


def leftovers(client: redis.Redis, keys: Keys) -> dict[str, Any]:
    """What must be empty when no question is running."""
    found = {
        "load": client.hgetall(keys.load),
        "outbox": client.zrange(keys.outbox, 0, -1),
        "deadlines": client.zrange(keys.deadlines, 0, -1),
        "running": client.zrange(keys.running, 0, -1),
    }
    return {name: value for name, value in found.items() if value}


def attempt(ref: RequestRef, number: int) -> RequestRef:
    """The same request's attempt `number`."""
    return RequestRef(ref.workflow_id, ref.node_id, number)


def named(messages: Iterator[OutboxEntry] | list[OutboxEntry]) -> list[str]:
    """The node ids of messages, in order."""
    return [entry.ref.node_id for entry in messages]


def cancels(client: redis.Redis, keys: Keys) -> Any:
    """A subscription to the cancel channel that is in place."""
    channel = client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
    channel.subscribe(keys.cancels)
    channel.get_message(timeout=1)
    return channel


def heard(channel: Any) -> list[str]:
    """The cancels heard so far."""
    found = []
    while (message := channel.get_message(timeout=0.2)) is not None:
        found.append(message["data"])
    return found


def cancel(coordinator: Coordinator, workflow_id: str) -> None:
    """What a user does."""
    assert coordinator.cancel(workflow_id)
