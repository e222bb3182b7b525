"""Attacks too long, too deep or too odd to be written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Generated = tuple[str, Literal["refuse", "bound"], str]

LONG_NAME = "n" * 40_000
TOWER_FLOORS = 40


def _nested(before: str, core: str, after: str, depth: int) -> str:
    return f"SELECT {before * depth}{core}{after * depth}"


def _doubling(select: str, floors: int) -> str:
    """CTEs each of which uses the one before twice."""
    floor = ", ".join(
        f"c{number} AS ({select.format(below=f'c{number - 1}')})" for number in range(1, floors)
    )
    return f"WITH c0 AS (SELECT 1 AS a), {floor} SELECT count(*) FROM c{floors - 1}"


def _repeated_names(per_row: int, tables: int) -> str:
    """A header far larger than its one row, out of a short statement."""
    inner = f'WITH t AS (SELECT 1 AS "{LONG_NAME}")'
    columns = ", ".join(["a.*"] * per_row)
    joined = ", ".join(f"t AS {name}" for name in ("a", *(f"t{i}" for i in range(tables - 1))))
    return f"{inner} SELECT {columns} FROM {joined}"


NESTED: Sequence[Generated] = (
    ("parentheses", "refuse", _nested("(", "1", ")", 30_000)),
    ("unclosed-parentheses", "refuse", "SELECT " + "(" * 90_000),
    ("subqueries", "refuse", _nested("(SELECT ", "1", ")", 9_000)),
    ("subqueries-in-from", "refuse", "SELECT * FROM " + "(SELECT * FROM " * 5_000 + "item"),
    ("exists", "refuse", _nested("EXISTS (SELECT ", "1", ")", 3_000)),
    ("cases", "refuse", _nested("CASE WHEN ", "1", " THEN 1 END", 4_000)),
    ("functions", "refuse", _nested("abs(", "1", ")", 15_000)),
    ("casts", "refuse", _nested("CAST(", "1", " AS INT)", 7_000)),
    ("nots", "refuse", "SELECT " + "NOT " * 20_000 + "1"),
    ("minuses", "refuse", "SELECT " + "- " * 45_000 + "1"),
    ("tildes", "refuse", "SELECT " + "~" * 90_000 + "1"),
    ("ins", "refuse", _nested("1 IN (SELECT ", "1", ")", 5_000)),
    ("joins-in-parentheses", "refuse", "SELECT * FROM " + "(item JOIN " * 6_000 + "item"),
    ("with-in-with", "refuse", "WITH a AS (" * 7_000 + "SELECT 1"),
    ("windows", "refuse", _nested("sum(1) OVER (ORDER BY ", "1", ")", 3_000)),
    ("braces", "refuse", _nested("{", "1", "}", 40_000)),
)
LONG: Sequence[Generated] = (
    ("literal-of-a-megabyte", "refuse", f"SELECT '{'x' * 1_000_000}'"),
    ("literal-of-fifty-megabytes", "refuse", f"SELECT '{'x' * 50_000_000}'"),
    ("literal-within-the-limit", "bound", f"SELECT '{'x' * 99_000}'"),
    ("blob-literal", "bound", f"SELECT x'{'ab' * 49_000}'"),
    ("number-literal", "bound", f"SELECT {'9' * 99_000}"),
    ("exponent-literal", "bound", f"SELECT 1e{'9' * 99_000}"),
    ("hex-literal", "refuse", f"SELECT 0x{'f' * 99_000}"),
    ("comment-of-a-megabyte", "refuse", f"SELECT 1 /*{'x' * 1_000_000}*/"),
    ("spaces-of-a-megabyte", "refuse", f"SELECT{' ' * 1_000_000}1"),
    ("header-of-many-megabytes", "bound", _repeated_names(1_900, 1)),
    ("identifier", "refuse", f"SELECT {LONG_NAME} FROM item"),
    ("unknown-function-name", "refuse", f"SELECT {LONG_NAME}(1)"),
    ("many-columns", "refuse", "SELECT " + ", ".join(["1"] * 30_000)),
    ("columns-within-the-limit", "bound", "SELECT " + ", ".join(["1"] * 2_000)),
    ("many-terms", "refuse", "SELECT " + "+".join(["1"] * 45_000)),
    ("many-ors", "refuse", "SELECT 1 FROM item WHERE " + " OR ".join(["id=1"] * 11_000)),
    ("many-in-values", "bound", f"SELECT 1 FROM item WHERE id IN ({','.join(['1'] * 45_000)})"),
    ("many-values", "bound", "VALUES " + ",".join(["(1)"] * 24_000)),
    ("many-unions", "refuse", "SELECT 1" + " UNION SELECT 1" * 6_000),
    ("many-joins", "refuse", "SELECT 1 FROM item" + ", item" * 14_000),
    ("many-concatenations", "refuse", "SELECT " + "||".join(["'x'"] * 19_000)),
    ("many-arguments", "refuse", f"SELECT max({','.join(['1'] * 40_000)})"),
    ("many-whens", "bound", "SELECT CASE id" + " WHEN 1 THEN 2" * 6_500 + " END FROM item"),
    ("many-group-terms", "refuse", f"SELECT 1 FROM item GROUP BY {','.join(['id'] * 30_000)}"),
    ("many-order-terms", "refuse", f"SELECT 1 FROM item ORDER BY {','.join(['id'] * 30_000)}"),
    ("many-collations", "bound", "SELECT 1" + " COLLATE NOCASE" * 6_500),
    ("many-parameters", "refuse", f"SELECT {','.join(['?'] * 1_900)}"),
    (
        "many-windows",
        "bound",
        "SELECT " + ",".join(["sum(id) OVER (ORDER BY id)"] * 900) + " FROM item",
    ),
    ("many-semicolons", "refuse", ";" * 99_000),
    ("many-comments", "refuse", "/**/" * 24_000),
    ("header-from-joins", "bound", _repeated_names(300, 40)),
)
COMPILED: Sequence[Generated] = (
    ("doubling-joins", "bound", _doubling("SELECT x.a FROM {below} x, {below} y", TOWER_FLOORS)),
    ("doubling-stars", "bound", _doubling("SELECT x.*, y.* FROM {below} x, {below} y", 20)),
    (
        "doubling-unions",
        "bound",
        _doubling("SELECT a FROM {below} UNION ALL SELECT a FROM {below}", TOWER_FLOORS),
    ),
    (
        "doubling-subqueries",
        "bound",
        _doubling("SELECT (SELECT a FROM {below}) + (SELECT a FROM {below}) AS a", TOWER_FLOORS),
    ),
    (
        "doubling-expressions",
        "bound",
        _doubling("SELECT a || a || a || a AS a FROM {below}", TOWER_FLOORS),
    ),
    (
        "doubling-filters",
        "bound",
        _doubling("SELECT a FROM {below} WHERE a IN (SELECT a FROM {below})", TOWER_FLOORS),
    ),
)
ODD: Sequence[Generated] = (
    ("empty", "refuse", ""),
    ("only-spaces", "refuse", " \t\r\n\f"),
    ("nul", "refuse", "\0"),
    ("nul-then-write", "refuse", "SELECT 1\0; DROP TABLE item"),
    ("nul-in-a-text", "refuse", "SELECT 'a\0b'"),
    ("lone-surrogate", "refuse", "SELECT '\ud800'"),
    ("lone-surrogate-as-name", "refuse", 'SELECT "\udfff" FROM item'),
    ("byte-order-mark", "bound", "\ufeffSELECT 1"),
    ("non-breaking-space", "refuse", "SELECT 1;\u00a0DROP TABLE item"),
    ("zero-width-space", "refuse", "DELETE\u200bFROM item"),
    ("right-to-left-override", "bound", "SELECT '\u202e' || name FROM item LIMIT 1"),
    ("line-separator-ends-no-comment", "refuse", "-- x\u2028DROP TABLE item"),
    ("next-line-ends-no-comment", "refuse", "-- x\x85DROP TABLE item"),
    ("vertical-tab", "refuse", "SELECT\x0b1"),
    ("escape-sequences", "refuse", "\x1b[2J\x1b]0;title\x07 SELECT 1"),
    ("backspaces", "refuse", "SELECT 1\b\b\b\b\b\b\b\bDELETE FROM item"),
    ("astral-characters", "bound", "SELECT '\U0001d54a', char(0x10FFFF), char(0xD800)"),
    ("noncharacters", "bound", "SELECT '\ufffe\uffff\U0010ffff'"),
    ("combining-flood", "bound", "SELECT 'e" + "\u0301" * 30_000 + "'"),
    ("utf-8-limit", "refuse", "SELECT '" + "\U0001f600" * 30_000 + "'"),
)
GENERATED: Sequence[Generated] = (*NESTED, *LONG, *COMPILED, *ODD)
