"""Traces on disk, the identity of a run, asking a number at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hexgen_celery.answers import NoAnswer, Outcome
from hexgen_celery.evaluation import asking
from hexgen_celery.evaluation.asking import Manner, ask_all
from hexgen_celery.evaluation.questions import GoldQuestion
from hexgen_celery.evaluation.run_directory import (
    RunDirectory,
    RunIdentity,
    RunMismatch,
    prompt_hashes,
    text_hash,
)
from hexgen_celery.evaluation.traces import Trace, TraceFile
from stages import build_stages
from tests.unit.evaluation.endings import answer

QUESTIONS = tuple(
    GoldQuestion(number, "shop", f"Question {number}?", "SELECT 1", f"hint {number}")
    for number in range(5)
)
IDENTITY = RunIdentity("bird", {"file": "dev.json"}, {"candidates": 3}, ("m",), {"link": "h"}, {})


def test_a_trace_keeps_everything_but_the_rows() -> None:
    trace = Trace.of(QUESTIONS[0], answer("SELECT 2", decided_by="choice"))
    assert (trace.key, trace.status, trace.sql) == ("shop:0", "answered", "SELECT 2")
    assert trace.detail["decided_by"] == "choice"
    assert not {"rows", "columns"} & set(trace.detail)
    assert trace.ending.deadline_met is True


def test_failures_and_lost_questions_are_traces_too() -> None:
    failed = NoAnswer("wf", "failed", {"stage": "self_correction", "latency_seconds": 3.0})
    trace = Trace.of(QUESTIONS[1], failed)
    assert (trace.status, trace.sql, trace.latency_seconds) == ("failed", "", 3.0)
    assert Trace.of(QUESTIONS[1], None).status == "lost"


def test_traces_are_read_again_and_a_torn_line_is_dropped(tmp_path: Path) -> None:
    file = TraceFile(tmp_path / "traces.jsonl")
    assert file.read() == {}
    first = Trace.of(QUESTIONS[0], answer("SELECT 'ü'"))
    file.append(first)
    with (tmp_path / "traces.jsonl").open("a") as raw:
        raw.write('{"key": "shop:1", "datab')
    assert file.read() == {"shop:0": first}
    file.append(Trace.of(QUESTIONS[1], None))
    assert set(file.read()) == {"shop:0", "shop:1"}


def test_a_run_is_continued_only_with_the_same_identity(tmp_path: Path) -> None:
    run = RunDirectory.open(tmp_path / "run", IDENTITY)
    run.write("summary.json", {"ex": 1})
    assert json.loads((tmp_path / "run" / "run.json").read_text())["models"] == ["m"]
    assert RunDirectory.open(tmp_path / "run", IDENTITY).path == run.path
    other = replace(IDENTITY, pipeline={"candidates": 4})
    with pytest.raises(RunMismatch) as caught:
        RunDirectory.open(tmp_path / "run", other)
    assert "other pipeline" in str(caught.value)
    assert "--out" in caught.value.hint


def test_prompts_are_named_by_their_hash() -> None:
    hashes = prompt_hashes(build_stages())
    assert set(hashes) == {"link", "candidate", "revise", "unit_tests", "choose"}
    assert len(set(hashes.values())) == 5
    assert hashes == prompt_hashes(build_stages())
    assert text_hash("a") != text_hash("b")


@dataclass
class Pending:
    id: str


@dataclass
class Client:
    """Answers questions in the order of `ends`; the others never end."""

    ends: list[str]
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    open: int = 0
    most: int = 0
    early_ends_of_waiting: int = 0

    def ask(
        self,
        question: str,
        database: str,
        slo_seconds: float | None = None,
        *,
        evidence: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> Pending:
        self.asked.append((evidence, options or {}))
        self.open += 1
        self.most = max(self.most, self.open)
        return Pending(question)

    def completed(
        self, pendings: Iterable[Pending], *, timeout: float | None = None
    ) -> Iterator[tuple[Pending, Outcome]]:
        waiting = {pending.id: pending for pending in pendings}
        if self.early_ends_of_waiting:
            self.early_ends_of_waiting -= 1
            return
        for name in self.ends:
            if name in waiting:
                self.open -= 1
                yield waiting[name], answer("SELECT 1")


def test_no_more_questions_are_open_than_allowed() -> None:
    client = Client([question.question for question in reversed(QUESTIONS)])
    manner = Manner(60.0, {"candidates": 2}, parallel=2)
    ended = [question.key for question, _ in ask_all(client, QUESTIONS, manner)]
    assert sorted(ended) == [question.key for question in QUESTIONS]
    assert client.most == 2
    assert client.asked[0] == ("hint 0", {"candidates": 2, "question_key": "shop:0"})


def test_a_wait_that_ends_early_opens_no_further_question() -> None:
    client = Client([question.question for question in QUESTIONS], early_ends_of_waiting=2)
    assert len(list(ask_all(client, QUESTIONS, Manner(60.0, {}, parallel=1)))) == len(QUESTIONS)
    assert client.most == 1


def test_a_question_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "GRACE_SECONDS", 0.0)
    client = Client(["Question 1?", "Question 2?"])
    manner = Manner(0.001, {}, parallel=2)
    outcomes = {question.key: out for question, out in ask_all(client, QUESTIONS[:3], manner)}
    assert outcomes["shop:0"] is None
    assert outcomes["shop:1"] is not None
    assert outcomes["shop:2"] is not None
