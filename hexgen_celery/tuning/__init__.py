"""Choosing the dispatch form and its α by replaying the recent past in the simulator."""

from hexgen_celery.tuning.decision import Decision, DecisionRules, decide
from hexgen_celery.tuning.objective import Objective, Outcome
from hexgen_celery.tuning.search import (
    Evaluation,
    Tuning,
    TuningPlan,
    candidates,
    conclude,
    evaluate,
    tune,
)
from hexgen_celery.tuning.window import Window, window_of

__all__ = [
    "Decision",
    "DecisionRules",
    "Evaluation",
    "Objective",
    "Outcome",
    "Tuning",
    "TuningPlan",
    "Window",
    "candidates",
    "conclude",
    "decide",
    "evaluate",
    "tune",
    "window_of",
]
