"""How right the estimates were, for the terminal."""

from __future__ import annotations

from hexgen_celery.cli.output import console, table
from hexgen_celery.core.estimates import Calibration
from hexgen_celery.core.estimates.calibration import LEAST_JUDGED
from hexgen_celery.learning.store import CalibrationReport


def show_estimates(report: CalibrationReport) -> None:
    """Print a table; nothing where nothing was judged yet."""
    rows = [(name, each.count, *_figures(each)) for name, each in report.by_estimate.items()]
    if rows:
        title = f"estimates, learnt from {report.questions} questions"
        columns = ("estimate of", "judged", "error", "bias", "within p10–p90")
        console.print(table(title, columns, rows))
    if not all(each.telling for each in report.by_estimate.values()):
        console.print(f"figures of estimates are shown from {LEAST_JUDGED} judged on")


def _figures(known: Calibration) -> tuple[str, str, str]:
    if not known.telling:
        return ("—", "—", "—")
    return (f"{known.mape:.0%}", f"{known.bias:+.0%}", f"{known.coverage:.0%}")
