"""Questions that were answered, exported as a workload with their times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import redis

from hexgen_celery.coordination import Coordinator
from hexgen_celery.core.prefix import PrefixPart
from hexgen_celery.keys import Keys
from hexgen_celery.settings import Settings
from hexgen_celery.tracing.history import History, RecordedQuestions
from hexgen_celery.tuning import window_of
from hexgen_celery.workflows.definition import Definition, LlmCall
from hexgen_celery.workflows.output_lengths import TabledLengths
from hexgen_celery.workflows.trace import Trace
from hexgen_celery.workloads import read_workload
from hexgen_celery.workloads.canonical import dump_question, parse_question
from tests.integration.coordination.support import Dag, MemoryBroker, make_submission, run_all

LINE: dict[str, Any] = {
    "question": "q1",
    "database": "shop",
    "requests": [
        {"id": 0, "stage": "schema_linking", "step": "link", "after": [], "input_tokens": 60,
         "output_tokens": 7, "template_tokens": 20, "schema_tokens": 30},
        {"id": 1, "stage": "candidate_generation", "step": "candidate", "after": [0],
         "input_tokens": 90, "output_tokens": 11, "template_tokens": 40, "schema_tokens": 30},
        {"id": 2, "stage": "candidate_generation", "step": "candidate", "after": [0],
         "input_tokens": 90, "output_tokens": 12, "template_tokens": 40, "schema_tokens": 30},
        {"id": 3, "stage": "evaluation", "step": "choose", "after": [1, 2],
         "input_tokens": 50, "output_tokens": 3},
    ],
}  # fmt: skip


@pytest.fixture
def coordinator(
    redis_client: redis.Redis, keys: Keys, settings: Settings, broker: MemoryBroker
) -> Coordinator:
    definitions: dict[str, Definition] = {"trace": Trace(TabledLengths()), "dag": Dag()}
    return Coordinator(redis_client, keys, settings, definitions, broker)


@pytest.fixture
def history(redis_client: redis.Redis, keys: Keys) -> History:
    return History(redis_client, keys)


def _replay(coordinator: Coordinator, broker: MemoryBroker) -> None:
    coordinator.start(make_submission("trace", line=LINE))
    while broker.messages:
        entry = broker.take()
        assert coordinator.claim(entry.ref, worker="w", instance="i") is not None
        coordinator.first_token(entry.ref)
        call = entry.spec.call
        assert isinstance(call, LlmCall)
        tokens = {"input_tokens": call.input_tokens, "output_tokens": call.max_tokens}
        coordinator.complete(entry.ref, {"text": "", **tokens})


def test_a_replayed_line_is_exported_as_it_was(
    coordinator: Coordinator, broker: MemoryBroker, history: History
) -> None:
    _replay(coordinator, broker)
    (question,) = history.answered().workload().questions
    assert question.database == "shop"
    assert question.arrival == 0
    assert question.slo_seconds == 600
    for request, recorded in zip(question.requests, LINE["requests"], strict=True):
        names = ("stage", "step", "input_tokens", "output_tokens")
        assert {name: getattr(request, name) for name in names} == {n: recorded[n] for n in names}
        assert request.template_tokens == recorded.get("template_tokens", 0)
        assert request.schema_tokens == recorded.get("schema_tokens", 0)
        assert list(request.after) == recorded["after"]
        start, first, end = request.times.start, request.times.first_token, request.times.end
        assert start is not None
        assert first is not None
        assert end is not None
        assert 0 <= start <= first <= end
    assert question.requests[1].prefix("shop")[0] == PrefixPart("template:candidate", 40)


def test_executions_are_left_out_and_bridged(
    coordinator: Coordinator, broker: MemoryBroker, history: History
) -> None:
    nodes = {"a": [], "x1": ["a"], "b": ["x1"]}
    coordinator.start(make_submission(nodes=nodes))
    run_all(coordinator, broker, {"input_tokens": 9, "output_tokens": 2})
    (question,) = history.answered().workload().questions
    assert [request.after for request in question.requests] == [(), (0,)]


def test_only_answered_questions_count_and_the_rest_is_told(
    coordinator: Coordinator, broker: MemoryBroker, history: History, redis_client: redis.Redis,
    keys: Keys,
) -> None:  # fmt: skip
    for _ in range(3):
        _replay(coordinator, broker)
    cancelled = make_submission("trace", line=LINE)
    coordinator.start(cancelled)
    coordinator.cancel(cancelled.workflow_id)
    gone = history.answered(limit=1).records[0].submission.workflow_id
    redis_client.delete(keys.workflow(gone))
    found = history.answered()
    assert (len(found.records), found.unanswered, found.forgotten) == (2, 1, 1)
    assert len(history.answered(limit=1).records) == 1
    assert history.answered(since=2e9).records == ()
    assert history.answered(workflow="dag").records == ()


def test_what_is_written_can_be_read_simulated_and_tuned_on(
    coordinator: Coordinator, broker: MemoryBroker, history: History, tmp_path: Path
) -> None:
    for _ in range(40):
        _replay(coordinator, broker)
    questions = history.answered().workload().questions
    path = tmp_path / "recorded.jsonl"
    path.write_text("".join(json.dumps(dump_question(q)) + "\n" for q in questions))
    read = read_workload(path)
    assert read.questions == questions
    assert parse_question(dump_question(questions[0]), "here") == questions[0]
    window = window_of(read)
    assert window.rate > 0
    assert [one.factor for one in window.classes] == [600]


def test_nothing_recorded_is_no_error(history: History) -> None:
    assert history.answered() == RecordedQuestions(())
    assert history.answered().workload().questions == ()
