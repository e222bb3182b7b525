"""Trying dispatch candidates on a window of the past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from hexgen_celery.core.dispatch import DISPATCH
from hexgen_celery.core.fleet import Fleet
from hexgen_celery.parallel import map_unordered
from hexgen_celery.simulator import (
    Choice,
    Policies,
    SimulationConfig,
    SimulationResult,
    idle_median_seconds,
    run,
)
from hexgen_celery.tuning.decision import Decision, DecisionRules, decide, smoothed
from hexgen_celery.tuning.objective import Objective, Outcome
from hexgen_celery.tuning.window import Window

# 0, 0.1, …, 1.
ALPHA_GRID = tuple(step / 10 for step in range(11))


def candidates(
    forms: Sequence[str] = ("alpha",), alphas: Sequence[float] = ALPHA_GRID
) -> tuple[Choice, ...]:
    """Every form at every α."""
    return tuple(Choice(form, {"alpha": alpha}) for form in forms for alpha in alphas)


@dataclass(frozen=True, slots=True)
class TuningPlan:
    """What to try, on what, and how hard.

    `policies` holds all but the dispatch, and in its dispatch the incumbent. Each candidate runs
    `questions` questions (after `warmup`) with each of the `seeds`, the same for all.
    """

    window: Window
    fleet: Fleet
    policies: Policies = field(default_factory=Policies)
    tried: tuple[Choice, ...] = field(default_factory=candidates)
    objective: Objective = Objective.P95
    questions: int = 500
    warmup: int = 50
    seeds: tuple[int, ...] = (0, 1, 2)
    databases: int = 1
    rules: DecisionRules = field(default_factory=DecisionRules)


@dataclass(frozen=True, slots=True)
class Tried:
    """One candidate's mean results over the seeds; `loss` in the objective's unit."""

    dispatch: Choice
    loss: float
    p95: float
    attainment: float
    stable: bool


@dataclass(frozen=True, slots=True)
class Tuning:
    """The outcome. `prediction` is what the chosen dispatch is expected to bring; `decision` says
    against which gain and with what confidence it was chosen."""

    chosen: Choice
    prediction: Tried
    incumbent: Tried
    decision: Decision
    objective: Objective
    rate: float
    tried: tuple[Tried, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "chosen": _choice_json(self.chosen),
            "moved": self.decision.moved,
            "gain": self.decision.gain,
            "gain_p10": self.decision.gain_p10,
            "gain_p90": self.decision.gain_p90,
            "confidence": self.decision.confidence,
            "objective": self.objective.value,
            "rate": self.rate,
            "prediction": _tried_json(self.prediction),
            "incumbent": _tried_json(self.incumbent),
            "tried": [_tried_json(tried) for tried in self.tried],
        }


@dataclass(frozen=True, slots=True)
class Repetition:
    """One run of one candidate, as much of it as the decision needs."""

    outcomes: tuple[Outcome, ...]
    stable: bool


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Every candidate with every seed: `runs[candidate][seed]`."""

    tried: tuple[Choice, ...]
    runs: tuple[tuple[Repetition, ...], ...]


def tune(plan: TuningPlan, processes: int = 1) -> Tuning:
    """Simulate every candidate and the incumbent, and move only if it pays beyond the noise.

    Raises:
        InvalidWorkload: if the window cannot be simulated on the fleet.
    """
    return conclude(plan, evaluate(plan, processes))


def conclude(plan: TuningPlan, evaluation: Evaluation) -> Tuning:
    """Choose among what was simulated; the plan's incumbent must be among it."""
    tried, runs = evaluation.tried, evaluation.runs
    incumbent = tried.index(plan.policies.dispatch)
    loss = partial(plan.objective.loss, rate=plan.window.rate)
    losses = [sum(loss(run.outcomes) for run in each) / len(each) for each in runs]
    outcomes = [[run.outcomes for run in each] for each in runs]
    best = _lowest(tried, losses)
    decision = decide(outcomes, incumbent, best, loss, plan.rules)
    steady = all(run.stable for run in runs[best])
    if decision.moved and not steady and decision.gain < plan.rules.least_unsteady_gain:
        decision = replace(decision, chosen=incumbent, moved=False)
    summaries = tuple(_summary(*row) for row in zip(tried, losses, runs, strict=True))
    return Tuning(
        chosen=tried[decision.chosen],
        prediction=summaries[decision.chosen],
        incumbent=summaries[incumbent],
        decision=decision,
        objective=plan.objective,
        rate=plan.window.rate,
        tried=summaries,
    )


