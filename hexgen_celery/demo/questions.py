"""The demo's questions: gold SQL and what a model of middling skill writes instead."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from hexgen_celery.evaluation.questions import GoldQuestion

DATABASE = "roastery"
QUESTION_FILES = ("simple.toml", "moderate.toml", "challenging.toml")


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """One question. `wrong` runs and answers something else, `broken` fails with an error, and
    `empty` (not every question has one) runs and returns nothing."""

    number: int
    question: str
    gold: str
    difficulty: str
    evidence: str
    wrong: str
    broken: str
    empty: str = ""

    @property
    def gold_question(self) -> GoldQuestion:
        """The question as the evaluation knows it."""
        return GoldQuestion(
            question_id=self.number,
            database=DATABASE,
            question=self.question,
            gold=self.gold,
            evidence=self.evidence,
            difficulty=self.difficulty,
        )

    @property
    def bird_item(self) -> dict[str, Any]:
        """The question as an entry of BIRD's dev.json."""
        return {
            "question_id": self.number,
            "db_id": DATABASE,
            "question": self.question,
            "evidence": self.evidence,
            "SQL": self.gold,
            "difficulty": self.difficulty,
        }


def read_questions() -> tuple[DemoQuestion, ...]:
    """Every question, the simple ones first, numbered from 0."""
    found = []
    for name in QUESTION_FILES:
        text = (files("hexgen_celery.demo") / "data" / name).read_text(encoding="utf-8")
        difficulty = name.removesuffix(".toml")
        found += [(difficulty, item) for item in tomllib.loads(text)["question"]]
    return tuple(_question(number, *entry) for number, entry in enumerate(found))


def _question(number: int, difficulty: str, item: dict[str, str]) -> DemoQuestion:
    def sql(name: str) -> str:
        return " ".join(item.get(name, "").split())

    return DemoQuestion(
        number=number,
        question=item["text"],
        gold=sql("gold"),
        difficulty=difficulty,
        evidence=item.get("evidence", ""),
        wrong=sql("wrong"),
        broken=sql("broken"),
        empty=sql("empty"),
    )
