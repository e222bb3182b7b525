"""The trace workflow: recorded token counts, replayed exactly."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexgen_celery.core.prefix import prefix_tokens
from hexgen_celery.errors import InvalidSubmission
from hexgen_celery.workflows.definition import Answer, Failure, Json, LlmCall, NodeSpec
from hexgen_celery.workflows.output_lengths import TabledLengths
from hexgen_celery.workflows.trace import Trace
from tests.unit.workflows.memory_executor import Finished, MemoryExecutor, submission_of


def recorded(request: int, after: list[int], **changes: Any) -> Json:
    base: Json = {
        "id": request,
        "stage": "evaluation",
        "step": "evaluate",
        "after": after,
        "input_tokens": 300,
        "output_tokens": 22,
        "template_tokens": 200,
        "schema_tokens": 50,
    }
    return {**base, **changes}


LINE: Json = {
    "question": "q1",
    "database": "financial",
    "requests": [
        recorded(0, [], stage="schema_linking", step="extract_keywords", schema_tokens=0),
        recorded(1, [0], stage="candidate_generation", step="generate_candidate_1"),
        recorded(2, [0], stage="candidate_generation", step="generate_candidate_2"),
        recorded(3, [1, 2], stage="self_correction", step="revise", output_tokens=500),
        recorded(4, [3]),
    ],
    "split": "test",
}


def replay(spec: NodeSpec) -> Finished:
    call = spec.call
    assert isinstance(call, LlmCall)
    return Finished(
        {
            "text": "x",
            "input_tokens": call.input_tokens,
            "output_tokens": call.forced_output_tokens,
        }
    )


def question(line: Any = LINE, seed: int = 1, workflow_id: str = "wf-1") -> MemoryExecutor:
    submission = submission_of("trace", options={"line": line}, workflow_id=workflow_id)
    return MemoryExecutor(Trace(TabledLengths()), submission, replay, random.Random(seed))


def call_of(run: MemoryExecutor, request: int) -> LlmCall:
    call = run.nodes[f"request.{request}"].spec.call
    assert isinstance(call, LlmCall)
    return call


def test_it_replays_every_request_with_its_exact_lengths() -> None:
    run = question()
    outcome = run.run()
    assert isinstance(outcome, Answer)
    assert outcome.detail["requests"] == 5
    assert outcome.detail["input_tokens"] == 1500
    assert outcome.detail["output_tokens"] == 4 * 22 + 500
    for request in LINE["requests"]:
        call = call_of(run, request["id"])
        tail = len(call.tail) / 4
        assert prefix_tokens(call.prefix) + tail == request["input_tokens"] == call.input_tokens
        assert call.forced_output_tokens == call.max_tokens == request["output_tokens"]
    revise = run.nodes["request.3"].spec
    assert (revise.stage, revise.step) == ("self_correction", "revise")
    assert revise.after == ("request.1", "request.2")


def test_parts_are_shared_by_step_and_by_database() -> None:
    run, other = question(), question(workflow_id="wf-2")
    run.run()
    other.run()
    call = call_of(run, 1)
    assert [part.hash for part in call.parts] == [
        "syn:template.generate_candidate_1:200",
        "syn:schema.financial:50",
    ]
    assert call.parts == call_of(other, 1).parts
    assert call.tail != call_of(other, 1).tail
    assert call.tail != call_of(run, 2).tail
    assert [part.hash for part in call_of(run, 0).parts] == ["syn:template.extract_keywords:200"]


def test_a_request_is_unknown_until_what_it_follows_is_done() -> None:
    run = question()
    run._apply(run.definition.begin(run.submission))
    assert set(run.nodes) == {"request.0"}
    run.step()
    assert set(run.nodes) == {"request.0", "request.1", "request.2"}
    run.step()
    assert "request.3" not in run.nodes


def test_estimates_do_not_look_at_the_record() -> None:
    run = question()
    run.run()
    assert call_of(run, 3).output_tokens == TabledLengths().expected("", "revise", "") != 500


def test_a_failed_request_fails_the_replay() -> None:
    run = question()
    run.run_node = lambda spec: Finished(error={"message": "no server answers"})
    outcome = run.run()
    assert outcome == Failure("schema_linking", "no server answers")


def test_there_is_no_best_effort() -> None:
    run = question()
    run.run()
    assert run.best_effort() is None


def test_a_line_may_come_as_text() -> None:
    assert isinstance(question(json.dumps(LINE)).run(), Answer)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (None, "options.line"),
        ("{not json", "options.line"),
        ({}, "options.line.database"),
        ({"database": "a:b", "requests": [recorded(0, [])]}, "options.line.database"),
        ({"database": "a", "requests": []}, "options.line.requests"),
        ({"database": "a", "requests": [recorded(0, [0])]}, "options.line"),
        ({"database": "a", "requests": [recorded(0, []), recorded(0, [])]}, "options.line"),
        (
            {"database": "a", "requests": [recorded(0, [], template_tokens=400)]},
            "options.line.requests.0",
        ),
        (
            {"database": "a", "requests": [recorded(0, [], stage="cooking")]},
            "options.line.requests.0.stage",
        ),
    ],
)
def test_what_is_no_workload_line_is_refused_by_name(line: Any, field: str) -> None:
    options = {} if line is None else {"line": line}
    with pytest.raises(InvalidSubmission) as caught:
        Trace(TabledLengths()).begin(submission_of("trace", options=options))
    assert caught.value.field == field


@st.composite
def lines(draw: st.DrawFn) -> Json:
    requests = []
    for number in range(draw(st.integers(1, 12))):
        after = draw(st.lists(st.integers(0, number - 1), unique=True)) if number else []
        requests.append(recorded(number, after))
    return {"database": "d", "requests": requests}


@settings(deadline=None)
@given(line=lines(), seed=st.integers(0, 1000))
def test_any_dag_is_replayed_in_any_order(line: Json, seed: int) -> None:
    run = question(line, seed)
    outcome = run.run()
    assert isinstance(outcome, Answer)
    assert outcome.detail["requests"] == len(run.nodes) == len(line["requests"])
    position = {node: place for place, node in enumerate(run.finished)}
    for request in line["requests"]:
        for earlier in request["after"]:
            assert position[f"request.{earlier}"] < position[f"request.{request['id']}"]


@pytest.mark.data
def test_every_published_line_is_replayed(shared_data: Path) -> None:
    for file in sorted((shared_data / "workloads").glob("*.jsonl")):
        for text in file.read_text(encoding="utf-8").splitlines()[:20]:
            run = question(text)
            outcome = run.run()
            assert isinstance(outcome, Answer)
            requests = json.loads(text)["requests"]
            total = sum(request["input_tokens"] for request in requests)
            assert outcome.detail["input_tokens"] == total
