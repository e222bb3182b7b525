"""Dispatch: only ready instances, repeatable by seed, and each policy's own rule."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.core.dispatch import DISPATCH, NoReadyInstance, build_dispatch
from hexgen_celery.core.dispatch.alpha import Alpha, AlphaParameters, cost_on
from hexgen_celery.core.prefix import Prefix, PrefixPart
from hexgen_celery.core.profiles import Profile
from hexgen_celery.core.registry import InvalidParameter, UnknownName
from hexgen_celery.core.views import ClusterView, InstanceView, RequestView, Target
from tests.small_profile import small_profile


def profile(gpu: str, rate: float, base: float) -> Profile:
    return small_profile(
        name=gpu,
        gpu=gpu,
        prefill_tokens_per_second=rate,
        decode_base=base,
        kv_tokens=100_000,
        max_sequences=64,
        max_model_len=32_000,
    )


FAST = profile("A100", 4000.0, 0.03)
SLOW = profile("A6000", 1500.0, 0.06)


def instance(
    name: str, speed: Profile = FAST, pool: str = "", cached: int = 0, **load: Any
) -> InstanceView:
    def cached_tokens(_prefix: Prefix) -> int:
        return cached

    load["cached_tokens"] = cached_tokens
    return InstanceView(name, pool or name, speed.gpu, speed, **load)


def request(**changes: Any) -> RequestView:
    base = RequestView(
        request_id="r",
        workflow_id="w",
        stage="candidate_generation",
        step="generate_candidate_1",
        database="d",
        tenant="t",
        model="m",
        input_tokens=8000,
        output_tokens=500.0,
        prefix=(PrefixPart("template", 5000),),
        submitted_at=0.0,
        deadline=100.0,
        ready_at=1.0,
        remaining_seconds=30.0,
        remaining_p10_seconds=20.0,
    )
    return replace(base, **changes)


def choose(name: str, *views: InstanceView, **parameters: object) -> str | None:
    policy = build_dispatch(name, random.Random(0), **parameters)
    return policy.choose(request(), ClusterView(5.0, views)).instance


views = st.builds(
    instance,
    st.sampled_from("abcdefgh"),
    st.sampled_from([FAST, SLOW]),
    ready=st.booleans(),
    running=st.integers(0, 64),
    waiting=st.integers(0, 50),
    outstanding_prefill_tokens=st.floats(0, 1e5),
    outstanding_output_tokens=st.floats(0, 1e5),
    waiting_exec_seconds=st.floats(0, 1e3),
    assigned_seconds=st.floats(0, 1e4),
    kv_used_tokens=st.integers(0, 100_000),
)
clusters = st.lists(views, min_size=1, max_size=8, unique_by=lambda view: view.instance)


@pytest.mark.parametrize("name", DISPATCH.names())
@given(cluster=clusters, seed=st.integers(0, 99))
def test_only_ready_instances_are_chosen_and_seeds_repeat(
    name: str, cluster: list[InstanceView], seed: int
) -> None:
    def decisions() -> list[Target | None]:
        policy = build_dispatch(name, random.Random(seed))
        view = ClusterView(1.0, cluster)
        if not view.ready():
            with pytest.raises(NoReadyInstance):
                policy.choose(request(), view)
            return []
        return [policy.choose(request(), view) for _ in range(4)]

    chosen = decisions()
    ready = {view.instance for view in cluster if view.ready}
    assert all(target is not None and target.instance in ready for target in chosen)
    assert chosen == decisions()


@given(cluster=clusters)
def test_alpha_zero_equals_own_only(cluster: list[InstanceView]) -> None:
    view = ClusterView(1.0, [replace(one, ready=True) for one in cluster])
    own = build_dispatch("alpha-own", random.Random(0)).choose(request(), view)
    zero = build_dispatch("alpha", random.Random(0), alpha=0.0, patience=0.0).choose(
        request(), view
    )
    assert own == zero


@given(cluster=clusters, alpha=st.floats(0, 1))
def test_alpha_takes_the_lowest_weighted_cost(cluster: list[InstanceView], alpha: float) -> None:
    live = [replace(one, ready=True) for one in cluster]
    policy = build_dispatch("alpha", random.Random(0), alpha=alpha, patience=0.0)
    target = policy.choose(request(), ClusterView(1.0, live))
    costs = [cost_on(request(), view) for view in live]
    lowest = min((1 - alpha) * cost.own + alpha * cost.imposed for cost in costs)
    assert target.score == pytest.approx(lowest)


def test_cost_terms_equal_a_hand_worked_example() -> None:
    view = instance(
        "a",
        running=4,
        outstanding_prefill_tokens=2000.0,
        outstanding_output_tokens=1000.0,
        cached=4000,
    )
    cost = cost_on(request(), view)
    # 4,000 of 8,000 tokens uncached: 1 s; 2,000 ahead: 0.5 s; 500 steps of 0.03 + 5 × 0.001.
    assert cost.own == pytest.approx(0.5 + 1.0 + 500 * 0.035)
    # 4 running wait 1 s each; 1,000 of their tokens take 0.001 s longer.
    assert cost.imposed == pytest.approx(4 * 1.0 + 0.001 * 1000)


def test_own_time_that_a_sibling_hides_costs_nothing() -> None:
    busy = instance("fast", FAST, running=2, outstanding_output_tokens=2000.0)
    cluster = ClusterView(5.0, [busy, instance("slow", SLOW)])
    policy = build_dispatch("alpha", random.Random(0), alpha=0.2)
    assert policy.choose(request(), cluster).instance == "fast"
    assert policy.choose(request(slack_seconds=60.0), cluster).instance == "slow"
    blind = build_dispatch("alpha", random.Random(0), alpha=0.2, use_slack=False)
    assert blind.choose(request(slack_seconds=60.0), cluster).instance == "fast"


def test_who_can_wait_gives_way() -> None:
    busy = instance("fast", FAST, running=9, outstanding_output_tokens=9000.0)
    cluster = ClusterView(5.0, [busy, instance("slow", SLOW)])
    policy = build_dispatch("alpha", random.Random(0), alpha=0.0, patience=0.5)
    assert policy.choose(request(deadline=35.0), cluster).instance == "fast"
    assert policy.choose(request(deadline=350.0), cluster).instance == "slow"


@given(deadline=st.floats(0, 1e4), patience=st.floats(0, 5), alpha=st.floats(0, 1))
def test_the_weight_lies_between_alpha_and_one(
    deadline: float, patience: float, alpha: float
) -> None:
    policy = Alpha(AlphaParameters(alpha=alpha, patience=patience), random.Random(0))
    weight = policy.weight(request(deadline=deadline), 5.0)
    assert alpha - 1e-9 <= weight <= 1.0
    assert policy.weight(request(deadline=0.0), 5.0) == pytest.approx(alpha)
    unknown = request(deadline=deadline, remaining_seconds=0.0)
    assert policy.weight(unknown, 5.0) == alpha
    far, farther = request(deadline=1e6), request(deadline=1e7)
    assert policy.weight(far, 5.0) == policy.weight(farther, 5.0)


def test_imposed_weighs_against_crowding_the_fast_instance() -> None:
    crowded = instance("fast", FAST, running=30, outstanding_output_tokens=15_000.0)
    idle = instance("slow", SLOW)
    assert (
        choose("alpha-own", crowded, idle) == "slow"
        or choose("alpha", crowded, idle, alpha=0.9) == "slow"
    )
    assert choose("alpha", crowded, idle, alpha=1.0) == "slow"


def test_alpha_prefers_a_warm_cache() -> None:
    cold, hot = instance("a"), instance("b", cached=5000)
    assert choose("alpha", cold, hot) == "b"


@pytest.mark.parametrize(
    ("placement", "saved", "expected"),
    [
        ("pool", 5000, None),
        ("instance", 0, "a"),
        ("auto", 5000, "b"),
        ("auto", 0, None),
    ],
)
def test_placement_within_a_pool(placement: str, saved: int, expected: str | None) -> None:
    pair = instance("a", pool="p"), instance("b", pool="p", cached=saved)
    assert choose("alpha", *pair, placement=placement) == expected


def test_round_robin_takes_turns() -> None:
    policy = build_dispatch("round-robin", random.Random(0))
    cluster = ClusterView(0.0, [instance("a"), instance("b", ready=False), instance("c")])
    assert [policy.choose(request(), cluster).instance for _ in range(4)] == ["a", "c", "a", "c"]


def test_random_reaches_every_instance() -> None:
    policy = build_dispatch("random", random.Random(3))
    cluster = ClusterView(0.0, [instance("a"), instance("b"), instance("c")])
    assert {policy.choose(request(), cluster).instance for _ in range(60)} == {"a", "b", "c"}


def test_power_of_two_never_takes_the_fullest_of_three() -> None:
    policy = build_dispatch("power-of-two", random.Random(3))
    full = instance("c", running=9)
    cluster = ClusterView(0.0, [instance("a"), instance("b", running=1), full])
    assert {policy.choose(request(), cluster).instance for _ in range(60)} == {"a", "b"}


def test_load_policies_read_what_they_say() -> None:
    few_long = instance("a", running=1, outstanding_output_tokens=5000.0)
    many_short = instance("b", running=3, outstanding_output_tokens=60.0)
    assert choose("least-outstanding", few_long, many_short) == "a"
    assert choose("least-work", few_long, many_short) == "b"
    assert choose("earliest-completion", few_long, many_short) == "b"
    assert choose("qlm-like", few_long, many_short) == "b"


def test_speed_policies_read_the_profile() -> None:
    slow, fast = instance("slow", SLOW), instance("fast", FAST, running=1)
    assert choose("fastest", slow, fast) == "fast"
    assert choose("fastest", fast, instance("other", FAST)) == "other"
    assert choose("least-outstanding", slow, fast) == "slow"
    # Twice as slow: one request ahead makes the fast one just as late as the idle slow one.
    assert choose("shortest-expected-delay", slow, instance("fast", FAST)) == "fast"


def test_prefix_affinity_gives_way_beyond_its_limit() -> None:
    cold = instance("cold")
    assert choose("prefix-affinity", cold, instance("hot", running=4, cached=5000)) == "hot"
    assert choose("prefix-affinity", cold, instance("hot", running=5, cached=5000)) == "cold"


def test_vtc_counts_each_tenant_apart() -> None:
    policy = build_dispatch("vtc", random.Random(0))
    cluster = ClusterView(0.0, [instance("a"), instance("b")])
    light = request(tenant="light", input_tokens=10, output_tokens=1.0)
    heavy = request(tenant="heavy")
    chosen = [policy.choose(one, cluster).instance for one in (heavy, heavy, light, heavy)]
    assert chosen == ["a", "b", "a", "a"]


def test_published_form_balances_waiting_work() -> None:
    idle, queued = instance("slow", SLOW), instance("fast", FAST, waiting_exec_seconds=50.0)
    assert choose("published", idle, queued, alpha=0.0) == "slow"
    assert choose("published", idle, queued, alpha=1.0) == "fast"


def test_published_form_may_count_what_runs() -> None:
    busy = instance("fast", FAST, running=5, running_output_tokens=3000.0)
    slow = instance("slow", SLOW)
    assert choose("published", busy, slow, alpha=0.0) == "fast"
    assert choose("published", busy, slow, alpha=0.0, count_running=True) == "slow"


def test_published_code_balances_work_ever_assigned() -> None:
    slow = instance("slow", SLOW, assigned_seconds=10.0)
    fast = instance("fast", FAST, assigned_seconds=100.0)
    assert choose("published-code", slow, fast, alpha=0.0) == "slow"
    assert choose("published-code", slow, fast, alpha=1.0) == "fast"


def test_unknown_names_and_parameters_are_explained() -> None:
    with pytest.raises(UnknownName, match=r"unknown dispatch policy 'alfa'; choose one of: alpha"):
        build_dispatch("alfa", random.Random(0))
    with pytest.raises(InvalidParameter, match="alpha has no parameter 'beta'; its parameters"):
        build_dispatch("alpha", random.Random(0), beta=1.0)
    with pytest.raises(InvalidParameter, match=r"alpha must lie between 0 and 1, got 1\.5"):
        build_dispatch("published", random.Random(0), alpha=1.5)
    with pytest.raises(InvalidParameter, match="patience must not be negative"):
        build_dispatch("alpha", random.Random(0), patience=-1.0)
    with pytest.raises(InvalidParameter, match="placement must be one of"):
        build_dispatch("alpha", random.Random(0), placement="rack")


@pytest.mark.parametrize("name", DISPATCH.names())
def test_every_policy_documents_itself(name: str) -> None:
    entry = DISPATCH.entry(name)
    assert entry.summary
    module = __import__(entry.factory.__module__, fromlist=["_"])
    for heading in ("Why:", "What:", "Inputs:", "Config:", "Trade-offs:"):
        assert heading in (module.__doc__ or "")
