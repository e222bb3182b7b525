"""Selection among recorded candidates, and learning how many equal results are enough."""

from __future__ import annotations

import pytest

from hexgen_celery.evaluation.agreement_learning import (
    LearningRules,
    in_order,
    learn_agreement,
    stopping,
)
from hexgen_celery.evaluation.selection import select
from hexgen_celery.workflows.stage_contract import Attempt


def attempt(result: str) -> Attempt:
    """A candidate that returned `result`: "" for no rows, "!" for an error."""
    if result == "!":
        return Attempt("c", 0, result, "error", "no such column")
    return Attempt("c", 0, result, "ok", empty=not result, digest=result, distinct_digest=result)


def attempts(results: str) -> list[Attempt]:
    return [attempt("" if letter == "-" else letter) for letter in results]


@pytest.mark.parametrize(
    ("results", "needed", "chosen", "executed"),
    [
        ("abb", 0, "b", 3),
        ("aab", 2, "a", 2),
        ("abab", 2, "a", 3),
        ("--a!", 2, "a", 4),
        ("---", 2, "", 3),
        ("abc", 2, "a", 3),
        ("a", 3, "a", 1),
    ],
)
def test_the_first_result_with_enough_votes_wins(
    results: str, needed: int, chosen: str, executed: int
) -> None:
    found = select(attempts(results), needed)
    assert found.chosen is not None
    assert (found.chosen.distinct_digest, found.executed) == (chosen, executed)


def test_nothing_is_chosen_when_nothing_ran() -> None:
    assert select(attempts("!!"), 2).chosen is None
    assert select([], 2).executed == 0


def test_an_order_depends_on_seed_and_question_alone() -> None:
    found = attempts("abcdefgh")
    assert in_order("q", found, 1) == in_order("q", found, 1)
    assert in_order("q", found, 1) != in_order("q", found, 2)
    assert in_order("q", found, 1) != in_order("p", found, 1)


def test_a_model_that_always_agrees_needs_two() -> None:
    found = learn_agreement({f"q{n}": attempts("aaaa") for n in range(5)}, LearningRules(orders=3))
    assert (found.needed, found.changed, found.executed) == (2, 0.0, 2.0)


def test_a_model_whose_minorities_agree_needs_more() -> None:
    ballots = {f"q{n}": attempts("aaaaabbb") for n in range(20)}
    rules = LearningRules(tolerance=0.1, orders=20)
    found = learn_agreement(ballots, rules)
    assert found.needed == 4
    assert stopping(ballots, 2, rules).changed > stopping(ballots, 3, rules).changed > 0.1
    assert stopping(ballots, 2, rules).executed < found.executed


def test_no_questions_teach_nothing() -> None:
    with pytest.raises(ValueError, match="no questions"):
        learn_agreement({})
