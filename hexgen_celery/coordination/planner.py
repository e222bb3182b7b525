"""Asks definitions what follows, and survives their mistakes.

Definitions are plug-ins and may raise anything. One that does ends its question as failed, with the
cause, instead of leaving it to be tried for ever by whoever finds it; that is why everything is
caught here, and logged with its traceback. Only Redis' absence is no mistake of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import structlog

from hexgen_celery.coordination.planning import Plan, make_plan
from hexgen_celery.coordination.state import WorkflowRecord
from hexgen_celery.core.clock import Clock
from hexgen_celery.errors import InvalidSubmission
from hexgen_celery.redis_client import may_pass
from hexgen_celery.workflows.definition import (
    Answer,
    Definition,
    Failure,
    Json,
    NodeStatus,
    Submission,
    WorkflowView,
)

log = structlog.get_logger(__name__)


class Planner:
    """Plans transitions by the definitions it was given (by name)."""

    def __init__(self, definitions: Mapping[str, Definition], clock: Clock) -> None:
        self._definitions = definitions
        self._clock = clock

    def begin(self, submission: Submission) -> Plan:
        """The first nodes.

        Raises:
            InvalidSubmission: there is no such workflow, or it refuses the submission's options.
            redis.RedisError: Redis went away under it; planning again is as good.
        """
        definition = self.definition(submission.workflow)
        try:
            return make_plan({}, {}, definition.begin(submission))
        except InvalidSubmission:
            raise
        except Exception as error:
            return _failed(error, "")

    def after(
        self, record: WorkflowRecord, node_id: str, status: NodeStatus, outcome: Json
    ) -> Plan:
        """What follows when `node_id` ends with `status` and `outcome` (`result` or `error`).

        Raises:
            redis.RedisError: Redis went away under it; planning again is as good.
        """
        node = replace(
            record.nodes[node_id].state(),
            status=status,
            result=outcome.get("result"),
            error=outcome.get("error"),
        )
        view = record.view(self._clock.now())
        seen = WorkflowView(view.submission, {**view.nodes, node_id: node}, view.memory, view.now)
        definition = self.definition(record.submission.workflow)
        try:
            return make_plan(seen.nodes, seen.memory, definition.advance(seen, node))
        except Exception as error:
            return _failed(error, node.spec.stage)

    def best_effort(self, record: WorkflowRecord) -> Answer | None:
        """The best answer there is now, if any."""
        try:
            definition = self.definition(record.submission.workflow)
            return definition.best_effort(record.view(self._clock.now()))
        except Exception:
            log.exception("no best effort", workflow=record.submission.workflow_id)
            return None

    def definition(self, name: str) -> Definition:
        """The definition called `name`.

        Raises:
            InvalidSubmission: there is none.
        """
        try:
            return self._definitions[name]
        except KeyError:
            raise InvalidSubmission(
                f"unknown workflow {name!r}",
                field="workflow",
                hint=f"choose one of: {', '.join(sorted(self._definitions))}",
            ) from None


def _failed(error: Exception, stage: str) -> Plan:
    """The end of a question by its definition's mistake; what may pass is raised again."""
    if may_pass(error):
        raise error
    log.exception("workflow definition failed", stage=stage)
    cause = f"workflow definition: {type(error).__name__}: {error}"
    return Plan(outcome=Failure(stage, cause))
