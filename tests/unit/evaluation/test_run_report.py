"""What a run's report counts: right answers, healed and harmed candidates, costs, savings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hexgen_celery.evaluation.questions import GoldQuestion
from hexgen_celery.evaluation.run_directory import RunIdentity
from hexgen_celery.evaluation.run_report import RunReport, statements_of
from hexgen_celery.evaluation.scoring import Verdict
from hexgen_celery.evaluation.traces import Trace
from hexgen_celery.reports.run_pages import write_run_pages
from tests.unit.evaluation.endings import answer

IDENTITY = RunIdentity("bird", {"file": "dev.json"}, {"candidates": 3}, (), {"link": "h"}, {})
RIGHT = {"good", "good 2"}


def candidate(sql: str, **changes: Any) -> dict[str, Any]:
    return {
        "candidate": 1,
        "sql": sql,
        "status": "ok",
        "row_count": 1,
        "digest": sql,
        "rounds": 0,
        "first": {"sql": sql, "status": "ok"},
        **changes,
    }


def trace(number: int, sql: str, candidates: list[dict[str, Any]], **detail: Any) -> Trace:
    question = GoldQuestion(number, "shop", f"Which | {number}?", "gold", difficulty="simple")
    stages = [{"stage": "candidate_generation"}, {"stage": "execute_sql"}]
    told = {"stages": stages, "tokens": {"input": 10, "output": 4}, "decided_by": "agreement"}
    return Trace.of(question, answer(sql, candidates=candidates, **{**told, **detail}))


def judged(traces: list[Trace]) -> dict[tuple[str, str], Verdict]:
    return {
        (key, sql): Verdict(
            key, "shop", "simple", bool(sql), sql in RIGHT, float(sql in RIGHT), "ok", "ok"
        )
        for key, sql in statements_of(traces)
    }


def report(traces: list[Trace]) -> RunReport:
    return RunReport.of(IDENTITY, traces, judged(traces))


def test_right_answers_and_those_within_reach_are_counted() -> None:
    found = report(
        [
            trace(1, "good", [candidate("good")]),
            trace(2, "bad", [candidate("bad"), candidate("good")]),
            trace(3, "bad", [candidate("bad")]),
        ]
    ).to_json()
    assert (found["correct"], found["questions"], found["reachable"]) == (1, 3, 2)
    assert found["by_database"]["shop"]["correct"] == 1


def test_corrections_repairs_and_fits_heal_and_harm() -> None:
    healed = candidate("good", rounds=1, first={"sql": "bad", "status": "error"})
    harmed = candidate("bad", rounds=1, first={"sql": "good", "status": "ok"})
    neither = candidate("bad", rounds=1, first={"sql": "worse", "status": "ok"})
    repaired = candidate("good", written="bad", repairs=["quote_name"])
    fitted = candidate("bad", written="good 2", fits=["true_division"])
    found = report([trace(1, "good", [healed, harmed, neither, repaired, fitted])])
    changes = {name: counts.to_json() for name, counts in found.changes.items()}
    assert changes == {
        "correction": {"changed": 3, "healed": 1, "harmed": 1},
        "repairs": {"changed": 1, "healed": 1, "harmed": 0},
        "fits": {"changed": 1, "healed": 0, "harmed": 1},
    }


def test_costs_are_means_per_question_that_ran() -> None:
    lost = Trace.of(GoldQuestion(3, "shop", "?", "gold"), None)
    found = report([trace(1, "good", []), trace(2, "good", []), lost]).to_json()
    assert found["requests_per_question"] == 1.0
    assert found["executions_per_question"] == 1.0
    assert (found["input_tokens_per_question"], found["output_tokens_per_question"]) == (10, 4)
    assert found["lost"] == 1
    assert found["answered"] == 2


def test_decisions_savings_and_what_was_left_out_are_added_up() -> None:
    saved = {"requests": 2, "executions": 1, "begun": 0, "tokens": 100}
    early = {"decided_by": "early_agreement", "saved": saved}
    found = report(
        [
            trace(1, "good", [], **early),
            trace(2, "good", [], **early, left_out=["unit tests"]),
            trace(3, "good", []),
        ]
    ).to_json()
    assert found["decided_by"] == {"early_agreement": 2, "agreement": 1}
    assert found["saved"]["tokens"] == 200
    assert found["left_out"] == {"unit tests": 1}


def test_the_agreement_needed_is_learnt_from_full_ballots() -> None:
    ballot = [candidate("good"), candidate("good"), candidate("bad")]
    few = report([trace(n, "good", ballot) for n in range(19)])
    assert few.agreement is None
    many = report([trace(n, "good", ballot) for n in range(20)]).to_json()
    assert many["agreement"]["needed"] == 2
    assert many["agreement"]["changed_percent"] == 0.0


@pytest.mark.parametrize("note", ["", "not the score of a model"])
def test_pages_show_tables_and_plots(tmp_path: Path, note: str) -> None:
    pytest.importorskip("matplotlib")
    found = report([trace(1, "good", [candidate("good")]), trace(2, "a | b", [candidate("x")])])
    markdown, page = write_run_pages(found, note, tmp_path)
    text, html = markdown.read_text(), page.read_text()
    assert "2 questions, 2 answered, 1 right: EX 0.500" in text
    assert "| simple | 2 | 2 | 1 | 0.500 |" in text
    assert "a \\| b" in text
    assert note in text
    assert note in html
    assert html.count("<svg") == 4
    assert "shop:2" in html
