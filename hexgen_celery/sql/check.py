"""Everything that happens to a model's statement before it is executed.

checker = StatementChecker(SchemaNames(catalog), compile_statement)
prepared = checker.prepare(sql)
if prepared.problem: …   # tell the model
else: execute(prepared.sql)
"""

from __future__ import annotations

from dataclasses import dataclass

from hexgen_celery.sql.checking.diagnosis import Compile, diagnose
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.feedback import feedback
from hexgen_celery.sql.repairs.workshop import Repair, Workshop


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement that was checked.

    `sql` is what to execute: the model's text, edited by the `repairs` if there are any. `problem`
    says what is wrong and how to mend it; it is empty when `sql` may be executed.
    """

    sql: str
    repairs: tuple[Repair, ...] = ()
    problem: str = ""

    @property
    def rules(self) -> tuple[str, ...]:
        """The repairs by the names of their rules, in the order in which they were made."""
        return tuple(repair.rule for repair in self.repairs)


class StatementChecker:
    """Checks statements about one version of one database, and repairs them if `repairs`."""

    def __init__(
        self, schema: SchemaNames, compile_statement: Compile, *, repairs: bool = True
    ) -> None:
        self._schema = schema
        self._compile = compile_statement
        self._workshop = Workshop(schema, compile_statement) if repairs else None

    def prepare(self, sql: str) -> Prepared:
        """Check `sql`, and repair it if that is possible without a model."""
        if self._workshop is None:
            diagnosis = diagnose(sql, self._schema, self._compile)
            return Prepared(sql, (), feedback(diagnosis, self._schema))
        done = self._workshop.repair(sql)
        return Prepared(done.diagnosis.sql, done.repairs, feedback(done.diagnosis, self._schema))
