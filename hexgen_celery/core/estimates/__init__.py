"""What is not known in advance, learnt online: output tokens and the remaining critical path."""

from hexgen_celery.core.estimates.calibration import Calibration, calibrate
from hexgen_celery.core.estimates.critical_path import PathNode, critical_path, rounds
from hexgen_celery.core.estimates.intervals import (
    Interval,
    path_nodes,
    rounds_over,
    stage_seconds,
)
from hexgen_celery.core.estimates.outputs import OutputEstimator
from hexgen_celery.core.estimates.path import PathEstimator
from hexgen_celery.core.estimates.samples import Estimate, LearningRates

__all__ = [
    "Calibration",
    "Estimate",
    "Interval",
    "LearningRates",
    "OutputEstimator",
    "PathEstimator",
    "PathNode",
    "calibrate",
    "critical_path",
    "path_nodes",
    "rounds",
    "rounds_over",
    "stage_seconds",
]
