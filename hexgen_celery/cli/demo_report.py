"""What the demo tells at its end: every answer with its SQL, then deadlines and latencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from hexgen_celery.answers import Answer, Outcome
from hexgen_celery.api import Question
from hexgen_celery.cli.output import cell, seconds
from hexgen_celery.slo_report import Ending, SloReport

ENOUGH_ANSWERED = 0.9
_SHOWN_ROWS = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer's rows are those of the gold SQL, and what that is."""

    right: bool
    gold: str


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """One question and its end; `outcome` None means that no terminal state was seen.

    `verdict` is None where nobody judged: no answer, or one that was no model's.
    """

    number: int
    slo_class: str
    question: Question
    outcome: Outcome | None
    verdict: Verdict | None = None

    @property
    def ending(self) -> Ending:
        """Its end for the report on deadlines."""
        return Ending.of(self.slo_class, self.outcome)

    def to_json(self) -> dict[str, Any]:
        """The question with rows, SQL and times as plain values."""
        end = self.outcome
        return {
            "number": self.number,
            "slo_class": self.slo_class,
            "question": self.question.question,
            "slo_seconds": self.question.slo_seconds,
            "status": self.ending.status,
            "deadline_met": self.ending.deadline_met,
            "latency_seconds": self.ending.latency_seconds,
            "sql": end.sql if isinstance(end, Answer) else getattr(end, "last_sql", ""),
            "columns": list(end.columns) if isinstance(end, Answer) else [],
            "rows": [list(row) for row in end.rows] if isinstance(end, Answer) else [],
            "cause": getattr(end, "cause", ""),
            "right": self.verdict and self.verdict.right,
        }


@dataclass(frozen=True, slots=True)
class DemoReport:
    """The whole run. Times in seconds from the moment of asking; `judged`: verdicts were sought."""

    questions: Sequence[QuestionReport]
    seconds: float
    first_answer_seconds: float | None
    judged: bool = False

    @property
    def slo(self) -> SloReport:
        """Deadlines and latencies."""
        return SloReport.of([question.ending for question in self.questions])

    @property
    def good(self) -> bool:
        """Whether every question ended and enough of them were answered."""
        slo = self.slo
        return slo.lost == 0 and slo.answered >= ENOUGH_ANSWERED * slo.questions

    @property
    def right(self) -> int | None:
        """How many answers are right; None where nobody judged."""
        if not self.judged:
            return None
        return sum(each.verdict is not None and each.verdict.right for each in self.questions)

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            **self.slo.to_json(),
            "right": self.right,
            "good": self.good,
            "seconds": round(self.seconds, 3),
            "first_answer_seconds": self.first_answer_seconds,
            "results": [question.to_json() for question in self.questions],
        }


def show_report(console: Console, report: DemoReport) -> None:
    """Print every question, then the summary."""
    for question in report.questions:
        _show_question(console, question)
    slo = report.slo
    console.print(
        f"\n{slo.answered} of {slo.questions} answered in {report.seconds:.1f} s "
        f"(first after {seconds(report.first_answer_seconds)}), {slo.lost} without an end",
        style="bold",
    )
    if report.right is not None:
        console.print(
            f"{report.right} of {slo.questions} right (the rows of the gold SQL)",
            style="bold",
        )
    console.print(f"latency P50 {seconds(slo.p50_seconds)}, P95 {seconds(slo.p95_seconds)}")
    classes = ", ".join(f"{name} {share:.1%}" for name, share in slo.attainment_by_class.items())
    console.print(f"SLO attainment {slo.attainment:.1%} ({classes})")


def _show_question(console: Console, report: QuestionReport) -> None:
    end = report.outcome
    ending = report.ending
    verdict = "deadline met" if ending.deadline_met else "deadline missed"
    head = Text.assemble(
        (f"#{report.number:<3}", "bold"),
        f"{report.slo_class} {report.question.slo_seconds:g} s, {ending.status}, ",
        (verdict, "green" if ending.deadline_met else "red"),
        f", {seconds(ending.latency_seconds)}: ",
        (report.question.question, "bold"),
    )
    console.print(head, soft_wrap=True)
    if isinstance(end, Answer):
        console.print(Text(f"    {' '.join(end.sql.split())}", style="cyan"), soft_wrap=True)
        console.print(Text(f"    {_rows(end)}"), soft_wrap=True)
        _show_verdict(console, report.verdict)
    elif end is not None:
        console.print(Text(f"    {end.cause}", style="red"), soft_wrap=True)


def _show_verdict(console: Console, verdict: Verdict | None) -> None:
    if verdict is None:
        return
    right = Text("    right: the rows of the gold SQL", style="green")
    wrong = Text(f"    wrong: not the rows of the gold SQL, {verdict.gold}", style="red")
    console.print(right if verdict.right else wrong, soft_wrap=True)


def _rows(answer: Answer) -> str:
    shown = " | ".join(", ".join(map(cell, row)) for row in answer.rows[:_SHOWN_ROWS])
    more = " | …" if len(answer.rows) > _SHOWN_ROWS else ""
    count = len(answer.rows)
    return f"{count} row{'' if count == 1 else 's'}: {shown}{more}"
