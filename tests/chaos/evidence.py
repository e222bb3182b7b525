"""The independent ledger of a chaos run, and the verdict over it. Pure.

Nothing here comes from the system under test: what was submitted is noted by the client, what ran
by the tasks in a file of their own, what was done to the system by whoever did it.
"""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

PROCESS_FAULTS = frozenset({"sigkill", "sigterm", "sigterm-twice", "sigquit", "fault-point"})
"""Faults of one process; every other is one of the server or of all connections."""


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a task: by which process, when it began and, if it did, when it ended."""

    task: str
    pid: int
    began: float
    ended: float | None


@dataclass(frozen=True, slots=True)
class Fault:
    """Something done to the system, from `at` to `until` (Unix seconds); `pid` where it hit one."""

    kind: str
    at: float
    until: float
    pid: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run came to. `unexplained` are repetitions that no fault accounts for."""

    submitted: int
    runs: int
    lost: tuple[str, ...]
    repeated: int
    unexplained: tuple[str, ...]
    faults: Mapping[str, int]
    leftovers: Mapping[str, int] = field(default_factory=dict)

    @property
    def kills(self) -> int:
        """Processes that a fault ended."""
        return sum(count for kind, count in self.faults.items() if kind in PROCESS_FAULTS)

    @property
    def clean(self) -> bool:
        """Nothing lost, every repetition explained, nothing left over."""
        return not (self.lost or self.unexplained or any(self.leftovers.values()))

    def summary(self) -> str:
        """One line for a report."""
        faults = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        left = {name: count for name, count in self.leftovers.items() if count}
        return (
            f"{self.submitted} tasks, {self.kills} processes ended ({faults}): "
            f"{len(self.lost)} lost, {self.repeated} repeated, "
            f"{len(self.unexplained)} of these unexplained, left over: {left or 'nothing'}"
        )


def runs_of(lines: Iterable[tuple[str, str, int, float]]) -> list[Run]:
    """Executions from ledger lines (event, task, pid, time), in order of their beginning."""
    open_runs: dict[tuple[str, int], float] = {}
    runs: list[Run] = []
    for event, task, pid, at in lines:
        if event != "end":
            earlier = open_runs.pop((task, pid), None)
            if earlier is not None:
                runs.append(Run(task, pid, earlier, None))
            open_runs[task, pid] = at
        elif (task, pid) in open_runs:
            runs.append(Run(task, pid, open_runs.pop((task, pid)), at))
    runs += [Run(task, pid, began, None) for (task, pid), began in open_runs.items()]
    return sorted(runs, key=lambda run: run.began)


def judge(
    submitted: Sequence[str],
    runs: Sequence[Run],
    faults: Sequence[Fault],
    leftovers: Mapping[str, int],
    lease_seconds: float,
) -> Verdict:
    """The verdict over a finished run.

    A task is lost when no execution of it ended. A further execution is explained when, after the
    earlier one began and before this one did, its process was ended, or the server or the
    connections were hit at most a lease (and a moment) before.
    """
    by_task: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_task[run.task].append(run)
    ended = {run.task for run in runs if run.ended is not None}
    pairs = [pair for each in by_task.values() for pair in itertools.pairwise(each)]
    explain = Explanations(faults, 2 * lease_seconds + 5.0)
    kinds: dict[str, int] = defaultdict(int)
    for fault in faults:
        kinds[fault.kind] += 1
    return Verdict(
        submitted=len(submitted),
        runs=len(runs),
        lost=tuple(task for task in submitted if task not in ended),
        repeated=len(pairs),
        unexplained=tuple(later.task for one, later in pairs if not explain(one, later)),
        faults=dict(kinds),
        leftovers=dict(leftovers),
    )


class Explanations:
    """Which faults can have repeated a task."""

    def __init__(self, faults: Sequence[Fault], window_seconds: float) -> None:
        self._ends = {f.pid: f for f in faults if f.kind in PROCESS_FAULTS}
        self._wide = sorted(f.until for f in faults if f.kind not in PROCESS_FAULTS)
        self._window = window_seconds

    def __call__(self, earlier: Run, later: Run) -> bool:
        """Whether a fault accounts for `later` after `earlier`."""
        end = self._ends.get(earlier.pid)
        if end is not None and earlier.began <= end.until and end.at <= later.began:
            return True
        position = bisect.bisect_left(self._wide, earlier.began - self._window)
        return position < len(self._wide) and self._wide[position] <= later.began + self._window
