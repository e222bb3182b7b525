"""Every wrong field of a submission is named, with the way to mend it."""

from __future__ import annotations

from typing import Any

import pytest

from hexgen_celery.errors import InvalidSubmission, UnknownDatabase
from hexgen_celery.settings import Settings
from hexgen_celery.submission import validate

NOW = 1_750_000_000.0
GOOD = {"question": "How many?", "database": "superhero", "slo_seconds": 30}


class Known:
    """Registered databases."""

    def __init__(self, *names: str) -> None:
        self._names = list(names)

    def names(self) -> list[str]:
        return self._names


KNOWN = Known("superhero", "student_club", "california_schools")


def check(databases: Known = KNOWN, workflow_id: str | None = "t1", **changes: Any) -> Any:
    payload = {**GOOD, **changes}
    return validate(payload, Settings(), databases, workflow_id=workflow_id, received_at=NOW)


def test_a_good_submission_gets_its_deadline_and_defaults() -> None:
    submission = check()
    assert submission.workflow_id == "t1"
    assert submission.workflow == "text_to_sql"
    assert submission.submitted_at == NOW
    assert submission.deadline == NOW + 30
    assert submission.tenant == "default"


def test_the_clock_starts_when_the_client_says_so() -> None:
    assert check(submitted_at=NOW - 5).deadline == NOW + 25


def test_the_default_slo_applies_without_one() -> None:
    assert check(slo_seconds=None).slo_seconds == Settings().deadline.default_slo_seconds


def test_an_id_is_made_where_none_is_given() -> None:
    first, second = check(workflow_id=None), check(workflow_id=None)
    assert first.workflow_id != second.workflow_id


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"question": ""}, "question"),
        ({"question": " \n"}, "question"),
        ({"question": None}, "question"),
        ({"question": "x" * 1_000_000}, "question"),
        ({"question": 7}, "question"),
        ({"evidence": "x" * 30_000}, "evidence"),
        ({"slo_seconds": 0}, "slo_seconds"),
        ({"slo_seconds": -1.5}, "slo_seconds"),
        ({"slo_seconds": float("nan")}, "slo_seconds"),
        ({"slo_seconds": float("inf")}, "slo_seconds"),
        ({"slo_seconds": 1e9}, "slo_seconds"),
        ({"slo_seconds": 10**400}, "slo_seconds"),
        ({"slo_seconds": "30"}, "slo_seconds"),
        ({"slo_seconds": True}, "slo_seconds"),
        ({"submitted_at": NOW * 1000}, "submitted_at"),
        ({"submitted_at": 0}, "submitted_at"),
        ({"submitted_at": "today"}, "submitted_at"),
        ({"tenant": "t" * 100}, "tenant"),
        ({"tenant": ["a"]}, "tenant"),
        ({"options": [1]}, "options"),
        ({"options": {"candidates": 0}}, "candidates"),
        ({"options": {"candiates": 2}}, "candiates"),
        ({"slo": 3}, "slo"),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSubmission) as refusal:
        check(**changes)
    assert refusal.value.field == field
    assert refusal.value.hint


@pytest.mark.parametrize("workflow_id", ["", "a/b", "a b", "a\n", "x" * 300, "\x00"])
def test_a_task_id_that_cannot_name_keys_is_refused(workflow_id: str) -> None:
    with pytest.raises(InvalidSubmission) as refusal:
        check(workflow_id=workflow_id)
    assert refusal.value.field == "task_id"


def test_an_unknown_field_suggests_the_nearest() -> None:
    with pytest.raises(InvalidSubmission, match="did you mean 'question'"):
        check(questions="How many?")


def test_an_unknown_database_lists_the_known_ones_nearest_first() -> None:
    with pytest.raises(UnknownDatabase) as refusal:
        check(database="super_heroes")
    assert refusal.value.field == "database"
    assert refusal.value.hint.startswith("registered, nearest first: superhero")


def test_a_long_list_of_databases_is_cut() -> None:
    with pytest.raises(UnknownDatabase, match="and 5 more"):
        check(Known(*(f"db{number}" for number in range(15))), database="dbx")


def test_without_any_database_the_hint_says_how_to_add_one() -> None:
    with pytest.raises(UnknownDatabase, match="hexgen db add"):
        check(Known())


def test_other_workflows_need_neither_question_nor_database() -> None:
    submission = check(workflow="trace", question=None, database=None, options={"line": {}})
    assert (submission.question, submission.database) == ("", "")
    assert submission.options == {"line": {}}
