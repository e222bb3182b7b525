"""`hexgen up` records what it answers, in a SQLite file of its own."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hexgen_celery.store.questions import stored_outcome

from .conftest import RunningCluster

pytestmark = pytest.mark.integration

PATIENCE_SECONDS = 30.0


def test_a_question_is_in_the_store_soon_after_its_end(cluster: RunningCluster, shown: Any) -> None:
    options = {"question_key": "cities:disputed", "candidates": 3}
    answer = cluster.client.ask("Which cities?", "cities", 60, options=options).result(60)
    reader = cluster.client.past
    assert reader is not None
    until = time.monotonic() + PATIENCE_SECONDS
    while (found := reader.question(answer.id)) is None or not found.workflow["complete"]:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert sorted(row["number"] for row in found.candidates) == [1, 2, 3]
    assert sum(row["chosen"] for row in found.candidates) == 1
    assert {row["node"] for row in found.decisions} >= {row["node"] for row in found.requests}
    outcome = stored_outcome(found)
    assert outcome is not None
    left_out = ("rows", "columns", "stages", "truncated")
    told = {name: value for name, value in answer.detail.items() if name not in left_out}
    assert {name: outcome.detail.get(name) for name in told} == told
    assert cluster.hexgen("status", "--history", "--json") == 0
    assert answer.id in [row["id"] for row in shown.json["questions"]]
    assert cluster.hexgen("store", "status", "--json") == 0
    assert shown.json["rows"]["workflows"] >= 1
