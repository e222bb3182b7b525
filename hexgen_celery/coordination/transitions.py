"""The transitions of a workflow: plan with the definition, apply in one script, send what follows.

Every one of them may be repeated, come late or meet another: the scripts decide, and whoever loses
changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping

import structlog

from hexgen_celery.coordination.parameters import (
    error_facts,
    named,
    needed_parts,
    plan_arguments,
    plan_parameters,
    result_facts,
    rows_from,
    start_parameters,
)
from hexgen_celery.coordination.planner import Planner
from hexgen_celery.coordination.planning import ACTIVE, Plan
from hexgen_celery.coordination.state import (
    StoredNode,
    WorkflowRecord,
    WorkflowStore,
    rounds_of,
    siblings_until,
)
from hexgen_celery.coordination.terminal import deadline_cause, terminal_result
from hexgen_celery.core.clock import Clock
from hexgen_celery.errors import TenantFull
from hexgen_celery.outbox import OutboxEntry, Sender
from hexgen_celery.parts import MissingPart, PartStore
from hexgen_celery.references import ClaimedRequest, RequestRef
from hexgen_celery.scripts import Reply, Scripts, milliseconds
from hexgen_celery.settings import Settings
from hexgen_celery.workflows.codec import (
    decode_spec,
    decode_submission,
    dumps,
    encode_outcome,
    encode_submission,
)
from hexgen_celery.workflows.definition import (
    Answer,
    Failure,
    Json,
    NodeStatus,
    Outcome,
    Submission,
    WorkflowStatus,
)

log = structlog.get_logger(__name__)

Defer = Callable[[Callable[[], None]], object]
"""Takes work that must be done, now or a moment later, by whatever thread."""


def at_once(work: Callable[[], None]) -> None:
    """Do it now."""
    work()


class Transitions:
    """Moves workflows. Thread-safe; holds no state of its own."""

    def __init__(
        self,
        scripts: Scripts,
        store: WorkflowStore,
        parts: PartStore,
        planner: Planner,
        sender: Sender,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._scripts = scripts
        self._store = store
        self._parts = parts
        self._planner = planner
        self._sender = sender
        self._most_in_flight = {
            tenant.name: tenant.max_in_flight for tenant in settings.tenants if tenant.max_in_flight
        }
        self._max_attempts = settings.coordinator.max_attempts
        self._keep_seconds = (
            settings.coordinator.orphan_ttl_seconds + settings.broker.result_ttl_seconds
        )

    def start(self, submission: Submission, later: Defer = at_once) -> None:
        """Begin the question, unless it has begun; `later` is given what sends its requests.

        Raises:
            InvalidSubmission: its workflow is unknown or refuses it, or its tenant has as many in
                flight as it may; nothing was stored.
        """
        plan = self._planner.begin(submission)
        workflow_id = submission.workflow_id
        parameters = {**start_parameters(submission), "expires_ms": self._expires_ms(submission)}
        most = self._most_in_flight.get(submission.tenant)
        if most is not None:
            parameters["most"] = most
        reply = self._start(submission, plan, parameters)
        if reply.verdict == "parts":
            plan = self._with_parts(plan, reply, submission)
            reply = self._start(submission, plan, parameters)
        log.info("question begins", verdict=reply.verdict, workflow=workflow_id)
        if reply.verdict == "full":
            raise _tenant_full(submission.tenant, most or 0)
        if reply.verdict == "started":
            later(lambda: self._follow(submission, {}, plan))
        elif reply.verdict == "cancelled":
            self.deliver(workflow_id)

    def claim(
        self, ref: RequestRef, worker: str, instance: str, queue: str
    ) -> ClaimedRequest | None:
        """Take the request for `worker`; None when there is nothing (more) to do for it."""
        parameters = {"worker": worker, "instance": instance, "queue": queue}
        answer = self._scripts.claim(
            ref.workflow_id, {**named(ref), **parameters, "token": uuid.uuid4().hex[:12]}
        )
        if answer is None:
            return None
        spec, submission, waited = answer
        return ClaimedRequest(
            ref, decode_spec(spec), decode_submission(submission), waited_seconds=waited
        )

    def first_token(self, ref: RequestRef) -> bool:
        """Record that the prompt is computed; False when the attempt does not run any more."""
        return self._scripts.first_token(ref.workflow_id, named(ref))

    def complete(self, ref: RequestRef, result: Json, bulk: Json | None) -> bool:
        """End the node with a result; False when it came too late to count."""
        rows = dumps(bulk) if bulk is not None else ""
        return self._settle(ref, NodeStatus.DONE, {"result": result}, rows)

    def fail(self, ref: RequestRef, error: Json, *, retryable: bool, lost: bool = False) -> bool:
        """End the attempt without a result: the next attempt, or the node's failure.

        With `lost` only if its lease has really ended. False when nothing changed.
        """
        if not retryable or ref.attempt >= self._max_attempts:
            return self._settle(ref, NodeStatus.FAILED, {"error": error}, "")
        return self._retry(ref, error, lost=lost)

    def hand_back(self, ref: RequestRef, error: Json) -> bool:
        """Give the request a new attempt, however many it had: this one did not fail."""
        return self._retry(ref, error)

    def cancel(self, workflow_id: str, reason: str) -> bool:
        """End the question as cancelled; False when it is unknown or has ended already."""
        outcome = Failure(stage="", cause=reason)
        verdict = self._finish(workflow_id, WorkflowStatus.CANCELLED, outcome)
        return verdict == "finished"

    def expire(self, workflow_id: str, *, best_effort: bool) -> bool:
        """End the question at its deadline, with the best answer there is if that is wanted.

        False when it had ended already or is gone.
        """
        while (record := self._store.load(workflow_id)) is not None:
            answer = self._planner.best_effort(record) if best_effort else None
            verdict = self._expire(record, answer)
            if verdict != "conflict":
                return verdict == "finished"
        return False

    def deliver(self, workflow_id: str) -> bool:
        """Store the result of a question that has ended; False when that must be tried again."""
        record = self._store.load(workflow_id)
        if record is None or record.status is WorkflowStatus.RUNNING:
            self._scripts.delivered(workflow_id)
            return True
        answer = record.outcome if isinstance(record.outcome, Answer) else None
        node_id = answer.rows_from if answer else None
        rows = self._store.rows(workflow_id, node_id) if node_id else {}
        return self._sender.finish(terminal_result(record, rows))

    def resend(self, record: WorkflowRecord, refs: Iterable[RequestRef]) -> int:
        """Send requests of a workflow that nobody confirmed or claimed; how many were sent."""
        return self._sender.send([record.entry(ref, resent=True) for ref in refs])

    def _start(self, submission: Submission, plan: Plan, parameters: Json) -> Reply:
        return self._scripts.start(
            submission.workflow_id,
            {**parameters, **plan_parameters(plan)},
            needed_parts(plan),
            [encode_submission(submission), *plan_arguments(plan)],
        )

    def _retry(self, ref: RequestRef, error: Json, *, lost: bool = False) -> bool:
        parameters: Json = {**named(ref), "facts": error_facts(error)}
        if lost:
            parameters["lost"] = True
        pair = self._scripts.retry(ref.workflow_id, parameters, dumps({"error": error}))
        if pair is None:
            return False
        following = RequestRef(ref.workflow_id, ref.node_id, ref.attempt + 1)
        spec, submission = decode_spec(pair[0]), decode_submission(pair[1])
        entry = OutboxEntry(following, spec, submission)
        record = self._store.load(ref.workflow_id)
        self._sender.send([entry if record is None else record.entry(following, resent=False)])
        return True

    def _settle(self, ref: RequestRef, status: NodeStatus, outcome: Json, rows: str) -> bool:
        while (record := self._store.load(ref.workflow_id)) is not None:
            node = record.nodes.get(ref.node_id)
            if node is None or record.status is not WorkflowStatus.RUNNING or not _open(node):
                return False
            plan = self._planner.after(record, ref.node_id, status, outcome)
            reply = self._apply(record, ref, status, outcome, rows, plan)
            if reply.verdict == "parts":
                plan = self._with_parts(plan, reply, record.submission)
                reply = self._apply(record, ref, status, outcome, rows, plan)
            if reply.verdict == "ok":
                self._follow(record.submission, record.nodes, plan, node.spec.step)
            if reply.verdict in ("ok", "stale"):
                return reply.verdict == "ok"
        return False

    def _apply(
        self,
        record: WorkflowRecord,
        ref: RequestRef,
        status: NodeStatus,
        outcome: Json,
        rows: str,
        plan: Plan,
    ) -> Reply:
        facts = (
            result_facts(outcome) if status is NodeStatus.DONE else error_facts(outcome["error"])
        )
        parameters = {
            **named(ref),
            **plan_parameters(plan),
            "state": str(status),
            "version": record.version,
            "facts": facts,
        }
        arguments = [dumps(outcome), rows, *plan_arguments(plan)]
        return self._scripts.settle(ref.workflow_id, parameters, needed_parts(plan), arguments)

    def _with_parts(self, plan: Plan, reply: Reply, submission: Submission) -> Plan:
        """`plan` once its missing parts are stored; a failure if the definition gave no text."""
        needed = needed_parts(plan)
        missing = [needed[index] for index in reply.missing]
        unknown = [name for name in missing if name not in plan.parts]
        if unknown:
            return Plan(outcome=Failure("", f"{MissingPart.code}: {', '.join(unknown)}"))
        texts = {name: plan.parts[name] for name in missing}
        self._parts.put(texts, self._expires_ms(submission))
        return plan

    def _follow(
        self,
        submission: Submission,
        nodes: Mapping[str, StoredNode],
        plan: Plan,
        ended: str | None = None,
    ) -> None:
        """Send what a plan made ready, or the result if it ended the question.

        `ended` is the step of the node that ended just now, which `nodes` do not know yet.
        """
        workflow_id = submission.workflow_id
        if plan.outcome is not None:
            self.deliver(workflow_id)
            return
        ready = [spec for spec in plan.added if spec.id in plan.ready]
        ready += [nodes[name].spec for name in plan.released]
        self._sender.send(
            OutboxEntry(
                RequestRef(workflow_id, spec.id, 1),
                spec,
                submission,
                round=rounds_of(spec.step, nodes) + (ended is not None and ended == spec.step),
                siblings_until=siblings_until(spec, nodes),
            )
            for spec in ready
        )

    def _expire(self, record: WorkflowRecord, answer: Answer | None) -> str:
        workflow_id, version = record.submission.workflow_id, record.version
        if answer is not None:
            return self._finish(
                workflow_id, WorkflowStatus.ANSWERED, answer, version=version, best_effort=True
            )
        failure = Failure(stage="", cause=deadline_cause(record))
        return self._finish(workflow_id, WorkflowStatus.EXPIRED, failure, version=version)

    def _finish(
        self,
        workflow_id: str,
        status: WorkflowStatus,
        outcome: Outcome,
        *,
        version: int | None = None,
        best_effort: bool = False,
    ) -> str:
        parameters: Json = {"status": str(status), **rows_from(outcome)}
        if version is not None:
            parameters["version"] = version
        text = encode_outcome(outcome, best_effort=best_effort)
        verdict = self._scripts.finish(workflow_id, parameters, text)
        if verdict == "finished":
            log.info("question ended", status=str(status), workflow=workflow_id)
            self.deliver(workflow_id)
        return verdict

    def _expires_ms(self, submission: Submission) -> int:
        """When everything about a question that nobody ended is forgotten (Unix ms)."""
        latest = max(submission.deadline, self._clock.now())
        return milliseconds(latest + self._keep_seconds)


def _tenant_full(tenant: str, most: int) -> TenantFull:
    return TenantFull(
        f"tenant {tenant!r} has {most} questions in flight, as many as it may",
        field="tenant",
        hint="ask again when one has ended, or raise max_in_flight of the tenant",
    )


def _open(node: StoredNode) -> bool:
    return node.status in ACTIVE
