"""How large a query becomes when every use of a WITH query is written out, as SQLite does.

Ten short WITH queries, each of which uses the one before twice, are a thousand relations: what
compiles or analyses such a statement needs time and memory without end.
"""

from __future__ import annotations

from sqlglot import exp


def expanded_relations(tree: exp.Expr) -> int:
    """Relations that `tree` reads, with those of a WITH query counted for each of its uses.

    A name is taken for the WITH query of that name wherever it is defined; a use of itself, as in
    a recursive one, counts once.

    Raises:
        RecursionError: if a thousand WITH queries are built on one another.
    """
    definitions = {query.alias.lower(): query for query in tree.find_all(exp.CTE)}
    counted: dict[str, int] = {}

    def uses(name: str) -> int:
        if name not in definitions:
            return 1
        if name not in counted:
            counted[name] = 1
            counted[name] = max(1, relations(definitions[name]))
        return counted[name]

    def relations(query: exp.Expr) -> int:
        return sum(uses(table.name.lower()) for table in query.find_all(exp.Table))

    return relations(tree)
