"""Scoring in a program of its own, since all of a model's SQL runs in sandboxes below it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from hexgen_celery.errors import HexgenError
from hexgen_celery.evaluation.questions import GoldQuestion
from hexgen_celery.evaluation.scoring import Verdict
from hexgen_celery.sql.execution import DatabaseFile

PROGRAM = "workers.scoring"

Statement = tuple[str, str]
"""A question's key and the SQL that is said to answer it."""


class ScoringFailed(HexgenError):
    """Raised when the scoring program ended with an error; its last line tells which."""

    code = "scoring_failed"


@dataclass(frozen=True, slots=True)
class ScoringJob:
    """What statements are judged by. `metric`: `bird` or `spider`; `timings` as in `Scorer`."""

    questions: Sequence[GoldQuestion]
    files: Mapping[str, DatabaseFile]
    metric: str = "bird"
    timings: int = 0


def score_statements(
    job: ScoringJob,
    statements: Iterable[Statement],
    on_verdict: Callable[[], None] = lambda: None,
) -> dict[Statement, Verdict]:
    """The verdict on every statement; equal ones are judged once.

    Raises:
        ScoringFailed: the scoring program did not judge them all.
    """
    every = list(dict.fromkeys(statements))
    verdicts: dict[Statement, Verdict] = {}
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(_encoded(job, every))
            process.stdin.close()
            for line in process.stdout:
                judged = json.loads(line)
                verdicts[every[judged["place"]]] = Verdict(**judged["verdict"])
                on_verdict()
        complaints.seek(0)
        if process.returncode or len(verdicts) < len(every):
            raise ScoringFailed(_cause(complaints.read(), process.returncode))
    return verdicts


def _encoded(job: ScoringJob, statements: Sequence[Statement]) -> str:
    return json.dumps(
        {
            "questions": [asdict(each) for each in job.questions],
            "files": {name: asdict(file) for name, file in job.files.items()},
            "statements": statements,
            "metric": job.metric,
            "timings": job.timings,
        }
    )


def _cause(complaints: str, code: int) -> str:
    lines = complaints.strip().splitlines()
    return f"scoring failed: {lines[-1] if lines else f'exit code {code}'}"
