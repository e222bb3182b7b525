"""Which of the demo's answers are right: their rows are those of the gold SQL (BIRD's EX)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hexgen_celery.answers import Answer
from hexgen_celery.cli.demo_report import DemoReport, QuestionReport, Verdict
from hexgen_celery.demo import DemoFiles
from hexgen_celery.evaluation.questions import GoldQuestion
from hexgen_celery.evaluation.scoring_process import ScoringJob, score_statements
from hexgen_celery.sql.execution import DatabaseFile


def with_verdicts(report: DemoReport, files: DemoFiles) -> DemoReport:
    """The report with a verdict on every answer.

    Raises:
        ScoringFailed: the statements could not be run again.
    """
    statements = [
        (gold.key, asked.outcome.sql)
        for gold, asked in _pairs(report, files)
        if isinstance(asked.outcome, Answer)
    ]
    database = {files.database.stem: DatabaseFile(str(files.database))}
    found = score_statements(ScoringJob(files.questions, database), statements)
    right = {key: verdict.correct for (key, _), verdict in found.items()}
    questions = [
        replace(asked, verdict=Verdict(right[gold.key], gold.gold)) if gold.key in right else asked
        for gold, asked in _pairs(report, files)
    ]
    return replace(report, questions=tuple(questions), judged=True)


def _pairs(report: DemoReport, files: DemoFiles) -> Sequence[tuple[GoldQuestion, QuestionReport]]:
    """The questions in the order of asking, which is that of the files; perhaps only the first."""
    return list(zip(files.questions, report.questions, strict=False))
