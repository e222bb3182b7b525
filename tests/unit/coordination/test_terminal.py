"""The JSON of an ended question, from plain records."""

from __future__ import annotations

from typing import Any

from hexgen_celery.coordination.reports import workflow_report
from hexgen_celery.coordination.state import StoredNode, WorkflowRecord
from hexgen_celery.coordination.terminal import (
    deadline_cause,
    last_sql,
    stage_reached,
    terminal_result,
)
from hexgen_celery.workflows.definition import (
    Answer,
    Failure,
    Json,
    LlmCall,
    NodeKind,
    NodeSpec,
    Outcome,
    SqlCall,
    Submission,
    WorkflowStatus,
)

SUBMISSION = Submission("w1", "text_to_sql", "How many?", "demo", 10.0, 1000.0, 1010.0, "acme")
LLM = NodeSpec(
    "candidate.1", NodeKind.LLM, "candidate_generation", "candidate", LlmCall((), "", 9, 9.0, 99)
)
SQL = NodeSpec("run.1", NodeKind.SQL, "self_correction", "execute", SqlCall("demo", "SELECT 1"))


def node(spec: NodeSpec, result: Json | None = None, **record: Any) -> StoredNode:
    times = {"ready_at": 1000.0, "claimed_at": 1000.5, "finished_at": 1002.0}
    full = {"status": "done", "attempt": 1, "order": 1, **times, **record}
    return StoredNode(spec, full, {"result": result or {}})


def record(
    outcome: Outcome, status: WorkflowStatus, *nodes: StoredNode, **changes: Any
) -> WorkflowRecord:
    values: dict[str, Any] = {
        "submission": SUBMISSION,
        "status": status,
        "version": 3,
        "memory": {},
        "nodes": {one.spec.id: one for one in nodes},
        "outcome": outcome,
        "best_effort": False,
        "started_at": 1000.1,
        "finished_at": 1004.0,
    }
    return WorkflowRecord(**{**values, **changes})


LLM_DONE = node(
    LLM,
    {"input_tokens": 100, "output_tokens": 20, "cached_tokens": 60, "text": "…"},
    queue="gpu.a100.p",
    instance="i1",
    worker="w",
)
SQL_DONE = node(SQL, {"status": "ok", "columns": ["n"], "truncated": True}, queue="sql")


def answered(**changes: Any) -> Json:
    answer = Answer(
        "run.1",
        "SELECT 1",
        {"candidates": [1], "why": "alone", "warnings": ["w"], "clusters": 1},
    )
    made = record(answer, WorkflowStatus.ANSWERED, LLM_DONE, SQL_DONE, **changes)
    return terminal_result(made, {"rows": [[1]]}).body


def test_an_answer_has_rows_reasons_times_and_tokens() -> None:
    body = answered()
    assert (body["columns"], body["rows"], body["truncated"]) == (["n"], [[1]], True)
    assert (body["sql"], body["candidates"], body["why"]) == ("SELECT 1", [1], "alone")
    assert (body["latency_seconds"], body["deadline_met"]) == (4.0, True)
    assert body["tokens"] == {"input": 100, "output": 20, "cached": 60}
    assert (body["warnings"], body["clusters"]) == (["w"], 1)
    llm, sql = body["stages"]
    assert (llm["queued_seconds"], llm["seconds"], llm["instance"]) == (0.5, 1.5, "i1")
    assert (sql["execution"], sql["kind"]) == ("ok", "sql")


def test_a_deadline_is_met_only_by_an_answer_in_time() -> None:
    assert answered(finished_at=1010.5)["deadline_met"] is False
    assert answered(best_effort=True)["deadline_met"] is False


def test_detail_cannot_replace_what_the_coordinator_says() -> None:
    answer = Answer(None, "", {"status": "failed", "rows": [[0]], "workflow_id": "x"})
    body = terminal_result(record(answer, WorkflowStatus.ANSWERED), {}).body
    assert (body["status"], body["rows"], body["workflow_id"]) == ("answered", [], "w1")


def test_a_failure_names_stage_cause_and_sql() -> None:
    failure = Failure("evaluation", "no candidate", "SELECT 2")
    body = terminal_result(record(failure, WorkflowStatus.FAILED, LLM_DONE, SQL_DONE), {}).body
    assert (body["stage"], body["cause"], body["last_sql"]) == (
        "evaluation",
        "no candidate",
        "SELECT 2",
    )
    assert body["deadline_met"] is False


def test_stage_and_sql_are_found_where_the_failure_does_not_say() -> None:
    body = terminal_result(
        record(Failure("", "late"), WorkflowStatus.EXPIRED, LLM_DONE, SQL_DONE), {}
    ).body
    assert (body["stage"], body["last_sql"]) == ("self_correction", "SELECT 1")
    assert (last_sql([LLM_DONE]), stage_reached([])) == ("", "")


def test_a_node_that_never_started_has_no_times() -> None:
    waiting = StoredNode(SQL, {"status": "waiting", "attempt": 1, "order": 1}, {})
    report = workflow_report(record(Failure("", "late"), WorkflowStatus.EXPIRED, waiting))
    assert report["nodes"][0]["seconds"] is None
    assert report["cause"] == "late"


def _errored(message: str, status: str, **times: float) -> StoredNode:
    spec = NodeSpec(message, LLM.kind, LLM.stage, LLM.step, LLM.call)
    error = {"message": message, "hint": "start it"}
    return StoredNode(spec, {"status": status, "attempt": 2, **times}, {"error": error})


def test_an_expired_question_names_its_deadline_and_the_last_request_error() -> None:
    failed = _errored("no rows", "failed", ready_at=1000.0, finished_at=1003.0)
    again = _errored("server unreachable", "ready", ready_at=1005.0)
    cause = deadline_cause(record(Failure("", ""), WorkflowStatus.RUNNING, failed, again, LLM_DONE))
    assert cause == (
        "the deadline of 10 s passed; the last request error was: server unreachable. start it"
    )


def test_an_expired_question_without_errors_names_its_deadline_alone() -> None:
    made = record(Failure("", ""), WorkflowStatus.RUNNING, LLM_DONE)
    assert deadline_cause(made) == "the deadline of 10 s passed"
