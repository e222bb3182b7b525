"""The short chaos run of the transport; `make chaos` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.campaign import Plan, run
from tests.chaos.evidence import Fault, Run, judge, runs_of

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_nothing_is_lost_and_every_repetition_is_explained(tmp_path: Path) -> None:
    verdict = run(Plan(kills=20, tasks=900), tmp_path)
    assert verdict.clean, verdict.summary()
    assert verdict.kills >= 20
    assert verdict.submitted == 900


def test_the_verdict_sees_a_loss_a_riddle_and_a_leftover() -> None:
    """A judge that cannot say no proves nothing."""
    runs = runs_of(
        [
            ("start", "a", 1, 10.0),
            ("end", "a", 1, 11.0),
            ("start", "b", 1, 12.0),
            ("start", "b", 2, 20.0),
            ("end", "b", 2, 21.0),
            ("start", "c", 2, 30.0),
            ("end", "c", 2, 31.0),
            ("start", "c", 3, 60.0),
            ("end", "c", 3, 61.0),
        ]
    )
    assert Run("b", 1, 12.0, None) in runs
    verdict = judge(["a", "b", "c", "d"], runs, [Fault("sigkill", 13.0, 13.0, 1)], {"sql": 1}, 2.0)
    assert verdict.lost == ("d",)
    assert verdict.repeated == 2
    assert verdict.unexplained == ("c",)
    assert not verdict.clean
    assert "1 lost, 2 repeated, 1 of these unexplained, left over: {'sql': 1}" in verdict.summary()


def test_a_cut_explains_what_follows_soon_and_nothing_later() -> None:
    cut = [Fault("cut", 10.0, 10.5)]

    def unexplained(began: float, again: float) -> tuple[str, ...]:
        runs = [Run("a", 1, began, began + 1), Run("a", 2, again, again + 1)]
        return judge(["a"], runs, cut, {}, 2.0).unexplained

    assert unexplained(9.5, 12.0) == ()
    assert unexplained(100.0, 130.0) == ("a",)
