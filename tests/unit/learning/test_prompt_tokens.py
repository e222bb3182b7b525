"""A prompt's length in its server's tokens."""

from __future__ import annotations

import pytest

from hexgen_celery.prompt_tokens import PromptTokens, prompt_tokens
from hexgen_celery.workflows.definition import LlmCall, PartRef

CALL = LlmCall((PartRef("template", 1000), PartRef("schema", 500)), "q", 1700, 10.0, 20)


def test_without_any_count_the_ratio_stands_in() -> None:
    counted = prompt_tokens(CALL, [None, None], 1.2)
    assert counted.input_tokens == 2040
    assert counted.per_counted == pytest.approx(1.2)


def test_parts_go_by_their_counts_and_the_rest_by_the_ratio() -> None:
    counted = prompt_tokens(CALL, [900, 750], 1.1)
    assert counted.input_tokens == 900 + 750 + 220
    assert counted.per_counted == pytest.approx(1650 / 1500)


def test_a_part_that_was_not_counted_yet_goes_by_the_ratio() -> None:
    assert prompt_tokens(CALL, [900, None], 2.0).input_tokens == 900 + 1000 + 400


def test_a_prompt_without_parts_goes_by_the_ratio() -> None:
    assert prompt_tokens(LlmCall((), "q", 100, 1.0, 2), [], 1.5) == PromptTokens(150, 1.5)
