"""Plans and outcomes in the form in which scripts take them. Pure."""

from __future__ import annotations

from hexgen_celery.coordination.planning import Plan
from hexgen_celery.parts import stored_parts
from hexgen_celery.references import RequestRef
from hexgen_celery.scripts import milliseconds
from hexgen_celery.trace import traceable
from hexgen_celery.workflows.codec import dumps, encode_outcome, encode_spec
from hexgen_celery.workflows.definition import (
    Answer,
    Json,
    LlmCall,
    NodeSpec,
    Outcome,
    Submission,
    WorkflowStatus,
)

_FACTS = (
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "seconds",
    "first_token_seconds",
    "finish_reason",
    "status",
    "row_count",
)
_MESSAGE_CHARACTERS = 500


def named(ref: RequestRef) -> Json:
    """Which attempt a script is about."""
    return {"node": ref.node_id, "attempt": ref.attempt}


def needed_parts(plan: Plan) -> tuple[str, ...]:
    """The stored parts that the plan's new nodes refer to, in the order scripts get them."""
    return stored_parts(plan.added)


def start_parameters(submission: Submission) -> Json:
    """What `start` keeps and traces of a submission; times in Unix milliseconds and seconds."""
    return {
        "deadline_ms": milliseconds(submission.deadline),
        "submitted_at": submission.submitted_at,
        "definition": submission.workflow,
        "database": submission.database,
        "tenant": submission.tenant,
        "slo_class": submission.slo_class,
        "slo_seconds": submission.slo_seconds,
    }


def plan_parameters(plan: Plan) -> Json:
    """A plan as `apply_expansion` of `lua/lib/workflow.lua` reads it."""
    parameters: Json = {
        "add": [_added(spec, ready=spec.id in plan.ready) for spec in plan.added],
        "release": list(plan.released),
        "drop": list(plan.dropped),
    }
    if plan.outcome is not None:
        answered = isinstance(plan.outcome, Answer)
        status = WorkflowStatus.ANSWERED if answered else WorkflowStatus.FAILED
        parameters.update(status=str(status), **rows_from(plan.outcome))
    return parameters


def _added(spec: NodeSpec, *, ready: bool) -> Json:
    described: Json = {"id": spec.id, "ready": ready, "stage": spec.stage, "step": spec.step}
    if isinstance(spec.call, LlmCall):
        described["prefill_tokens"] = spec.call.input_tokens
        described["context_tokens"] = spec.call.input_tokens
        described["output_tokens"] = round(spec.call.output_tokens)
    return described


def plan_arguments(plan: Plan) -> list[str]:
    """A plan's long texts: memory and outcome ("" where there is none), then the new specs."""
    memory = dumps(plan.memory) if plan.memory is not None else ""
    outcome = encode_outcome(plan.outcome) if plan.outcome is not None else ""
    return [memory, outcome, *map(encode_spec, plan.added)]


def rows_from(outcome: Outcome) -> Json:
    """Whose rows are the answer's, if any."""
    node_id = outcome.rows_from if isinstance(outcome, Answer) else None
    return {"rows_from": node_id} if node_id else {}


def result_facts(outcome: Json) -> Json:
    """What of a node's result is worth tracing: numbers, and why a statement did not run."""
    result = outcome["result"]
    facts = {name: result[name] for name in _FACTS if name in result}
    if result.get("error"):
        facts["message"] = str(result["error"])[:_MESSAGE_CHARACTERS]
    return traceable(facts)


def error_facts(error: Json) -> Json:
    """An error's code and (shortened) message, for the trace."""
    code, message = str(error.get("code", "error")), str(error.get("message", ""))
    return {"code": code, "message": message[:_MESSAGE_CHARACTERS]}
