"""Random interleavings of everything that can go wrong, over random workflows, on a real Redis.

After every step Redis must agree with a recount from the nodes; at the end, once the broker behaves
again and time passes, every question has had exactly one end and nothing is left over.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import redis
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hexgen_celery.coordination import Coordinator, OutboxEntry, RequestRef, TerminalResult
from hexgen_celery.coordination.planning import ACTIVE
from hexgen_celery.coordination.state import StoredNode, WorkflowRecord
from hexgen_celery.errors import UnknownWorkflow
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from hexgen_celery.workflows.definition import (
    LlmCall,
    NodeStatus,
    Submission,
    WorkflowStatus,
)
from tests.integration.coordination.support import (
    BrokerDown,
    InterruptedDag,
    MemoryBroker,
    leftovers,
    let_pass,
    make_submission,
)

MAX_NODES = 6
MAX_WORKFLOWS = 3
MAX_DRAIN_ROUNDS = 60
ERROR = {"code": "broken", "message": "it broke", "hint": ""}
INTRUSIONS = ("", "sibling", "sibling", "same", "retry", "cancel")
FAULTS = ("lost", "doubled", "refused", "crash before", "crash after")

_prefixes = (f"prop{number}" for number in itertools.count())


class Crash(BaseException):
    """The process dies here."""


class UnreliableBroker(MemoryBroker):
    """Does to the next things it is asked whatever `faults` says."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []

    def publish(self, entry: OutboxEntry) -> str:
        fault = self.faults.pop(0) if self.faults else ""
        _before(fault)
        queue = super().publish(entry)
        if fault == "lost":
            self.messages.remove(entry)
        if fault == "doubled":
            self.messages.append(entry)
        _after(fault)
        return queue

    def finish(self, terminal: TerminalResult) -> None:
        fault = self.faults.pop(0) if self.faults else ""
        _before(fault)
        super().finish(terminal)
        _after(fault)


@st.composite
def dags(draw: st.DrawFn) -> dict[str, list[str]]:
    """Up to `MAX_NODES` nodes in topological order; some are executions."""
    nodes: dict[str, list[str]] = {}
    for number in range(draw(st.integers(2, MAX_NODES))):
        name = draw(st.sampled_from("nx")) + str(number)
        nodes[name] = draw(
            st.lists(st.sampled_from([*nodes]), unique=True) if nodes else st.just([])
        )
    return nodes


