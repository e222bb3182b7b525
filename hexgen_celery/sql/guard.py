"""Checks on the text of a model's SQL before it goes to the sandbox.

The guard refuses what is plainly no single reading statement, with a reason a model can act on.
It is not the boundary (the sandbox is), so text that sqlglot cannot parse is left to SQLite, whose
own error is the better feedback. The text itself is never changed: SQL regenerated from a syntax
tree means something else on SQLite often enough.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from hexgen_celery.errors import StatementRejected
from hexgen_celery.sql.expansion import expanded_relations

MAX_STATEMENT_CHARS = 30_000
"""Parsing takes a second per 100,000 characters; BIRD's longest gold has about a thousand."""
MAX_RELATIONS = 500
"""Relations after WITH queries are written out; SQLite joins at most 64."""
MANY_RELATIONS = 1_000_000
DIALECT = "sqlite"

QUERY_ROOTS = (exp.Query, exp.Values)
FORBIDDEN = (
    exp.DDL,
    exp.DML,
    exp.Command,
    exp.Alter,
    exp.Analyze,
    exp.Attach,
    exp.Commit,
    exp.Describe,
    exp.Detach,
    exp.Drop,
    exp.Into,
    exp.Pragma,
    exp.Rollback,
    exp.Set,
    exp.Transaction,
    exp.TruncateTable,
    exp.Use,
)

# sqlglot logs a warning whenever it falls back to `exp.Command`, which is an answer here.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class CheckedStatement:
    """A statement that may go to the sandbox.

    `tree` is its syntax tree for analysis, or None when only `problem` (the parser's complaint)
    is known. `sql` is the text as it came.
    """

    sql: str
    tree: exp.Expr | None
    problem: str = ""

    @property
    def ordered(self) -> bool:
        """Whether the outermost query asks for an order of rows."""
        return self.tree is not None and self.tree.args.get("order") is not None


def check_statement(sql: str) -> CheckedStatement:
    """Check that `sql` is one reading statement.

    Raises:
        StatementRejected: if it is empty, too long, more than one statement, nested too deeply,
            reads too many relations, or is anything but SELECT, VALUES, or WITH … SELECT.
    """
    _check_length(sql)
    try:
        return _check_parsed(sql)
    except StatementRejected:
        raise
    except RecursionError as error:
        raise StatementRejected(
            "the statement is nested too deeply", hint="Use WITH to name inner queries", field="sql"
        ) from error
    except Exception as error:
        # The parser is not made for hostile text: a literal such as 0xfff…f ends in a ValueError.
        return CheckedStatement(sql, None, _first_line(error))


def _check_parsed(sql: str) -> CheckedStatement:
    statements = [tree for tree in sqlglot.parse(sql, read=DIALECT) if _is_statement(tree)]
    if not statements:
        raise StatementRejected("the text holds no statement", hint="Write one SELECT", field="sql")
    if len(statements) > 1:
        raise StatementRejected(
            f"the text holds {len(statements)} statements", hint="Write one SELECT", field="sql"
        )
    tree = statements[0]
    assert tree is not None
    _check_reading(tree)
    _check_size(tree)
    return CheckedStatement(sql, tree)


def _check_length(sql: str) -> None:
    if len(sql) > MAX_STATEMENT_CHARS:
        raise StatementRejected(
            f"the statement has {len(sql)} characters, more than {MAX_STATEMENT_CHARS}",
            hint="Write a shorter one",
            field="sql",
        )


def _is_statement(tree: exp.Expr | None) -> bool:
    return tree is not None and not isinstance(tree, exp.Semicolon)


def _check_reading(tree: exp.Expr) -> None:
    culprit: exp.Expr | None = next(
        (node for node in tree.walk() if isinstance(node, FORBIDDEN)), None
    )
    if culprit is not None:
        raise StatementRejected(
            f"only reading is allowed, not {_statement_name(culprit)}",
            hint="Write one SELECT",
            field="sql",
        )
    if not isinstance(tree, QUERY_ROOTS):
        raise StatementRejected("the text is not a query", hint="Write one SELECT", field="sql")


def _check_size(tree: exp.Expr) -> None:
    relations = expanded_relations(tree)
    if relations > MAX_RELATIONS:
        counted = relations if relations < MANY_RELATIONS else f"more than {MANY_RELATIONS}"
        raise StatementRejected(
            f"the statement reads {counted} tables when its WITH queries are written out",
            hint=f"Read at most {MAX_RELATIONS}",
            field="sql",
        )


def _statement_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Command):
        return str(node.this).upper()
    return node.key.upper()


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".")
