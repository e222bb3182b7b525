"""Fitting one sound statement to the question it answers.

A repair mends what SQLite or the catalog refuses; a fit changes a statement that runs, where the
stored values or the question's hint show what was meant. Fits are edits of the model's own text, in
an order from the most to the least certain; each is kept only if the statement stays sound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hexgen_celery.sql.checking.diagnosis import Compile, diagnose
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.fitting.division import true_divisions
from hexgen_celery.sql.fitting.projection import named_columns
from hexgen_celery.sql.fitting.spelling import Spellings, stored_spellings
from hexgen_celery.sql.fitting.statement import Statement
from hexgen_celery.sql.repairs.edits import Proposal, apply_edits

Rule = Callable[[Statement], Iterator[Proposal]]


@dataclass(frozen=True, slots=True)
class Fitted:
    """The statement after the fits named in `rules`, in the order in which they were made."""

    sql: str
    rules: tuple[str, ...] = ()


class Fitter:
    """Fits statements about one version of one database."""

    def __init__(
        self, names: SchemaNames, compile_statement: Compile, spellings: Spellings
    ) -> None:
        self._names = names
        self._compile = compile_statement
        self._spellings = spellings

    def fit(self, sql: str, hint: str = "") -> Fitted:
        """`sql`, which must be sound, fitted to the question's `hint` and the stored values."""
        rules: tuple[Rule, ...] = (
            lambda statement: stored_spellings(statement, self._spellings),
            true_divisions,
            lambda statement: named_columns(statement, hint),
        )
        fitted = Fitted(sql)
        for rule in rules:
            fitted = self._apply(fitted, rule)
        return fitted

    def _apply(self, fitted: Fitted, rule: Rule) -> Fitted:
        diagnosis = diagnose(fitted.sql, self._names, lambda _sql: "")
        if diagnosis.tree is None:
            return fitted
        for proposal in rule(Statement.of(fitted.sql, diagnosis.tree, self._names)):
            changed = apply_edits(fitted.sql, proposal.edits)
            if diagnose(changed, self._names, self._compile).sound:
                return Fitted(changed, (*fitted.rules, proposal.rule))
        return fitted
