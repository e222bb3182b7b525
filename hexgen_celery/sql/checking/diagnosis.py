"""What is wrong with a statement, found without executing it.

Both judges are needed. SQLite compiles the statement, knows its own functions and syntax, and
stops at the first fault. The check against the catalog finds every unknown name, also those in
double quotes that SQLite would silently read as texts. Where the two differ on a name that is not
in double quotes (`rowid`, `sqlite_master`, a table-valued function), SQLite is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from hexgen_celery.errors import StatementRejected
from hexgen_celery.sql.checking.complaints import Complaint, read_complaint
from hexgen_celery.sql.checking.nearness import is_near_miss
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.checking.unknown_names import UnknownName, unknown_names
from hexgen_celery.sql.guard import check_statement

Compile = Callable[[str], str]
"""Compiles a statement without executing it; returns SQLite's error, "" when there is none."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A statement with its faults. `tree` is None when sqlglot cannot parse it.

    `refusal` is why it is not even looked at (it writes, it is two statements), `complaint` is
    SQLite's. `unknown` are the names that count as faults.
    """

    sql: str
    tree: exp.Expr | None = None
    refusal: str = ""
    complaint: Complaint | None = None
    unknown: tuple[UnknownName, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether the statement may be executed."""
        return not (self.refusal or self.complaint or self.unknown)

    @property
    def faults(self) -> int:
        """How many faults are known; SQLite's own counts once, and for more than any name."""
        weight = len(self.unknown) + 1
        return (weight if self.complaint else 0) + len(self.unknown)


def diagnose(sql: str, names: SchemaNames, compile_statement: Compile) -> Diagnosis:
    """Look at one statement from all sides."""
    try:
        checked = check_statement(sql)
    except StatementRejected as rejection:
        return Diagnosis(sql, refusal=str(rejection))
    message = compile_statement(sql)
    complaint = read_complaint(message) if message else None
    if checked.tree is None:
        return Diagnosis(sql, complaint=complaint)
    unknown = unknown_names(sql, checked.tree, names)
    faulty = unknown if complaint else tuple(each for each in unknown if _is_fault(each))
    return Diagnosis(sql, checked.tree, "", complaint, faulty)


def _is_fault(unknown: UnknownName) -> bool:
    """Whether a name that SQLite accepted is a fault all the same: a text where only a column
    makes sense, or one so near to a column's name that the column was meant."""
    if not unknown.text_allowed:
        return False
    if not unknown.as_value:
        return True
    known = (column for source in unknown.visible for column in source.columns or ())
    return is_near_miss(unknown.name, known)
