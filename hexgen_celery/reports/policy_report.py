"""The policy comparison as tables and plots, independent of the page that shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hexgen_celery.reports import plots
from hexgen_celery.reports.campaign import Campaign, Progress
from hexgen_celery.reports.figures import Figure, Row, cells, figure, paired_ratios, rows
from hexgen_celery.reports.scenarios import (
    DEFAULT,
    LEAST_OUTSTANDING,
    ROUND_ROBIN,
    Length,
    Matrix,
    Scenario,
    Section,
)
from hexgen_celery.reports.sustained import Sustained, sustained_rates

COLUMNS = (
    "policies",
    "P50 s",
    "P95 s",
    "P95 range",
    "P99 s",
    "mean s",
    "deadlines met",
    "interactive",
    "relaxed",
    "cache hits",
    "stable",
    "P95 ÷ default",
    "busy by pool",
)

# What the paper reports against its baselines (arXiv 2505.05286).
PAPER_P95 = "1.42–1.56"
PAPER_THROUGHPUT = "1.49–1.81"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts; `note` stands below it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Chapter:
    """Tables and plots (SVG) under one heading."""

    title: str
    tables: tuple[Table, ...]
    plots: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All chapters, and the length of the runs behind them."""

    chapters: tuple[Chapter, ...]
    length: Length


def run_matrix(campaign: Campaign, matrix: Matrix, progress: Progress) -> None:
    """Make every run of the matrix that is missing, searches included."""
    every = [
        cell for section in matrix.sections for cell in cells(campaign, section, matrix.length)
    ]
    campaign.run(every, progress)
    _sustained(campaign, matrix)


def build_report(campaign: Campaign, matrix: Matrix) -> Report:
    """The report of a matrix whose runs are done."""
    sustained = _sustained(campaign, matrix)
    chapters = [_chapter(campaign, section, matrix.length) for section in matrix.sections]
    if sustained:
        chapters.insert(0, _sustained_chapter(sustained))
    chapters.insert(0, _paper_chapter(campaign, matrix, sustained))
    return Report(tuple(chapters), matrix.length)


def _sustained(campaign: Campaign, matrix: Matrix) -> list[Sustained]:
    if not matrix.searches:
        return []
    return sustained_rates(
        campaign, matrix.searches, matrix.searched, matrix.search_seeds, matrix.length
    )


def _chapter(campaign: Campaign, section: Section, length: Length) -> Chapter:
    found = rows(campaign, section, length)
    tables = [
        _scenario_table(scenario, [row for row in found if row.scenario == scenario])
        for scenario in section.scenarios
    ]
    return Chapter(section.title, tuple(tables), _section_plots(section, found))


def _scenario_table(scenario: Scenario, found: Sequence[Row]) -> Table:
    default = next((row for row in found if row.label == DEFAULT.label), None)
    first = found[0]
    note = (
        f"Nothing can beat a P95 of {first.bound_p95:.1f} s (critical path alone on the fastest "
        f"server) or {first.bound_throughput:.3f} questions/s (conservation of work). "
        f"Medians over seeds; ranges are lowest–highest."
    )
    return Table(
        title=describe(scenario, first.rate),
        columns=COLUMNS,
        rows=tuple(_row_texts(row, default) for row in found),
        note=note,
    )


def describe(scenario: Scenario, rate: float) -> str:
    """A scenario in words."""
    return (
        f"{scenario.title}: {scenario.workload} on {scenario.fleet}, D = {scenario.databases}, "
        f"load {scenario.load:g} ({rate:.3f} questions/s)"
    )


def _row_texts(row: Row, default: Row | None) -> tuple[str, ...]:
    comparable = default is not None and row.stable and default.stable
    ratio = row.p95.middle / default.p95.middle if default and comparable else math.nan
    return (
        row.label,
        number(row.p50.middle),
        number(row.p95.middle),
        f"{number(row.p95.low)}–{number(row.p95.high)}",
        number(row.p99.middle),
        number(row.mean.middle),
        percent(row.attainment.middle),
        percent(row.interactive.middle),
        percent(row.relaxed.middle),
        percent(row.cache_hits.middle),
        f"{row.stable_runs} of {row.runs}",
        "—" if math.isnan(ratio) else f"{ratio:.2f}",
        ", ".join(f"{pool} {share:.0%}" for pool, share in row.utilisation.items()),
    )


def _section_plots(section: Section, found: Sequence[Row]) -> tuple[str, ...]:
    if section.key == "loads":
        return tuple(_load_plots(found))
    if section.key in ("main", "ablation"):
        return tuple(
            _attainment_plot(scenario, [row for row in found if row.scenario == scenario])
            for scenario in section.scenarios
        )
    if section.key == "situations":
        return (_situation_plot(found),)
    return ()


def _attainment_plot(scenario: Scenario, found: Sequence[Row]) -> str:
    curves = {row.label: row.attainment_at for row in found if row.stable}
    return plots.lines(
        curves,
        title=f"{scenario.fleet}, load {scenario.load:g}",
        across="deadlines, as a multiple of the protocol's",
        up="share met",
    )


