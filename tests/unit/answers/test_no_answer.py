"""What a question that ended without an answer says."""

from __future__ import annotations

from hexgen_celery.answers import NoAnswer
from hexgen_celery.errors import TenantFull


def test_a_refusal_says_its_hint_once() -> None:
    refusal = TenantFull("tenant 'acme' has 3 questions in flight", hint="ask again later")
    detail = {**refusal.to_json(), "stage": "submission", "cause": str(refusal)}
    error = NoAnswer("q1", "failed", detail)
    assert str(error) == (
        "question q1 failed in submission: tenant 'acme' has 3 questions in flight. ask again later"
    )
    assert error.cause == str(refusal)


def test_a_failure_says_its_cause() -> None:
    error = NoAnswer("q1", "expired", {"stage": "evaluation", "cause": "the deadline passed"})
    assert str(error) == "question q1 expired in evaluation: the deadline passed"
    assert str(NoAnswer("q1", "cancelled", {})) == "question q1 cancelled"