@dataclass(frozen=True, slots=True)
class Job:
    """One candidate with one seed."""

    candidate: int
    seed: int
    config: SimulationConfig


def evaluate(plan: TuningPlan, processes: int = 1) -> Evaluation:
    """Simulate every candidate, and the incumbent if it is none of them, with every seed."""
    incumbent = plan.policies.dispatch
    tried = plan.tried if incumbent in plan.tried else (incumbent, *plan.tried)
    base = _slo_base(plan)
    jobs = [
        Job(number, seed, _config(plan, dispatch, seed, base))
        for number, dispatch in enumerate(tried)
        for seed in plan.seeds
    ]
    done = {
        (job.candidate, job.seed): repetition
        for job, repetition in map_unordered(_repetition, jobs, processes)
    }
    runs = tuple(tuple(done[number, seed] for seed in plan.seeds) for number in range(len(tried)))
    return Evaluation(tried, runs)


def _repetition(job: Job) -> Repetition:
    result = run(job.config)
    return Repetition(_outcomes(result), result.stable)


def _outcomes(result: SimulationResult) -> tuple[Outcome, ...]:
    return tuple(Outcome(q.latency, q.deadline - q.submitted) for q in result.questions)


def _slo_base(plan: TuningPlan) -> float:
    """Computed once here rather than in every process."""
    if plan.window.slo_base_seconds is not None:
        return plan.window.slo_base_seconds
    return idle_median_seconds(_config(plan, plan.policies.dispatch, 0, None))


def _config(plan: TuningPlan, dispatch: Choice, seed: int, base: float | None) -> SimulationConfig:
    window, policies = plan.window, plan.policies
    split = "test" if window.workload.part("test") else window.workload.questions[0].split
    return SimulationConfig(
        workload=window.workload,
        fleet=plan.fleet,
        rate=window.rate,
        policies=Policies(
            dispatch, policies.order, policies.admission, policies.stealing, policies.claim
        ),
        questions=plan.questions,
        warmup=plan.warmup,
        cooldown=0,
        seed=seed,
        databases=plan.databases,
        arrivals=window.arrivals,
        classes=window.classes,
        slo_base_seconds=base,
        split=split,
    )


def _lowest(tried: Sequence[Choice], losses: Sequence[float]) -> int:
    """The best candidate by losses smoothed over the neighbouring α of the same form."""
    scores: dict[int, float] = {}
    for form in dict.fromkeys(choice.name for choice in tried):
        members = sorted(
            (n for n, choice in enumerate(tried) if choice.name == form),
            key=lambda n: _alpha(tried[n]),
        )
        scores |= zip(members, smoothed([losses[n] for n in members]), strict=True)
    return min(scores, key=lambda n: (scores[n], n))


def _alpha(choice: Choice) -> float:
    """The α a candidate runs with, its form's default where it names none; 0 without an α."""
    parameters = DISPATCH.entry(choice.name).configure(dict(choice.parameters))
    return float(getattr(parameters, "alpha", 0.0))


def _summary(dispatch: Choice, loss: float, runs: Sequence[Repetition]) -> Tried:
    pooled = [outcome for repetition in runs for outcome in repetition.outcomes]
    return Tried(
        dispatch=dispatch,
        loss=loss,
        p95=Objective.P95.loss(pooled, 1.0),
        attainment=1.0 - Objective.ATTAINMENT.loss(pooled, 1.0),
        stable=all(repetition.stable for repetition in runs),
    )


def _choice_json(choice: Choice) -> dict[str, Any]:
    return {"dispatch": choice.name, **choice.parameters}


def _tried_json(tried: Tried) -> dict[str, Any]:
    return {
        **_choice_json(tried.dispatch),
        "loss": tried.loss,
        "p95": tried.p95,
        "attainment": tried.attainment,
        "stable": tried.stable,
    }