def _load_plots(found: Sequence[Row]) -> list[str]:
    fleets = list(dict.fromkeys(row.scenario.fleet for row in found))
    labels = list(dict.fromkeys(row.label for row in found))
    return [
        plots.lines(
            {
                label: sorted(
                    (row.scenario.load, row.p95.middle)
                    for row in found
                    if row.label == label and row.scenario.fleet == fleet
                )
                for label in labels
            },
            title=fleet,
            across="load (share of the capacity)",
            up="P95 latency, s",
        )
        for fleet in fleets
    ]


def _situation_plot(found: Sequence[Row]) -> str:
    groups: dict[str, dict[str, float]] = {}
    for row in found:
        if row.stable:
            groups.setdefault(row.scenario.title, {})[row.label] = row.p95.middle
    relative = {
        title: {label: p95 / group[DEFAULT.label] for label, p95 in group.items()}
        for title, group in groups.items()
        if DEFAULT.label in group
    }
    return plots.bars(relative, title="P95 relative to the default", up="ratio")


def _sustained_chapter(found: Sequence[Sustained]) -> Chapter:
    groups: dict[str, dict[str, float]] = {}
    for one in found:
        groups.setdefault(one.scenario.fleet, {})[one.label] = one.rate
    table = Table(
        title="Highest rate at which 95 % of the deadlines are met",
        columns=("cluster", "policies", "questions/s", "share of capacity", "default ÷ this"),
        rows=tuple(
            (
                one.scenario.fleet,
                one.label,
                f"{one.rate:.4f}",
                f"{one.load:.2f}",
                f"{groups[one.scenario.fleet][DEFAULT.label] / one.rate:.2f}",
            )
            for one in found
        ),
        note="Found by bisection to 2.5 %, attainment averaged over the seeds.",
    )
    plot = plots.bars(groups, title="Throughput at 95 % attainment", up="questions/s")
    return Chapter("Throughput at 95 % attainment", (table,), (plot,))


def _paper_chapter(campaign: Campaign, matrix: Matrix, sustained: Sequence[Sustained]) -> Chapter:
    """Our ratios beside the published ones, for the set-ups that resemble the paper's."""
    scenarios = matrix.sections[0].scenarios

    def p95(label: str) -> list[str]:
        return [_p95_ratio(campaign, matrix, scenario, label) for scenario in scenarios]

    def throughput(label: str) -> list[str]:
        return [_rate_ratio(sustained, scenario, label) for scenario in scenarios]

    table = Table(
        title="Against round-robin and least outstanding, beside the paper's claims",
        columns=("figure", "paper", *(scenario.fleet for scenario in scenarios)),
        rows=(
            ("P95, round-robin + FCFS ÷ default", PAPER_P95, *p95(ROUND_ROBIN.label)),
            ("P95, least outstanding + FCFS ÷ default", "—", *p95(LEAST_OUTSTANDING.label)),
            (
                "throughput, default ÷ round-robin + FCFS",
                PAPER_THROUGHPUT,
                *throughput(ROUND_ROBIN.label),
            ),
            (
                "throughput, default ÷ least outstanding + FCFS",
                "—",
                *throughput(LEAST_OUTSTANDING.label),
            ),
        ),
        note=(
            "The paper compares with vLLM behind round-robin on its own cluster and traces; its "
            "throughput is measured at its own objective, ours at 95 % of the deadlines. Ratios "
            "of P95 are medians of seed-matched pairs and are given only where both backlogs "
            "stay bounded."
        ),
    )
    return Chapter("Beside the published figures", (table,))


def _p95_ratio(campaign: Campaign, matrix: Matrix, scenario: Scenario, label: str) -> str:
    section = matrix.sections[0]
    every = [cell for cell in cells(campaign, section, matrix.length) if cell.scenario == scenario]
    rival = [cell for cell in every if cell.variant.label == label]
    ours = [cell for cell in every if cell.variant.label == DEFAULT.label]
    ratios = paired_ratios(campaign, rival, ours)
    return _with_range(figure(ratios)) if ratios else "backlog grows without bound"


def _rate_ratio(found: Sequence[Sustained], scenario: Scenario, label: str) -> str:
    rates = {one.label: one.rate for one in found if one.scenario.fleet == scenario.fleet}
    if label not in rates or DEFAULT.label not in rates:
        return "—"
    return f"{rates[DEFAULT.label] / rates[label]:.2f}"


def _with_range(value: Figure) -> str:
    return f"{value.middle:.2f} ({value.low:.2f}–{value.high:.2f})"


def number(value: float) -> str:
    """Seconds with a sensible number of digits."""
    if not math.isfinite(value):
        return "never"
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}"


def percent(value: float) -> str:
    """A share in per cent."""
    return "—" if math.isnan(value) else f"{value:.1%}"
