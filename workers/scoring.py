"""`python -m workers.scoring`: runs predictions and gold in the sandbox and compares.

Standard input: one JSON object with `questions` (fields of `GoldQuestion`), `files` (database →
fields of `DatabaseFile`), `statements` (a list of question key and SQL), `metric` (`bird` or
`spider`) and `timings` (see `Scorer`). Standard output: one line of JSON per statement as it is
judged, `{"place": …, "verdict": {…}}`, in any order.
"""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from hexgen_celery.evaluation.questions import GoldQuestion
from hexgen_celery.evaluation.scoring import Match, Scorer, bird_match, spider_result_match
from hexgen_celery.sql.execution import DatabaseFile
from workers.sandbox_pool import SandboxPool

PARALLEL = 2
METRICS: dict[str, Match] = {"bird": bird_match, "spider": spider_result_match}


def score(job: dict[str, Any]) -> None:
    """Judge every statement of one job; see the module for its keys."""
    questions = {each.key: each for each in (GoldQuestion(**item) for item in job["questions"])}
    files = {name: DatabaseFile(**fields) for name, fields in job["files"].items()}
    printing = threading.Lock()
    with SandboxPool(PARALLEL) as sandbox, ThreadPoolExecutor(PARALLEL) as threads:
        scorer = Scorer(sandbox, files, match=METRICS[job["metric"]], timings=job["timings"])

        def judge(numbered: tuple[int, tuple[str, str]]) -> None:
            place, (key, sql) = numbered
            verdict = asdict(scorer.judge(questions[key], sql))
            with printing:
                sys.stdout.write(json.dumps({"place": place, "verdict": verdict}) + "\n")
                sys.stdout.flush()

        for _ in threads.map(judge, enumerate(job["statements"])):
            pass


def main() -> int:
    """Score the job on standard input."""
    score(json.load(sys.stdin))
    return 0


if __name__ == "__main__":
    sys.exit(main())
