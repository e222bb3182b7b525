"""The figures of a benchmark run for a reader at a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from hexgen_celery.cli.output import console, table


def show_run(figures: Mapping[str, Any]) -> None:
    """The figures of a run for a reader."""
    rows = [*figures["by_difficulty"].items(), ("all", figures)]
    cells = [
        (name, tally["questions"], tally["answered"], tally["correct"], f"{tally['ex']:.3f}")
        for name, tally in rows
    ]
    columns = ("difficulty", "questions", "answered", "correct", "EX")
    console.print(table("", columns, cells))
    slo = figures["slo"]
    console.print(
        f"SLO attainment {slo['attainment']:.1%} of {figures['slo_seconds']:g} s, "
        f"P50 {slo['p50_seconds'] or 0:.2f} s, P95 {slo['p95_seconds'] or 0:.2f} s"
    )
    changed = ", ".join(
        f"{name}: {counts['healed']} healed, {counts['harmed']} harmed of {counts['changed']}"
        for name, counts in figures["changes"].items()
    )
    console.print(f"candidates changed by {changed}")
    if figures["uncovered"]:
        console.print(f"{figures['uncovered']} questions without a prediction were left out")
    if figures["from_store"]:
        console.print(f"the ends of {figures['from_store']} questions come from the store")
    for stage, source in figures["replayed_stages"].items():
        console.print(Text(f"{stage}: {source}", style="dim"))
    if figures["note"]:
        console.print(Text(figures["note"], style="yellow"))
    if figures["pages_hint"]:
        console.print(f"traces and figures: {figures['directory']}", soft_wrap=True)
        hint = f"a report with plots is written there after {figures['pages_hint']}"
        console.print(Text(hint, style="dim"), soft_wrap=True)
    else:
        console.print(f"traces and report: {figures['directory']}", soft_wrap=True)
