"""The chat workflow: one request, nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from hexgen_celery.errors import InvalidSubmission
from hexgen_celery.settings import PipelineSettings
from hexgen_celery.workflows.chat import Chat
from hexgen_celery.workflows.definition import Answer, Failure, LlmCall, NodeSpec, Submission
from hexgen_celery.workflows.output_lengths import TabledLengths
from hexgen_celery.workflows.request_writer import RequestWriter
from hexgen_celery.workflows.tokens import RatioCounter
from tests.unit.workflows.memory_executor import Finished, MemoryExecutor, submission_of


def chat() -> Chat:
    return Chat(RequestWriter(RatioCounter(), TabledLengths()), PipelineSettings())


def asked(**options: Any) -> Submission:
    return submission_of("chat", "Hello?", database="", options=options)


def call_of(submission: Submission) -> LlmCall:
    (node,) = chat().begin(submission).add
    assert (node.id, node.stage, node.step) == ("chat", "chat", "chat")
    assert isinstance(node.call, LlmCall)
    return node.call


def test_the_question_is_the_message() -> None:
    call = call_of(asked())
    assert call.parts == ()
    assert call.tail == "Hello?"
    assert call.input_tokens == 2
    assert call.max_tokens == PipelineSettings().max_tokens


def test_a_conversation_becomes_parts_and_a_tail() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hi!"},
        {"role": "user", "content": "And now?"},
    ]
    submission = asked(messages=messages, max_tokens=20, temperature=0, seed=3, stop=["\n"])
    expansion = chat().begin(submission)
    call = call_of(submission)
    assert [part.role for part in call.parts] == ["system", "user", "assistant"]
    assert [expansion.parts[part.hash] for part in call.parts] == ["Be brief.", "Hi", "Hi!"]
    assert call.tail == "And now?"
    assert (call.max_tokens, call.temperature, call.seed, call.stop) == (20, 0.0, 3, ("\n",))
    assert call.output_tokens == 20.0


def test_the_answer_is_what_the_model_said() -> None:
    def say(spec: NodeSpec) -> Finished:
        return Finished({"text": "Hello!", "finish_reason": "stop"})

    run = MemoryExecutor(chat(), asked(), say)
    assert run.best_effort() is None
    outcome = run.run()
    assert outcome == Answer(detail={"text": "Hello!", "finish_reason": "stop"})


def test_a_failed_request_fails_the_chat() -> None:
    run = MemoryExecutor(chat(), asked(), lambda spec: Finished(error={"message": "no server"}))
    assert run.run() == Failure("chat", "no server")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_impossible_options_are_refused_by_name(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSubmission) as caught:
        chat().begin(asked(**options))
    assert caught.value.field == field
    assert {"messages", "model", "tags"} <= set(caught.value.hint.replace(",", "").split())
