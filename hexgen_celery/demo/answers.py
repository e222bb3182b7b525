"""What the emulated model answers to the demo's questions: right, wrong, failing and empty SQL.

Each question follows one of a few plots, so that self-correction has errors and empty results to
heal (some stay broken) and evaluation has disagreements to settle (some it settles wrongly). Schema
linking names the tables that the gold statement reads. None of this measures a model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from hexgen_celery.demo.questions import DemoQuestion
from hexgen_celery.evaluation.replay import (
    CANDIDATE,
    CHOICE,
    REVISION,
    UNIT_TESTS,
    ReplayRecord,
    fenced,
    linking_record,
    sql_record,
    tables_of,
)


class Kind(Enum):
    """The SQL of one answer, as a field of `DemoQuestion`."""

    GOLD = "gold"
    WRONG = "wrong"
    BROKEN = "broken"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Plot:
    """Each candidate's answers (the first writing, then every revision) and the model's choice."""

    candidates: tuple[tuple[Kind, ...], ...]
    choice: int = 1


GOLD, WRONG, BROKEN, EMPTY = Kind.GOLD, Kind.WRONG, Kind.BROKEN, Kind.EMPTY

PLOTS = (
    Plot(((GOLD,), (BROKEN, GOLD), (WRONG,), (GOLD,))),
    Plot(((GOLD,), (GOLD,), (GOLD,), (BROKEN, GOLD))),
    Plot(((WRONG,), (GOLD,), (BROKEN, BROKEN, GOLD), (GOLD,))),
    Plot(((BROKEN, GOLD), (GOLD,), (GOLD,), (WRONG,))),
    Plot(((WRONG,), (BROKEN, WRONG), (GOLD,), (GOLD,)), choice=2),
    Plot(((GOLD,), (WRONG,), (GOLD,), (BROKEN, BROKEN, BROKEN))),
    Plot(((GOLD,), (GOLD,), (BROKEN, BROKEN, BROKEN), (GOLD,))),
    Plot(((WRONG,), (BROKEN, WRONG), (WRONG,), (WRONG,))),
)
EMPTY_PLOT = Plot(((EMPTY, GOLD), (GOLD,), (WRONG,), (EMPTY, EMPTY, GOLD)))

LEAD_INS = (
    "{sql}",
    "The question needs a query over the tables named in the schema.\n\n{sql}",
    "<think>\nWhich columns are asked for? Only those.\n</think>\n\n{sql}\n\nThis answers it.",
    "Here is the query:\n\n{sql}\n\nIt joins over the foreign keys.",
)


def demo_replay(questions: Iterable[DemoQuestion]) -> Iterator[ReplayRecord]:
    """The recorded answers of every stage for every question."""
    for question in questions:
        yield from _records(question, _plot(question))


def _plot(question: DemoQuestion) -> Plot:
    return EMPTY_PLOT if question.empty else PLOTS[question.number % len(PLOTS)]


def _records(question: DemoQuestion, plot: Plot) -> Iterator[ReplayRecord]:
    key = question.gold_question.key
    yield linking_record(key, tables_of(question.gold))
    for number, answers in enumerate(plot.candidates, 1):
        for turn, kind in enumerate(answers):
            place, index = (REVISION, f"{number}.{turn}") if turn else (CANDIDATE, f"{number}")
            text = _completion(getattr(question, kind.value), question.number + number + turn)
            yield sql_record(key, place, index, text)
    tests = {"tests": [f"The answer must answer exactly this: {question.question}"]}
    yield ReplayRecord(key, *UNIT_TESTS, "1", json.dumps(tests, ensure_ascii=False))
    choice = {"choice": plot.choice, "reason": "it returns the columns that the question asks for"}
    yield ReplayRecord(key, *CHOICE, "1", json.dumps(choice))


def _completion(sql: str, variety: int) -> str:
    return LEAD_INS[variety % len(LEAD_INS)].format(sql=fenced(sql))
