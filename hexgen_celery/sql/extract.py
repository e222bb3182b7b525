"""Finding the one SQL statement in what a model wrote.

Models wrap SQL in reasoning, fences, prose and comments, and sometimes write several statements or
stop in the middle. The statement found is a slice of the model's text, character for character.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

THOUGHTS = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.IGNORECASE | re.DOTALL)
THOUGHT_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
THOUGHT_START = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
FENCE = re.compile(r"^[ \t]*(?:```|~~~)[ \t]*([\w+-]*)[ \t]*", re.MULTILINE)
TAG = re.compile(r"<(sql|answer|final_answer|query)>(.*?)(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
JSON_KEYS = ("sql", "SQL", "query", "final_sql", "revised_SQL", "answer")
QUERY_WORDS = ("select", "with", "values")
QUERY_START = re.compile(
    r"(?:^|[:\n])[ \t(]*(?:SELECT|WITH\s+(?:RECURSIVE\s+)?[\w\"`\[]+[^\n]*?\bAS\b|VALUES\s*\()\b",
    re.IGNORECASE,
)
PROSE_BREAK = re.compile(r"\n[ \t]*\n(?=[ \t]*(?:[A-Z][a-z']+[ ,]|\*\*|#+ |- ))|\n[ \t]*```")
TOKEN = re.compile(
    r"'(?:[^']|'')*(?:'|\Z)|\"(?:[^\"]|\"\")*(?:\"|\Z)|`[^`]*(?:`|\Z)|\[[^\]]*(?:\]|\Z)"
    r"|--[^\n]*|/\*.*?(?:\*/|\Z)|;",
    re.DOTALL,
)
COMMENTS = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Extraction:
    """The statement found, or an empty `sql` when the text holds none.

    `source` says where: `fence`, `tag`, `json`, `plain` or `none`. `statements` counts the queries
    there were to choose from. `truncated` means that the text ended inside a fence or a thought.
    """

    sql: str
    source: str
    statements: int = 0
    truncated: bool = False


def extract_sql(text: str) -> Extraction:
    """The statement a model meant as its answer.

    The last fenced block that holds a query wins, and in it the last query (earlier ones are
    steps on the way). Without fences, tags or JSON the first query wins: what follows one in plain
    text is prose, or the model going on to questions nobody asked.
    """
    answer, thinking = _without_thoughts(text)
    found = _from_fences(answer) or _from_tags(answer) or _from_json(answer) or _plain(answer)
    return found or Extraction("", "none", truncated=thinking)


def _without_thoughts(text: str) -> tuple[str, bool]:
    remaining = THOUGHTS.sub("\n", text)
    ends = [match.end() for match in THOUGHT_END.finditer(remaining)]
    if ends:
        remaining = remaining[ends[-1] :]
    start = THOUGHT_START.search(remaining)
    return (remaining[: start.start()], True) if start else (remaining, False)


def _from_fences(text: str) -> Extraction | None:
    for body, closed in reversed(list(_fenced_blocks(text))):
        queries = _queries(body)
        if queries:
            return Extraction(queries[-1], "fence", len(queries), truncated=not closed)
    return None


def _fenced_blocks(text: str) -> Iterator[tuple[str, bool]]:
    marks = list(FENCE.finditer(text))
    position = 0
    while position < len(marks):
        opening = marks[position]
        closing = marks[position + 1] if position + 1 < len(marks) else None
        end = closing.start() if closing else len(text)
        yield text[opening.end() : end], closing is not None
        position += 2


def _from_tags(text: str) -> Extraction | None:
    for match in reversed(list(TAG.finditer(text))):
        queries = _queries(match.group(2))
        if queries:
            return Extraction(queries[-1], "tag", len(queries))
    return None


def _from_json(text: str) -> Extraction | None:
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        answer = json.loads(text[start : end + 1], strict=False)
    except ValueError:
        return None
    if not isinstance(answer, dict):
        return None
    texts = [answer[key] for key in JSON_KEYS if isinstance(answer.get(key), str)]
    for candidate in texts:
        queries = _queries(candidate)
        if queries:
            return Extraction(queries[-1], "json", len(queries))
    return None


def _plain(text: str) -> Extraction | None:
    start = QUERY_START.search(text)
    if start is None:
        return None
    body = text[start.start() :].lstrip(": \t\n")
    prose = PROSE_BREAK.search(body)
    queries = _queries(body[: prose.start()] if prose else body)
    return Extraction(queries[0], "plain", len(queries)) if queries else None


def _queries(text: str) -> list[str]:
    return [piece for piece in split_statements(text) if _is_query(piece)]


def split_statements(text: str) -> list[str]:
    """The statements in `text`, split at semicolons outside of quotes and comments."""
    pieces, start = [], 0
    for match in TOKEN.finditer(text):
        if match.group() == ";":
            pieces.append(text[start : match.start()])
            start = match.end()
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if piece.strip()]


def _is_query(statement: str) -> bool:
    comments = COMMENTS.match(statement)
    rest = statement[comments.end() :] if comments else statement
    words = rest.lstrip("( \t\n").split(maxsplit=2)
    return len(words) > 1 and words[0].lower().split("(")[0] in QUERY_WORDS
