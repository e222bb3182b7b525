"""Running many simulations, resumably: every run is one JSON file that is never made twice.

Files lie in a folder named by a fingerprint of all that decides a run besides its own key (the
sources of the core and the simulator, profiles, the workload), so that old results are never taken
for new ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import hexgen_celery
from hexgen_celery.errors import InvalidWorkload
from hexgen_celery.parallel import map_unordered
from hexgen_celery.profiles_io import load_fleet, shipped_profiles
from hexgen_celery.reports.scenarios import Length, Scenario, Variant
from hexgen_celery.simulator import (
    ChatLoad,
    Incident,
    IncidentKind,
    SimulationConfig,
    SimulationResult,
    capacity,
    idle_median_seconds,
    run,
)
from hexgen_celery.workloads import Workload, read_workload

# SLO scales at which attainment is kept: 0.4, 0.5, … 3 times the protocol's deadlines.
SCALES = tuple(step / 10 for step in range(4, 31))

Record = dict[str, Any]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: situation, policies, seed, length and arrival rate (questions per second)."""

    scenario: Scenario
    variant: Variant
    seed: int
    length: Length
    rate: float

    @property
    def key(self) -> str:
        """A name for the file of the result."""
        text = json.dumps(asdict(self), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Place:
    """Capacity (questions per second) and idle median latency (seconds) of a situation."""

    capacity: float
    idle_median: float


@dataclass(frozen=True, slots=True)
class Job:
    """A cell ready to run anywhere."""

    cell: Cell
    config: SimulationConfig


@dataclass(frozen=True, slots=True)
class PlaceJob:
    """A place to be measured anywhere."""

    scenario: Scenario
    config: SimulationConfig


class Campaign:
    """Runs cells and keeps their records under `directory`; workloads come from `data`."""

    def __init__(self, directory: Path, data: Path, processes: int = 1) -> None:
        self._data = data
        self._processes = processes
        self._directory = directory / f"raw-{fingerprint(data)[:12]}"
        self._directory.mkdir(parents=True, exist_ok=True)

    @property
    def directory(self) -> Path:
        """Where the raw results of the present code are."""
        return self._directory

    def place(self, scenario: Scenario) -> Place:
        """Capacity and idle latency of a scenario; computed once and kept."""
        return self.places([scenario])[scenario.place]

    def places(self, scenarios: Iterable[Scenario]) -> dict[tuple[str, str, int, bool], Place]:
        """The places of several scenarios, missing ones computed in parallel."""
        wanted = {scenario.place: scenario for scenario in scenarios}
        missing = [scenario for place, scenario in wanted.items() if not self._place(place)]
        jobs = [PlaceJob(scenario, self._base(scenario)) for scenario in missing]
        for job, place in map_unordered(_measure_place, jobs, self._processes):
            _write(self._place_file(job.scenario.place), asdict(place))
        return {place: Place(**_read(self._place_file(place))) for place in wanted}

    def run(self, cells: Sequence[Cell], progress: Progress = lambda _done, _all: None) -> None:
        """Run every cell that has no result yet."""
        different = {cell.key: cell for cell in cells}
        missing = [cell for cell in different.values() if not self._file(cell).exists()]
        self.places(cell.scenario for cell in missing)
        jobs = [Job(cell, self._config(cell)) for cell in missing]
        done = len(different) - len(missing)
        for job, record in map_unordered(_run_job, jobs, self._processes):
            _write(self._file(job.cell), record)
            done += 1
            progress(done, len(different))

    def record(self, cell: Cell) -> Record:
        """The result of a cell that has run."""
        return _read(self._file(cell))

    def workload(self, name: str) -> Workload:
        """A canonical workload of the shared data, named by its stem."""
        return _workload(self._data, name)

    def _place(self, place: tuple[str, str, int, bool]) -> bool:
        return self._place_file(place).exists()

    def _place_file(self, place: tuple[str, str, int, bool]) -> Path:
        return self._directory / ("place-" + "-".join(map(str, place)) + ".json")

    def _file(self, cell: Cell) -> Path:
        return self._directory / f"{cell.key}.json"

    def _base(self, scenario: Scenario) -> SimulationConfig:
        return SimulationConfig(
            workload=self.workload(scenario.workload),
            fleet=load_fleet(scenario.fleet),
            rate=1.0,
            databases=scenario.databases,
            prefix_cache=scenario.prefix_cache,
        )

    def _config(self, cell: Cell) -> SimulationConfig:
        scenario = cell.scenario
        return replace(
            self._base(scenario),
            rate=cell.rate,
            policies=cell.variant.policies,
            seed=cell.seed,
            questions=cell.length.questions,
            warmup=cell.length.warmup,
            arrivals=scenario.arrivals,
            slo_base_seconds=self.place(scenario).idle_median,
            chat=ChatLoad(scenario.chat_share * cell.rate) if scenario.chat_share else None,
            incidents=_incidents(scenario, cell),
        )


def fingerprint(data: Path) -> str:
    """A hash of everything that decides the outcome of a run."""
    package = Path(hexgen_celery.__file__).parent
    sources = [
        *(package / "core").rglob("*.py"),
        *(package / "simulator").rglob("*.py"),
        *(package / "workloads").rglob("*.py"),
        *shipped_profiles().rglob("*.toml"),
        *(data / "workloads").glob("*.jsonl"),
    ]
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def _workload(data: Path, name: str) -> Workload:
    path = data / "workloads" / f"{name}.jsonl"
    if not path.exists():
        raise InvalidWorkload(
            f"there is no workload {path}",
            field="data",
            hint="set HEXGEN_DATA to the directory that holds workloads/",
        )
    return replace(read_workload(path), name=name)


def _incidents(scenario: Scenario, cell: Cell) -> tuple[Incident, ...]:
    if not scenario.lost:
        return ()
    away = [
        (cell.length.warmup + cell.length.questions * third / 3) / cell.rate for third in (1, 2)
    ]
    return (
        Incident(away[0], scenario.lost, IncidentKind.DOWN),
        Incident(away[1], scenario.lost, IncidentKind.UP),
    )


def _measure_place(job: PlaceJob) -> Place:
    config = job.config
    found = capacity(
        config.workload, config.fleet, config.databases, prefix_cache=config.prefix_cache
    )
    return Place(found, idle_median_seconds(config))


def _run_job(job: Job) -> Record:
    return _record(job.cell, run(job.config))


def _record(cell: Cell, result: SimulationResult) -> Record:
    return {
        "scenario": asdict(cell.scenario),
        "variant": cell.variant.label,
        "policies": asdict(cell.variant.policies),
        "seed": cell.seed,
        "length": asdict(cell.length),
        "summary": result.summary(),
        "attainment_at": [[scale, result.attainment_at(scale)] for scale in SCALES],
        "latencies": [round(question.latency, 2) for question in result.questions],
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    """Whole or not at all, so that an interrupted run leaves no half result."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content), encoding="utf-8")
    partial.replace(path)


def _read(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded
