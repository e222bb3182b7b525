"""Candidate generation: SQL for a question, written several times in different ways."""

from __future__ import annotations

from hexgen_celery.workflows.stage_contract import LinkedSchema, Prompt, Question, SqlAnswer
from stages.prompt_files import candidate_styles, prompt_text
from stages.sql_answers import read_sql_answer
from stages.tails import linked_section, question_section


class CandidateGeneration:
    """One request per candidate.

    All candidates share their instructions, and with them the cached beginning of the prompt; what
    tells them apart, the way of working, comes at the very end.
    """

    def prompt(self, question: Question, linked: LinkedSchema, number: int) -> Prompt:
        """Ask for one SELECT in the style of candidate `number` (from 1; styles repeat)."""
        styles = candidate_styles()
        style = styles[(number - 1) % len(styles)]
        tail = question_section(question) + linked_section(linked) + style + "\n"
        return Prompt(prompt_text("candidate_generation"), tail)

    def read(self, text: str) -> SqlAnswer:
        """The answer's SQL, checked."""
        return read_sql_answer(text)
