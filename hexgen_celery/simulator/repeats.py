"""The same configuration under several seeds, and what they say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from hexgen_celery.parallel import map_unordered, usable_processes
from hexgen_celery.simulator.config import SimulationConfig
from hexgen_celery.simulator.results import SimulationResult
from hexgen_celery.simulator.running import idle_median_seconds, run

SPREAD = ("p50", "p95", "p99", "throughput", "attainment")


def run_seeds(
    config: SimulationConfig, seeds: Sequence[int], processes: int | None = None
) -> list[SimulationResult]:
    """Run `config` once per seed, on as many processes as this one may use cores unless told
    otherwise; results in the order of the seeds.

    Raises:
        InvalidWorkload, UnknownName, InvalidParameter: as `run`.
    """
    if config.slo_base_seconds is None:
        config = replace(config, slo_base_seconds=idle_median_seconds(config))
    configs = [replace(config, seed=seed) for seed in seeds]
    workers = min(processes or usable_processes(), len(configs))
    found = {each.seed: result for each, result in map_unordered(run, configs, workers)}
    return [found[seed] for seed in seeds]


def summarise(results: Sequence[SimulationResult]) -> dict[str, Any]:
    """Medians of the figures over the seeds; `stable` only if every run was; `spread` as
    [lowest, highest] of the main ones."""
    summaries = [result.summary() for result in results]
    figures = {name: _middle([each[name] for each in summaries]) for name in summaries[0]}
    figures["stable"] = all(each["stable"] for each in summaries)
    figures["seeds"] = len(results)
    figures["spread"] = {name: _range([each[name] for each in summaries]) for name in SPREAD}
    del figures["seed"]
    return figures


def _middle(values: Sequence[Any]) -> Any:
    """The median of numbers (None is beyond all), of tables key by key, else the first value."""
    first = values[0]
    if isinstance(first, dict):
        return {key: _middle([value[key] for value in values]) for key in first}
    if all(value == first for value in values):
        return first
    known = [value for value in values if value is not None]
    return median(known) if 2 * len(known) > len(values) else None


def _range(values: Sequence[float | None]) -> list[float | None]:
    known = [value for value in values if value is not None]
    if not known:
        return [None, None]
    return [min(known), max(known) if len(known) == len(values) else None]
