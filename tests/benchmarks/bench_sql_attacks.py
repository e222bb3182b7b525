"""The attack file against the sandbox: what part is withstood, and how long a limit is overrun."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hexgen_celery.sql.execution import ExecuteRequest
from tests.attacks.corpus import Attack, attacks
from tests.attacks.ground import QUESTION, ROWS, Ground, Outcome, attempt
from tests.benchmarks.rows import Row, measured
from workers.sandbox_pool import SandboxPool

REPEATS = 3
OVERRUN_BAR_SECONDS = 1.0


def run() -> list[Row]:
    """Percent of the attacks withstood, and the longest time beyond a statement's limit."""
    with tempfile.TemporaryDirectory(prefix="hexgen-attacks-") as directory:
        rounds = [_attack(Path(directory) / str(number)) for number in range(REPEATS)]
    withstood = [100 * sum(held for held, _ in each) / len(each) for each in rounds]
    worst = [max(overrun for _, overrun in each) for each in rounds]
    count = len(rounds[0])
    return [
        measured(
            "sql.attack_file_percent", withstood, "%", bar=100, better="higher", attacks=count
        ),
        measured("sql.attack_worst_overrun_seconds", worst, "s", bar=OVERRUN_BAR_SECONDS),
    ]


def _attack(root: Path) -> list[tuple[bool, float]]:
    """Of every attack, whether it was withstood and its seconds beyond the limit."""
    ground = Ground(root)
    before = ground.state()
    with SandboxPool(1) as pool:
        outcomes = [_one(ground, pool, ground.request(attack), attack) for attack in attacks()]
    unchanged = ground.state() == before
    return [(held and unchanged, outcome.overrun) for outcome, held in outcomes]


def _one(
    ground: Ground, pool: SandboxPool, request: ExecuteRequest, attack: Attack
) -> tuple[Outcome, bool]:
    """One attack; it is withstood if it achieved nothing, in time, and the pool answers after."""
    outcome = attempt(attack, request, pool.execute)
    alive = pool.execute(ExecuteRequest(ground.file, QUESTION)).rows == ([ROWS],)
    return outcome, alive and not outcome.failure and outcome.overrun <= OVERRUN_BAR_SECONDS
