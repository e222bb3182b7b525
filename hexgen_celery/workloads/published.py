"""The raw format of the HexGen-Flow authors' traces: steps in order, without edges or parts.

What is missing is rebuilt from CHESS, the workflow that was traced. Edges: the two candidates of a
question run in parallel, as do its evaluations; everything else follows what came before. Parts:
each step's prompt begins with a fixed template; where a schema follows it, all questions of a file
share that schema, so its size is what the shortest candidate prompt has beside its template.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hexgen_celery.errors import InvalidWorkload
from hexgen_celery.workloads.canonical import parse_question
from hexgen_celery.workloads.model import WorkloadQuestion

REQUESTS_FIELD = "Text2SQLRequest"
CANDIDATE = "generate_candidate"


@dataclass(frozen=True, slots=True)
class PublishedStep:
    """What is known of a traced step. `template_tokens` were found by comparing prompts."""

    stage: str
    template_tokens: int
    schema_follows: bool = False
    parallel: bool = False


STEPS: Mapping[str, PublishedStep] = {
    "information_retriever": PublishedStep("schema_linking", 213),
    "extract_keywords": PublishedStep("schema_linking", 630),
    "generate_candidate_1": PublishedStep("candidate_generation", 9158, True, parallel=True),
    "generate_candidate_2": PublishedStep("candidate_generation", 5292, True, parallel=True),
    "revise": PublishedStep("self_correction", 3059, schema_follows=True),
    "unit_tester": PublishedStep("evaluation", 213),
    "generate_unit_test": PublishedStep("evaluation", 436),
    "evaluate": PublishedStep("evaluation", 261, parallel=True),
}

# Of the questions of a published file two in three serve to learn from, by a hash of the question.
TRAINING_SHARE = (2, 3)


def is_published(document: object) -> bool:
    """Whether a parsed JSON document is in this format."""
    return (
        isinstance(document, list)
        and bool(document)
        and isinstance(document[0], Mapping)
        and REQUESTS_FIELD in document[0]
    )


def parse_published(document: Sequence[Any], name: str) -> tuple[WorkloadQuestion, ...]:
    """Build the questions of a whole file; `name` is the file's, for errors and the database.

    Raises:
        InvalidWorkload: naming the entry and the field at fault.
    """
    entries = [_named_steps(entry, f"{name}, entry {n}") for n, entry in enumerate(document)]
    schema_tokens = _schema_tokens(entries)
    return tuple(
        parse_question(_canonical(entry, name, schema_tokens), f"{name}, entry {number}")
        for number, entry in enumerate(entries)
    )


def _named_steps(entry: object, where: str) -> list[dict[str, Any]]:
    """The entry's requests with our step names; the candidates are told apart by their order."""
    rows = entry.get(REQUESTS_FIELD) if isinstance(entry, Mapping) else None
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise InvalidWorkload(
            f"{where}: {REQUESTS_FIELD} is missing or is no list of objects",
            field=REQUESTS_FIELD,
            hint="every entry lists its requests",
        )
    named, candidates = [], 0
    for row in rows:
        step = str(row.get("step", "")).lower().replace(" ", "_")
        if step.startswith(CANDIDATE):
            candidates += 1
            step = f"{CANDIDATE}_{candidates}"
        if step not in STEPS:
            hint = f"known steps: {', '.join(STEPS)}"
            raise InvalidWorkload(f"{where}: step {row.get('step')!r}", field="step", hint=hint)
        named.append({**row, "step": step})
    return named


def _schema_tokens(entries: Sequence[Sequence[Mapping[str, Any]]]) -> int:
    beside = [
        _known_length(row) - STEPS[row["step"]].template_tokens
        for entry in entries
        for row in entry
        if row["step"].startswith(CANDIDATE)
    ]
    return max(0, min(beside, default=0))


def _known_length(row: Mapping[str, Any]) -> int:
    """The prompt's length; 0 for what is no number, which is refused with the question."""
    size = row.get("input_length")
    return size if isinstance(size, int) else 0


def _canonical(rows: Sequence[Mapping[str, Any]], name: str, schema: int) -> dict[str, Any]:
    identity = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:12]
    training, of = TRAINING_SHARE
    return {
        "question": identity,
        "database": name,
        "requests": [
            _canonical_request(row, number, after, schema)
            for number, (row, after) in enumerate(zip(rows, _edges(rows), strict=True))
        ],
        "split": "train" if int(identity, 16) % of < training else "test",
    }


def _canonical_request(
    row: Mapping[str, Any], number: int, after: list[int], schema: int
) -> dict[str, Any]:
    step = STEPS[row["step"]]
    known = _known_length(row)
    template = min(step.template_tokens, known)
    return {
        "id": number,
        "stage": step.stage,
        "step": row["step"],
        "after": after,
        "input_tokens": row.get("input_length"),
        "output_tokens": row.get("output_length"),
        "template_tokens": template,
        "schema_tokens": min(schema, known - template) if step.schema_follows else 0,
    }


def _edges(rows: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Prerequisites: the group before, which is one request or several parallel ones."""
    edges: list[list[int]] = []
    before: list[int] = []
    group: list[int] = []
    for number, row in enumerate(rows):
        joins = bool(group) and _parallel(rows[number - 1], row)
        if not joins:
            before, group = group, []
        edges.append(list(before))
        group.append(number)
    return edges


def _parallel(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    first, second = STEPS[one["step"]], STEPS[other["step"]]
    return first.parallel and second.parallel and first.stage == second.stage
