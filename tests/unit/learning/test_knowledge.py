"""What finished questions teach, and that it survives being stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hexgen_celery.coordination.state import StoredNode, WorkflowRecord
from hexgen_celery.core.estimates import Estimate, Interval, path_nodes, rounds_over, stage_seconds
from hexgen_celery.learning.knowledge import CacheTruth, Knowledge, KnowledgeRates
from hexgen_celery.learning.lessons import QuestionLesson, RequestLesson, question_lesson
from hexgen_celery.workflows.definition import (
    LlmCall,
    NodeKind,
    NodeSpec,
    SqlCall,
    Submission,
    WorkflowStatus,
)

SUBMISSION = Submission("w", "text_to_sql", "q", "school", 60.0, 100.0, 160.0)


def _interval(
    name: str, ready: float, finished: float, stage: str = "s", step: str = "x"
) -> Interval:
    return Interval(name, stage, step, ready, finished, finished - ready)


def test_what_had_ended_before_comes_first() -> None:
    parallel = [_interval("a", 0, 2), _interval("b", 0, 5), _interval("c", 5, 6)]
    after = {node.node_id: node.after for node in path_nodes(parallel)}
    assert after == {"a": (), "b": (), "c": ("a", "b")}


def test_rounds_are_counted_along_the_longest_chain() -> None:
    """Three in parallel are one round; what follows them is the next."""
    parallel = [_interval(str(n), 0, 2 + n) for n in range(3)]
    assert rounds_over("x", parallel) == 1
    assert rounds_over("x", [*parallel, _interval("later", 4, 6)]) == 2
    assert rounds_over("other", parallel) == 0


def test_a_stage_lasts_from_its_first_request_to_its_last_end() -> None:
    seconds = stage_seconds(
        [
            _interval("late", 6, 9, "second"),
            _interval("a", 0, 2, "first"),
            _interval("b", 1, 5, "first"),
        ]
    )
    assert list(seconds.items()) == [("first", 5), ("second", 3)]


def _llm(name: str, record: dict[str, Any], result: dict[str, Any]) -> StoredNode:
    call = LlmCall((), "t", 1000, 50.0, 100)
    spec = NodeSpec(name, NodeKind.LLM, "candidate_generation", "candidate", call)
    return StoredNode(spec, {"attempt": 1, "status": "done", **record}, {"result": result})


def _record(status: WorkflowStatus = WorkflowStatus.ANSWERED) -> WorkflowRecord:
    candidate = _llm(
        "c",
        {"ready_at": 100.0, "claimed_at": 101.0, "finished_at": 103.0, "instance": "a1"},
        {"seconds": 1.5, "output_tokens": 70, "cached_tokens": 400},
    )
    sql = StoredNode(
        NodeSpec("e", NodeKind.SQL, "execute_sql", "execute", SqlCall("school", "SELECT 1")),
        {"attempt": 1, "status": "done", "ready_at": 103.0, "claimed_at": 103.2,
         "finished_at": 103.5},
        {"result": {}},
    )  # fmt: skip
    dropped = StoredNode(sql.spec, {"attempt": 1, "status": "dropped"}, {})
    nodes = {"c": candidate, "e": sql, "d": dropped}
    return WorkflowRecord(SUBMISSION, status, 3, {}, nodes, None, False, 100.0, 104.0)


SENT = {
    "event": "sent",
    "node": "c",
    "attempt": 1,
    "instance": "a1",
    "cached": 800,
    "output": 60.0,
    "output_p10": 20.0,
    "output_p90": 90.0,
}


def test_a_record_and_its_trace_become_a_lesson() -> None:
    lesson = question_lesson(_record(), [{"event": "started"}, SENT])
    (request,) = lesson.requests
    assert request.output_tokens == 70
    assert request.output_believed == Estimate(60.0, 20.0, 90.0)
    assert request.remaining_believed is None
    assert (request.cached_predicted, request.cached_tokens) == (800, 400)
    assert [(one.node_id, one.seconds) for one in lesson.intervals] == [
        ("c", 1.5),
        ("e", pytest.approx(0.3)),
    ]
    assert lesson.whole


def test_a_cache_prediction_for_another_instance_is_no_lesson() -> None:
    lesson = question_lesson(_record(), [{**SENT, "instance": "b1"}])
    assert lesson.requests[0].cached_predicted is None


def test_an_expired_question_teaches_outputs_but_no_path() -> None:
    lesson = question_lesson(_record(WorkflowStatus.EXPIRED), [SENT])
    known = Knowledge()
    known.learn(lesson)
    assert known.output("candidate_generation", "candidate", "school") is not None
    assert known.remaining("candidate_generation", "candidate", 0, "school", 1.0) is None
    assert known.stage_means("text_to_sql") == {}


def test_nothing_is_claimed_about_what_was_never_seen() -> None:
    known = Knowledge()
    assert known.output("s", "x", "db") is None
    assert known.remaining("s", "x", 0, "db", 2.0) is None
    assert known.cache_factor("a1") == 1.0
    assert known.token_factor(["a0", "a1"]) == 1.0
    assert known.calibration() == {}


def _lesson(output: float, cached: tuple[float, float] | None = None) -> QuestionLesson:
    predicted, reported = cached or (None, 0.0)
    request = RequestLesson(
        "a", "s", "x", "db", "a1", output, reported, 1300.0, 1000.0, Estimate(100, 50, 150),
        Estimate(9, 1, 20), predicted,
    )  # fmt: skip
    intervals = (_interval("a", 0, 4), _interval("b", 4, 10, "t", "y"))
    return QuestionLesson("w", "db", (request,), intervals, whole=True)


def test_estimates_follow_what_happens_and_survive_storage() -> None:
    known = Knowledge()
    for _ in range(200):
        known.learn(_lesson(300.0, (1300.0, 650.0)))
    stored = Knowledge.from_json(json.loads(json.dumps(known.to_json())))
    for each in (known, stored):
        output = each.output("s", "x", "db")
        assert output is not None
        assert output.mean == pytest.approx(300, rel=0.05)
        remaining = each.remaining("s", "x", 0, "db", 4.0)
        assert remaining is not None
        assert remaining.mean == pytest.approx(4 + 6, rel=0.1)
        assert each.cache_factor("a1") == pytest.approx(0.5)
        assert each.token_factor(["a0", "a1"]) == pytest.approx(1.3)
        assert dict(each.stage_means("w")) == {"s": 4.0, "t": 6.0}
        assert each.questions == 200
        found = each.calibration()
        assert found["output tokens"].count == 200
        assert found["output tokens"].mape == pytest.approx(2 / 3)
        assert found["remaining seconds"].coverage == 1.0


def test_a_server_that_reports_no_hits_is_not_taken_to_have_none() -> None:
    truth = CacheTruth()
    for _ in range(5):
        truth.observe(1000, 0, 0.9)
    assert truth.factor == 1.0
    truth.observe(1000, 800, 0.9)
    assert truth.factor < 0.5
    for _ in range(100):
        truth.observe(1000, 1200, 0.9)
    assert truth.factor == 1.0


def test_only_the_instances_seen_last_are_remembered() -> None:
    known = Knowledge(KnowledgeRates(instances=2))
    for name in ("a", "b", "a", "c"):
        request = RequestLesson(
            "n", "s", "x", "db", name, 5.0, 40.0, 100.0, 50.0, cached_predicted=80.0
        )
        known.learn(QuestionLesson("w", "db", (request,), (), whole=False))
    assert list(known.caches) == list(known.tokens) == ["a", "c"]
    assert known.token_factor(["b", "c"]) == pytest.approx(2.0)
    assert known.cache_factor("b") == 1.0
