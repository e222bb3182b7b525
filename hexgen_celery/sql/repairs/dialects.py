"""Repairs of functions and forms that other databases have, where SQLite has an equivalent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from hexgen_celery.sql.checking.complaints import Cause
from hexgen_celery.sql.identifiers import KEYWORDS
from hexgen_celery.sql.repairs.calls import Call, calls_in
from hexgen_celery.sql.repairs.edits import Case, Edit, Proposal, unquoted_matches

Template = str | Callable[[Sequence[str]], str | None]

_ATOM = re.compile(r"[\w.]+\Z|'[^']*'\Z|\"[^\"]*\"\Z|`[^`]*`\Z")
UNKNOWN_FUNCTION = (Cause.NO_FUNCTION, Cause.ARGUMENTS)


def _chain(operator: str) -> Callable[[Sequence[str]], str | None]:
    def write(arguments: Sequence[str]) -> str | None:
        operands = (each if _ATOM.match(each) else f"({each})" for each in arguments)
        return f"({f' {operator} '.join(operands)})" if len(arguments) > 1 else None

    return write


def _strftime(part: str) -> str:
    return f"CAST(strftime('%{part}', {{0}}) AS INTEGER)"


_QUARTER = "((CAST(strftime('%m', {0}) AS INTEGER) + 2) / 3)"
_MYSQL_FORMATS = {"%i": "%M", "%s": "%S", "%T": "%H:%M:%S", "%k": "%H", "%e": "%d", "%c": "%m"}
_SAME_FORMATS = frozenset({"%Y", "%m", "%d", "%H", "%S", "%j", "%w", "%%"})


def _date_format(arguments: Sequence[str]) -> str | None:
    """MySQL's DATE_FORMAT; None for a format that strftime does not have."""
    if len(arguments) != 2:
        return None
    subject, pattern = arguments
    fields = re.findall(r"%.", pattern)
    if any(field not in _SAME_FORMATS and field not in _MYSQL_FORMATS for field in fields):
        return None
    translated = re.sub(r"%.", lambda m: _MYSQL_FORMATS.get(m[0], m[0]), pattern)
    return f"strftime({translated}, {subject})"


FUNCTIONS: Mapping[tuple[str, int], Template] = {
    ("year", 1): _strftime("Y"),
    ("month", 1): _strftime("m"),
    ("day", 1): _strftime("d"),
    ("dayofmonth", 1): _strftime("d"),
    ("dayofyear", 1): _strftime("j"),
    ("hour", 1): _strftime("H"),
    ("minute", 1): _strftime("M"),
    ("second", 1): _strftime("S"),
    ("quarter", 1): _QUARTER,
    ("now", 0): "datetime('now')",
    ("getdate", 0): "datetime('now')",
    ("sysdate", 0): "datetime('now')",
    ("curdate", 0): "date('now')",
    ("today", 0): "date('now')",
    ("curtime", 0): "time('now')",
    ("datediff", 2): "CAST(julianday(date({0})) - julianday(date({1})) AS INTEGER)",
    ("date_format", 2): _date_format,
    ("to_date", 1): "date({0})",
    ("len", 1): "length({0})",
    ("char_length", 1): "length({0})",
    ("character_length", 1): "length({0})",
    ("ucase", 1): "upper({0})",
    ("lcase", 1): "lower({0})",
    ("left", 2): "substr({0}, 1, {1})",
    ("right", 2): "substr({0}, -({1}))",
    ("mid", 3): "substr({0}, {1}, {2})",
    ("locate", 2): "instr({1}, {0})",
    ("strpos", 2): "instr({0}, {1})",
    ("charindex", 2): "instr({1}, {0})",
    ("if", 3): "iif({0}, {1}, {2})",
    ("isnull", 1): "({0} IS NULL)",
    ("isnull", 2): "ifnull({0}, {1})",
    ("nvl", 2): "ifnull({0}, {1})",
    ("nvl2", 3): "iif({0} IS NOT NULL, {1}, {2})",
    ("array_agg", 1): "group_concat({0})",
    ("truncate", 1): "trunc({0})",
    ("bool_or", 1): "max({0})",
    ("bool_and", 1): "min({0})",
    ("divide", 2): "(CAST({0} AS REAL) / ({1}))",
    ("subtract", 2): "(({0}) - ({1}))",
}
"""By name and number of arguments. DIVIDE and SUBTRACT are no database's, but BIRD's evidence
writes formulas with them, which models copy; there DIVIDE keeps the fraction."""

CHAINS: Mapping[str, Callable[[Sequence[str]], str | None]] = {
    "concat": _chain("||"),
    "multiply": _chain("*"),
    "add": _chain("+"),
    "greatest": lambda arguments: f"max({', '.join(arguments)})" if len(arguments) > 1 else None,
    "least": lambda arguments: f"min({', '.join(arguments)})" if len(arguments) > 1 else None,
}


def foreign_functions(case: Case) -> Iterator[Proposal]:
    """A function that SQLite does not have, written with those it has."""
    complaint = case.diagnosis.complaint
    if complaint is None or complaint.cause not in UNKNOWN_FUNCTION:
        return
    called = (each for each in calls_in(case.sql) if each.name.lower() == complaint.subject.lower())
    edits = tuple(_rewritten(called, _equivalent))
    if edits:
        yield Proposal("function", edits)


