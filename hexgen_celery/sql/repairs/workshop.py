"""Trying repairs until a statement is sound, or none helps any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hexgen_celery.sql.checking.diagnosis import Compile, Diagnosis, diagnose
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.repairs import dialects, joins, names, quoting, text
from hexgen_celery.sql.repairs.edits import Case, Proposal, apply_edits

Rule = Callable[[Case], Iterator[Proposal]]

RULES: tuple[Rule, ...] = (
    text.markdown_escapes,
    text.typographic_quotes,
    text.apostrophes,
    quoting.unquoted_names,
    quoting.reserved_words,
    quoting.dotted_in_quotes,
    dialects.foreign_functions,
    dialects.foreign_calls,
    dialects.foreign_forms,
    names.misspelt_tables,
    names.wrong_qualifiers,
    names.misspelt_columns,
    joins.ambiguous_columns,
    joins.missing_joins,
)
"""In the order in which they are tried: what changes least comes first."""

MAX_REPAIRS = 12
MAX_TRIALS = 60
MAX_TRIED_CHARS = 200_000
"""Characters examined in all trials, so that long statements get few of them."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One repair that was made: the rule, and the statement before and after it."""

    rule: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """The statement after all repairs. They are all kept or, when it is not sound, all dropped."""

    diagnosis: Diagnosis
    repairs: tuple[Repair, ...] = ()


class Workshop:
    """Repairs statements about one database."""

    def __init__(
        self, schema: SchemaNames, compile_statement: Compile, rules: tuple[Rule, ...] = RULES
    ) -> None:
        self._schema = schema
        self._compile = compile_statement
        self._rules = rules

    def repair(self, sql: str) -> Repaired:
        """`sql` made sound by edits, if that is possible; else as it is, with its diagnosis."""
        first = current = self._diagnose(sql)
        repairs: list[Repair] = []
        trials = min(MAX_TRIALS, MAX_TRIED_CHARS // (len(sql) + 1))
        while not current.sound and not current.refusal and len(repairs) < MAX_REPAIRS:
            step, trials = self._improve(current, trials)
            if step is None:
                return Repaired(first)
            rule, better = step
            repairs.append(Repair(rule, current.sql, better.sql))
            current = better
        return Repaired(current, tuple(repairs)) if current.sound else Repaired(first)

    def _diagnose(self, sql: str) -> Diagnosis:
        return diagnose(sql, self._schema, self._compile)

    def _improve(self, current: Diagnosis, trials: int) -> tuple[tuple[str, Diagnosis] | None, int]:
        """The first proposal that leaves fewer faults, or another first complaint of SQLite's."""
        case = Case(current, self._schema)
        for rule in self._rules:
            for proposal in rule(case):
                if trials <= 0:
                    return None, 0
                trials -= 1
                changed = self._diagnose(apply_edits(current.sql, proposal.edits))
                if _is_better(changed, current):
                    return (proposal.rule, changed), trials
        return None, trials


def _is_better(changed: Diagnosis, current: Diagnosis) -> bool:
    if changed.refusal or changed.sql == current.sql:
        return False
    if changed.sound or changed.faults < current.faults:
        return True
    moved = changed.complaint is not None and current.complaint is not None
    parsed = changed.tree is not None and current.tree is None
    return moved and (parsed or _went_on(changed, current))


def _went_on(changed: Diagnosis, current: Diagnosis) -> bool:
    """Whether SQLite complains of something else, while no more names are unknown than before."""
    assert changed.complaint is not None
    assert current.complaint is not None
    same = changed.complaint.message == current.complaint.message
    return not same and len(changed.unknown) <= len(current.unknown)
