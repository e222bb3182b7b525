"""Order keys: constant while waiting, and each order's own rule."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.core.order import ORDER, build_order
from hexgen_celery.core.registry import UnknownName
from hexgen_celery.core.urgency import latest_start, laxity
from hexgen_celery.core.views import RequestView

REQUEST = RequestView(
    request_id="r",
    workflow_id="w",
    stage="s",
    step="p",
    database="d",
    tenant="t",
    model="m",
    input_tokens=100,
    output_tokens=10.0,
    prefix=(),
    submitted_at=2.0,
    deadline=100.0,
    ready_at=7.0,
    remaining_seconds=30.0,
    remaining_p10_seconds=20.0,
    stage_budget_seconds=12.0,
)


@pytest.mark.parametrize(
    ("name", "key", "feasible_until"),
    [
        ("latest-start", 70.0, 80.0),
        ("least-laxity", 70.0, math.inf),
        ("oldest-question", 2.0, math.inf),
        ("fcfs", 7.0, math.inf),
        ("stage-budget", 7.0 + 12.0 - 5.0, math.inf),
    ],
)
def test_each_order_ranks_by_its_rule(name: str, key: float, feasible_until: float) -> None:
    order = build_order(name)
    assert order.key(REQUEST, 5.0) == key
    assert order.feasible_until(REQUEST) == feasible_until


@given(
    deadlines=st.tuples(st.floats(0, 1e4), st.floats(0, 1e4)),
    remaining=st.tuples(st.floats(0, 1e3), st.floats(0, 1e3)),
    now=st.floats(0, 1e4),
)
def test_the_constant_key_orders_like_laxity_at_any_time(
    deadlines: tuple[float, float], remaining: tuple[float, float], now: float
) -> None:
    order = build_order("least-laxity")
    first, second = (
        order.key(replace(REQUEST, deadline=d, remaining_seconds=r), 1.0)
        for d, r in zip(deadlines, remaining, strict=True)
    )
    laxities = [laxity(d, r, now) for d, r in zip(deadlines, remaining, strict=True)]
    if abs(laxities[0] - laxities[1]) > 1e-6:
        assert (first < second) == (laxities[0] < laxities[1])


@given(budget=st.floats(0, 100), execution=st.floats(0, 50), now=st.floats(10, 1e3))
def test_stage_budget_is_the_published_urgency(budget: float, execution: float, now: float) -> None:
    request = replace(REQUEST, stage_budget_seconds=budget)
    urgency = execution - (budget - (now - request.ready_at))
    assert build_order("stage-budget").key(request, execution) == pytest.approx(now - urgency)


def test_latest_start_plus_path_is_the_deadline() -> None:
    assert latest_start(60.0, 25.0) == 35.0
    assert laxity(60.0, 25.0, 40.0) == -5.0


@pytest.mark.parametrize("name", ORDER.names())
def test_every_order_documents_itself(name: str) -> None:
    module = __import__(ORDER.entry(name).factory.__module__, fromlist=["_"])
    for heading in ("Why:", "What:", "Inputs:", "Config:", "Trade-offs:"):
        assert heading in (module.__doc__ or "")


def test_unknown_orders_are_explained() -> None:
    with pytest.raises(UnknownName, match="unknown order 'lifo'; choose one of: fcfs"):
        build_order("lifo")
