"""The SQL in a model's answer, found and checked before anything runs it."""

from __future__ import annotations

from functools import lru_cache

from hexgen_celery.errors import StatementRejected
from hexgen_celery.sql.extract import extract_sql
from hexgen_celery.sql.guard import check_statement
from hexgen_celery.workflows.stage_contract import SqlAnswer
from hexgen_celery.workflows.tokens import EMULATED_FILLER

NO_SQL = "the answer holds no SELECT statement. Write one in a ```sql fence"
CUT_OFF = "the answer ended before it came to a SELECT statement. Be brief and write it at once"
NO_RECORDING = (
    "the server is an emulated one and has no recorded answer for this question. "
    "Ask a question that was recorded, or configure a server with a real model"
)


# A branch reads the same answer again at each of its later steps.
@lru_cache(maxsize=1024)
def read_sql_answer(text: str) -> SqlAnswer:
    """The statement in `text`, unchanged, with the reason where it must not be executed."""
    if text.startswith(EMULATED_FILLER.rstrip()):
        return SqlAnswer("", NO_RECORDING)
    try:
        found = extract_sql(text)
    except RecursionError:
        return SqlAnswer("", NO_SQL)
    if not found.sql:
        return SqlAnswer("", CUT_OFF if found.truncated else NO_SQL)
    try:
        check_statement(found.sql)
    except StatementRejected as rejection:
        return SqlAnswer(found.sql, str(rejection))
    return SqlAnswer(found.sql)
