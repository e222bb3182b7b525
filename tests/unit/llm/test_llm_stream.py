"""Reading streamed answers, however the bytes were cut."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.llm.stream import EventSplitter, StreamedAnswer, estimated_tokens

EVENTS: list[dict[str, Any]] = [
    {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"delta": {"content": "SELECT "}}]},
    {"choices": [{"delta": {"content": "'é'"}}]},
    {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    {
        "choices": [],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    },
]


def _wire(newline: str = "\n") -> bytes:
    lines = [f"data: {json.dumps(event, ensure_ascii=False)}{newline * 2}" for event in EVENTS]
    return ("".join(lines) + f": comment{newline * 2}data: [DONE]{newline * 2}").encode()


@given(
    cuts=st.lists(st.integers(0, len(_wire())), max_size=20),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_any_chunking_gives_the_same_answer(cuts: list[int], newline: str) -> None:
    wire = _wire(newline)
    splitter, answer = EventSplitter(), StreamedAnswer()
    bounds = [0, *sorted(min(cut, len(wire)) for cut in cuts), len(wire)]
    for start, end in pairwise(bounds):
        for payload in splitter.feed(wire[start:end]):
            answer.take(payload)
    assert answer.text == "SELECT 'é'"
    assert answer.finish_reason == "stop"
    assert answer.complete
    assert answer.cached_tokens == 4
    assert answer.usage["prompt_tokens"] == 9


def test_the_role_alone_is_no_first_token() -> None:
    answer = StreamedAnswer()
    answer.take_event(EVENTS[0])
    assert not answer.started
    answer.take_event(EVENTS[1])
    assert answer.started


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_a_thought_is_a_first_token_but_no_text(field: str) -> None:
    answer = StreamedAnswer()
    answer.take_event({"choices": [{"delta": {field: "hm"}}]})
    assert answer.started
    assert answer.text == ""


def test_a_cut_stream_is_not_complete() -> None:
    answer = StreamedAnswer()
    answer.take_event(EVENTS[1])
    assert not answer.complete


@pytest.mark.parametrize("error", [{"message": "engine died", "code": 500}, "engine died"])
def test_an_error_in_mid_stream_is_kept(error: object) -> None:
    answer = StreamedAnswer()
    answer.take(json.dumps({"error": error}).encode())
    assert answer.error is not None
    assert answer.error["message"] == "engine died"


def test_an_answer_that_was_not_streamed_is_understood() -> None:
    answer = StreamedAnswer()
    message = {"role": "assistant", "content": "hello"}
    answer.take_event({"choices": [{"message": message, "finish_reason": "length"}]})
    assert (answer.text, answer.finish_reason) == ("hello", "length")


@pytest.mark.parametrize("payload", [b"nonsense", b"[1]"])
def test_an_event_that_is_no_object_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError):
        StreamedAnswer().take(payload)


def test_tokens_are_estimated_at_four_characters_each() -> None:
    assert [estimated_tokens(text) for text in ("", "a", "abcd", "abcde")] == [0, 1, 1, 2]
