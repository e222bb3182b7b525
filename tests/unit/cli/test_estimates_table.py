"""How right the estimates were, as people see it."""

from __future__ import annotations

import pytest

from hexgen_celery.cli.estimates import show_estimates
from hexgen_celery.core.estimates import Calibration
from hexgen_celery.learning.store import CalibrationReport


def test_a_few_predictions_are_counted_and_not_judged_by(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first ones rest on next to nothing, and miss short questions a hundredfold."""
    judged = {
        "output tokens": Calibration(20, 0.25, -0.1, 0.8),
        "remaining seconds": Calibration(19, 30.24, 28.0, 0.1),
    }
    show_estimates(CalibrationReport(3, judged))
    shown = capsys.readouterr().out
    assert "25%" in shown
    assert "3024%" not in shown
    (short,) = (line for line in shown.splitlines() if "remaining seconds" in line)
    assert "19" in short
    assert "from 20 judged on" in shown


def test_without_few_ones_nothing_is_said_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    show_estimates(CalibrationReport(9, {"output tokens": Calibration(99, 0.25, -0.1, 0.8)}))
    assert "judged on" not in capsys.readouterr().out
