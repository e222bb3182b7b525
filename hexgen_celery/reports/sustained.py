"""The highest rate at which a set of policies still meets a share of the deadlines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from hexgen_celery.reports.campaign import Campaign, Cell
from hexgen_celery.reports.scenarios import Length, Scenario, Variant


@dataclass(frozen=True, slots=True)
class SearchRules:
    """Bisection on a logarithmic scale between two shares of the capacity, down to `precision`
    (relative width); `attainment` is the mean over the seeds that must be reached."""

    attainment: float = 0.95
    lowest: float = 0.02
    highest: float = 1.3
    precision: float = 0.025


@dataclass(frozen=True, slots=True)
class Sustained:
    """The rate found, in questions per second and as a share of the capacity."""

    scenario: Scenario
    label: str
    rate: float
    load: float


def sustained_rates(
    campaign: Campaign,
    scenarios: Sequence[Scenario],
    variants: Sequence[Variant],
    seeds: int,
    length: Length,
    rules: SearchRules | None = None,
) -> list[Sustained]:
    """Search for all scenarios and variants side by side, so that every step runs in parallel."""
    rules = rules or SearchRules()
    places = campaign.places(scenarios)
    searches = [
        _Search(scenario, variant, places[scenario.place].capacity, rules)
        for scenario in scenarios
        for variant in variants
    ]
    while open_searches := [search for search in searches if not search.done]:
        steps = {search: search.cells(seeds, length) for search in open_searches}
        campaign.run([cell for step in steps.values() for cell in step])
        for search, step in steps.items():
            met = fmean(campaign.record(cell)["summary"]["attainment"] for cell in step)
            search.learn(met >= rules.attainment)
    return [search.result() for search in searches]


class _Search:
    """One bisection."""

    def __init__(
        self, scenario: Scenario, variant: Variant, capacity: float, rules: SearchRules
    ) -> None:
        self._scenario = scenario
        self._variant = variant
        self._capacity = capacity
        self._precision = rules.precision
        self._low = rules.lowest
        self._high = rules.highest

    @property
    def done(self) -> bool:
        """Whether the bracket is narrow enough."""
        return self._high / self._low <= 1.0 + self._precision

    @property
    def _middle(self) -> float:
        return math.sqrt(self._low * self._high)

    def cells(self, seeds: int, length: Length) -> list[Cell]:
        """The runs at the load in the middle of the bracket."""
        scenario = self._scenario.at(self._middle)
        rate = self._middle * self._capacity
        return [Cell(scenario, self._variant, seed, length, rate) for seed in range(seeds)]

    def learn(self, met: bool) -> None:
        """Halve the bracket."""
        if met:
            self._low = self._middle
        else:
            self._high = self._middle

    def result(self) -> Sustained:
        """The lower end of the bracket, which was met."""
        rate = self._low * self._capacity
        return Sustained(self._scenario, self._variant.label, rate, self._low)
