"""Schema linking: which tables and columns of the database a question is about."""

from __future__ import annotations

from hexgen_celery.workflows.stage_contract import LinkedSchema, Prompt, Question
from stages.answer_schemas import LINKED
from stages.keywords import rule_keywords
from stages.model_json import read_object, strings
from stages.prompt_files import prompt_text
from stages.tails import question_section

MAX_KEYWORDS = 20
MAX_TABLES = 50
MAX_COLUMNS = 100
UNREADABLE = "schema linking gave no readable answer; the whole schema was used"


class SchemaLinking:
    """One request per question. Its answer only draws attention: the whole schema is sent on."""

    def keywords(self, question: Question) -> tuple[str, ...]:
        """The question's keywords by rules, without a model."""
        return rule_keywords(question.text, question.evidence)

    def prompt(self, question: Question) -> Prompt:
        """Ask for keywords, tables and columns as JSON."""
        return Prompt(
            prompt_text("schema_linking"), question_section(question), answer_schema=LINKED
        )

    def read(self, text: str) -> LinkedSchema:
        """What the answer names; an unreadable one gives an empty schema with a note."""
        answer = read_object(text, "tables")
        if answer is None:
            return LinkedSchema(note=UNREADABLE)
        return LinkedSchema(
            keywords=strings(answer.get("keywords"), MAX_KEYWORDS),
            tables=strings(answer.get("tables"), MAX_TABLES),
            columns=strings(answer.get("columns"), MAX_COLUMNS),
        )
