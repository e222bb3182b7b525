"""The default policies against the others, after the protocol: P95 ratios at load 0.9 and rates
sustained at 95 % of the deadlines. Raw results are kept under build/policies and reused by
`hexgen bench policies`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from hexgen_celery.parallel import usable_processes
from hexgen_celery.reports.campaign import Campaign, Cell
from hexgen_celery.reports.figures import cells, paired_ratios
from hexgen_celery.reports.scenarios import (
    DEFAULT,
    LEAST_OUTSTANDING,
    LEAST_OUTSTANDING_LAXITY,
    PUBLISHED_COUNTING,
    RIVALS,
    ROUND_ROBIN,
    Scenario,
    Section,
    Variant,
    full_matrix,
)
from hexgen_celery.reports.sustained import Sustained, sustained_rates
from tests.benchmarks.rows import BenchmarkSkipped, Row, measured

PROJECT = Path(__file__).parents[2]
DATA = Path(os.environ.get("HEXGEN_DATA", PROJECT / ".." / "shared" / "data"))
RAW = PROJECT / "build" / "policies"

# P95 of the best of all the others over the default's, at least.
AGAINST_BEST = {"het-70b": 1.1, "het-30b": 1.02}


def run() -> list[Row]:
    """Rows per cluster; ratios are seed by seed, default against the other."""
    if not (DATA / "workloads").is_dir():
        raise BenchmarkSkipped(f"the shared data is absent at {DATA}")
    campaign = Campaign(RAW, DATA, usable_processes())
    matrix = full_matrix()
    main = matrix.sections[0]
    campaign.run(cells(campaign, main, matrix.length))
    sustained = sustained_rates(
        campaign, matrix.searches, matrix.searched, matrix.search_seeds, matrix.length
    )
    rows: list[Row] = []
    for scenario in main.scenarios:
        rows += _latency_rows(campaign, main, scenario)
        rows += _rate_rows([one for one in sustained if one.scenario.fleet == scenario.fleet])
    return rows


def _latency_rows(campaign: Campaign, main: Section, scenario: Scenario) -> list[Row]:
    every = [
        cell for cell in cells(campaign, main, full_matrix().length) if cell.scenario == scenario
    ]
    ours = _of(every, DEFAULT)
    ratios = _comparable(campaign, every, RIVALS)
    counting = _comparable(campaign, every, PUBLISHED_COUNTING)
    fleet = scenario.fleet
    unstable = [rival.label for rival in RIVALS if rival.label not in ratios]
    return [
        measured(f"sim.default_p95_{fleet}", [_p95(campaign, cell) for cell in ours], "s"),
        measured(
            f"sim.p95_vs_least_outstanding_laxity_{fleet}",
            ratios[LEAST_OUTSTANDING_LAXITY.label],
            "×",
            bar=1.3,
            better="higher",
        ),
        _best_row(f"sim.p95_vs_best_of_others_{fleet}", ratios, fleet, unstable=unstable),
        _best_row(f"sim.p95_vs_published_counting_running_{fleet}", counting, fleet),
    ]


def _comparable(
    campaign: Campaign, every: Sequence[Cell], rivals: Sequence[Variant]
) -> dict[str, list[float]]:
    """Ratios to the default by rival, without those whose backlog grows."""
    ours = _of(every, DEFAULT)
    ratios = {rival.label: paired_ratios(campaign, _of(every, rival), ours) for rival in rivals}
    return {label: values for label, values in ratios.items() if values}


def _best_row(name: str, ratios: dict[str, list[float]], fleet: str, **notes: object) -> Row:
    """Against the rival that comes nearest."""
    best = min(ratios, key=lambda label: median(ratios[label]))
    bar = AGAINST_BEST[fleet]
    return measured(name, ratios[best], "×", bar=bar, better="higher", best=best, **notes)


def _rate_rows(found: Sequence[Sustained]) -> list[Row]:
    fleet = found[0].scenario.fleet
    rates = {one.label: one.rate for one in found}
    ours = rates[DEFAULT.label]
    return [
        measured(f"sim.rate_at_95_{fleet}", [ours], "1/s", better="higher"),
        *(
            measured(
                f"sim.rate_at_95_vs_{name}_{fleet}",
                [ours / rates[rival.label]],
                "×",
                bar=bar,
                better="higher",
            )
            for name, rival, bar in (
                ("round_robin_fcfs", ROUND_ROBIN, 1.8),
                ("least_outstanding_fcfs", LEAST_OUTSTANDING, 1.15),
            )
        ),
    ]


def _of(every: Sequence[Cell], variant: Variant) -> list[Cell]:
    return [cell for cell in every if cell.variant.label == variant.label]


def _p95(campaign: Campaign, cell: Cell) -> float:
    return float(campaign.record(cell)["summary"]["p95"])
