"""A finished question as a line of the canonical workload, with the times it took. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from hexgen_celery.coordination.state import StoredNode, WorkflowRecord
from hexgen_celery.workflows.codec import loads
from hexgen_celery.workflows.definition import LlmCall, NodeStatus, WorkflowStatus
from hexgen_celery.workflows.trace import LINE
from hexgen_celery.workloads.model import RecordedTimes, WorkloadQuestion, WorkloadRequest

QUESTION_KEY = "question_key"


def exportable(record: WorkflowRecord) -> bool:
    """Whether it was answered, with at least one LLM request."""
    return record.status is WorkflowStatus.ANSWERED and bool(_numbers(record.nodes))


def workload_question(record: WorkflowRecord, *, origin: float = 0.0) -> WorkloadQuestion:
    """The question with its LLM requests; times in seconds since `origin` (Unix seconds).

    A request comes after the LLM requests it waited for, whether directly or through executions,
    which take no GPU and are left out.
    """
    numbers = _numbers(record.nodes)
    asked = record.submission
    return WorkloadQuestion(
        question=str(asked.options.get(QUESTION_KEY) or asked.question or asked.workflow_id),
        database=_replayed_database(record) or asked.database,
        requests=tuple(
            _request(record.nodes[node_id], number, record.nodes, numbers, origin)
            for node_id, number in numbers.items()
        ),
        arrival=asked.submitted_at - origin,
        tenant=asked.tenant,
        slo_seconds=asked.slo_seconds,
    )


def _replayed_database(record: WorkflowRecord) -> str:
    """The database that the prompts of a replayed line held; "" for other workflows."""
    line = record.submission.options.get(LINE)
    plain = loads(line) if isinstance(line, str) else line
    return str(plain.get("database", "")) if isinstance(plain, Mapping) else ""


def _numbers(nodes: Mapping[str, StoredNode]) -> dict[str, int]:
    """The LLM requests that were done, numbered prerequisites first."""
    done = [
        (float(node.record.get("ready_at") or 0.0), position, node_id)
        for position, (node_id, node) in enumerate(nodes.items())
        if node.status is NodeStatus.DONE and isinstance(node.spec.call, LlmCall)
    ]
    return {node_id: number for number, (_, _, node_id) in enumerate(sorted(done))}


def _request(
    node: StoredNode,
    number: int,
    nodes: Mapping[str, StoredNode],
    numbers: Mapping[str, int],
    origin: float,
) -> WorkloadRequest:
    call, result = node.spec.call, node.outcome.get("result") or {}
    assert isinstance(call, LlmCall)
    input_tokens = max(1, int(result.get("input_tokens") or call.input_tokens))
    template, schema = shared_tokens(call, input_tokens)
    after = sorted(numbers[name] for name in _prerequisites(node, nodes, numbers))
    return WorkloadRequest(
        id=number,
        stage=node.spec.stage,
        step=node.spec.step,
        after=tuple(earlier for earlier in after if earlier < number),
        input_tokens=input_tokens,
        output_tokens=max(1, int(result.get("output_tokens") or 1)),
        template_tokens=template,
        schema_tokens=schema,
        times=_times(node, origin),
    )


def shared_tokens(call: LlmCall, input_tokens: int) -> tuple[int, int]:
    """Tokens of the instructions and of the schema behind them, within the prompt's own count."""
    tokens = [part.tokens for part in call.parts]
    template = min(sum(tokens[:1]), input_tokens)
    return template, min(sum(tokens[1:]), input_tokens - template)


def _prerequisites(
    node: StoredNode, nodes: Mapping[str, StoredNode], numbers: Mapping[str, int]
) -> set[str]:
    found: set[str] = set()
    open_names = list(node.spec.after)
    while open_names:
        name = open_names.pop()
        if name in numbers:
            found.add(name)
        elif name in nodes:
            open_names.extend(nodes[name].spec.after)
    return found


def _times(node: StoredNode, origin: float) -> RecordedTimes:
    moments = [node.record.get(name) for name in ("claimed_at", "first_token_at", "finished_at")]
    return RecordedTimes(*(None if at is None else round(at - origin, 4) for at in moments))
