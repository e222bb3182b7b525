"""What the fidelity benchmark makes of times: shares that add up, errors, files, a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexgen_celery.core.fleet import Fleet, FleetInstance
from hexgen_celery.core.profiles import Profile
from hexgen_celery.simulator import Policies
from hexgen_celery.workloads import WorkloadQuestion, WorkloadRequest
from tests.benchmarks import fidelity_report
from tests.benchmarks.fidelity_runs import FidelityRun, read_runs
from tests.benchmarks.fidelity_timeline import (
    SHARES,
    Anatomist,
    QuestionTimes,
    RequestTimes,
    share_errors,
    simulated_questions,
)
from tests.benchmarks.fidelity_workload import (
    Draw,
    Scale,
    as_the_server_sees,
    in_flight,
    predict,
    rate_for,
)

PROFILE = Profile(
    name="p",
    gpu="cpu",
    gpus=1,
    model="m",
    prefill_tokens_per_second=1000.0,
    prefill_quadratic=0.0,
    decode_base=0.05,
    decode_per_sequence=0.001,
    decode_per_context_token=0.0,
    kv_tokens=40_000,
    max_sequences=8,
    max_model_len=4096,
    block_tokens=128,
    prefill_base=0.05,
)
FLEET = Fleet("f", "m", (FleetInstance("one", "pool", PROFILE),))
LINES = [
    WorkloadQuestion(
        f"q{number}",
        "db",
        (
            WorkloadRequest(0, "schema_linking", "a", (), 1200, 160, 400, 0),
            WorkloadRequest(1, "candidate_generation", "b", (0,), 8000, 1600, 3000, 4000),
            WorkloadRequest(2, "candidate_generation", "b", (0,), 8000, 800 + number, 3000, 4000),
            WorkloadRequest(3, "evaluation", "c", (1, 2), 1000, 3, 900, 0),
        ),
    )
    for number in range(3)
]
SCALED = [Scale().question(line) for line in LINES]


def _request(ready: float, seconds: float, cached: int = 0) -> RequestTimes:
    sent = ready + 0.02
    return RequestTimes(
        ready=ready,
        claimed=ready + 0.01,
        sent=sent,
        first_token=sent + 0.4 * seconds,
        ended=sent + seconds,
        settled=sent + seconds + 0.005,
        input_tokens=300,
        output_tokens=20,
        cached_tokens=cached,
    )


@given(st.lists(st.floats(0.1, 5.0), min_size=1, max_size=8))
def test_the_shares_of_a_chain_add_up_to_its_latency(lengths: list[float]) -> None:
    requests, at = [], 1.01
    for seconds in lengths:
        requests.append(_request(at, seconds))
        at = requests[-1].settled
    question = QuestionTimes(1.0, at + 0.01, tuple(requests))
    shares = Anatomist([question], PROFILE).mean_shares()
    assert sum(shares.values()) == pytest.approx(question.latency)
    assert shares["stack"] == pytest.approx(0.02 + 0.015 * len(lengths))
    assert shares["waiting"] == pytest.approx(0.01 * len(lengths))
    assert shares["prefix cache"] == pytest.approx(0.3 * len(lengths))


def test_only_the_path_that_decided_the_latency_counts() -> None:
    first = _request(0.0, 1.0)
    short, long = _request(first.settled, 0.5), _request(first.settled, 2.0)
    question = QuestionTimes(0.0, long.settled, (first, short, long))
    assert question.path() == [long, first]


def test_a_colder_cache_shows_as_such() -> None:
    warm = QuestionTimes(0.0, _request(0.0, 2.0).settled, (_request(0.0, 2.0, cached=256),))
    cold = replace(warm, requests=(_request(0.0, 2.0),))
    errors = share_errors(Anatomist([warm], PROFILE), Anatomist([cold], PROFILE))
    assert errors["prefix cache"] == pytest.approx(100 * 0.256 / warm.latency)
    assert sum(errors.values()) == pytest.approx(0.0, abs=1e-9)


def test_lengths_are_scaled_and_stay_possible() -> None:
    linking, candidate, _, evaluation = SCALED[0].requests
    assert (candidate.input_tokens, candidate.template_tokens, candidate.schema_tokens) == (
        1000,
        375,
        500,
    )
    assert (linking.output_tokens, candidate.output_tokens) == (10, 100)
    assert evaluation.output_tokens == 1


def test_the_simulators_questions_have_no_stack() -> None:
    workload = Draw(12, 2).workload(SCALED, 0.2, 0)
    result = predict(as_the_server_sees(workload, 30), FLEET, Policies())
    questions = simulated_questions(result)
    shares = Anatomist(questions, PROFILE).mean_shares()
    assert shares["stack"] == pytest.approx(0.0, abs=1e-6)
    mean = sum(question.latency for question in questions) / len(questions)
    assert sum(shares.values()) == pytest.approx(mean)
    assert {one.input_tokens for q in questions for one in q.requests} == {180, 1030, 155}


def test_a_rate_brings_the_wanted_number_in_flight() -> None:
    draw = Draw(20, 2)
    rates = {wanted: rate_for(wanted, SCALED, draw, FLEET, 1) for wanted in (1.0, 3.0)}
    assert rates[1.0] < rates[3.0]
    for wanted, rate in rates.items():
        seen = in_flight(predict(draw.workload(SCALED, rate, 1), FLEET, Policies()))
        assert seen == pytest.approx(wanted, rel=0.25)


def test_runs_are_kept_and_reported(tmp_path: Path) -> None:
    result = predict(Draw(8, 2).workload(SCALED, 0.2, 0), FLEET, Policies())
    questions = tuple(simulated_questions(result))
    slower = tuple(replace(one, finished=one.finished + 1.0) for one in questions)
    run = FidelityRun("c2", 0, 0.2, 0.01, slower, questions)
    run.save(tmp_path / "runs")
    assert read_runs(tmp_path / "runs") == [run]
    assert 0 < run.errors()["mean"] < 100
    assert run.shares(PROFILE)["stack"] < 0
    page = fidelity_report.write(tmp_path, PROFILE, [run]).read_text()
    assert page.count("<svg") == 4
    for words in ("c2, run 1", "predicted", *SHARES):
        assert words in page
