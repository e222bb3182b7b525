"""How near two names are, and which known names an unknown one was most likely meant to be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rapidfuzz import fuzz
from rapidfuzz.distance import OSA

from hexgen_celery.sql.checking.schema_names import SchemaNames
from hexgen_celery.sql.checking.unknown_names import UnknownName

_SEPARATORS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class NearnessRules:
    """When names count as near. Similarities run from 0 to 1.

    `miss`: a text this similar to a visible column is taken for that column, misspelt. `suggest`:
    the least similarity worth telling. `certain` and `lead`: what a repair needs, and by how much
    the best must lead the second; a name of `one_edit_chars` that is one edit away is certain too.
    The numbers were set on the misspelt gold statements of `bench_sql_checks` and on what published
    models wrote.
    """

    miss: float = 0.75
    suggest: float = 0.5
    certain: float = 0.8
    one_edit_chars: int = 4
    lead: float = 0.1
    suggestions: int = 3
    elsewhere_penalty: float = 0.15


RULES = NearnessRules()


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A known column. `source` is how the statement names the column's relation; "" when the
    relation is not part of the query, which `table` then names."""

    column: str
    table: str
    source: str
    score: float


def squeezed(name: str) -> str:
    """The name without case, spaces and punctuation."""
    return _SEPARATORS.sub("", name).lower()


def similarity(name: str, other: str) -> float:
    """From 0 to 1, where 1 means equal but for case, spaces and punctuation.

    The larger of the edit similarity (transpositions count once) of the plain and of the squeezed
    names; word order counts little.
    """
    plain, other_plain = name.lower(), other.lower()
    short, other_short = squeezed(name), squeezed(other)
    if short and short == other_short:
        return 1.0
    edits = max(
        OSA.normalized_similarity(plain, other_plain),
        OSA.normalized_similarity(short, other_short),
    )
    words = fuzz.token_sort_ratio(_spaced(name), _spaced(other)) / 100
    return max(edits, 0.9 * words)


def _spaced(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+", " ", name).lower().strip()


def is_near_miss(name: str, known: Iterable[str], rules: NearnessRules = RULES) -> bool:
    """Whether `name` is one of `known`, misspelt: similar, or one edit away."""
    return any(_misses(name, other, rules) for other in known)


def _misses(name: str, other: str, rules: NearnessRules) -> bool:
    if similarity(name, other) >= rules.miss:
        return True
    return len(other) > 2 and one_edit_away(name, other)


def one_edit_away(name: str, other: str) -> bool:
    """Whether one letter is added, left out, replaced or swapped with its neighbour, at most."""
    return OSA.distance(name.lower(), other.lower(), score_cutoff=1) <= 1


def suggestions_for(
    unknown: UnknownName, names: SchemaNames, rules: NearnessRules = RULES
) -> tuple[Suggestion, ...]:
    """The known columns nearest to an unknown one, the nearest first.

    Columns of the relation that qualifies the name come before those of other relations in the
    query, and these before the rest of the database, at the same similarity.
    """
    ranked = sorted(_candidates(unknown, names, rules), key=_rank)
    kept: dict[tuple[str, str], Suggestion] = {}
    for each in ranked:
        if each.score >= rules.suggest:
            kept.setdefault((each.table.lower(), each.column.lower()), each)
    return tuple(kept.values())[: rules.suggestions]


def _rank(suggestion: Suggestion) -> tuple[float, str, str]:
    return (-suggestion.score, suggestion.table, suggestion.column)


def _candidates(
    unknown: UnknownName, names: SchemaNames, rules: NearnessRules
) -> Iterable[Suggestion]:
    penalty = rules.elsewhere_penalty
    for source in unknown.visible:
        own = not unknown.qualifier or source.alias.lower() == unknown.qualifier.lower()
        for column in source.columns or ():
            score = similarity(unknown.name, column) - (0 if own else penalty / 2)
            yield Suggestion(column, source.table or source.alias, source.alias, score)
    for table, column in names.every_column():
        yield Suggestion(column, table, "", similarity(unknown.name, column) - penalty)


def nearest_tables(
    name: str, names: SchemaNames, rules: NearnessRules = RULES
) -> tuple[tuple[str, float], ...]:
    """The tables with the nearest names, the nearest first, each with its similarity."""
    scored = ((table, _table_similarity(name, table)) for table in names.tables)
    near = sorted(
        (each for each in scored if each[1] >= rules.suggest), key=lambda e: (-e[1], e[0])
    )
    return tuple(near[: rules.suggestions])


def _table_similarity(name: str, table: str) -> float:
    """Plural and singular of one word count as equal."""
    singular = squeezed(name).removesuffix("s") == squeezed(table).removesuffix("s")
    return 1.0 if singular and squeezed(name) else similarity(name, table)
