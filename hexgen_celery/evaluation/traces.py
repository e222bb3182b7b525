"""What became of each question of a run, as lines of a file that a run can be taken up from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hexgen_celery.answers import Answer, Outcome
from hexgen_celery.evaluation.questions import GoldQuestion
from hexgen_celery.slo_report import Ending
from hexgen_celery.workflows.definition import Json

LOST = "lost"
_LEFT_OUT = ("rows", "columns")
"""Of an answer's detail: gold and prediction are run again to be compared."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One question's end. `detail` is all that the answer or failure told, but for its rows."""

    key: str
    database: str
    difficulty: str
    question: str
    status: str
    sql: str = ""
    latency_seconds: float | None = None
    deadline_met: bool = False
    detail: Json = field(default_factory=dict)

    @classmethod
    def of(cls, question: GoldQuestion, outcome: Outcome | None) -> Trace:
        """The trace of an outcome; None is a question that never ended."""
        place = (question.key, question.database, question.difficulty, question.question)
        if outcome is None:
            return cls(*place, status=LOST)
        detail = {name: value for name, value in outcome.detail.items() if name not in _LEFT_OUT}
        answered = isinstance(outcome, Answer)
        return cls(
            *place,
            status="answered" if answered else outcome.status,  # type: ignore[union-attr]
            sql=outcome.sql if isinstance(outcome, Answer) else "",
            latency_seconds=outcome.latency_seconds,
            deadline_met=isinstance(outcome, Answer) and outcome.deadline_met,
            detail=detail,
        )

    @property
    def ending(self) -> Ending:
        """The trace as the report of deadlines counts it."""
        return Ending(self.difficulty, self.status, self.latency_seconds, self.deadline_met)

    @property
    def candidates(self) -> list[Json]:
        """The candidates that were considered."""
        return list(self.detail.get("candidates") or ())


class TraceFile:
    """`traces.jsonl` of a run: one line per question that has ended."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Trace]:
        """Traces by question key. A last line that was cut off counts as not written."""
        return {trace.key: trace for trace in self._lines()}

    def append(self, trace: Trace) -> None:
        """Add one line, at once on disk."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(trace), ensure_ascii=False, default=str) + "\n")

    def _lines(self) -> Iterator[Trace]:
        if not self._path.is_file():
            return
        text = self._path.read_text(encoding="utf-8")
        if not text.endswith("\n"):
            text = text[: text.rfind("\n") + 1]
            self._path.write_text(text, encoding="utf-8")
        for line in text.splitlines():
            fields: dict[str, Any] = json.loads(line)
            yield Trace(**fields)
