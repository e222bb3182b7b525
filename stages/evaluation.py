"""Evaluation: which of several different results answers the question."""

from __future__ import annotations

from collections.abc import Sequence

from hexgen_celery.workflows.prompt_parts import capped, fenced
from hexgen_celery.workflows.stage_contract import Choice, Contender, Prompt, Question
from stages.answer_schemas import TESTS, choice_among
from stages.model_json import read_object, strings
from stages.prompt_files import prompt_text
from stages.tails import outcome_section, question_section, sql_section

MAX_TESTS = 8
MAX_TEST_CHARACTERS = 400
MAX_REASON_CHARACTERS = 400


class Evaluation:
    """Two requests, made only when results differ: tests that tell them apart, then a choice."""

    def unit_tests_prompt(self, question: Question, contenders: Sequence[Contender]) -> Prompt:
        """Ask for tests as JSON."""
        tail = question_section(question) + _contenders_section(contenders)
        return Prompt(prompt_text("unit_tests"), tail, answer_schema=TESTS)

    def read_unit_tests(self, text: str) -> tuple[str, ...]:
        """The tests in the answer; none when it is unreadable."""
        answer = read_object(text, "tests")
        tests = strings(answer.get("tests"), MAX_TESTS) if answer else ()
        return tuple(capped(test, MAX_TEST_CHARACTERS) for test in tests)

    def choice_prompt(
        self, question: Question, contenders: Sequence[Contender], tests: Sequence[str]
    ) -> Prompt:
        """Ask for the number of one contender, with a reason, as JSON."""
        tail = question_section(question) + _contenders_section(contenders) + _tests_section(tests)
        schema = choice_among(len(contenders))
        return Prompt(prompt_text("choose"), tail, answer_schema=schema)

    def read_choice(self, text: str, contenders: int) -> Choice | None:
        """The choice in the answer, within 1…`contenders`; None when it is unreadable."""
        answer = read_object(text, "choice")
        number = _whole_number(answer.get("choice")) if answer else None
        if answer is None or number is None or not 1 <= number <= contenders:
            return None
        reason = answer.get("reason")
        given = reason.strip() if isinstance(reason, str) else ""
        return Choice(number, capped(given, MAX_REASON_CHARACTERS))


def _contenders_section(contenders: Sequence[Contender]) -> str:
    shown = []
    for number, contender in enumerate(contenders, start=1):
        attempt = contender.attempt
        head = f"## Result {number} (from {contender.votes} of the candidates)\n"
        shown.append(head + sql_section(attempt.sql) + outcome_section(attempt))
    return "".join(shown)


def _tests_section(tests: Sequence[str]) -> str:
    if not tests:
        return ""
    lines = "\n".join(f"{number}. {test}" for number, test in enumerate(tests, start=1))
    return fenced("tests", lines, MAX_TESTS * (MAX_TEST_CHARACTERS + 20))


def _whole_number(value: object) -> int | None:
    """A number that a model wrote as one, or as a short text; truth values are no numbers."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value.strip()[:9])
    return None