class CoordinatorMachine(RuleBasedStateMachine):
    """Clients, workers, control workers and time, taking turns at random."""

    def __init__(self, client: redis.Redis, configuration: Settings) -> None:
        super().__init__()
        self.client = client
        self.keys = Keys(next(_prefixes))
        self.broker = UnreliableBroker()
        self.dag = InterruptedDag()
        self.coordinator = Coordinator(
            client, self.keys, configuration, {"dag": self.dag}, self.broker
        )
        self.submissions: dict[str, Submission] = {}
        self.claimed: list[RequestRef] = []
        self.ends: dict[str, WorkflowStatus] = {}

    @initialize(nodes=dags(), lazy=st.booleans(), tolerant=st.booleans())
    def first_question(self, nodes: dict[str, list[str]], lazy: bool, tolerant: bool) -> None:
        self.ask(nodes, lazy, tolerant, None)

    @precondition(lambda self: len(self.submissions) < MAX_WORKFLOWS)
    @rule(
        nodes=dags(),
        lazy=st.booleans(),
        tolerant=st.booleans(),
        drop=st.none() | st.tuples(st.integers(0, 5), st.integers(0, 5)),
    )
    def ask(
        self,
        nodes: dict[str, list[str]],
        lazy: bool,
        tolerant: bool,
        drop: tuple[int, int] | None,
    ) -> None:
        names = list(nodes)
        drops = {}
        if drop is not None and max(drop) < len(names) and drop[0] != drop[1]:
            drops = {names[drop[0]]: [names[drop[1]]]}
        submission = make_submission(nodes=nodes, lazy=lazy, tolerant=tolerant, drops=drops)
        self.submissions[submission.workflow_id] = submission
        self.survive(lambda: self.coordinator.start(submission))

    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        submission = self.submissions[self.a_workflow(data)]
        self.survive(lambda: self.coordinator.start(submission))

    @rule(faults=st.lists(st.sampled_from(FAULTS), min_size=1, max_size=3))
    def misbehave(self, faults: list[str]) -> None:
        self.broker.faults += faults

    @precondition(lambda self: self.broker.messages)
    @rule(data=st.data(), keep=st.booleans(), count=st.integers(1, 3))
    def deliver(self, data: st.DataObject, keep: bool, count: int) -> None:
        """Some messages reach workers, in any order, and perhaps will once more."""
        for _ in range(min(count, len(self.broker.messages))):
            entry = data.draw(st.sampled_from(self.broker.messages))
            if not keep:
                self.broker.messages.remove(entry)
            self.claim(entry.ref)

    @precondition(lambda self: self.broker.messages)
    @rule(count=st.integers(2, 4))
    def several_at_work(self, count: int) -> None:
        """Workers take the oldest messages, which may come again, and are at it together."""
        for entry in self.broker.messages[:count]:
            self.claim(entry.ref)

    @precondition(lambda self: self.claimed)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        """An attempt fails and its old message comes again before or after the new one."""
        ref = self.a_claimed(data, keep=True)
        self.end_attempt(ref, retryable=True)
        self.claim(ref)

    @precondition(lambda self: self.claimed)
    @rule(data=st.data(), retryable=st.booleans(), again=st.booleans())
    def fail(self, data: st.DataObject, retryable: bool, again: bool) -> None:
        self.end_attempt(self.a_claimed(data, keep=again), retryable=retryable)

    @precondition(lambda self: self.claimed)
    @rule(data=st.data(), again=st.booleans(), intrusion=st.sampled_from(INTRUSIONS))
    def complete(self, data: st.DataObject, again: bool, intrusion: str) -> None:
        """A request is done, while perhaps another process moves the same question."""
        ref = self.a_claimed(data, keep=again)
        siblings = [one for one in self.running_beside(ref) if intrusion == "sibling"]
        other = data.draw(st.sampled_from(siblings)) if siblings else ref
        self.dag.intruder = (lambda: self.intrude(other, intrusion)) if intrusion else None
        self.survive(lambda: self.coordinator.complete(ref, {"text": str(ref)}, {"rows": [[1]]}))
        self.dag.intruder = None

    def running_beside(self, ref: RequestRef) -> list[RequestRef]:
        """The other requests of the question that run now."""
        record = self.record(ref.workflow_id)
        assert record is not None
        return [
            RequestRef(ref.workflow_id, name, node.record["attempt"])
            for name, node in record.nodes.items()
            if name != ref.node_id and node.status is NodeStatus.RUNNING
        ]

    def intrude(self, ref: RequestRef, intrusion: str) -> None:
        """What another process does meanwhile."""
        if intrusion == "cancel":
            self._cancel(ref.workflow_id)
        elif intrusion == "retry":
            self.coordinator.fail(ref, ERROR, retryable=True)
        else:
            self.coordinator.complete(ref, {"text": "intruder"})

    @precondition(lambda self: self.claimed)
    @rule(data=st.data())
    def first_token(self, data: st.DataObject) -> None:
        self.coordinator.first_token(self.a_claimed(data, keep=True))

    @precondition(lambda self: self.claimed)
    @rule()
    def renew(self) -> None:
        stopped = set(self.coordinator.renew("w", self.claimed))
        for ref in set(self.claimed):
            node = self.node(ref)
            runs = node is not None and node.status is NodeStatus.RUNNING
            current = node is not None and node.record["attempt"] == ref.attempt
            assert (ref in stopped) is not (runs and current)

    @rule(data=st.data(), sure=st.integers(0, 3))
    def cancel(self, data: st.DataObject, sure: int) -> None:
        if not sure:
            self.survive(lambda: self._cancel(self.a_workflow(data)))

    @rule(seconds=st.sampled_from([3, 20, 20, 200, 700]))
    def wait(self, seconds: float) -> None:
        let_pass(self.client, self.keys, seconds)

    @rule()
    def tick(self) -> None:
        self.survive(self.coordinator.tick)

    @invariant()
    def redis_agrees_with_a_recount(self) -> None:
        records = self.records()
        assert self.integers(self.keys.load) == recount(records)
        expected = {
            str(RequestRef(record.submission.workflow_id, name, node.record["attempt"]))
            for record in records
            for name, node in record.nodes.items()
            if node.status is NodeStatus.RUNNING
        }
        assert set(self.members(self.keys.running)) == expected
        going = {r.submission.workflow_id for r in records if r.status is WorkflowStatus.RUNNING}
        assert set(self.members(self.keys.deadlines)) == going

    @invariant()
    def an_end_is_final_and_nothing_hangs_before_it(self) -> None:
        for record in self.records():
            workflow_id = record.submission.workflow_id
            active = any(node.status in ACTIVE for node in record.nodes.values())
            assert active is (record.status is WorkflowStatus.RUNNING)
            if record.status is not WorkflowStatus.RUNNING:
                assert self.ends.setdefault(workflow_id, record.status) is record.status
            for terminal in self.broker.results.get(workflow_id, []):
                assert terminal.status is self.ends[workflow_id]

    @invariant()
    def what_waits_to_be_sent_is_in_the_outbox(self) -> None:
        outbox = set(self.members(self.keys.outbox))
        for record in self.records():
            for name, node in record.nodes.items():
                if node.status in (NodeStatus.READY, NodeStatus.QUEUED):
                    attempt = node.record["attempt"]
                    assert str(RequestRef(record.submission.workflow_id, name, attempt)) in outbox

    def teardown(self) -> None:
        try:
            self.broker.faults.clear()
            self.drain()
            self.check_the_end()
        finally:
            for key in list(self.client.scan_iter(f"{{{self.keys.prefix}}}*")):
                self.client.delete(key)

    def drain(self) -> None:
        """Every process works again; what a dead one held is swept."""
        for submission in self.submissions.values():
            self.coordinator.start(submission)
        for _ in range(MAX_DRAIN_ROUNDS):
            while self.broker.messages:
                self.claim(self.broker.take().ref)
                if self.claimed:
                    self.coordinator.complete(self.claimed.pop(), {"text": "drained"})
            if not leftovers(self.client, self.keys):
                return
            self.coordinator.tick()
            let_pass(self.client, self.keys, 20)

    def check_the_end(self) -> None:
        assert leftovers(self.client, self.keys) == {}
        for workflow_id in self.submissions:
            record = self.coordinator.record(workflow_id)
            assert record.status is not WorkflowStatus.RUNNING
            assert self.broker.result(workflow_id).status is record.status
            events = self.coordinator.trace(workflow_id)
            ends = Counter(event["event"] for event in events)
            assert ends["finished"] <= 1
            closed = Counter(e["node"] for e in events if e["event"] in ("done", "failed"))
            assert all(count == 1 for count in closed.values())
            check_answer(record)

    def survive(self, action: Callable[[], Any]) -> None:
        """Whatever dies in `action`, the others go on."""
        try:
            action()
        except Crash:
            self.dag.intruder = None

    def end_attempt(self, ref: RequestRef, *, retryable: bool) -> None:
        """A failure counts only for the attempt that is the node's current one."""
        before = self.node(ref)
        assert before is not None
        current = before.status in ACTIVE and before.record["attempt"] == ref.attempt
        self.survive(lambda: self.coordinator.fail(ref, ERROR, retryable=retryable))
        after = self.node(ref)
        assert after is not None
        assert (after.record != before.record) is current

    def claim(self, ref: RequestRef) -> None:
        """A claim succeeds exactly when that attempt waits in a question that is still on time."""
        record = self.record(ref.workflow_id)
        node = self.node(ref)
        waits = (
            node is not None
            and node.status in (NodeStatus.READY, NodeStatus.QUEUED)
            and node.record["attempt"] == ref.attempt
        )
        going = record is not None and record.status is WorkflowStatus.RUNNING
        on_time = self.is_on_time(ref.workflow_id)
        claimed = self.coordinator.claim(ref, worker="w", instance="i")
        assert (claimed is not None) is (waits and going and on_time)
        if claimed is not None:
            self.claimed.append(ref)

    def _cancel(self, workflow_id: str) -> None:
        record = self.record(workflow_id)
        going = record is not None and record.status is WorkflowStatus.RUNNING
        try:
            assert self.coordinator.cancel(workflow_id) is going
        finally:
            after = self.record(workflow_id)
            assert after is None or after.status is not WorkflowStatus.RUNNING

    def is_on_time(self, workflow_id: str) -> bool:
        deadline: float | None = self.client.zscore(self.keys.deadlines, workflow_id)
        seconds, microseconds = self.client.time()
        return deadline is not None and deadline > seconds * 1000 + microseconds / 1000

    def a_workflow(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.submissions)))

    def a_claimed(self, data: st.DataObject, *, keep: bool = False) -> RequestRef:
        ref = data.draw(st.sampled_from(self.claimed))
        if not keep:
            self.claimed.remove(ref)
        return ref

    def record(self, workflow_id: str) -> WorkflowRecord | None:
        try:
            return self.coordinator.record(workflow_id)
        except UnknownWorkflow:
            return None

    def records(self) -> list[WorkflowRecord]:
        found = [self.record(workflow_id) for workflow_id in self.submissions]
        return [record for record in found if record is not None]

    def node(self, ref: RequestRef) -> StoredNode | None:
        record = self.record(ref.workflow_id)
        return record.nodes.get(ref.node_id) if record else None

    def members(self, key: str) -> list[str]:
        return [str(member) for member in self.client.zrange(key, 0, -1)]

    def integers(self, key: str) -> dict[str, int]:
        return {str(name): int(value) for name, value in self.client.hgetall(key).items()}


