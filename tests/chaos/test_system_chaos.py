"""A hundred questions in flight while each kind of process is killed in turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.chaos.system import Plan, run

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_every_question_ends_once_and_everything_is_in_the_store(tmp_path: Path) -> None:
    evidence = run(Plan(), tmp_path)
    shown = json.dumps(evidence.to_json(), indent=1)
    assert evidence.wrong == [], shown
    assert sum(evidence.outcomes.values()) == 100
    assert min(evidence.kills.values()) >= 1, shown
    assert max(evidence.in_flight_at_kills) > 50, shown
