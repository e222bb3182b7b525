"""The planner: cheapest first, pruned by bounds, confirmed by simulation."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hexgen_celery.capacity_planner import (
    InstanceKind,
    PlanRequest,
    fleet_of,
    kinds_of,
    mixes,
    plan,
    price,
)
from hexgen_celery.errors import InvalidSettings, InvalidWorkload
from hexgen_celery.workloads import Workload, WorkloadQuestion, WorkloadRequest
from tests.small_profile import pool_profile

FAST, SLOW = pool_profile("A100", 1.0, gpus=2), pool_profile("A6000", 3.0, gpus=2)
PRICES = {"A100": 1.5, "A6000": 0.5}


def workload(count: int = 80) -> Workload:
    requests = (WorkloadRequest(0, "generation", "candidate", (), 1500, 100, 1000),)
    return Workload(
        "w", tuple(WorkloadQuestion(f"q{number}", "db", requests) for number in range(count))
    )


def request(**changes: Any) -> PlanRequest:
    base = PlanRequest(
        workload=workload(),
        kinds=kinds_of([FAST, SLOW], PRICES, "m"),
        slo_seconds=30.0,
        attainment=0.95,
        rate=2.0,
        most_instances=4,
        questions=120,
        probe_questions=60,
        warmup=10,
        seeds=(0, 1),
    )
    return replace(base, **changes)


def test_kinds_are_priced_by_gpu() -> None:
    assert request().kinds == (InstanceKind(FAST, 3.0), InstanceKind(SLOW, 1.0))
    with pytest.raises(InvalidSettings, match=r"no profile serves x.*choose one of: m"):
        kinds_of([FAST], PRICES, "x")
    with pytest.raises(InvalidSettings, match="the price list has no A6000"):
        kinds_of([SLOW], {"A100": 1.0}, "m")


def test_mixes_come_cheapest_first_and_once() -> None:
    every = mixes(request(most_instances=3))
    assert len(every) == len(set(every)) == 9
    costs = [price(request(), mix) for mix in every]
    assert costs == sorted(costs)
    assert fleet_of(request(), (1, 2)).pools == ("a100", "a6000")


def test_the_cheapest_mix_that_holds_is_chosen() -> None:
    found = plan(request())
    assert found.chosen is not None
    assert found.chosen.attainment >= 0.95
    assert all(not judged.good for judged in found.judged[:-1])
    assert all(judged.price <= found.chosen.price for judged in found.judged)
    assert json.loads(json.dumps(found.to_json()))["chosen"]["price_per_hour"] == found.chosen.price


def test_more_load_never_costs_less() -> None:
    light, heavy = plan(request(rate=0.5)).chosen, plan(request(rate=6.0)).chosen
    assert light is not None
    assert heavy is not None
    assert light.price < heavy.price


def test_a_tight_slo_excludes_slow_instances_without_a_simulation() -> None:
    # 100 tokens take 2.2 s on the fast kind and 6.6 s on the slow one.
    found = plan(request(slo_seconds=5.0, rate=0.5))
    assert found.chosen is not None
    assert all("a100" in judged.instances for judged in found.judged)
    assert found.pruned >= 4


def test_the_impossible_has_no_plan() -> None:
    found = plan(request(slo_seconds=1.0))
    assert found.chosen is None
    assert found.judged == ()
    assert found.to_json()["chosen"] is None


def test_processes_do_not_change_the_plan() -> None:
    assert plan(request(), processes=2).chosen == plan(request()).chosen


def test_a_workload_too_short_to_say_is_refused() -> None:
    with pytest.raises(InvalidWorkload, match="w has 59 questions, too few") as caught:
        plan(request(workload=workload(59)))
    assert "at least 60 questions" in caught.value.hint


@pytest.mark.parametrize(
    ("field", "value"),
    [("slo_seconds", 0.0), ("rate", -1.0), ("attainment", 1.0), ("kinds", ())],
)
def test_impossible_requests_are_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidSettings) as caught:
        request(**{field: value})
    assert caught.value.field == field
