"""Many runs in one number: medians over seeds, with their spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from hexgen_celery.reports.campaign import Campaign, Cell, Record
from hexgen_celery.reports.scenarios import Length, Scenario, Section


@dataclass(frozen=True, slots=True)
class Figure:
    """Median, lowest and highest over the seeds; infinity where a run never ended."""

    middle: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Half the range relative to the median."""
        return (self.high - self.low) / 2 / self.middle if self.middle else 0.0


def figure(values: Sequence[float | None]) -> Figure:
    """A figure of at least one value; None counts as infinite."""
    finite = [math.inf if value is None else value for value in values]
    return Figure(median(finite), min(finite), max(finite))


@dataclass(frozen=True, slots=True)
class Row:
    """One variant in one scenario. Latencies in seconds, the rest shares or per second.

    `stable_runs` of `runs` kept their backlog bounded.
    """

    scenario: Scenario
    label: str
    rate: float
    p50: Figure
    p95: Figure
    p99: Figure
    mean: Figure
    attainment: Figure
    interactive: Figure
    relaxed: Figure
    throughput: Figure
    cache_hits: Figure
    stable_runs: int
    runs: int
    utilisation: dict[str, float]
    bound_p95: float
    bound_throughput: float
    attainment_at: tuple[tuple[float, float], ...]

    @property
    def stable(self) -> bool:
        """Whether most runs kept their backlog bounded, so that the latencies mean something."""
        return 2 * self.stable_runs > self.runs


def cells(campaign: Campaign, section: Section, length: Length) -> list[Cell]:
    """All runs of a section."""
    places = campaign.places(section.scenarios)
    return [
        Cell(scenario, variant, seed, length, scenario.load * places[scenario.place].capacity)
        for scenario in section.scenarios
        for variant in section.variants
        for seed in range(section.seeds)
    ]


def rows(campaign: Campaign, section: Section, length: Length) -> list[Row]:
    """The rows of a section whose runs are done, scenario by scenario."""
    every = cells(campaign, section, length)
    groups = [every[n : n + section.seeds] for n in range(0, len(every), section.seeds)]
    return [
        row(group[0].scenario, group[0].variant.label, [campaign.record(cell) for cell in group])
        for group in groups
    ]


def row(scenario: Scenario, label: str, records: Sequence[Record]) -> Row:
    """Sum up the runs of one variant in one scenario, one per seed."""
    summaries = [record["summary"] for record in records]

    def over(read: Callable[[dict[str, Any]], float | None]) -> Figure:
        return figure([read(summary) for summary in summaries])

    first = summaries[0]
    pools = first["utilisation"]
    return Row(
        scenario=scenario,
        label=label,
        rate=first["rate"],
        p50=over(lambda s: s["p50"]),
        p95=over(lambda s: s["p95"]),
        p99=over(lambda s: s["p99"]),
        mean=over(lambda s: s["mean"]),
        attainment=over(lambda s: s["attainment"]),
        interactive=over(lambda s: s["attainment_by_class"].get("interactive", math.nan)),
        relaxed=over(lambda s: s["attainment_by_class"].get("relaxed", math.nan)),
        throughput=over(lambda s: s["throughput"]),
        cache_hits=over(lambda s: s["cache_hits"]),
        stable_runs=sum(summary["stable"] for summary in summaries),
        runs=len(summaries),
        utilisation={pool: median(s["utilisation"][pool] for s in summaries) for pool in pools},
        bound_p95=median(summary["bound_p95"] for summary in summaries),
        bound_throughput=median(summary["bound_throughput"] for summary in summaries),
        attainment_at=_curve(records),
    )


def paired_ratios(
    campaign: Campaign, slower: Sequence[Cell], faster: Sequence[Cell]
) -> list[float]:
    """P95 of the one over P95 of the other, seed by seed (common random numbers).

    Only pairs of which both kept their backlog bounded; none if they are not the majority.
    """
    pairs = [
        (campaign.record(one)["summary"], campaign.record(other)["summary"])
        for one, other in zip(slower, faster, strict=True)
    ]
    ratios = [
        one["p95"] / other["p95"] for one, other in pairs if one["stable"] and other["stable"]
    ]
    return ratios if 2 * len(ratios) > len(pairs) else []


def _curve(records: Sequence[Record]) -> tuple[tuple[float, float], ...]:
    """Mean attainment over the seeds at each SLO scale."""
    curves = [record["attainment_at"] for record in records]
    return tuple(
        (points[0][0], sum(share for _, share in points) / len(points))
        for points in zip(*curves, strict=True)
    )
