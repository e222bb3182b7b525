"""A mistake of a definition ends its question; an absent Redis does not."""

from __future__ import annotations

import pytest
import redis

from hexgen_celery.coordination.planner import Planner
from hexgen_celery.core.clock import ManualClock
from hexgen_celery.workflows.definition import (
    Answer,
    Expansion,
    Failure,
    NodeState,
    Submission,
    WorkflowView,
)

SUBMISSION = Submission("w1", "raising", "How many?", "demo", 10.0, 1000.0, 1010.0, "acme")


class Raising:
    """A definition that raises what it was given."""

    name = "raising"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def begin(self, submission: Submission) -> Expansion:
        raise self.error

    def advance(self, view: WorkflowView, node: NodeState) -> Expansion:
        raise self.error

    def best_effort(self, view: WorkflowView) -> Answer | None:
        raise self.error


def planner(error: Exception) -> Planner:
    return Planner({"raising": Raising(error)}, ManualClock(1000.0))


def test_a_mistake_of_a_definition_ends_its_question() -> None:
    plan = planner(ZeroDivisionError("division by zero")).begin(SUBMISSION)
    assert isinstance(plan.outcome, Failure)
    assert plan.outcome.cause == "workflow definition: ZeroDivisionError: division by zero"


@pytest.mark.parametrize("away", [redis.ConnectionError, redis.TimeoutError, redis.ReadOnlyError])
def test_an_absent_redis_does_not_end_it(away: type[redis.RedisError]) -> None:
    with pytest.raises(away):
        planner(away("Redis is away")).begin(SUBMISSION)


def test_a_redis_error_of_its_own_making_ends_it() -> None:
    plan = planner(redis.ResponseError("WRONGTYPE of its own key")).begin(SUBMISSION)
    assert isinstance(plan.outcome, Failure)