def _rewritten(calls: Iterable[Call], write: Callable[[Call], str | None]) -> Iterator[Edit]:
    """An edit for every call that can be written otherwise; what is inside one waits its turn."""
    end = 0
    for call in calls:
        text = write(call) if call.start >= end else None
        if text is not None:
            end = call.end
            yield Edit(call.start, call.end, text)


def _equivalent(call: Call) -> str | None:
    name, arguments = call.name.lower(), call.arguments
    if name in CHAINS:
        return CHAINS[name](arguments)
    template = FUNCTIONS.get((name, len(arguments)))
    if template is None:
        return None
    return template.format(*arguments) if isinstance(template, str) else template(arguments)


_PARTS = {
    "year": "Y",
    "month": "m",
    "day": "d",
    "hour": "H",
    "minute": "M",
    "second": "S",
    "doy": "j",
    "dow": "w",
}
_EXTRACT = re.compile(r"(\w+)\s+FROM\s+(.+)\Z", re.IGNORECASE | re.DOTALL)
_INTERVAL = re.compile(r"INTERVAL\s+'?(\d+)'?\s+(second|minute|hour|day|month|year)S?\Z", re.I)


def foreign_calls(case: Case) -> Iterator[Proposal]:
    """EXTRACT(YEAR FROM x), DATE_ADD(x, INTERVAL 1 YEAR), LEFT(x, 3): calls that SQLite cannot even
    parse, because of what is inside or because the name is a keyword."""
    if _is_syntax(case):
        edits = tuple(_rewritten(calls_in(case.sql), _written_otherwise))
        if edits:
            yield Proposal("function", edits)


def _written_otherwise(call: Call) -> str | None:
    keyword = call.name.lower() in KEYWORDS
    return _extracted(call) or _shifted(call) or (_equivalent(call) if keyword else None)


def _extracted(call: Call) -> str | None:
    match = _EXTRACT.match(call.arguments[0]) if len(call.arguments) == 1 else None
    if call.name.lower() != "extract" or match is None:
        return None
    part = _PARTS.get(match[1].lower())
    return part and _strftime(part).format(match[2])


def _shifted(call: Call) -> str | None:
    sign = {"date_add": "+", "date_sub": "-"}.get(call.name.lower())
    match = _INTERVAL.match(call.arguments[1]) if len(call.arguments) == 2 else None
    if sign is None or match is None:
        return None
    function = "date" if match[2].lower() in ("day", "month", "year") else "datetime"
    return f"{function}({call.arguments[0]}, '{sign}{match[1]} {match[2].lower()}s')"


_ILIKE = re.compile(r"\bILIKE\b", re.IGNORECASE)
_TOP = re.compile(r"(?<=\bSELECT)(\s+DISTINCT)?\s+TOP\s*\(?\s*(\d+)\s*\)?(?=\s)", re.IGNORECASE)
_FETCH = re.compile(r"\bFETCH\s+(?:FIRST|NEXT)\s+(\d+)?\s*ROWS?\s+ONLY\b", re.IGNORECASE)
_CAST = re.compile(r"((?:\w+\.)?\w+|\"[^\"]+\"|'[^']*')\s*::\s*(\w+)")


def foreign_forms(case: Case) -> Iterator[Proposal]:
    """ILIKE, TOP n, FETCH FIRST n ROWS ONLY and x::type, which SQLite spells otherwise."""
    if not _is_syntax(case):
        return
    yield from _replaced(case, _ILIKE, lambda _match: "LIKE")
    yield from _replaced(case, _FETCH, lambda match: f"LIMIT {match[1] or 1}")
    yield from _top(case)
    casts = [
        Edit(*match.span(), f"CAST({match[1]} AS {match[2]})") for match in _CAST.finditer(case.sql)
    ]
    if casts:
        yield Proposal("form", tuple(casts))


def _replaced(
    case: Case, pattern: re.Pattern[str], text: Callable[[re.Match[str]], str]
) -> Iterator[Proposal]:
    found = {match.span(): text(match) for match in pattern.finditer(case.sql)}
    edits = [Edit(*span, found[span]) for span in unquoted_matches(case.sql, found)]
    if edits:
        yield Proposal("form", tuple(edits))


def _top(case: Case) -> Iterator[Proposal]:
    """`SELECT TOP 5 …` of the whole statement; in an inner query the end is not certain."""
    sql = case.sql
    match = _TOP.search(sql)
    if match is None or sql[: match.start()].strip().lower() != "select":
        return
    end = len(sql.rstrip().rstrip(";").rstrip())
    taken_out = Edit(match.start(), match.end(), match[1] or "")
    yield Proposal.of("form", taken_out, Edit(end, end, f" LIMIT {match[2]}"))


def _is_syntax(case: Case) -> bool:
    complaint = case.diagnosis.complaint
    return complaint is not None and complaint.cause in (Cause.SYNTAX, Cause.TOKEN)