def recount(records: list[WorkflowRecord]) -> dict[str, int]:
    """The ledger as the nodes themselves tell it."""
    counters: Counter[str] = Counter()
    for record in records:
        for node in record.nodes.values():
            if node.status in (NodeStatus.QUEUED, NodeStatus.RUNNING):
                counters.update(_held(node))
    return {name: count for name, count in counters.items() if count}


def _held(node: StoredNode) -> Counter[str]:
    running = node.status is NodeStatus.RUNNING
    state = "running" if running else "waiting"
    queue = node.record["queue"]
    where = "instance/i" if running else queue
    held = Counter({f"{scope}:{state}": 1 for scope in {queue, where}})
    if isinstance(node.spec.call, LlmCall):
        held[f"{where}:output_tokens"] = 20
        held[f"{where}:context_tokens"] = 100
        held[f"{where}:prefill_tokens"] = 0 if node.record.get("first_token_at") else 100
    return held


def check_answer(record: WorkflowRecord) -> None:
    """A question that was answered in time has run all that its definition did not drop."""
    if record.status is not WorkflowStatus.ANSWERED or record.best_effort:
        return
    gone = set(record.memory.get("gone", []))
    for name in record.submission.options["nodes"]:
        if name not in gone:
            assert record.nodes[name].status is NodeStatus.DONE


def _before(fault: str) -> None:
    if fault == "refused":
        raise BrokerDown(fault)
    if fault == "crash before":
        raise Crash(fault)


def _after(fault: str) -> None:
    if fault == "crash after":
        raise Crash(fault)


def test_every_question_ends_exactly_once(redis_client: redis.Redis) -> None:
    run_state_machine_as_test(
        lambda: CoordinatorMachine(redis_client, Settings()),  # type: ignore[arg-type]
        settings=settings(
            max_examples=120,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
