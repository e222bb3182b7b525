"""Figures of results, bounds, the capacity search and repeats over seeds."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import pytest

from hexgen_celery.core.prefix import PrefixPart
from hexgen_celery.core.prefix_ledger import PrefixLedger
from hexgen_celery.simulator import (
    CapacitySearch,
    StabilityRule,
    capacity,
    conserved_throughput,
    idle_median_seconds,
    run,
)
from hexgen_celery.simulator.bounds import request_seconds
from hexgen_celery.simulator.capacity import highest
from hexgen_celery.simulator.forecast import Forecast
from hexgen_celery.simulator.plan import QuestionPlan
from hexgen_celery.simulator.repeats import run_seeds, summarise
from hexgen_celery.simulator.results import percentile
from hexgen_celery.workloads import WorkloadRequest
from tests.unit.simulator.small_world import FAST, FLEET, SLOW, WORKLOAD, config


def test_percentiles_interpolate() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0, 5.0], 0.5) == 3.0
    assert percentile([5.0, 1.0], 0.25) == 2.0
    assert percentile([1.0, math.inf], 0.5) == math.inf
    assert math.isnan(percentile([], 0.5))


def test_a_backlog_that_grows_with_the_arrivals_is_unstable() -> None:
    rule = StabilityRule(tolerance=0.05, slack=20.0)
    assert rule.stable([25] * 600)
    assert rule.growth([n // 10 for n in range(600)]) == pytest.approx(0.1, abs=0.01)
    assert not rule.stable([n // 10 for n in range(600)])
    assert rule.stable([n // 30 for n in range(600)])
    assert rule.stable([])


def test_one_request_alone_takes_what_the_profile_says() -> None:
    request = WorkloadRequest(0, "s", "s", (), 1000, 11, template_tokens=800)
    prefill = FAST.prefill_seconds(200, 800)
    decode = sum(FAST.decode_step_seconds(1, 1000 + step) for step in range(1, 11))
    assert request_seconds(request, FAST) == pytest.approx(prefill + decode)
    assert request_seconds(request, SLOW) > request_seconds(request, FAST)


def test_the_figures_of_a_run_agree_with_its_records() -> None:
    result = run(config(rate=2.0, questions=200))
    met = [q.latency <= q.deadline - q.submitted for q in result.questions]
    assert result.attainment() == pytest.approx(sum(met) / 200)
    assert result.attainment_at(1.0) == pytest.approx(result.attainment())
    assert result.attainment_at(0.0) == 0.0
    assert result.attainment_at(100.0) == 1.0
    assert result.percentile(0.5) <= result.percentile(0.95) <= result.percentile(0.99)
    assert result.throughput == pytest.approx(2.0, rel=0.2)
    assert set(result.utilisation) == {"fast", "slow"}
    assert all(0.0 <= share <= 1.0 for share in result.utilisation.values())
    assert all(tokens > 0.0 for tokens in result.tokens_per_step.values())
    assert result.simulated_seconds_per_second > 1
    assert result.mean > result.bounds.latency_p50 * 0.5
    assert math.isnan(result.attainment("nobody"))


def test_estimates_never_look_at_the_truth() -> None:
    forecast = Forecast(FLEET)
    forecast.train(QuestionPlan.of(line) for line in WORKLOAD.part("train"))
    plan = QuestionPlan.of(WORKLOAD.part("test")[2])
    request = plan.nodes[1].request
    longer = replace(request, output_tokens=10 * request.output_tokens)
    assert forecast.output_tokens(longer, "shop") == forecast.output_tokens(request, "shop")
    means, p10s = zip(*(forecast.remaining(node, "shop") for node in plan.nodes), strict=True)
    # What is left shrinks along the DAG: link, candidates, three corrections, judge.
    assert means[0] > means[1] > means[3] > means[-1]
    assert all(low <= mean for low, mean in zip(p10s, means, strict=True))
    assert set(forecast.stage_means()) == {"link", "generate", "correct", "judge"}


def test_the_idle_median_is_near_the_critical_path_and_found_once() -> None:
    settings = config(slo_base_seconds=None)
    base = idle_median_seconds(settings)
    assert base == idle_median_seconds(replace(settings, seed=9))
    result = run(settings)
    assert result.slo_base_seconds == base
    assert result.bounds.latency_p50 * 0.9 < base < result.bounds.latency_p50 * 1.5


def test_the_highest_value_is_found_to_the_precision() -> None:
    assert highest(lambda rate: rate <= 0.37, 1.0, 0.01) == pytest.approx(0.37, rel=0.01)


def test_capacity_lies_below_what_work_conservation_allows() -> None:
    search = CapacitySearch(precision=0.1, questions=150, warmup=30)
    found = capacity(WORKLOAD, FLEET, 5, search=search)
    assert 0.0 < found < conserved_throughput(WORKLOAD.part("test"), FLEET)
    assert found == capacity(WORKLOAD, FLEET, 5, search=search)
    assert run(config(rate=0.6 * found, questions=200)).stable


def test_seeds_are_summed_up_by_medians() -> None:
    results = run_seeds(config(slo_base_seconds=None), range(3), processes=2)
    assert [result.seed for result in results] == [0, 1, 2]
    figures = summarise(results)
    middle = sorted(result.percentile(0.95) for result in results)
    assert figures["p95"] == middle[1]
    assert figures["spread"]["p95"] == [middle[0], middle[2]]
    assert figures["seeds"] == 3
    assert figures["questions"] == 60
    assert figures["dispatch"] == "alpha"
    assert figures["stable"] is True


def test_figures_that_do_not_exist_stay_so() -> None:
    results = run_seeds(config(), range(3), processes=1)
    lost = replace(
        results[0],
        questions=tuple(replace(q, finished=math.inf) for q in results[0].questions),
    )
    assert summarise([lost, lost, results[1]])["p95"] is None
    assert summarise([lost, results[1], results[2]])["p95"] is not None
    assert summarise([lost, results[1], results[2]])["spread"]["p95"][1] is None
    assert summarise([lost])["spread"]["p95"] == [None, None]


def test_configurations_and_results_can_be_sent_to_other_processes() -> None:
    settings = config()
    assert pickle.loads(pickle.dumps(settings)) == settings
    result = run(settings)
    assert pickle.loads(pickle.dumps(result)) == result


def test_the_prefix_ledger_remembers_what_was_sent_and_forgets_the_oldest() -> None:
    ledger = PrefixLedger(replace(FAST, kv_tokens=3200))
    old, new = (PrefixPart("old", 1600),), (PrefixPart("new", 1600),)
    ledger.note(old, 1700, 10)
    assert ledger.cached_tokens(old) == 1600
    ledger.note(new, 1700, 10)
    assert ledger.cached_tokens(new) == 1600
    assert ledger.cached_tokens(old) < 1600
    ledger.note(new, 90_000, 10)
    assert ledger.cached_tokens(new) == 1600
    ledger.clear()
    assert ledger.cached_tokens(new) == 0
    assert PrefixLedger(FAST, enabled=False).cached_tokens(old) == 0
