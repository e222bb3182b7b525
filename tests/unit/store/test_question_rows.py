"""A question's rows, and what is read from them again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hexgen_celery.answers import Answer as Answered
from hexgen_celery.answers import NoAnswer
from hexgen_celery.coordination.state import StoredNode, WorkflowRecord
from hexgen_celery.coordination.terminal import terminal_result
from hexgen_celery.store.models import (
    Base,
    Candidate,
    Decision,
    Execution,
    Request,
    Tenant,
    Workflow,
)
from hexgen_celery.store.questions import (
    exportable,
    stored_outcome,
    stored_status,
    stored_workload_question,
)
from hexgen_celery.store.reading import StoredQuestion
from hexgen_celery.store.records import QuestionRows, forgotten_rows, question_rows, running_rows
from hexgen_celery.tracing.export import workload_question
from hexgen_celery.workflows.definition import (
    Answer,
    Failure,
    Json,
    LlmCall,
    NodeKind,
    NodeSpec,
    PartRef,
    SqlCall,
    Submission,
    WorkflowStatus,
)

NOW = 1_700_000_000.0
ASKED = Submission(
    workflow_id="w1",
    workflow="text_to_sql",
    question="how many?",
    database="shop",
    slo_seconds=30.0,
    submitted_at=NOW,
    deadline=NOW + 30,
    tenant="acme",
    options={"question_key": "q7"},
)
PARTS = (PartRef("t", 40), PartRef("s", 50))


def _llm(name: str, after: tuple[str, ...] = ()) -> NodeSpec:
    call = LlmCall(PARTS, "tail", 100, 20.0, 64)
    return NodeSpec(name, NodeKind.LLM, "candidate_generation", "candidate", call, after)


def _sql(name: str, after: tuple[str, ...]) -> NodeSpec:
    return NodeSpec(
        name, NodeKind.SQL, "execute_sql", "execute", SqlCall("shop", "SELECT 1"), after
    )


def _node(spec: NodeSpec, ready: float, attempt: int = 1, **result: Any) -> StoredNode:
    record = {
        "status": "done",
        "attempt": attempt,
        "won": attempt,
        "instance": "i1",
        "worker": "w",
        "ready_at": NOW + ready,
        "claimed_at": NOW + ready + 1,
        "finished_at": NOW + ready + 3,
        "queue": "gpu.a.p",
        "first_token_at": NOW + ready + 2,
    }
    return StoredNode(spec, record, {"result": result})


def _events(node: str, ready: float, attempt: int = 1, **facts: Any) -> list[Json]:
    about = {"node": node, "attempt": attempt}
    place = {"queue": "gpu.a.p", "instance": "i1", "worker": "w"}
    sent = {"queue": "gpu.a.p", "instance": "i2", "policy": "alpha", "score": 0.5}
    return [
        {"event": "ready", "t": NOW + ready, **about},
        {"event": "sent", "t": NOW + ready + 0.1, **about, **sent},
        {"event": "claimed", "t": NOW + ready + 1, **about, **place},
        {"event": "first_token", "t": NOW + ready + 2, **about},
        {"event": "done", "t": NOW + ready + 3, **about, **place, **facts},
    ]


LLM_RESULT: dict[str, Any] = {"input_tokens": 110, "output_tokens": 9, "cached_tokens": 60}
SQL_RESULT: dict[str, Any] = {"status": "ok", "row_count": 2}
CANDIDATE = {
    "candidate": 1,
    "node": "c",
    "execution": "x",
    "sql": "SELECT 1",
    "status": "ok",
    "row_count": 2,
    "rounds": 1,
    "healed": True,
    "votes": 3,
    "error": "",
}
DETAIL = {"candidates": [CANDIDATE], "why": "most votes", "decided_by": "vote", "warnings": []}
RECORD = WorkflowRecord(
    submission=ASKED,
    status=WorkflowStatus.ANSWERED,
    version=3,
    memory={},
    nodes={
        "c": _node(_llm("c"), 0, attempt=2, **LLM_RESULT),
        "x": _node(_sql("x", ("c",)), 4, **SQL_RESULT),
        "e": _node(_llm("e", ("x",)), 8, **LLM_RESULT),
    },
    outcome=Answer(rows_from="x", sql="SELECT 1", detail=DETAIL),
    best_effort=False,
    started_at=NOW + 0.1,
    finished_at=NOW + 11,
)
LOST: list[Json] = [
    {"event": "ready", "t": NOW, "node": "c", "attempt": 1},
    {"event": "retried", "t": NOW, "node": "c", "attempt": 1, "code": "lost", "instance": "i9"},
]
EVENTS = [
    {"event": "started", "t": NOW + 0.1},
    *LOST,
    *_events("c", 0, attempt=2, **LLM_RESULT, seconds=2.0),
    *_events("x", 4, **SQL_RESULT),
    *_events("e", 8, **LLM_RESULT),
    {"event": "finished", "t": NOW + 11, "status": "answered"},
]


def _stored(rows: QuestionRows) -> StoredQuestion:
    """What a reader would find."""
    tables: tuple[type[Base], ...] = (Request, Execution, Candidate, Decision)
    groups = [tuple(rows.rows.get(table, ())) for table in tables]
    return StoredQuestion(rows.rows[Workflow][0], *groups)


ROWS = question_rows(RECORD, EVENTS, "d", NOW + 20)


def test_every_attempt_is_a_row_of_its_kind() -> None:
    requests, executions = ROWS.rows[Request], ROWS.rows[Execution]
    keys = [(row["node"], row["attempt"], row["ending"]) for row in requests]
    assert keys == [("c", 1, "retried"), ("c", 2, "done"), ("e", 1, "done")]
    assert [(row["node"], row["status"], row["row_count"]) for row in executions] == [
        ("x", "ok", 2)
    ]
    assert requests[0]["facts"] == {"code": "lost"}
    assert requests[0]["instance"] == "i9"
    assert requests[1]["facts"] == {"seconds": 2.0}
    assert ROWS.count == 1 + 3 + 1 + 1 + 3 + 1


def test_tokens_are_the_servers_and_the_shared_beginning_is_cut_to_them() -> None:
    lost, done, _ = ROWS.rows[Request]
    assert (lost["input_tokens"], lost["output_tokens"]) == (100, 0)
    assert [done[name] for name in LLM_RESULT] == list(LLM_RESULT.values())
    assert (done["template_tokens"], done["schema_tokens"]) == (40, 50)


def test_a_decision_says_where_the_router_sent_it_and_why() -> None:
    decision = ROWS.rows[Decision][0]
    assert (decision["instance"], decision["policy"]) == ("i2", "alpha")
    assert decision["reasons"] == {"score": 0.5}


def test_the_winner_is_marked_among_the_candidates() -> None:
    (candidate,) = ROWS.rows[Candidate]
    assert candidate["chosen"]
    assert (candidate["rounds"], candidate["votes"], candidate["healed"]) == (1, 3, True)


def test_a_tenant_is_known_by_a_short_name() -> None:
    record = replace(RECORD, submission=replace(ASKED, tenant="t" * 5000))
    (tenant,) = question_rows(record, EVENTS, "d", NOW).rows[Tenant]
    assert tenant["name"] == "t" * 200


def test_the_outcome_that_is_read_is_the_one_that_was_given_but_for_the_rows() -> None:
    given = terminal_result(RECORD, {"columns": ["n"], "rows": [[1]]}).body
    read = stored_outcome(_stored(ROWS))
    assert isinstance(read, Answered)
    hidden = {"columns", "rows", "stages"}
    assert {k: v for k, v in read.detail.items() if k not in hidden} == {
        k: v for k, v in given.items() if k not in hidden
    }
    times = ("node", "stage", "kind", "status", "attempt", "queued_seconds", "seconds")
    assert [[stage[k] for k in times] for stage in read.stages] == [
        [stage[k] for k in times] for stage in given["stages"]
    ]


def test_a_failure_is_read_as_one() -> None:
    failed = replace(
        RECORD,
        status=WorkflowStatus.FAILED,
        outcome=Failure("self_correction", "no luck", "SELECT 2"),
    )
    read = stored_outcome(_stored(question_rows(failed, EVENTS, "d", NOW)))
    assert isinstance(read, NoAnswer)
    assert (read.status, read.stage, read.cause) == ("failed", "self_correction", "no luck")
    assert read.last_sql == "SELECT 2"


def test_the_workload_line_is_the_same_from_both() -> None:
    stored = _stored(ROWS)
    assert exportable(stored)
    expected = workload_question(RECORD, origin=NOW)
    assert stored_workload_question(stored, origin=NOW) == expected


def test_the_status_says_where_it_is_from() -> None:
    status = stored_status(_stored(ROWS), "the store")
    assert (status.source, status.status) == ("the store", "answered")
    assert [(node.id, node.attempt) for node in status.nodes] == [("c", 2), ("x", 1), ("e", 1)]


def test_a_beginning_and_a_forgotten_end_are_one_row_without_an_outcome() -> None:
    running = replace(RECORD, status=WorkflowStatus.RUNNING, outcome=None, finished_at=None)
    for rows in (
        running_rows(running, "d", NOW),
        forgotten_rows("w1", "answered", NOW, NOW, "d"),
    ):
        assert rows.count == 1
        stored = _stored(rows)
        assert stored_outcome(stored) is None
        assert not exportable(stored)
        assert stored.events[0]["event"] == "started"
