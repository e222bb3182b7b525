"""Finds joined tables that no condition connects: an accidental cross join multiplies rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from sqlglot import exp


def unconnected_tables(tree: exp.Expr) -> tuple[str, ...]:
    """Names of sources that no condition of their SELECT ties to the others, in order.

    A condition with an unqualified column could concern any source, so that it counts as tying
    them all, and derived tables and WITH queries, which often hold one row, count as well meant:
    rather no warning than a false one.
    """
    derived = {query.alias_or_name.lower() for query in tree.find_all(exp.CTE)}
    return tuple(name for select in tree.find_all(exp.Select) for name in _loose(select, derived))


def _loose(select: exp.Select, derived: Set[str]) -> list[str]:
    sources = _sources(select)
    if len(sources) < 2:
        return []
    groups = _Groups(sources)
    for condition in _conditions(select):
        qualifiers = {column.table.lower() for column in condition.find_all(exp.Column)}
        groups.tie(sources if "" in qualifiers else qualifiers & set(sources))
    for join in select.args.get("joins") or ():
        if _is_meant(join, derived):
            groups.tie(sources)
    return groups.apart_from(sources[0])


def _sources(select: exp.Select) -> list[str]:
    first = select.args.get("from_") or select.args.get("from")
    relations = [first.this] if first is not None else []
    relations += [join.this for join in select.args.get("joins") or ()]
    return [relation.alias_or_name.lower() for relation in relations]


def _is_meant(join: exp.Join, derived: Set[str]) -> bool:
    """Whether the join says itself how it ties (USING, NATURAL) or adds a derived table."""
    stored = isinstance(join.this, exp.Table) and join.this.name.lower() not in derived
    return not stored or bool(join.args.get("using") or join.method)


def _conditions(select: exp.Select) -> Iterator[exp.Expr]:
    """The conjuncts of WHERE and of every ON."""
    where = select.args.get("where")
    roots = [where.this] if where is not None else []
    roots += [join.args["on"] for join in select.args.get("joins") or () if join.args.get("on")]
    for root in roots:
        yield from root.flatten() if isinstance(root, exp.And) else (root,)


class _Groups:
    """Which sources are tied together."""

    def __init__(self, names: Iterable[str]) -> None:
        self._groups = [{name} for name in names]

    def tie(self, names: Iterable[str]) -> None:
        wanted = set(names)
        touched = [group for group in self._groups if group & wanted]
        if len(touched) > 1:
            rest = [group for group in self._groups if not group & wanted]
            self._groups = [*rest, set().union(*touched)]

    def apart_from(self, name: str) -> list[str]:
        return [other for group in self._groups if name not in group for other in sorted(group)]
