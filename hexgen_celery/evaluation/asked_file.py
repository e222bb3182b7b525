"""Which question was asked under which id, so that its end is found after the run broke off."""

from __future__ import annotations

import json
from pathlib import Path

from hexgen_celery.evaluation.questions import GoldQuestion


class AskedFile:
    """`asked.jsonl` of a run: one line per question that was asked."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, question: GoldQuestion, workflow_id: str) -> None:
        """The question is asked under this id; at once on disk."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": question.key, "id": workflow_id}) + "\n")

    def read(self) -> dict[str, str]:
        """The last id of each question, by key. A last line that was cut off does not count."""
        if not self._path.is_file():
            return {}
        lines = self._path.read_text(encoding="utf-8").split("\n")[:-1]
        return {each["key"]: each["id"] for each in map(json.loads, lines)}
