"""How right the estimates were, for the terminal."""

from __future__ import annotations

from hexgen_celery.cli.output import console, table
from hexgen_celery.learning.store import CalibrationReport


def show_estimates(report: CalibrationReport) -> None:
    """Print a table; nothing where nothing was judged yet."""
    rows = [
        (name, each.count, f"{each.mape:.0%}", f"{each.bias:+.0%}", f"{each.coverage:.0%}")
        for name, each in report.by_estimate.items()
    ]
    if rows:
        title = f"estimates, learnt from {report.questions} questions"
        columns = ("estimate of", "judged", "error", "bias", "within p10–p90")
        console.print(table(title, columns, rows))
