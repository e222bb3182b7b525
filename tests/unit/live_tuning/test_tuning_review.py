"""How predictions are judged, what a deployment's fleet is, and how times are scaled."""

from __future__ import annotations

import math

import pytest

from hexgen_celery.instances import InstanceRecord
from hexgen_celery.live_tuning.past import live_fleet, sped_up
from hexgen_celery.live_tuning.review import Prediction, Review, ReviewRules, next_backoff, review
from hexgen_celery.profiles_io import load_profile
from hexgen_celery.tuning import Objective, Outcome
from hexgen_celery.workloads import Workload, WorkloadQuestion, WorkloadRequest

RULES = ReviewRules(tolerance=0.3, least=10, most_backoff=8)
FAST = "a100-80g-x1-qwen3-30b-a3b"


def _outcomes(latency: float, count: int = 20) -> list[Outcome]:
    return [Outcome(latency, 10.0)] * count


def _review(latency: float, *, moved: bool = True, before: float | None = 5.0) -> Review:
    prediction = Prediction(4.0, 1.0, moved, before)
    seen = review(prediction, _outcomes(latency), 1.0, Objective.P95, RULES)
    assert seen is not None
    return seen


def test_a_prediction_within_the_tolerance_was_right() -> None:
    seen = _review(4.5)
    assert (seen.wrong, seen.revert) == (False, False)
    assert seen.error == pytest.approx(0.125)
    assert next_backoff(4, seen, RULES) == 1


def test_a_move_that_made_it_worse_than_before_is_to_be_reverted() -> None:
    seen = _review(6.0)
    assert (seen.wrong, seen.revert) == (True, True)
    assert next_backoff(2, seen, RULES) == 4
    assert next_backoff(8, seen, RULES) == 8


def test_wrong_without_a_move_or_without_harm_only_backs_off() -> None:
    assert not _review(6.0, moved=False).revert
    assert not _review(6.0, before=7.0).revert
    assert not _review(6.0, before=None).revert
    assert _review(1.0).wrong


def test_too_few_questions_or_another_load_say_nothing() -> None:
    prediction = Prediction(4.0, 1.0, True, 5.0)
    assert review(prediction, _outcomes(9.0), 1.5, Objective.P95, RULES) is None
    assert review(prediction, _outcomes(9.0, 9), 1.0, Objective.P95, RULES) is None
    assert next_backoff(4, None, RULES) == 4


def test_questions_without_an_answer_make_a_prediction_wrong() -> None:
    prediction = Prediction(4.0, 1.0, False)
    outcomes = _outcomes(4.0, 15) + [Outcome(math.inf, 1.0)] * 5
    seen = review(prediction, outcomes, 1.0, Objective.P95, RULES)
    assert seen is not None
    assert seen.wrong
    attained = review(Prediction(0.0, 1.0, False), outcomes, 1.0, Objective.ATTAINMENT, RULES)
    assert attained is not None
    assert attained.measured == pytest.approx(0.25)
    assert attained.wrong


def _record(name: str, model: str = "m", speed: float = 10.0) -> InstanceRecord:
    return InstanceRecord(name, "gpu.a.x", "a", model, FAST, "http://1", "w", 64, speed=speed)


def test_the_fleet_is_of_the_model_that_most_instances_serve() -> None:
    records = [_record("b"), _record("a"), _record("c", model="other")]
    live = live_fleet(records, load_profile)
    assert live is not None
    assert [instance.name for instance in live.fleet.instances] == ["a", "b"]
    assert live.fleet.model == "m"
    assert live.speed == 10.0
    assert live_fleet([], load_profile) is None


def test_a_workload_is_read_in_the_seconds_of_its_instances() -> None:
    request = WorkloadRequest(0, "s", "s", (), 10, 10)
    asked = WorkloadQuestion("q", "d", (request,), arrival=2.0, slo_seconds=3.0)
    (scaled,) = sped_up(Workload("w", (asked,)), 10.0).questions
    assert (scaled.arrival, scaled.slo_seconds) == (20.0, 30.0)
    assert sped_up(Workload("w", (asked,)), 1.0).questions == (asked,)
