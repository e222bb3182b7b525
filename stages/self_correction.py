"""Self-correction: another try after a statement failed or returned nothing."""

from __future__ import annotations

from collections.abc import Sequence

from hexgen_celery.workflows.stage_contract import (
    Attempt,
    LinkedSchema,
    Prompt,
    Question,
    SqlAnswer,
)
from stages.prompt_files import prompt_text
from stages.sql_answers import read_sql_answer
from stages.tails import linked_section, outcome_section, question_section, sql_section


class SelfCorrection:
    """One request per round, which shows everything that this candidate has tried."""

    def prompt(
        self, question: Question, linked: LinkedSchema, history: Sequence[Attempt]
    ) -> Prompt:
        """Ask for a different SELECT; `history` is oldest first."""
        tried = "".join(sql_section(past.sql) + outcome_section(past) for past in history)
        tail = question_section(question) + linked_section(linked) + tried
        return Prompt(prompt_text("self_correction"), tail)

    def read(self, text: str) -> SqlAnswer:
        """The answer's SQL, checked."""
        return read_sql_answer(text)
