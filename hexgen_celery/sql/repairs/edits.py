"""Edits of a text by position, and where in SQL they may be made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hexgen_celery.sql.checking.diagnosis import Diagnosis
from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.extract import TOKEN


@dataclass(frozen=True, slots=True)
class Edit:
    """Put `text` in place of `sql[start:end]`; an empty slice inserts."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """Edits that belong together, with the name of the rule that proposes them."""

    rule: str
    edits: tuple[Edit, ...]

    @classmethod
    def of(cls, rule: str, *edits: Edit) -> Proposal:
        """A proposal of `edits`."""
        return cls(rule, edits)


@dataclass(frozen=True, slots=True)
class Case:
    """What a rule sees: the statement with its faults, and the database's names."""

    diagnosis: Diagnosis
    names: SchemaNames

    @property
    def sql(self) -> str:
        """The statement."""
        return self.diagnosis.sql


def apply_edits(sql: str, edits: Iterable[Edit]) -> str:
    """`sql` with all edits made. Edits must not overlap.

    Raises:
        ValueError: two edits overlap.
    """
    result, bound = sql, len(sql) + 1
    for edit in sorted(edits, key=lambda each: (each.start, each.end), reverse=True):
        if edit.end > bound:
            raise ValueError(f"the edit of {sql[edit.start : edit.end]!r} overlaps another")
        result = result[: edit.start] + edit.text + result[edit.end :]
        bound = edit.start
    return result


def quoted_spans(sql: str) -> list[tuple[int, int]]:
    """Where texts, quoted names and comments are."""
    return [match.span() for match in TOKEN.finditer(sql) if match.group() != ";"]


def outside(spans: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Whether `start`…`end` touches none of `spans`."""
    return all(end <= begin or stop <= start for begin, stop in spans)


def unquoted_matches(sql: str, matches: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Those of the spans `matches` that are plain SQL."""
    spans = quoted_spans(sql)
    return (match for match in matches if outside(spans, *match))
