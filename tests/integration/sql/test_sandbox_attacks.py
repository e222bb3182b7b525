"""The attack file against the sandbox alone, and as an sql worker runs it: checks, then sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.descriptions import Descriptions
from hexgen_celery.sql.execution import ExecuteRequest, ExecuteResult
from hexgen_celery.sql.profiling import profile_database
from tests.attacks.corpus import Attack, attacks
from tests.attacks.ground import (
    LIMITS,
    QUESTION,
    ROWS,
    Ground,
    Outcome,
    attempt,
    own_peak_bytes,
    peak_bytes,
)
from workers.sandbox_pool import SandboxPolicy, SandboxPool
from workers.sql_checks import StatementChecks

pytestmark = pytest.mark.integration

SAFETY_SECONDS = 10.0
MEMORY_BYTES = 512 * 1024 * 1024
OWNER_GROWTH_BYTES = 256 * 1024 * 1024
PROGRAMS = 2


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path, watched=(Path.home(),))


@pytest.fixture
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(PROGRAMS, SandboxPolicy(memory_bytes=MEMORY_BYTES)) as running:
        yield running


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    return [
        f"{each.attack.kind}/{each.attack.name}: {each.failure}"
        for each in outcomes
        if each.failure
    ]


def overruns(outcomes: Sequence[Outcome]) -> list[str]:
    late = [each for each in outcomes if each.overrun > SAFETY_SECONDS]
    return [f"{each.attack.name}: {each.overrun:.1f} s late" for each in late]


def attack_all(
    ground: Ground, pool: SandboxPool, execute: Callable[[ExecuteRequest], ExecuteResult]
) -> list[Outcome]:
    """Run every attack; after each, the pool must answer and no program be too large."""

    def one(attack: Attack) -> Outcome:
        outcome = attempt(attack, ground.request(attack), execute)
        assert pool.execute(ExecuteRequest(ground.file, QUESTION)).rows == ([ROWS],), attack.name
        assert all(peak_bytes(pid) <= MEMORY_BYTES for pid in pool.pids()), attack.name
        return outcome

    with ThreadPoolExecutor(PROGRAMS) as threads:
        return list(threads.map(one, attacks()))


def check_every_attack(
    ground: Ground, pool: SandboxPool, execute: Callable[[ExecuteRequest], ExecuteResult]
) -> None:
    before, memory = ground.state(), own_peak_bytes()
    outcomes = attack_all(ground, pool, execute)
    assert len(outcomes) >= 150
    assert failures(outcomes) == []
    assert overruns(outcomes) == []
    assert ground.state() == before
    assert own_peak_bytes() - memory < OWNER_GROWTH_BYTES


def test_every_attack_on_the_sandbox_alone_is_withstood(ground: Ground, pool: SandboxPool) -> None:
    check_every_attack(ground, pool, pool.execute)


def test_every_attack_through_checks_and_sandbox_is_withstood(
    ground: Ground, pool: SandboxPool
) -> None:
    schema = SchemaNames(profile_database(ground.file, "data", Descriptions()))

    def checked(request: ExecuteRequest) -> ExecuteResult:
        checks = StatementChecks(schema, ground.file, "", pool.execute)
        found = checks.check(request.sql)
        statement = ExecuteRequest(ground.file, found.prepared.sql, LIMITS)
        return found.refusal or pool.execute(statement)

    check_every_attack(ground, pool, checked)
