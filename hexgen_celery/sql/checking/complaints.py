"""What SQLite's error messages say, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """What SQLite complains about."""

    NO_COLUMN = "no_column"
    NO_TABLE = "no_table"
    NO_FUNCTION = "no_function"
    ARGUMENTS = "arguments"
    AMBIGUOUS = "ambiguous"
    SYNTAX = "syntax"
    TOKEN = "token"
    INCOMPLETE = "incomplete"
    AGGREGATE = "aggregate"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Complaint:
    """One error of SQLite. `subject` is the name or the text it is about, "" without one."""

    cause: Cause
    subject: str
    message: str


_PATTERNS: tuple[tuple[Cause, re.Pattern[str]], ...] = (
    (Cause.NO_COLUMN, re.compile(r"no such column: (.*)", re.DOTALL)),
    (Cause.NO_TABLE, re.compile(r"no such table: (.*)", re.DOTALL)),
    (Cause.NO_FUNCTION, re.compile(r"no such function: (.*)", re.DOTALL)),
    (Cause.NO_FUNCTION, re.compile(r"the function (\S+) is not allowed")),
    (Cause.ARGUMENTS, re.compile(r"wrong number of arguments to function (\w+)")),
    (Cause.AMBIGUOUS, re.compile(r"ambiguous column name: (.*)", re.DOTALL)),
    (Cause.SYNTAX, re.compile(r'near "(.*)": syntax error', re.DOTALL)),
    (Cause.TOKEN, re.compile(r'unrecognized token: "(.*)"', re.DOTALL)),
    (Cause.INCOMPLETE, re.compile(r"incomplete input()")),
    (Cause.AGGREGATE, re.compile(r"misuse of (?:aggregate|window)(?: function)?:? ?(\w*)")),
)


def read_complaint(message: str) -> Complaint:
    """The complaint in an error message of SQLite's."""
    for cause, pattern in _PATTERNS:
        match = pattern.search(message)
        if match:
            return Complaint(cause, match.group(1).strip(), message)
    return Complaint(Cause.OTHER, "", message)
