"""Reading a workload file, whichever of the known formats it has."""

from __future__ import annotations

import json
from pathlib import Path

from hexgen_celery.errors import InvalidWorkload
from hexgen_celery.workloads.canonical import parse_question
from hexgen_celery.workloads.model import Workload, WorkloadQuestion
from hexgen_celery.workloads.published import is_published, parse_published


def read_workload(path: str | Path) -> Workload:
    """Read canonical JSON lines (also our recorded traces) or the authors' published JSON.

    Raises:
        InvalidWorkload: if the file cannot be read; the message names line and field.
    """
    location = Path(path)
    text = _text(location)
    questions = _published(text, location) or _lines(text, location)
    if not questions:
        raise InvalidWorkload(f"{location} holds no questions", hint="give one question per line")
    return Workload(location.stem, questions)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidWorkload(
            f"cannot read workload {path}: {getattr(error, 'strerror', None) or error}",
            field="workload",
            hint="give the path of a workload file (JSON lines, or a published trace)",
        ) from error


def _published(text: str, path: Path) -> tuple[WorkloadQuestion, ...] | None:
    if not text.lstrip().startswith("["):
        return None
    document = _json(text, str(path))
    if not is_published(document):
        raise InvalidWorkload(
            f"{path} is a JSON list, but not of published traces",
            hint="each entry must have Text2SQLRequest; write other workloads as JSON lines",
        )
    return parse_published(document, path.stem)  # type: ignore[arg-type]


def _lines(text: str, path: Path) -> tuple[WorkloadQuestion, ...]:
    places = ((f"{path}, line {number}", line) for number, line in enumerate(text.split("\n"), 1))
    return tuple(
        parse_question(_json(line, where), where) for where, line in places if line.strip()
    )


def _json(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidWorkload(
            f"{where} is not JSON: {error.msg} at character {error.pos}", hint="correct the file"
        ) from error
