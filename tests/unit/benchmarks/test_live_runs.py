"""Runs of the whole stack that are kept, and the two sides that are compared."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from hexgen_celery.simulator import Policies, SimulationConfig
from tests.benchmarks import live_runs
from tests.benchmarks.agreement import SLO_SECONDS, population_of, without_expiry
from tests.benchmarks.bench_router_admission import DOCUMENT, URGENT, admission_run
from tests.benchmarks.live_runs import LiveRun
from tests.benchmarks.rows import BenchmarkSkipped
from tests.benchmarks.stack_cluster import Played
from tests.unit.simulator.small_world import config

PLAYED = Played(
    latencies={100: 5.0, 101: 7.5},
    utilisation={"fast": 0.5},
    llm_requests_per_second=3.0,
    overhead=0.02,
    waiting=0.01,
    cached_share=0.8,
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveRun:
    monkeypatch.setattr(live_runs, "KEPT", tmp_path)
    monkeypatch.setattr(live_runs, "NEW_RUNS", 0)
    return LiveRun("default", config(), speed=4.0)


def test_a_run_that_was_kept_is_read_again(run: LiveRun) -> None:
    record = {"commit": "abc", "played": asdict(PLAYED)}
    run.path.write_text(json.dumps(record), encoding="utf-8")
    assert run.played() == PLAYED
    assert run.commit == "abc"


def test_runs_beyond_those_allowed_are_left_for_later(run: LiveRun) -> None:
    with pytest.raises(BenchmarkSkipped, match=run.path.name):
        run.played()


def test_what_differs_is_kept_apart() -> None:
    policies = Policies()
    runs = [
        LiveRun("default", config(policies=policies), 4.0),
        LiveRun("other", config(policies=policies), 4.0),
        LiveRun("default", config(policies=policies, seed=1), 4.0),
        LiveRun("default", config(policies=policies, questions=61), 4.0),
        LiveRun("default", config(policies=policies), 5.0),
        LiveRun("default", config(rate=0.6, policies=policies), 4.0),
    ]
    assert len({one.path for one in runs}) == len(runs)


def test_nobody_expires_where_ends_are_compared() -> None:
    far: SimulationConfig = without_expiry(config())
    assert {one.deadline - one.at for one in population_of(far)} == {SLO_SECONDS}
    arrivals = [(one.at, one.line.question) for one in population_of(config())]
    assert [(one.at, one.line.question) for one in population_of(far)] == arrivals


def test_admission_is_tried_on_documents_and_urgent_requests() -> None:
    run = admission_run("allowance", "fcfs", seed=0)
    assert not run.config.engine_priority
    drawn = population_of(run.config)
    slos = {one.line.question: one.deadline - one.at for one in drawn}
    assert set(slos) == {DOCUMENT, URGENT}
    assert slos[URGENT] < slos[DOCUMENT]
    assert [one.number for one in drawn] == list(range(len(drawn)))
