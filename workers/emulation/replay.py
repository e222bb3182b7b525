"""Recorded completions that stand in for a model's answers.

Records are JSON lines `{"question", "stage", "step", "index", "completion"}` with optional
`input_tokens` and `output_tokens`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hexgen_celery.errors import InvalidSettings

Place = tuple[str, str, str]
"""Question, stage and step."""


@dataclass(frozen=True, slots=True)
class ReplayRecord:
    """One recorded answer; token counts only where the record gives them."""

    completion: str
    input_tokens: int | None = None
    output_tokens: int | None = None


class ReplayStore:
    """Finds the recorded answer for a request's metadata."""

    def __init__(self) -> None:
        self._records: dict[Place, dict[str, ReplayRecord]] = {}

    def __len__(self) -> int:
        return sum(len(indexed) for indexed in self._records.values())

    @classmethod
    def load(cls, paths: Iterable[Path]) -> ReplayStore:
        """Read files, and every `*.jsonl` of directories; a later record replaces an earlier one.

        Raises:
            InvalidSettings: a path is missing or unreadable, or a line is no record.
        """
        store = cls()
        for path in paths:
            for file in _files(path):
                store._read(file)
        return store

    def add(self, place: Place, index: str, record: ReplayRecord) -> None:
        """Keep `record`."""
        self._records.setdefault(place, {})[index] = record

    def find(self, metadata: Mapping[str, str]) -> ReplayRecord | None:
        """The record of this question, stage, step and index; else that of the lowest index."""
        question, stage, step = (metadata.get(name, "") for name in ("question", "stage", "step"))
        indexed = self._records.get((question, stage, step))
        if not indexed:
            return None
        exact = indexed.get(metadata.get("index", ""))
        return exact or indexed[min(indexed, key=_index_order)]

    def _read(self, file: Path) -> None:
        for number, line in _lines(file):
            try:
                self._add_object(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidSettings(
                    f"{file}:{number} is no replay record: {error!r}",
                    field="replay",
                    hint="each line is a JSON object with question, stage, step, index, completion",
                ) from error

    def _add_object(self, entry: dict[str, Any]) -> None:
        place = (str(entry["question"]), str(entry["stage"]), str(entry["step"]))
        record = ReplayRecord(
            _text(entry["completion"]), entry.get("input_tokens"), entry.get("output_tokens")
        )
        self.add(place, str(entry["index"]), record)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("completion must be a text")
    return value


def _index_order(index: str) -> tuple[list[float], str]:
    """Numbers by value (`2.10` after `2.9`), anything else behind them."""
    numbers = [float(part) if part.isdigit() else float("inf") for part in index.split(".")]
    return numbers, index


def _files(path: Path) -> list[Path]:
    return sorted(path.glob("*.jsonl")) if path.is_dir() else [path]


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(
            f"cannot read the replay {file}: {error}",
            field="replay",
            hint="name an existing JSON lines file or a directory of them",
        ) from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield number, line
