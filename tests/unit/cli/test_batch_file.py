"""The file of `hexgen batch`: what is read from it, and how a bad line is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hexgen_celery.cli.ask import read_questions
from hexgen_celery.errors import InvalidSubmission

GOOD = b'{"question": "How many?", "database": "shop"}'


def read(tmp_path: Path, content: bytes) -> list[str]:
    file = tmp_path / "questions.jsonl"
    file.write_bytes(content)
    return [asked.question for asked in read_questions(file, {})]


def test_a_line_may_hold_every_character_that_json_allows(tmp_path: Path) -> None:
    question = "one\u2028two\u0085three"
    line = json.dumps({"question": question, "database": "shop"}, ensure_ascii=False).encode()
    assert read(tmp_path, line + b"\n" + GOOD) == [question, "How many?"]


def test_byte_order_mark_blank_lines_and_crlf_do_no_harm(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + GOOD + b"\r\n\r\n  \n" + GOOD
    assert read(tmp_path, content) == ["How many?", "How many?"]


def test_only_the_default_workflow_needs_a_database(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text('{"question": "Hello?", "workflow": "chat"}\n', encoding="utf-8")
    (asked,) = read_questions(file, {"database": None})
    assert (asked.workflow, asked.database) == ("chat", "")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"\xff\xfe", "is not UTF-8"),
        (b"{not json}", "is not a JSON object"),
        (b"[1]", "is not a JSON object"),
        (b"[" * 100_000, "is not a JSON object"),
        (b'{"question": "How many?"}', "names no database"),
        (b'{"question": "a", "workflow": "text_to_sql"}', "names no database"),
        (b'{"question": "a", "databse": "shop"}', "unknown key 'databse'"),
    ],
)
def test_a_bad_line_is_named_with_its_number(tmp_path: Path, line: bytes, problem: str) -> None:
    with pytest.raises(InvalidSubmission) as caught:
        read(tmp_path, GOOD + b"\n\n" + line)
    assert "questions.jsonl:3" in caught.value.message
    assert problem in caught.value.message
    assert caught.value.hint
