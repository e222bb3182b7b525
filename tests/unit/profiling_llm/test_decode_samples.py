"""What a batch of answers says of a decode step."""

from __future__ import annotations

import pytest

from hexgen_celery.llm import Completion
from hexgen_celery.profiling_llm.probe import decode_sample


def _answer(first: float, end: float, tokens: int = 11, prompt: int = 100) -> Completion:
    return Completion("", prompt, tokens, 0, "length", first, end, 1, "http://server")


def test_a_batch_that_decodes_together_counts_whole() -> None:
    sample = decode_sample([_answer(1.0, 2.0) for _ in range(4)])
    assert sample.batch == pytest.approx(4.0)
    assert sample.step_seconds == pytest.approx(0.1)
    assert sample.context_tokens == pytest.approx(4 * (100 + 6))


def test_who_ends_before_the_last_one_counts_for_its_share() -> None:
    early, last = _answer(0.0, 1.5), _answer(1.0, 2.0, prompt=200)
    sample = decode_sample([early, last])
    assert sample.batch == pytest.approx(1.5)
    assert sample.step_seconds == pytest.approx(0.1)
    # The early one holds 100 and, from 1.0 to 1.5 s, 9.33 tokens on average.
    assert sample.context_tokens == pytest.approx(206 + (100 + 1 + 10 * 1.25 / 1.5) / 2)


def test_an_answer_that_came_at_once_still_gives_a_sample() -> None:
    sample = decode_sample([_answer(1.0, 1.0), _answer(1.0, 1.0)])
    assert (sample.batch, sample.step_seconds) == (2, 0.0)
