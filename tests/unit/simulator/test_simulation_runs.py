"""Whole runs: what must hold whatever the policy, and what incidents do."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hexgen_celery.core.dispatch import DISPATCH
from hexgen_celery.core.fleet import Fleet
from hexgen_celery.core.order import ORDER
from hexgen_celery.errors import InvalidWorkload
from hexgen_celery.simulator import (
    RECORDED,
    ChatLoad,
    Choice,
    Incident,
    IncidentKind,
    Policies,
    SimulationResult,
    SloClass,
    Tenant,
    fastest_seconds,
    run,
)
from hexgen_celery.simulator.forecast import Forecast
from hexgen_celery.simulator.observation import Observer
from hexgen_celery.simulator.plan import QuestionPlan
from hexgen_celery.simulator.population import draw_population
from hexgen_celery.simulator.simulation import Simulation
from hexgen_celery.workloads import Workload
from tests.unit.simulator.small_world import FLEET, WORKLOAD, config, policies, question


def comparable(result: SimulationResult) -> SimulationResult:
    return replace(result, wall_seconds=0.0)


def test_a_question_alone_takes_its_critical_path() -> None:
    one = Fleet("one", "m", FLEET.instances[:1])
    workload = Workload("w", (question("q", 2, "test"),))
    alone = config(
        rate=0.001,
        workload=workload,
        fleet=one,
        questions=2,
        warmup=1,
        cooldown=0,
        databases=1,
        arrivals=Choice("regular"),
        keep_requests=True,
    )
    result = run(alone)
    bound = fastest_seconds(workload.questions[0], one)
    # Prefixes are cached up to a part of a block; the candidates share the instance for a while.
    assert bound <= result.percentile(0.5) < 1.25 * bound
    serial = [r for r in result.requests if r.step in ("link", "revise", "judge")]
    for record in serial:
        assert record.claimed == record.ready


def test_runs_are_repeatable_and_seeds_matter() -> None:
    assert comparable(run(config())) == comparable(run(config()))
    assert run(config(seed=1)).questions != run(config()).questions


def test_policies_and_rates_see_the_same_questions() -> None:
    def drawn(result: SimulationResult) -> list[tuple[str, str, str]]:
        return [(q.question, q.database, q.slo_class) for q in result.questions]

    first = run(config(policies=policies("round-robin")))
    second = run(config(rate=1.0, policies=policies("alpha", "latest-start")))
    assert drawn(first) == drawn(second)
    times = [q.submitted for q in first.questions]
    assert [2 * q.submitted for q in second.questions] == pytest.approx(times)


@pytest.mark.parametrize("dispatch", DISPATCH.names())
def test_every_dispatch_policy_answers_everything(dispatch: str) -> None:
    result = run(config(policies=policies(dispatch), keep_requests=True))
    assert result.unanswered == 0
    assert len(result.questions) == 60
    assert all(q.latency >= q.fastest_seconds for q in result.questions)
    assert result.throughput <= result.bounds.throughput


@pytest.mark.parametrize("order", ORDER.names())
@pytest.mark.parametrize("admission", ["allowance", "fixed-slots"])
def test_every_order_answers_everything_even_in_overload(order: str, admission: str) -> None:
    chosen = Policies(
        dispatch=Choice("least-work"), order=Choice(order), admission=Choice(admission)
    )
    result = run(config(rate=6.0, policies=chosen))
    assert result.unanswered == 0
    assert len({q.number for q in result.questions}) == 60


def test_requests_run_in_the_order_of_the_dag() -> None:
    result = run(config(rate=2.0, keep_requests=True))
    ends: dict[tuple[str, str], list[float]] = {}
    for record in result.requests:
        assert record.ready <= record.claimed <= record.first_token <= record.finished
        ends.setdefault((record.workflow_id, record.step), []).append(record.finished)
    for record in result.requests:
        if record.step in ("one", "two"):
            assert record.ready == ends[record.workflow_id, "link"][0]
        if record.step == "judge":
            earlier = ("one", "two", "revise")
            assert record.ready == max(
                end for step in earlier for end in ends.get((record.workflow_id, step), [0.0])
            )


def test_the_ledger_returns_to_zero() -> None:
    settings = config(
        rate=3.0,
        policies=policies("alpha", "latest-start", placement="pool"),
        incidents=(
            Incident(5.0, "fast-1", IncidentKind.DOWN),
            Incident(12.0, "fast-1", IncidentKind.UP),
        ),
    )
    forecast = Forecast(FLEET)
    forecast.train(QuestionPlan.of(line) for line in WORKLOAD.part("train"))
    population = draw_population(settings, 4.0)
    simulation = Simulation(settings, population, forecast, Observer((1.0, 9.0)))
    simulation.run()
    for server in simulation.servers.values():
        view = server.view
        assert (view.running, view.waiting, view.kv_used_tokens) == (0, 0, 0)
        assert (view.outstanding_prefill_tokens, view.outstanding_output_tokens) == (0, 0)
        assert (view.running_output_tokens, view.running_context_tokens) == (0, 0)
        assert view.waiting_exec_seconds == 0
        assert server.engine.kv_used_tokens == 0
        load = server.load()
        assert (load.running, load.kv_tokens, load.prefill_tokens) == (0, 0, 0)


def test_a_lost_instance_has_its_requests_tried_again_elsewhere() -> None:
    down, up = 15.0, 30.0
    result = run(
        config(
            rate=1.5,
            keep_requests=True,
            incidents=(
                Incident(up, "fast-1", IncidentKind.UP),
                Incident(down, "fast-1", IncidentKind.DOWN),
            ),
        )
    )
    assert result.unanswered == 0
    assert any(record.attempt == 2 for record in result.requests)
    there = [record for record in result.requests if record.instance == "fast-1"]
    assert there
    assert not [r for r in there if down <= r.claimed < up or r.claimed < down < r.finished]
    assert any(record.claimed >= up for record in there)


def test_a_drained_instance_ends_its_work_and_takes_no_more() -> None:
    result = run(
        config(
            rate=1.5, keep_requests=True, incidents=(Incident(20.0, "fast-1", IncidentKind.DRAIN),)
        )
    )
    there = [record for record in result.requests if record.instance == "fast-1"]
    assert there
    assert all(record.claimed <= 20.0 and record.attempt == 1 for record in there)
    assert max(record.finished for record in there) > 20.0
    assert result.unanswered == 0


def test_an_added_instance_is_used_from_then_on() -> None:
    result = run(
        config(rate=1.5, keep_requests=True, incidents=(Incident(20.0, "fast-2", IncidentKind.UP),))
    )
    starts = [record.claimed for record in result.requests if record.instance == "fast-2"]
    assert starts
    assert min(starts) >= 20.0


def test_requests_wait_while_nothing_is_ready() -> None:
    names = [instance.name for instance in FLEET.instances]
    incidents = [Incident(10.0, name, IncidentKind.DOWN) for name in names]
    incidents.append(Incident(50.0, "slow-1", IncidentKind.UP))
    result = run(config(keep_requests=True, incidents=tuple(incidents)))
    assert result.unanswered == 0
    assert not [r for r in result.requests if 10.0 < r.claimed < 50.0]
    never = run(config(incidents=tuple(incidents[:3])))
    assert never.unanswered > 0
    assert math.isinf(never.percentile(0.99))
    assert never.summary()["p99"] is None


def test_a_pool_queue_is_served_by_all_its_instances() -> None:
    chosen = policies("alpha", "latest-start", placement="pool")
    result = run(config(rate=3.0, policies=chosen, keep_requests=True))
    used = {record.instance for record in result.requests}
    assert {"fast-1", "fast-2"} <= used
    assert result.unanswered == 0


def test_what_waits_for_a_lost_pool_moves_on() -> None:
    chosen = Policies(
        dispatch=Choice("alpha", {"placement": "pool"}),
        order=Choice("least-laxity"),
        admission=Choice("fixed-slots", {"slots": 1}),
    )
    incidents = tuple(Incident(12.0, f"fast-{n}", IncidentKind.DOWN) for n in (1, 2))
    result = run(config(rate=2.0, policies=chosen, incidents=incidents, keep_requests=True))
    assert result.unanswered == 0
    late = {r.instance for r in result.requests if r.claimed > 12.0}
    assert late == {"slow-1"}
    assert any(r.ready < 12.0 < r.claimed and r.attempt == 1 for r in result.requests)


def test_an_idle_instance_may_steal() -> None:
    # Everything is sent to the first instance, which may hold one request at a time.
    chosen = Policies(
        dispatch=Choice("fastest"),
        order=Choice("fcfs"),
        admission=Choice("fixed-slots", {"slots": 1}),
    )
    alone = run(config(rate=1.0, policies=chosen, keep_requests=True))
    thieves = replace(chosen, stealing=Choice("most-urgent", {"margin_seconds": 0.1}))
    shared = run(config(rate=1.0, policies=thieves, keep_requests=True))
    assert {r.instance for r in alone.requests} < {r.instance for r in shared.requests}
    assert shared.percentile(0.5) < alone.percentile(0.5)


def test_chat_load_slows_questions_and_is_counted_apart() -> None:
    quiet = run(config())
    busy = run(config(chat=ChatLoad(rate=8.0, slo_seconds=5.0)))
    assert quiet.chat is None
    assert busy.chat is not None
    assert busy.chat.requests > 500
    assert 0.0 < busy.chat.attainment <= 1.0
    assert busy.percentile(0.5) > quiet.percentile(0.5)
    assert len(busy.questions) == len(quiet.questions)
    assert "chat_p95" in busy.summary()


def test_without_a_prefix_cache_everything_is_computed() -> None:
    assert run(config(prefix_cache=False)).cache_hits == 0.0
    with_cache = run(config())
    assert with_cache.cache_hits > 0.5
    assert with_cache.percentile(0.5) < run(config(prefix_cache=False)).percentile(0.5)


def test_without_engine_priority_what_an_engine_cannot_start_waits_as_it_came() -> None:
    narrow = replace(FLEET.instances[0].profile, max_sequences=4)
    one = Fleet("one", "m", (replace(FLEET.instances[0], profile=narrow),))
    crowded = config(
        rate=2.0,
        fleet=one,
        questions=100,
        policies=Policies(admission=Choice("fixed-slots", {"slots": 1000})),
        classes=(SloClass("urgent", 2.0, 0.2), SloClass("relaxed", 1000.0, 0.8)),
    )
    ranked, as_they_came = run(crowded), run(replace(crowded, engine_priority=False))
    assert ranked.percentile(0.5, "urgent") < 0.5 * as_they_came.percentile(0.5, "urgent")
    assert ranked.percentile(0.5, "relaxed") > 0.5 * as_they_came.percentile(0.5, "relaxed")


def test_tenants_and_classes_follow_their_shares() -> None:
    result = run(
        config(
            questions=400,
            warmup=0,
            tenants=(Tenant("a", 3.0), Tenant("b", 1.0)),
            classes=(SloClass("tight", 1.0, 1.0), SloClass("loose", 10.0, 1.0)),
        )
    )
    share = sum(q.tenant == "a" for q in result.questions) / 400
    assert 0.65 < share < 0.85
    assert result.classes == ("loose", "tight")
    assert result.attainment("loose") >= result.attainment("tight")
    for record in result.questions:
        factor = 1.0 if record.slo_class == "tight" else 10.0
        assert record.deadline == pytest.approx(record.submitted + 4.0 * factor)


def test_overload_is_called_unstable() -> None:
    assert run(config(rate=0.5, questions=200)).stable
    assert not run(config(rate=20.0, questions=200)).stable


def test_recorded_arrivals_are_replayed() -> None:
    lines = tuple(
        replace(line, arrival=100.0 + 7.0 * n, slo_seconds=3.0 if n else None, tenant="t")
        for n, line in enumerate(WORKLOAD.questions)
    )
    recorded = config(workload=Workload("r", lines), arrivals=Choice(RECORDED))
    result = run(recorded)
    assert [q.submitted for q in result.questions] == [7.0 * n for n in range(6)]
    assert result.rate == pytest.approx(1 / 7.0)
    assert result.questions[1].slo_class == "3 s"
    assert result.questions[0].slo_class in ("interactive", "relaxed")
    assert {q.tenant for q in result.questions} == {"t"}
    with pytest.raises(InvalidWorkload, match="does not say when"):
        run(replace(recorded, workload=WORKLOAD))


def test_what_the_fleet_cannot_serve_is_refused() -> None:
    small = replace(FLEET.instances[0].profile, max_model_len=2000)
    fleet = Fleet("s", "m", (replace(FLEET.instances[0], profile=small),))
    with pytest.raises(InvalidWorkload, match="holds at most 2000"):
        run(config(fleet=fleet))
    with pytest.raises(InvalidWorkload, match="split 'none'"):
        run(config(split="none"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": 0.0}, "rate"),
        ({"warmup": -1}, "warmup"),
        ({"classes": ()}, "classes"),
        ({"incidents": (Incident(1.0, "nobody", IncidentKind.DOWN),)}, "nobody"),
    ],
)
def test_a_senseless_configuration_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(**changes)  # type: ignore[arg-type]
