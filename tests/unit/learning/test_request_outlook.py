"""Estimates and budgets of a request when it is placed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hexgen_celery.core.estimates import Interval
from hexgen_celery.learning.knowledge import Knowledge
from hexgen_celery.learning.lessons import QuestionLesson, RequestLesson
from hexgen_celery.outbox import OutboxEntry
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.prompt_tokens import PromptTokens
from hexgen_celery.references import RequestRef
from hexgen_celery.request_outlook import outlook
from hexgen_celery.sibling_slack import QUESTIONS, SiblingSlack
from hexgen_celery.workflows.definition import LlmCall, NodeKind, NodeSpec, Submission

CALL = LlmCall((), "t", 2000, 60.0, 200)
SPEC = NodeSpec("n", NodeKind.LLM, "first", "x", CALL)
ENTRY = OutboxEntry(
    RequestRef("w", "n", 1), SPEC, Submission("w", "flow", "q", "db", 40.0, 100.0, 140.0)
)
PROMPT = PromptTokens(2000, 1.0)
PROFILES = [load_profile("a100-80g-x1-qwen3-30b-a3b")]


def _taught(output_tokens: float) -> Knowledge:
    known = Knowledge()
    request = RequestLesson("n", "first", "x", "db", "a1", output_tokens, 0.0)
    intervals = (
        Interval("n", "first", "x", 0.0, 2.0, 2.0),
        Interval("m", "second", "y", 2.0, 8.0, 6.0),
    )
    for _ in range(100):
        known.learn(QuestionLesson("flow", "db", (request,), intervals, whole=True))
    return known


def test_before_anything_was_learnt_the_calls_own_estimate_holds() -> None:
    expected = outlook(ENTRY, CALL, Knowledge(), PROFILES, now=110.0, prompt=PROMPT)
    assert expected.view.output_tokens == 60.0
    assert expected.view.remaining_seconds == 0.0
    assert (expected.budget, expected.view.stage_budget_seconds) == (None, 30.0)
    assert expected.reasons() == {}


def test_what_was_learnt_takes_its_place() -> None:
    expected = outlook(
        ENTRY, CALL, _taught(120.0), PROFILES, now=110.0, prompt=PROMPT, slack_seconds=1.5
    )
    assert expected.view.output_tokens == pytest.approx(120, rel=0.05)
    assert expected.view.remaining_seconds > 6.0
    assert expected.view.slack_seconds == 1.5
    assert expected.budget == pytest.approx(30.0 * 2 / (2 + 6))
    assert {"output", "output_p10", "remaining", "remaining_p90"} <= set(expected.reasons())


def test_rank_and_budget_stay_those_of_the_moment_it_became_ready() -> None:
    waiting = replace(ENTRY, ready_at=110.0)
    expected = outlook(waiting, CALL, _taught(120.0), PROFILES, now=125.0, prompt=PROMPT)
    assert expected.view.ready_at == 110.0
    assert expected.budget == pytest.approx(30.0 * 2 / (2 + 6))


def test_prompts_are_counted_as_the_server_counts_them() -> None:
    prompt = PromptTokens(2600, 1.3)
    expected = outlook(ENTRY, CALL, Knowledge(), PROFILES, now=110.0, prompt=prompt)
    assert expected.view.input_tokens == 2600


def test_no_more_output_is_expected_than_the_request_may_give() -> None:
    assert (
        outlook(ENTRY, CALL, _taught(900.0), PROFILES, now=110.0, prompt=PROMPT).view.output_tokens
        == 200.0
    )


def test_slack_is_what_the_slowest_sibling_leaves() -> None:
    siblings = SiblingSlack()
    assert siblings.slack("w", "s", "a", 10.0) == 0.0
    siblings.placed("w", "s", "a", 14.0)
    siblings.placed("w", "s", "b", 12.0)
    assert siblings.slack("w", "s", "c", 10.0) == 4.0
    assert siblings.slack("w", "s", "a", 10.0) == 2.0
    assert siblings.slack("w", "s", "c", 20.0) == 0.0
    assert siblings.slack("w", "other", "c", 10.0) == 0.0
    for number in range(QUESTIONS):
        siblings.placed(f"w{number}", "s", "a", 14.0)
    assert siblings.slack("w", "s", "c", 10.0) == 0.0
