"""`hexgen prompts show`, and stored values on the way of a real question."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import RunningCluster

pytestmark = pytest.mark.integration


def test_every_prompt_is_shown_part_by_part(cluster: RunningCluster, shown: Any) -> None:
    arguments = ("prompts", "show", "--db", "cities", "--question", "How large is reykjavik?")
    assert cluster.hexgen(*arguments) == 0
    text = shown.text
    for part in (
        "═══ schema_linking link: about",
        "─── part 1 of 3: instructions (system)",
        "─── part 2 of 3: schema (user)",
        "CREATE TABLE city",
        "city.name: 'Reykjavík'",
        "self_correction revise (example)",
    ):
        assert part in text
    assert cluster.hexgen(*arguments, "--counts", "--only", "candidate") == 0
    counts = shown.text
    assert "CREATE TABLE" not in counts
    assert "schema_linking" not in counts
    assert counts.count("candidate_generation") == 3
    assert cluster.hexgen(*arguments, "--json") == 0
    first, *_ = shown.json
    assert first["tokens"] == sum(part["tokens"] for part in first["parts"])


def test_an_unknown_database_is_named(cluster: RunningCluster, shown: Any) -> None:
    assert cluster.hexgen("prompts", "show", "--db", "citys") == 2
    assert "Did you mean cities?" in shown.error


def test_a_real_question_gets_stored_values(cluster: RunningCluster, shown: Any) -> None:
    key = ("-o", "question_key=cities:all", "-o", "linking=rules")
    assert cluster.hexgen("ask", "Where is Tokyo?", "--db", "cities", *key, "--json") == 0
    answer = shown.json
    (value,) = answer["linked"]["values"]
    assert (value["table"], value["column"], value["value"]) == ("city", "name", "Tokyo")
    assert answer["linked"]["by_rules"] is True
