"""`python -m workers.scoring`: runs predictions and gold in the sandbox and compares.

Standard input: one JSON object with `questions` (fields of `GoldQuestion`), `files` (database →
fields of `DatabaseFile`) and `predictions` (question key → SQL). Standard output: the score as one
JSON object.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from hexgen_celery.evaluation.questions import GoldQuestion
from hexgen_celery.evaluation.scoring import Score, Scorer
from hexgen_celery.sql.execution import DatabaseFile
from workers.sandbox_pool import SandboxPool

PARALLEL = 2


def score(job: dict[str, Any]) -> Score:
    """Score one job; see the module for its keys."""
    questions = [GoldQuestion(**fields) for fields in job["questions"]]
    files = {name: DatabaseFile(**fields) for name, fields in job["files"].items()}
    with SandboxPool(PARALLEL) as sandbox:
        return Scorer(sandbox, files, parallel=PARALLEL).score(questions, job["predictions"])


def main() -> int:
    """Score the job on standard input."""
    json.dump(score(json.load(sys.stdin)).to_json(), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
